package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// hibernatedMidway hibernates on the way to another size.
func (s *stage) hibernatedMidway() {
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
	s.untilReady()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
	s.passes(3)
	s.hibernate()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(false) })
	s.untilReady()
}

// passes lets an operator look so many times, and another one where it crashes.
func (s *stage) passes(n int) {
	s.t.Helper()
	s.restart()
	for range n {
		s.round()
	}
}

// hibernate puts the cluster to sleep.
func (s *stage) hibernate() {
	s.t.Helper()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(true) })
	for range 20 {
		s.passes(1)
		if ready := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionReady); ready.Reason == v1alpha1.ReasonHibernated {
			return
		}
	}
	s.t.Fatalf("it does not fall asleep: %s", s.cluster().Status.Activity)
}

func TestAClusterHibernatesAndIsTheSameAfterwards(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	before, id := s.objects(), s.cluster().Status.ClusterID
	s.hibernate()
	var pods corev1.PodList
	set, budget := &appsv1.StatefulSet{}, &policyv1.PodDisruptionBudget{}
	for _, err := range []error{s.api.List(t.Context(), &pods), s.api.Get(t.Context(), s.name, set), s.api.Get(t.Context(), s.name, budget)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(pods.Items) > 0 || *set.Spec.Replicas != 0 || budget.Spec.MinAvailable.IntValue() != 2 {
		t.Errorf("%d pods, %d replicas, a budget of %s", len(pods.Items), *set.Spec.Replicas, budget.Spec.MinAvailable)
	}
	op := s.newOperator()
	for range 2 {
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
	}
	writes := s.writes
	for range 5 {
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
	}
	if s.writes != writes {
		t.Errorf("asleep it costs %d writes: %v", s.writes-writes, s.log[writes:])
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(false) })
	s.untilReady()
	if diff := cmp.Diff(before, s.objects()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if s.cluster().Status.ClusterID != id || len(s.net.Led) != 1 || s.net.Lost() != "" {
		t.Errorf("cluster %s is now %s, of %d that led; lost: %s", id, s.cluster().Status.ClusterID, len(s.net.Led), s.net.Lost())
	}
}

// The authority is due as well after so long a sleep: no server has to be restarted for a new one.
func TestCertificatesAreRenewedInItsSleep(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	s.hibernate()
	certificate := func(name string) string {
		t.Helper()
		secret := &corev1.Secret{}
		if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: s.name.Namespace, Name: name}, secret); err != nil {
			t.Fatal(err)
		}
		return string(secret.Data[corev1.TLSCertKey])
	}
	names := []string{
		cluster.CASecret(s.name.Name), cluster.ServerTLSSecret(s.name.Name), cluster.PeerTLSSecret(s.name.Name), cluster.OperatorTLSSecret(s.name.Name),
		cluster.ConnectionSecret(s.name.Name),
	}
	var before []string
	for _, name := range names {
		before = append(before, certificate(name))
	}
	op := s.newOperator()
	kind, ok := op.Kind.(*EtcdKind)
	if !ok {
		t.Fatalf("%T", op.Kind)
	}
	now := kind.Now()
	kind.Now = func() time.Time { return now }
	for range 120 {
		now = now.Add(30 * 24 * time.Hour)
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
		if !meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionTLSReady) {
			t.Fatalf("%s: %+v", now, s.cluster().Status.Conditions)
		}
		renewed := 0
		for i, name := range names {
			if certificate(name) != before[i] {
				renewed++
			}
		}
		if renewed == len(names) {
			t.Logf("all are renewed after %d days", int(now.Sub(newChildren(&world{}).Now()).Hours()/24))
			return
		}
	}
	t.Error("not all certificates were renewed within ten years")
}

// onNodes puts the pods of the cluster on nodes of their own, named after them, and returns an operator that watches nodes.
func (s *stage) onNodes() *Loop[*v1alpha1.EtcdCluster, etcd.State] {
	s.t.Helper()
	var pods corev1.PodList
	if err := s.api.List(s.t.Context(), &pods); err != nil {
		s.t.Fatal(err)
	}
	for i := range pods.Items {
		pods.Items[i].Spec.NodeName = "node-of-" + pods.Items[i].Name
		node := &corev1.Node{}
		node.Name = pods.Items[i].Spec.NodeName
		for _, err := range []error{s.api.Update(s.t.Context(), &pods.Items[i]), s.api.Create(s.t.Context(), node)} {
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
	op := s.newOperator()
	s.children.Nodes = s.api
	return op
}

func TestTheLeaderLeavesACordonedNode(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	op := s.onNodes()
	leader := s.cluster().Status.Leader
	node := &corev1.Node{}
	if err := s.api.Get(t.Context(), client.ObjectKey{Name: "node-of-" + leader}, node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	if err := s.api.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
	}
	now := s.cluster().Status.Leader
	if now == leader || now == "" {
		t.Errorf("%q leads after %q", now, leader)
	}
	want := "default/orders"
	if got := clustersOn(s.api, v1alpha1.ComponentEtcd)(t.Context(), node); len(got) != 1 || got[0].String() != want {
		t.Errorf("the node concerns %v instead of %s", got, want)
	}
	if got := clustersOn(s.api, v1alpha1.ComponentRedis)(t.Context(), node); len(got) > 0 {
		t.Errorf("the node concerns %v", got)
	}
}
