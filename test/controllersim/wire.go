package controllersim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/controllers/kubecache"
	"github.com/quorate/quorate/test/fakeapi"
)

// Wire is what lies between the operators of a stage and all that they talk to. It gives every call a name that is the same in every run
// of a workload, keeps what was called, and lets a fault strike at one of the calls. Reads that the manager answers from its cache are no
// calls: they cannot fail. What they can be is old, see past.
type Wire struct {
	mu sync.Mutex
	// one holds data stores and their guards to one call at a time: those in memory are not made for more.
	one  sync.Mutex
	Past *fakeapi.History
	// named counts the calls of a name.
	named map[string]int
	Calls []*call
	// fault strikes at the call that it names; nil: none does.
	fault *fault
	// guard looks at a write before it is carried out, and returns what looks at it afterwards; nil: nobody looks.
	guard func(c *call) (after func(err error))

	// Writes counts what was written, CrashAt is the one after which the operator crashes; 0: it does not. kinds counts them by what
	// was written, and log has that in order.
	Writes, CrashAt int
	Kinds           map[string]int
	Log             []string
	// refusal is what the API server answers to the write refuseAt instead of carrying it out.
	refuseAt int
	refusal  error

	// Alive is the operator that was started last, and turns is how many passes all of them have made.
	Alive *operator
	turns int
	// hooks are what happens before passes, upset says that something has happened that errors may come of.
	hooks map[int]func()
	upset bool
	// tap is put around the clients of operators; nil: nothing is.
	tap func(client.Client) client.Client
	// asleep is how many passes are not made, and again how often the next one is made.
	asleep, again int
}

func newWire(p *fakeapi.History) *Wire {
	return &Wire{Past: p, named: map[string]int{}, Kinds: map[string]int{}}
}

func (w *Wire) tapped(c client.Client) client.Client {
	if w.tap == nil {
		return c
	}
	return w.tap(c)
}

// operator is one life of an operator.
type operator struct {
	w    *Wire
	dead bool
	View fakeapi.View
}

// call is something that an operator asks of the API server or of a data store.
type call struct {
	op *operator
	// Name is what is called: "delete Pod orders-1", "AddLearner orders-0". Its number counts the calls of that name, which no two
	// goroutines make at the same time.
	Name   string
	number int
	// kind is what is written in the words of the log: "delete *v1.Pod".
	kind string
	// write says that the call changes something, store that it goes to a data store.
	write, store bool
	// object and options of a deletion.
	object  client.Object
	options *client.DeleteOptions
	// effects are the objects that it created or deleted.
	effects []fakeapi.Event
}

func (c *call) String() string { return fmt.Sprintf("%s #%d", c.Name, c.number) }

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

func (w *Wire) operator() *operator {
	w.Alive = &operator{w: w, View: fakeapi.View{Past: w.Past}}
	return w.Alive
}

// at has something happen before the n-th pass.
func (w *Wire) at(n int, do func()) {
	if w.hooks == nil {
		w.hooks = map[int]func(){}
	}
	w.hooks[n] = do
}

// Lag keeps the cache of the operator, and of those that take its place, from hearing of some kinds for some passes, and from what
// happened last.
func (w *Wire) Lag(passes, events int, kinds ...string) {
	w.Alive.View.Freeze(events, kinds...)
	behind := w.Alive.View.Behind
	for n := 1; n < passes; n++ {
		w.at(w.turns+n, func() { w.Alive.View.Behind = behind })
	}
	w.at(w.turns+passes, func() { w.Alive.View.Thaw() })
}

// turn counts a pass, and reports whether it is to be made.
func (w *Wire) turn() bool {
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
func (w *Wire) forgives(err error) bool {
	return w.upset || w.struck() || (w.refusal != nil && errors.Is(err, w.refusal))
}

// shown reads an object as the operator's cache shows it, and from the API server where it has none.
func (op *operator) shown(api client.Reader, key client.ObjectKey, o client.Object) error {
	if op.View.Behind != nil && op.View.Shows(o) {
		return op.View.Get(key, o)
	}
	return api.Get(context.Background(), key, o)
}

// struck reports whether the fault has struck, so that errors are its consequences.
func (w *Wire) struck() bool {
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
		return nil, fakeapi.ErrCrash
	}
	c.op = op
	w.named[c.Name]++
	c.number = w.named[c.Name]
	w.Calls = append(w.Calls, c)
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
			return fakeapi.ErrCrash
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
	now := op.w.Past.Now()
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
		c.effects = w.Past.Births(now)
	}
	if c.write {
		w.Writes++
		w.Kinds[c.kind]++
		w.Log = append(w.Log, c.kind)
		op.dead = op.dead || w.Writes == w.CrashAt
	}
	switch {
	case f != nil && f.effect == crashAfter, op.dead:
		op.dead = true
		return fakeapi.ErrCrash
	case f != nil && f.effect == loseAnswer && c.store:
		return errLate
	case f != nil && f.effect == loseAnswer:
		return apierrors.NewTimeoutError("the answer got lost", 1)
	}
	return nil
}

func (w *Wire) refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuseAt == 0 || w.Writes+1 != w.refuseAt {
		return false
	}
	w.refuseAt = 0
	return true
}

// ask makes a call to a data store that changes nothing, and tell one that does.
func (op *operator) ask(ctx context.Context, what, pod string, carryOut func(context.Context) error) error {
	return op.do(&call{Name: what + " " + pod, store: true}, func() error { return carryOut(ctx) })
}

func (op *operator) tell(ctx context.Context, what, pod string, carryOut func(context.Context) error) error {
	return op.do(&call{Name: what + " " + pod, kind: what, write: true, store: true}, func() error { return carryOut(ctx) })
}

// within is a step of a call that is under way. It reports whether the operator crashes there.
func (op *operator) within(what, pod string) (crash bool) {
	c := &call{Name: what + " " + pod, kind: what, write: true, store: true}
	f, err := op.begin(c)
	if err != nil || (f != nil && f.effect == crashBefore) {
		return true
	}
	return errors.Is(op.end(c, f, 0), fakeapi.ErrCrash)
}

// keptOf leaves of what was read without an error what the cache of the manager keeps.
func keptOf(o runtime.Object, err error) error {
	keep := func(o runtime.Object) error {
		_, err := kubecache.Transform(o)
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
		c := &call{Name: fmt.Sprintf("%s %s %s", verb, fakeapi.KindOf(o), name), kind: fmt.Sprintf("%s %T", verb, o), write: true}
		if verb == "apply" {
			c.kind = fmt.Sprintf("%T", o)
		}
		return op.do(c, carryOut)
	}
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch {
			case direct || !op.View.Shows(o):
			case op.View.Behind != nil:
				return keptOf(o, op.View.Get(key, o))
			default:
				return keptOf(o, c.Get(ctx, key, o, opts...))
			}
			return op.do(&call{Name: fmt.Sprintf("get %s %s", fakeapi.KindOf(o), key.Name)}, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			switch {
			case direct || !op.View.Shows(list):
			case op.View.Behind != nil:
				return keptOf(list, op.View.List(list, opts...))
			default:
				return keptOf(list, c.List(ctx, list, opts...))
			}
			return op.do(&call{Name: "list " + fakeapi.KindOf(list)}, func() error { return c.List(ctx, list, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return write("apply", fakeapi.NameOf(ac), ac, func() error { return c.Apply(ctx, ac, opts...) })
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
				Name: fmt.Sprintf("delete %s %s", fakeapi.KindOf(o), o.GetName()), kind: fmt.Sprintf("delete %T", o), write: true, object: o, options: how,
			}
			return op.do(k, func() error { return c.Delete(ctx, o, opts...) })
		},
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return errors.New("an operator deletes objects one by one")
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			k := &call{Name: fmt.Sprintf("%s of %s %s", sub, fakeapi.KindOf(o), o.GetName()), kind: sub, write: true}
			return op.do(k, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}
