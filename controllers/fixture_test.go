package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
)

// world is a fake API server that counts writes and fails them on request.
type world struct {
	client.Client
	writes atomic.Int64
	fail   error
	// crashAt is the write after which the operator crashes: no other one succeeds until fail is cleared. 0: it does not.
	crashAt int64
}

func (w *world) write() error {
	if w.fail != nil {
		return w.fail
	}
	if n := w.writes.Add(1); n == w.crashAt {
		w.fail = errors.New("the operator has crashed")
	}
	return nil
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	certificate := &unstructured.Unstructured{}
	certificate.SetGroupVersionKind(certificateKind)
	w := &world{}
	inner := fake.NewClientBuilder().WithReturnManagedFields().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.EtcdCluster{}, &v1alpha1.RedisCluster{}, &v1alpha1.EtcdUser{}, &v1alpha1.RedisUser{},
			&v1alpha1.Backup{}, &v1alpha1.BackupSchedule{}, &v1alpha1.Restore{}, certificate).Build()
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := w.write(); err != nil {
				return err
			}
			return c.Apply(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := w.write(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	return w
}

func etcdCluster() *v1alpha1.EtcdCluster {
	return &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders", UID: "u-1", Generation: 1},
		Spec:       v1alpha1.EtcdClusterSpec{Size: 3, Version: "3.6.16"},
	}
}

func newChildren(w *world) *Children {
	return &Children{
		Client: w, Direct: w, Domain: "cluster.local", AgentImage: "agent:1", Dial: DialDirect,
		Now: func() time.Time { return time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC) },
	}
}
