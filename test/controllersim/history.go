package controllersim

import (
	"context"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Outdated is a cache that still shows an object as it was, for so many reads.
type Outdated struct {
	client.Client
	Old   client.Object
	Reads int
}

// Get returns the old object for the first reads.
func (c *Outdated) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if reflect.TypeOf(o) != reflect.TypeOf(c.Old) || key != client.ObjectKeyFromObject(c.Old) {
		return c.Client.Get(ctx, key, o, opts...)
	}
	if c.Reads--; c.Reads < 0 {
		return c.Client.Get(ctx, key, o, opts...)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(c.Old.DeepCopyObject()).Elem())
	return nil
}
