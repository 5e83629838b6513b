package controllers

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// footing is what the children of a resource were last ensured by: its own version, and everything that was read from Kubernetes meanwhile. As
// long as all of it is as it was, to ensure them once more would come to the same, and is left out: it is half of what a look at a settled
// cluster costs. What else decides, such as the time, is gone by within recallFor: after that everything is gone through again.
type footing struct {
	version string

	mu sync.Mutex
	// reads are in the order in which they were made, the first of each: the same changes cost the same reads every time.
	reads []sight
	// shaky says that there is more to it than what was read, or that something failed, whatever came of that.
	shaky bool
	now   func() time.Time
	at    time.Time
}

// readKey tells reads apart: whether the API server itself was asked, for which kind of objects, and for which of them.
type readKey struct {
	direct bool
	kind   reflect.Type
	what   string
}

// sight is what was found, and finds it again.
type sight struct {
	readKey
	found string
	again func(ctx context.Context) (string, error)
}

// footings are those of all settled resources, by UID.
type footings struct {
	mu    sync.Mutex
	byUID map[types.UID]*footing
	swept time.Time
}

// of is the footing of a resource, nil: there is none.
func (f *footings) of(uid types.UID) *footing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byUID[uid]
}

// keep has the next look at a resource go by a footing; nil: by none. Those that are too old are forgotten, with the resources that are gone.
func (f *footings) keep(uid types.UID, now *footing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byUID, uid)
	if now == nil || now.now == nil {
		return
	}
	if f.byUID == nil {
		f.byUID = map[types.UID]*footing{}
	}
	f.byUID[uid] = now
	if now.now().Sub(f.swept) < recallFor {
		return
	}
	f.swept = now.now()
	for uid, one := range f.byUID {
		if one.old() {
			delete(f.byUID, uid)
		}
	}
}

// Unchanged reports whether nothing that the children of a settled resource follow from has changed
// since they were ensured.
func (f *footings) Unchanged(ctx context.Context, o Object) bool {
	return f.of(o.GetUID()).stands(recalling(ctx, o), o.GetResourceVersion())
}

// begin starts a reconcile of o: unlessItStands goes by what the last one has read. The returned
// function ends it; settled says that nothing is left to do, so that the next one may go by what
// this one has read.
func (f *footings) begin(ctx context.Context, o Object) (_ context.Context, end func(settled bool)) {
	by := &ensured{version: o.GetResourceVersion(), last: f.of(o.GetUID())}
	return context.WithValue(ctx, ensuring{}, by), func(settled bool) {
		if !settled {
			by.now = nil
		}
		f.keep(o.GetUID(), by.now)
	}
}

func (f *footing) old() bool { return f.now().Sub(f.at) >= recallFor }

// stands tells whether a resource is at rest, and everything that its children were ensured by is as it was.
func (f *footing) stands(ctx context.Context, version string) bool {
	look, _ := ctx.Value(mayRecall{}).(*recollection)
	if f == nil || look == nil || !look.atRest || f.version != version || f.shaky || f.old() {
		return false
	}
	for _, r := range f.reads {
		if found, err := r.again(ctx); err != nil || found != r.found {
			return false
		}
	}
	return true
}

// note notes a read. The first of several is what was gone by.
func (f *footing) note(by noting, err error, found sight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.now, f.at = by.now, by.now()
	}
	if !slices.ContainsFunc(f.reads, func(r sight) bool { return r.readKey == found.readKey }) {
		f.reads = append(f.reads, found)
	}
	f.shaky = f.shaky || err != nil
}

// onFooting is the key of a context in which is noted what is read.
type onFooting struct{}

func footingIn(ctx context.Context) *footing {
	f, _ := ctx.Value(onFooting{}).(*footing)
	return f
}

// ensureAgain has children ensured at the next look as well: they follow from something that is not read from Kubernetes, or could not be written.
func ensureAgain(ctx context.Context) {
	if f := footingIn(ctx); f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.shaky = true
	}
}

// ensuring is the key of what one look at a resource goes by.
type ensuring struct{}

// ensured is the footing of the last look, and that of this one. Nil: there is none.
type ensured struct {
	version   string
	last, now *footing
}

// unlessItStands ensures children unless that was done, and nothing has changed since.
func unlessItStands(ctx context.Context, ensure func(ctx context.Context) error) error {
	e, _ := ctx.Value(ensuring{}).(*ensured)
	if e == nil {
		return ensure(ctx)
	}
	if e.last.stands(ctx, e.version) {
		e.now = e.last
		return nil
	}
	now := &footing{version: e.version}
	if err := ensure(context.WithValue(ctx, onFooting{}, now)); err != nil {
		return err
	}
	e.now = now
	return nil
}

// noting is a reader whose reads are noted.
type noting struct {
	client.Reader
	// direct says that it reads past the cache.
	direct bool
	now    func() time.Time
}

// Get reads an object.
func (n noting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	f := footingIn(ctx)
	if f == nil {
		return n.Reader.Get(ctx, key, o, opts...)
	}
	kind, gvk := reflect.TypeOf(o), o.GetObjectKind().GroupVersionKind() // Objects of no type of their own have it.
	err := n.Reader.Get(ctx, key, o, opts...)
	found, failed := foundAs(o, err)
	f.note(n, failed, sight{readKey{n.direct, kind, gvk.Kind + " " + key.String()}, found, func(ctx context.Context) (string, error) {
		o := reflect.New(kind.Elem()).Interface().(client.Object) //nolint:forcetypeassert // It is of the type of one.
		o.GetObjectKind().SetGroupVersionKind(gvk)
		return foundAs(o, n.Reader.Get(ctx, key, o, append(slices.Clip(opts), client.UnsafeDisableDeepCopy)...)) // Only its version is looked at.
	}})
	return err
}

// List reads objects.
func (n noting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	f := footingIn(ctx)
	if f == nil {
		return n.Reader.List(ctx, list, opts...)
	}
	var which client.ListOptions
	which.ApplyOptions(opts)
	what := which.Namespace
	if which.LabelSelector != nil {
		what += " " + which.LabelSelector.String()
	}
	if which.FieldSelector != nil {
		what += " " + which.FieldSelector.String()
	}
	if of, one := clusterIn(opts); one {
		what += " " + of.key()
	}
	kind, gvk := reflect.TypeOf(list), list.GetObjectKind().GroupVersionKind()
	err := n.Reader.List(ctx, list, opts...)
	found, failed := listedAs(list, err)
	f.note(n, failed, sight{readKey{n.direct, kind, gvk.Kind + " " + what}, found, func(ctx context.Context) (string, error) {
		list := reflect.New(kind.Elem()).Interface().(client.ObjectList) //nolint:forcetypeassert // It is of the type of one.
		list.GetObjectKind().SetGroupVersionKind(gvk)
		return listedAs(list, n.Reader.List(ctx, list, append(slices.Clip(opts), client.UnsafeDisableDeepCopy)...))
	}})
	return err
}

// foundAs tells which version of which object was found, empty: none.
func foundAs(o client.Object, err error) (string, error) {
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return string(o.GetUID()) + " " + o.GetResourceVersion(), err
}

// listedAs tells which versions of which objects were found.
func listedAs(list client.ObjectList, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var all []string
	err = meta.EachListItem(list, func(item runtime.Object) error {
		o, err := meta.Accessor(item)
		if err == nil {
			all = append(all, string(o.GetUID())+" "+o.GetResourceVersion())
		}
		return err
	})
	slices.Sort(all) // The cache has them in any order.
	return strings.Join(all, "\n"), err
}

// notingClient is a client whose reads are noted, and that a write failed.
type notingClient struct {
	client.Client
	now func() time.Time
}

// Cached returns a client that reads from the cache of c and takes Secrets from the cache of read
// Secrets. now is the clock of that cache.
func Cached(c client.Client, now func() time.Time) client.Client {
	return notingClient{newRecall(c, now), now}
}

// PastCache returns a reader that asks the API server itself.
func PastCache(r client.Reader, now func() time.Time) client.Reader { return noting{r, true, now} }

// FromCache returns a reader of the cache that r reads from.
func FromCache(r client.Reader, now func() time.Time) client.Reader { return noting{r, false, now} }

func (c notingClient) noting() noting { return noting{c.Client, false, c.now} }

// Get reads an object.
func (c notingClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.noting().Get(ctx, key, o, opts...)
}

// List reads objects.
func (c notingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.noting().List(ctx, list, opts...)
}

// Apply writes what is wanted of an object.
func (c notingClient) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	err := c.Client.Apply(ctx, o, opts...)
	if err != nil {
		ensureAgain(ctx)
	}
	return err
}
