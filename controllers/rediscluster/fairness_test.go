package rediscluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// hanging is a server that takes connections and answers only when the test ends.
type hanging struct {
	steps.Client
	release <-chan struct{}
	asked   func()
}

func (h hanging) Read(ctx context.Context) (*model.Node, error) {
	h.asked()
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	return nil, steps.ErrHangs
}

func (hanging) Close() error { return nil }

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// Servers of 50 clusters hang until the test ends. The reconcile of another cluster, which is queued
// behind all of them, completes nevertheless.
func TestAClusterIsReconciledWhileTheServersOf50OthersHang(t *testing.T) {
	const others = 50
	release, healed := make(chan struct{}), make(chan struct{})
	var hung sync.WaitGroup
	hung.Add(others)
	k := New(&owned.Client{Now: time.Now})
	k.Connect = func(redisclient.Options) steps.Client { return hanging{release: release, asked: hung.Done} }
	connect := func(string, endpoint) redisclient.Options { return redisclient.Options{} }
	options := reconcile.Options{Concurrency: reconcile.DefaultConcurrency}.Controller()
	options.SkipNameValidation = new(true)
	options.Reconciler = ctrlreconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		if r.Name == "healthy" {
			close(healed)
			return ctrl.Result{}, nil
		}
		s := model.State{Pods: []model.Pod{{Name: r.Name + "-0-0", Addr: model.Address{IP: "10.0.0.1", Port: model.ClientPort}}}}
		k.readServers(ctx, connect, &s)
		return ctrl.Result{}, nil
	})
	c, err := controller.NewUnmanaged("fairness", options)
	if err != nil {
		t.Fatal(err)
	}
	add := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		for i := range others {
			queue.Add(request(fmt.Sprintf("hung-%d", i)))
		}
		return nil
	})
	if err := c.Watch(add); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	hung.Wait() // All of them hold a worker.
	err = c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queue.Add(request("healthy"))
		return nil
	}))
	if err != nil {
		t.Error(err)
	}
	<-healed
	close(release)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServersOfTheLargestClusterThatAllHangAreReadInBoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second
		var most, now int
		var mu sync.Mutex
		k := New(&owned.Client{Now: time.Now})
		k.Connect = func(redisclient.Options) steps.Client {
			release := make(chan struct{})
			return hanging{release: release, asked: func() {
				mu.Lock()
				defer mu.Unlock()
				now++
				most = max(most, now)
				time.AfterFunc(timeout, func() {
					mu.Lock()
					now--
					mu.Unlock()
					close(release)
				})
			}}
		}
		s := model.State{Pods: make([]model.Pod, 1000)}
		for i := range s.Pods {
			s.Pods[i] = model.Pod{Name: fmt.Sprintf("c-%d-0", i), Addr: model.Address{IP: "10.0.0.1", Port: model.ClientPort}}
		}
		began := time.Now()
		k.readServers(t.Context(), func(string, endpoint) redisclient.Options { return redisclient.Options{} }, &s)
		const rounds = 1000/parallelReads + 1
		if took := time.Since(began); took != rounds*timeout || most != parallelReads {
			t.Errorf("1,000 servers took %s, %d at a time", took, most)
		}
		for i := range s.Pods {
			if !s.Pods[i].Hangs || s.Pods[i].Node != nil {
				t.Fatalf("%s is taken for one that answers: %+v", s.Pods[i].Name, s.Pods[i])
			}
		}
	})
}
