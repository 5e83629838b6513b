package owned

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxPending is how often an object is found to be older than our last write before it is taken as
	// it is: versions go back when the etcd of the API server is restored.
	MaxPending = 10
	// expectFor is how long a write is remembered of an object that is not read any more.
	expectFor = time.Hour
)

// Expectations remembers our writes until the informer cache shows them, as the ReplicaSet
// controller does. A decision on a stale object would repeat a write or undo it. The zero value is
// ready.
type Expectations struct {
	mu    sync.Mutex
	byKey map[expectationKey]expectation
	swept time.Time
}

type expectationKey struct {
	kind reflect.Type
	key  client.ObjectKey
}

// expectation is what the last write of an object came to.
type expectation struct {
	uid types.UID
	// version is the resourceVersion that the write returned; empty: nothing is expected.
	version string
	// lost says that the write failed, and may have been carried out: version is the one before it.
	lost bool
	// pending counts how often an older version was found since.
	pending int
	// deleted is the UID of the object of this name that was deleted last.
	deleted types.UID
	at      time.Time
}

// satisfied drops what is expected, but for a deletion.
func (x *expectation) satisfied() { *x = expectation{deleted: x.deleted, at: x.at} }

// with calls a function on the expectation for the object of a key.
func (e *Expectations) with(o client.Object, key client.ObjectKey, call func(x *expectation)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := expectationKey{reflect.TypeOf(o), key}
	x, found := e.byKey[k]
	call(&x)
	switch {
	case x.version != "" || x.lost || x.deleted != "":
		if e.byKey == nil {
			e.byKey = map[expectationKey]expectation{}
		}
		e.byKey[k] = x
	case found:
		delete(e.byKey, k)
	}
}

// expect replaces the expectation for the object of a key, and drops those that are not asked for.
func (e *Expectations) expect(o client.Object, key client.ObjectKey, change func(x *expectation)) {
	now := time.Now()
	e.with(o, key, func(x *expectation) {
		change(x)
		x.at = now
		if now.Sub(e.swept) < expectFor/4 {
			return
		}
		e.swept = now
		maps.DeleteFunc(e.byKey, func(_ expectationKey, x expectation) bool { return now.Sub(x.at) > expectFor })
	})
}

// Wrote expects the cache to show a version of an object: the one that a write returned.
func (e *Expectations) Wrote(o client.Object) {
	e.wrote(o, client.ObjectKeyFromObject(o), o.GetResourceVersion())
}

func (e *Expectations) wrote(o client.Object, key client.ObjectKey, version string) {
	e.expect(o, key, func(x *expectation) { *x = expectation{uid: o.GetUID(), version: version, deleted: x.deleted} })
}

// lost expects the cache to show another version than that of before, over which a write was made
// that failed, and may have been carried out.
func (e *Expectations) lost(before client.Object, key client.ObjectKey) {
	e.expect(before, key, func(x *expectation) {
		*x = expectation{uid: before.GetUID(), version: before.GetResourceVersion(), lost: true, deleted: x.deleted}
	})
}

// Deleted expects the cache to drop an object, of which the name and the UID are read.
func (e *Expectations) Deleted(o client.Object) {
	e.expect(o, client.ObjectKeyFromObject(o), func(x *expectation) { x.deleted = o.GetUID() })
}

// IsDeleted reports whether an object that the cache shows is one that we deleted.
func (e *Expectations) IsDeleted(o client.Object) (deleted bool) {
	e.with(o, client.ObjectKeyFromObject(o), func(x *expectation) { deleted = x.deleted != "" && x.deleted == o.GetUID() })
	return deleted
}

// Forget expects nothing of an object any more.
func (e *Expectations) Forget(o client.Object) {
	e.with(o, client.ObjectKeyFromObject(o), (*expectation).satisfied)
}

// Pending reports whether an object from the cache is older than our last write, at most MaxPending
// times for each write. The caller reads it again a little later.
func (e *Expectations) Pending(o client.Object) (pending bool) {
	e.with(o, client.ObjectKeyFromObject(o), func(x *expectation) {
		if pending = x.uid == o.GetUID() && x.older(o) && x.pending < MaxPending; pending {
			x.pending++
		} else {
			x.satisfied()
		}
	})
	return pending
}

// older reports whether an object is older than the write; one without a version was not found.
// API servers count resourceVersions up, for all objects of a kind together.
func (x *expectation) older(o client.Object) bool {
	if x.version == "" && !x.lost {
		return false
	}
	if o.GetResourceVersion() == x.version {
		return x.lost
	}
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), x.version)
	return o.GetResourceVersion() == "" || (err == nil && order < 0)
}

// GetCurrent reads an object from the cache, or from the API server while the cache is older than
// our last write of it: by Apply, or one that was noted in Expectations.
func (c *Client) GetCurrent(ctx context.Context, key client.ObjectKey, o client.Object) error {
	err := c.Get(ctx, key, o)
	if client.IgnoreNotFound(err) != nil || !c.Expectations.stale(key, o) {
		return err
	}
	return c.readCurrent(ctx, key, o)
}

// Refresh replaces an object from the cache by that of the API server if it is older than our last
// write, as GetCurrent does. It returns a NotFound error if there is none any more.
func (c *Client) Refresh(ctx context.Context, o client.Object) error {
	key := client.ObjectKeyFromObject(o)
	if !c.Expectations.stale(key, o) {
		return nil
	}
	return c.readCurrent(ctx, key, o)
}

// readCurrent reads an object from the API server; o is what the cache has of it.
func (c *Client) readCurrent(ctx context.Context, key client.ObjectKey, o client.Object) error {
	now := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object) //nolint:forcetypeassert // It is of the type of o.
	err := c.Direct.Get(ctx, key, now)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if now.GetResourceVersion() == o.GetResourceVersion() { // The write was not carried out.
		c.Expectations.with(o, key, (*expectation).satisfied)
	}
	if err == nil {
		reflect.ValueOf(o).Elem().Set(reflect.ValueOf(now).Elem())
	}
	return err
}

// stale reports whether an object from the cache, without a version if it was not found, is older
// than our last write.
func (e *Expectations) stale(key client.ObjectKey, o client.Object) (stale bool) {
	e.with(o, key, func(x *expectation) {
		if stale = x.older(o); !stale {
			x.satisfied()
		}
	})
	return stale
}
