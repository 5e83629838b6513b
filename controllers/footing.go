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

// footing is what the children of a resource were last ensured by: its own version, and everything that was read meanwhile. As long as all of
// it is as it was, to ensure them once more would come to the same, and is left out: it is half of what a look at a settled cluster costs. Time
// may bring something to do as well, and what the operator has in memory: after recallFor all is gone through again.
type footing struct {
	version string

	mu    sync.Mutex
	reads map[noted]finding
	// shaky says that something could not be read or written, whatever came of it.
	shaky bool
	now   func() time.Time
	at    time.Time
}

// noted tells reads apart: whether the API server itself was asked, for which kind of objects, and for which of them.
type noted struct {
	direct bool
	kind   reflect.Type
	what   string
}

// finding is what came of a read, and reads the same again.
type finding struct {
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

func (f *footing) old() bool { return f.now().Sub(f.at) >= recallFor }

// stance is what a look at a resource goes by: the footing of the last one, and that of this one; nil: there is none.
type stance struct {
	version   string
	last, now *footing
}

// standing is the key of the stance of a context.
type standing struct{}

// unlessItStands ensures children unless that was done, and nothing has changed since.
func unlessItStands(ctx context.Context, ensure func(ctx context.Context) error) error {
	s, _ := ctx.Value(standing{}).(*stance)
	if s == nil {
		return ensure(ctx)
	}
	if s.now = s.last; s.last.stands(ctx, s.version) {
		return nil
	}
	s.now = &footing{version: s.version}
	return ensure(context.WithValue(ctx, onFooting{}, s.now))
}

// stands tells whether a resource at rest, and everything that its children were ensured by, are as they were.
func (f *footing) stands(ctx context.Context, version string) bool {
	look, _ := ctx.Value(mayRecall{}).(*recollection)
	if f == nil || look == nil || look.age < recallFor || f.version != version || f.shaky || f.old() {
		return false
	}
	for _, r := range f.reads {
		if found, err := r.again(ctx); err != nil || found != r.found {
			return false
		}
	}
	return true
}

// onFooting is the key of the footing of a context.
type onFooting struct{}

// note notes a read. The first of several is what was gone by.
func (f *footing) note(by noting, what noted, found string, err error, again func(ctx context.Context) (string, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.reads, f.now, f.at = map[noted]finding{}, by.now, by.now()
	}
	if _, known := f.reads[what]; !known {
		f.reads[what] = finding{found, again}
	}
	f.shaky = f.shaky || err != nil
}

// noting is a reader whose reads are noted in the footing that they are made for.
type noting struct {
	client.Reader
	// direct says that it reads past the cache.
	direct bool
	now    func() time.Time
}

// Get reads an object.
func (n noting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	f, _ := ctx.Value(onFooting{}).(*footing)
	if f == nil {
		return n.Reader.Get(ctx, key, o, opts...)
	}
	kind, gvk := reflect.TypeOf(o), o.GetObjectKind().GroupVersionKind() // Objects of no type of their own have it.
	err := n.Reader.Get(ctx, key, o, opts...)
	found, failed := foundAs(o, err)
	f.note(n, noted{n.direct, kind, gvk.Kind + " " + key.String()}, found, failed, func(ctx context.Context) (string, error) {
		o := reflect.New(kind.Elem()).Interface().(client.Object) //nolint:forcetypeassert // It is of the type of one.
		o.GetObjectKind().SetGroupVersionKind(gvk)
		return foundAs(o, n.Reader.Get(ctx, key, o, append(slices.Clip(opts), client.UnsafeDisableDeepCopy)...)) // Only its version is looked at.
	})
	return err
}

// List reads objects.
func (n noting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	f, _ := ctx.Value(onFooting{}).(*footing)
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
	kind, gvk := reflect.TypeOf(list), list.GetObjectKind().GroupVersionKind()
	err := n.Reader.List(ctx, list, opts...)
	found, failed := listedAs(list, err)
	f.note(n, noted{n.direct, kind, gvk.Kind + " " + what}, found, failed, func(ctx context.Context) (string, error) {
		list := reflect.New(kind.Elem()).Interface().(client.ObjectList) //nolint:forcetypeassert // It is of the type of one.
		list.GetObjectKind().SetGroupVersionKind(gvk)
		return listedAs(list, n.Reader.List(ctx, list, append(slices.Clip(opts), client.UnsafeDisableDeepCopy)...))
	})
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
	if f, _ := ctx.Value(onFooting{}).(*footing); f != nil && err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.shaky = true
	}
	return err
}
