package rediscluster

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestRedisIsNotFormedBesideARetainedClaimWithoutLabels(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	left := &corev1.PersistentVolumeClaim{ObjectMeta: owned.ObjectMeta(o, "data-carts-0-2")}
	s := newRedisStage(t, o, left)
	for range 20 {
		s.Pass()
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Reason != planner.ReasonRetained || !strings.Contains(c.Message, "data-carts-0-2") {
		t.Fatalf("stalled: %+v", c)
	}
	fakeapi.Must(t, s.API.Delete(t.Context(), left))
	s.Settle()
}

func TestTheClaimOfARedisServerIsObservedWithoutItsLabels(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	before := len(s.Calls)
	s.Pass()
	for _, c := range s.Calls[before:] {
		if strings.Contains(c.Name, "PersistentVolumeClaim") {
			t.Errorf("a settled cluster calls %s", c.Name)
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	fakeapi.Must(t, s.API.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "data-carts-1-0"}, claim))
	claim.Labels, claim.Finalizers = nil, []string{"kubernetes.io/pvc-protection"}
	fakeapi.Must(t, s.API.Update(t.Context(), claim))
	fakeapi.Must(t, s.API.Delete(t.Context(), claim))
	state, err := s.Loop.Kind.Observe(t.Context(), s.Cluster())
	fakeapi.Must(t, err)
	i := slices.IndexFunc(state.Claims, func(c model.Claim) bool { return c.Shard == 1 && c.Ordinal == 0 })
	if len(state.Claims) != 6 || i < 0 || !state.Claims[i].Leaving {
		t.Errorf("observed %+v", state.Claims)
	}
}
