package rediscluster

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/test/fakeapi"
)

// A settled cluster costs the API server nothing for most of its life.
func TestASettledClusterIsLookedAtWithoutAskingForSecrets(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	s.Pass()
	reads := 0
	under, ok := s.API.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", s.API.Client)
	}
	s.API.Client = interceptor.NewClient(under, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, secret := o.(*corev1.Secret); secret {
				reads++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	for range 3 {
		s.Pass()
	}
	if reads != 0 {
		t.Errorf("%d reads of Secrets in three passes", reads)
	}
	kind.ForgetSecrets()
	if s.Pass(); reads == 0 {
		t.Error("Secrets are remembered for ever")
	}
}
