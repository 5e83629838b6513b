package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errCrash = errors.New("the operator crashed")

// wire is what lies between the operators of a stage and all that they talk to. It gives every call a name that is the same in every run
// of a workload, keeps what was called, and lets a fault strike at one of the calls. Reads that the manager answers from its cache are no
// calls: they cannot fail. What they can be is old, see past.
type wire struct {
	mu sync.Mutex
	// one holds data stores and their guards to one call at a time: those in memory are not made for more.
	one  sync.Mutex
	past *past
	// named counts the calls of a name.
	named map[string]int
	calls []*call
	// fault strikes at the call that it names; nil: none does.
	fault *fault
	// guard looks at a write before it is carried out, and returns what looks at it afterwards; nil: nobody looks.
	guard func(c *call) (after func(err error))

	// writes counts what was written, crashAt is the one after which the operator crashes; 0: it does not. kinds counts them by what
	// was written, and log has that in order.
	writes, crashAt int
	kinds           map[string]int
	log             []string
	// refusal is what the API server answers to the write refuseAt instead of carrying it out.
	refuseAt int
	refusal  error

	// alive is the operator that was started last, and turns is how many passes all of them have made.
	alive *operator
	turns int
	// hooks are what happens before passes, upset says that something has happened that errors may come of.
	hooks map[int]func()
	upset bool
	// tap is put around the clients of operators; nil: nothing is.
	tap func(client.Client) client.Client
	// asleep is how many passes are not made, and again how often the next one is made.
	asleep, again int
}

func newWire(p *past) *wire { return &wire{past: p, named: map[string]int{}, kinds: map[string]int{}} }

func (w *wire) tapped(c client.Client) client.Client {
	if w.tap == nil {
		return c
	}
	return w.tap(c)
}

// operator is one life of an operator.
type operator struct {
	w    *wire
	dead bool
	view view
}

// call is something that an operator asks of the API server or of a data store.
type call struct {
	op *operator
	// name is what is called: "delete Pod orders-1", "AddLearner orders-0". Its number counts the calls of that name, which no two
	// goroutines make at the same time.
	name   string
	number int
	// kind is what is written in the words of the log: "delete *v1.Pod".
	kind string
	// write says that the call changes something, store that it goes to a data store.
	write, store bool
	// object and options of a deletion.
	object  client.Object
	options *client.DeleteOptions
	// effects are the objects that it created or deleted.
	effects []occurrence
}

func (c *call) String() string { return fmt.Sprintf("%s #%d", c.name, c.number) }

// effect is what a fault does to a call.
type effect string

const (
	// crashBefore ends the operator before the call is carried out, crashAfter afterwards.
	crashBefore effect = "crash before"
	crashAfter  effect = "crash after"
	// loseAnswer carries the call out, and the operator learns that it took too long.
	loseAnswer effect = "answer lost of"
	// refuse answers with an error, and carries nothing out.
	refuse effect = "refused"
	// pause holds the operator up there, while another one works.
	pause effect = "two operators at"
)

// fault is one thing that goes wrong.
type fault struct {
	effect effect
	at     string
	// err is the refusal.
	err error
	// meanwhile is what happens during a pause.
	meanwhile func()
	struck    bool
}

func (f *fault) String() string {
	text := fmt.Sprintf("%s %s", f.effect, f.at)
	if f.err != nil {
		text += fmt.Sprintf(" (%s)", apierrors.ReasonForError(f.err))
	}
	return text
}

// errLate is what a call to a data store ends with whose answer got lost.
var errLate = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)

func (w *wire) operator() *operator {
	w.alive = &operator{w: w, view: view{past: w.past}}
	return w.alive
}

// at has something happen before the n-th pass.
func (w *wire) at(n int, do func()) {
	if w.hooks == nil {
		w.hooks = map[int]func(){}
	}
	w.hooks[n] = do
}

// lag keeps the cache of the operator, and of those that take its place, from hearing of some kinds for some passes, and from what
// happened last.
func (w *wire) lag(passes, events int, kinds ...string) {
	w.alive.view.freeze(events, kinds...)
	behind := w.alive.view.behind
	for n := 1; n < passes; n++ {
		w.at(w.turns+n, func() { w.alive.view.behind = behind })
	}
	w.at(w.turns+passes, func() { w.alive.view.thaw() })
}

// turn counts a pass, and reports whether it is to be made.
func (w *wire) turn() bool {
	w.turns++
	if do := w.hooks[w.turns]; do != nil {
		do()
	}
	if w.asleep > 0 {
		w.asleep--
		return false
	}
	return true
}

// forgives reports whether an error may be the consequence of what went wrong.
func (w *wire) forgives(err error) bool {
	return w.upset || w.struck() || (w.refusal != nil && errors.Is(err, w.refusal))
}

// shown reads an object as the operator's cache shows it, and from the API server where it has none.
func (op *operator) shown(api client.Reader, key client.ObjectKey, o client.Object) error {
	if op.view.behind != nil && op.view.shows(o) {
		return op.view.get(key, o)
	}
	return api.Get(context.Background(), key, o)
}

// struck reports whether the fault has struck, so that errors are its consequences.
func (w *wire) struck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault != nil && w.fault.struck
}

// begin counts a call and tells what is to happen to it. An operator that has crashed calls nothing any more.
func (op *operator) begin(c *call) (*fault, error) {
	w := op.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if op.dead {
		return nil, errCrash
	}
	c.op = op
	w.named[c.name]++
	c.number = w.named[c.name]
	w.calls = append(w.calls, c)
	if w.fault == nil || w.fault.struck || w.fault.at != c.String() {
		return nil, nil
	}
	w.fault.struck = true
	op.dead = w.fault.effect == crashBefore
	return w.fault, nil
}

// do makes a call.
func (op *operator) do(c *call, carryOut func() error) error {
	f, err := op.begin(c)
	if err != nil {
		return err
	}
	if f != nil {
		switch f.effect {
		case crashBefore:
			return errCrash
		case refuse:
			return f.err
		case pause:
			f.meanwhile()
		}
	}
	if c.write && op.w.refused() {
		return op.w.refusal
	}
	if c.store || c.write {
		op.w.one.Lock()
		defer op.w.one.Unlock()
	}
	after := func(error) {}
	if c.write && op.w.guard != nil {
		after = op.w.guard(c)
	}
	now := op.w.past.now()
	err = carryOut()
	after(err)
	if err != nil {
		return err
	}
	return op.end(c, f, now)
}

// end is what the operator learns of a call that was carried out, before which there had been so many events.
func (op *operator) end(c *call, f *fault, now int) error {
	w := op.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.write && !c.store {
		c.effects = w.past.births(now)
	}
	if c.write {
		w.writes++
		w.kinds[c.kind]++
		w.log = append(w.log, c.kind)
		op.dead = op.dead || w.writes == w.crashAt
	}
	switch {
	case f != nil && f.effect == crashAfter, op.dead:
		op.dead = true
		return errCrash
	case f != nil && f.effect == loseAnswer && c.store:
		return errLate
	case f != nil && f.effect == loseAnswer:
		return apierrors.NewTimeoutError("the answer got lost", 1)
	}
	return nil
}

func (w *wire) refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuseAt == 0 || w.writes+1 != w.refuseAt {
		return false
	}
	w.refuseAt = 0
	return true
}

// ask makes a call to a data store that changes nothing, and tell one that does.
func (op *operator) ask(ctx context.Context, what, pod string, carryOut func(context.Context) error) error {
	return op.do(&call{name: what + " " + pod, store: true}, func() error { return carryOut(ctx) })
}

func (op *operator) tell(ctx context.Context, what, pod string, carryOut func(context.Context) error) error {
	return op.do(&call{name: what + " " + pod, kind: what, write: true, store: true}, func() error { return carryOut(ctx) })
}

// within is a step of a call that is under way. It reports whether the operator crashes there.
func (op *operator) within(what, pod string) (crash bool) {
	c := &call{name: what + " " + pod, kind: what, write: true, store: true}
	f, err := op.begin(c)
	if err != nil || (f != nil && f.effect == crashBefore) {
		return true
	}
	return errors.Is(op.end(c, f, 0), errCrash)
}

// keptOf leaves of what was read without an error what the cache of the manager keeps.
func keptOf(o runtime.Object, err error) error {
	keep := func(o runtime.Object) error {
		_, err := onlyWhatIsRead(o)
		return err
	}
	switch {
	case err != nil:
		return err
	case meta.IsListType(o):
		return meta.EachListItem(o, keep)
	}
	return keep(o)
}

// client is the operator's client of the API server. What the manager has in its cache is read from there, unless direct is set.
func (op *operator) client(api client.WithWatch, direct bool) client.WithWatch {
	write := func(verb, name string, o any, carryOut func() error) error {
		c := &call{name: fmt.Sprintf("%s %s %s", verb, kindOf(o), name), kind: fmt.Sprintf("%s %T", verb, o), write: true}
		if verb == "apply" {
			c.kind = fmt.Sprintf("%T", o)
		}
		return op.do(c, carryOut)
	}
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch {
			case direct || !op.view.shows(o):
			case op.view.behind != nil:
				return keptOf(o, op.view.get(key, o))
			default:
				return keptOf(o, c.Get(ctx, key, o, opts...))
			}
			return op.do(&call{name: fmt.Sprintf("get %s %s", kindOf(o), key.Name)}, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			switch {
			case direct || !op.view.shows(list):
			case op.view.behind != nil:
				return keptOf(list, op.view.list(list, opts...))
			default:
				return keptOf(list, c.List(ctx, list, opts...))
			}
			return op.do(&call{name: "list " + kindOf(list)}, func() error { return c.List(ctx, list, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return write("apply", named(ac), ac, func() error { return c.Apply(ctx, ac, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o.GetName(), o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write("update", o.GetName(), o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write("patch", o.GetName(), o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			how := &client.DeleteOptions{}
			how.ApplyOptions(opts)
			k := &call{
				name: fmt.Sprintf("delete %s %s", kindOf(o), o.GetName()), kind: fmt.Sprintf("delete %T", o), write: true, object: o, options: how,
			}
			return op.do(k, func() error { return c.Delete(ctx, o, opts...) })
		},
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return errors.New("an operator deletes objects one by one")
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			k := &call{name: fmt.Sprintf("%s of %s %s", sub, kindOf(o), o.GetName()), kind: sub, write: true}
			return op.do(k, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// kindOf is the kind of an object, a list or an apply configuration, without its package: "Pod".
func kindOf(o any) string {
	if u, ok := o.(runtime.Object); ok && u.GetObjectKind().GroupVersionKind().Kind != "" {
		return strings.TrimSuffix(u.GetObjectKind().GroupVersionKind().Kind, "List")
	}
	text := fmt.Sprintf("%T", o)
	text = text[strings.LastIndex(text, ".")+1:]
	return strings.TrimSuffix(strings.TrimSuffix(text, "ApplyConfiguration"), "List")
}

// refusals are what an API server answers to what it does not carry out. A conflict is an answer to a write only.
func refusals(write bool) []error {
	some := schema.GroupResource{Group: "example.com", Resource: "objects"}
	out := []error{
		apierrors.NewTooManyRequests("later", 1),
		apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
		apierrors.NewTimeoutError("it took too long", 1),
		apierrors.NewForbidden(some, "it", errors.New("the role is being changed")),
	}
	if write {
		out = append(out, apierrors.NewConflict(some, "it", errors.New("somebody else was faster")))
	}
	return out
}
