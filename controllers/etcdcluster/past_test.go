package etcdcluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// meddled is a client beside which somebody does something right after each read.
type meddled struct {
	client.Client
	after func(client.Object)
}

func (m *meddled) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := m.Client.Get(ctx, key, o, opts...)
	m.after(o)
	return err
}
