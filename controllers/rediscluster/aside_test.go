package rediscluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// deaf is a server that cannot be told anything.
type deaf struct{ steps.Client }

func (deaf) Configure(context.Context, map[string]string) error {
	return errors.New("ERR out of memory")
}

// TestWhatGoesWrongOnTheSideKeepsNothingElseFromBeingDone: replicas leave though something else fails again and again.
func TestWhatGoesWrongOnTheSideKeepsNothingElseFromBeingDone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil        func(s *controllersim.Redis, kind *Reconciler, o *v1alpha1.RedisCluster)
		eventDeduper string
	}{
		"a server is not told where it is": {func(s *controllersim.Redis, kind *Reconciler, o *v1alpha1.RedisCluster) {
			kind.Connect = func(options redisclient.Options) steps.Client {
				if strings.HasPrefix(options.TLS.ServerName, "carts-0-0.") {
					return deaf{s.Connect(options)}
				}
				return s.Connect(options)
			}
			host := "other.example.com"
			o.Spec.ExternalAccess.Host = &host
		}, "ERR out of memory"},
		"a pod is not resized": {func(s *controllersim.Redis, _ *Reconciler, o *v1alpha1.RedisCluster) {
			s.Refuse(errors.New("the API server is busy"))
			o.Spec.Resources = controllersim.WithMemory("2Gi")
		}, "the API server is busy"},
		"nobody knows whether pods can be resized": {func(_ *controllersim.Redis, kind *Reconciler, o *v1alpha1.RedisCluster) {
			kind.CanResize = func() (bool, error) { return false, errors.New("the API server does not say what it can") }
			o.Spec.Resources = controllersim.WithMemory("2Gi")
		}, "the API server does not say what it can"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newResizeStage(t, true)
			host := "redis.example.com"
			s.Open(&v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort, Host: &host})
			change := func(what func(o *v1alpha1.RedisCluster)) {
				o := s.Cluster()
				what(o)
				if err := s.API.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				for range 30 {
					s.Pass()
				}
			}
			change(func(o *v1alpha1.RedisCluster) { tc.spoil(s, s.Loop.Kind.(*Reconciler), o) })
			none := int32(0)
			change(func(o *v1alpha1.RedisCluster) { o.Spec.ReplicasPerShard = &none })
			if pods := s.Uids(); len(pods) != 3 {
				t.Errorf("pods %v, want 3", pods)
			}
			if activity := s.Cluster().Status.Activity; !strings.Contains(activity, tc.eventDeduper) {
				t.Errorf("activity %q, want %q", activity, tc.eventDeduper)
			}
		})
	}
}

// TestANodeThatCannotBeReadMovesNobody: where clients are sent stays as it was, and everything else goes on.
func TestANodeThatCannotBeReadMovesNobody(t *testing.T) {
	api := fakeapi.New(t)
	inner, ok := api.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", api.Client)
	}
	kind := New(ownedtest.New(api))
	kind.Nodes = interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("nodes may not be read")
		},
	})
	pod := corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	w := outside{access: &v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort}, pods: []corev1.Pod{pod}}
	if host, problem := kind.hostOutside(t.Context(), w, &corev1.Service{}, "carts-0-0"); host != "" || !strings.Contains(problem, "nodes may not be read") {
		t.Errorf("host %q, problem %q", host, problem)
	}
	w.before = map[string]model.Announcement{"carts-0-0": {Host: "203.0.113.1"}}
	if host, problem := kind.hostOutside(t.Context(), w, &corev1.Service{}, "carts-0-0"); host != "203.0.113.1" || problem != "" {
		t.Errorf("host %q, problem %q", host, problem)
	}
}
