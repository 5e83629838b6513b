package controllers

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// unlabel takes labels off the claim of an ordinal, as a policy or a restore does.
func (s *stage) unlabel(ordinal int, labels ...string) {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(s.t, s.api.Get(s.t.Context(), s.claimKey(ordinal), claim))
	for _, label := range labels {
		delete(claim.Labels, label)
	}
	must(s.t, s.api.Update(s.t.Context(), claim))
}

func (s *stage) claimKey(ordinal int) types.NamespacedName {
	return types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.Claim(s.name.Name, ordinal)}
}

// untilStalled runs the loop until the cluster says that it cannot go on.
func (s *stage) untilStalled() *metav1.Condition {
	s.t.Helper()
	s.restart()
	for range 60 {
		s.round()
		if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	s.t.Fatalf("not stalled after 60 rounds: %s", s.cluster().Status.Activity)
	return nil
}

func TestEtcdGrowsAgainAfterAClaimLostItsLabels(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"managed-by": cluster.LabelManagedBy, "instance": cluster.LabelInstance} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, persistent())
			s.untilReady()
			s.unlabel(2, label)
			s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
			s.untilReady()
			must(t, s.api.Get(t.Context(), s.claimKey(2), &corev1.PersistentVolumeClaim{}))
			s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
			c := s.untilStalled()
			if c.Reason != etcd.ReasonUnlabelledClaim || !strings.Contains(c.Message, "kubectl -n default delete pvc data-orders-2") {
				t.Errorf("it says %s: %s", c.Reason, c.Message)
			}
			must(t, s.api.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(s.cluster(), cluster.Claim("orders", 2))}))
			s.untilReady()
			if got := s.cluster().Status.Ready; got != "3/3" {
				t.Errorf("%s members are ready", got)
			}
		})
	}
}

func TestTheClaimOfAMemberIsObservedWithoutItsLabels(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	s.unlabel(1, cluster.LabelManagedBy, cluster.LabelInstance, cluster.LabelComponent)
	claim := &corev1.PersistentVolumeClaim{}
	must(t, s.api.Get(t.Context(), s.claimKey(1), claim))
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	must(t, s.api.Update(t.Context(), claim))
	must(t, s.api.Delete(t.Context(), claim))
	s.restart()
	state, err := s.op.Kind.Observe(t.Context(), s.cluster())
	must(t, err)
	i := slices.IndexFunc(state.Claims, func(c etcd.Claim) bool { return c.Ordinal == 1 })
	if len(state.Claims) != 3 || i < 0 || !state.Claims[i].Unlabelled || !state.Claims[i].Leaving {
		t.Errorf("observed %+v", state.Claims)
	}
}

func TestASettledEtcdClusterReadsNoClaimPastTheCache(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	s.round()
	before := len(s.calls)
	s.round()
	for _, c := range s.calls[before:] {
		if strings.Contains(c.name, "PersistentVolumeClaim data-") {
			t.Errorf("it calls %s", c.name)
		}
	}
}

func TestNoClusterIsFoundedBesideRetainedClaimsWithoutLabels(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	id := s.cluster().Status.ClusterID
	for i := range 3 {
		s.unlabel(i, cluster.LabelManagedBy, cluster.LabelInstance, cluster.LabelComponent)
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
	s.recreate()
	s.untilReady()
	if got := s.cluster().Status.ClusterID; got != id {
		t.Errorf("the cluster is %s, its data is of %s", got, id)
	}
}

// The claim may be made between the observation and the write.
func TestTheRecordOfANewClusterTellsOfAClaimWithoutLabels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claims []int
		want   etcd.Bootstrap
	}{
		"no claim":                        {nil, etcd.BootstrapNew},
		"the claim of the first member":   {[]int{0}, etcd.BootstrapRetained},
		"a claim beyond the wanted size":  {[]int{6}, etcd.BootstrapRetained},
		"the claims of all three members": {[]int{0, 1, 2}, etcd.BootstrapRetained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := persistent()
			s := newStage(t, o)
			for _, i := range tc.claims {
				must(t, s.api.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(o, cluster.Claim(o.Name, i))}))
			}
			s.restart()
			must(t, s.op.Kind.Act(t.Context(), s.cluster(), etcd.WriteBootstrap{Bootstrap: etcd.BootstrapNew, Size: 3, Version: etcd.Version{Major: 3, Minor: 6, Patch: 16}}))
			config := &corev1.ConfigMap{}
			must(t, s.api.Get(t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.ConfigName(s.name.Name)}, config))
			record, err := etcd.ParseRecord(config.Data)
			must(t, err)
			if record.Bootstrap != tc.want {
				t.Errorf("the record says %s, want %s", record.Bootstrap, tc.want)
			}
		})
	}
}

func TestRedisIsNotFormedBesideARetainedClaimWithoutLabels(t *testing.T) {
	t.Parallel()
	o := redisCluster()
	left := &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(o, "data-carts-0-2")}
	s := newRedisStage(t, o, left)
	for range 20 {
		s.pass()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Reason != redis.ReasonRetained || !strings.Contains(c.Message, "data-carts-0-2") {
		t.Fatalf("stalled: %+v", c)
	}
	must(t, s.api.Delete(t.Context(), left))
	s.settle()
}

func TestTheClaimOfARedisServerIsObservedWithoutItsLabels(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	before := len(s.calls)
	s.pass()
	for _, c := range s.calls[before:] {
		if strings.Contains(c.name, "PersistentVolumeClaim") {
			t.Errorf("a settled cluster calls %s", c.name)
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	must(t, s.api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "data-carts-1-0"}, claim))
	claim.Labels, claim.Finalizers = nil, []string{"kubernetes.io/pvc-protection"}
	must(t, s.api.Update(t.Context(), claim))
	must(t, s.api.Delete(t.Context(), claim))
	state, err := s.loop.Kind.Observe(t.Context(), s.cluster())
	must(t, err)
	i := slices.IndexFunc(state.Claims, func(c redis.Claim) bool { return c.Shard == 1 && c.Ordinal == 0 })
	if len(state.Claims) != 6 || i < 0 || !state.Claims[i].Leaving {
		t.Errorf("observed %+v", state.Claims)
	}
}
