package controllersim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// hibernatedMidway hibernates on the way to another size.
func (s *Etcd) hibernatedMidway() {
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
	s.UntilReady()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
	s.Passes(3)
	s.Hibernate()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(false) })
	s.UntilReady()
}

// Passes lets an operator look so many times, and another one where it crashes.
func (s *Etcd) Passes(n int) {
	s.T.Helper()
	s.Restart()
	for range n {
		s.Round()
	}
}

// Hibernate puts the cluster to sleep.
func (s *Etcd) Hibernate() {
	s.T.Helper()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(true) })
	for range 20 {
		s.Passes(1)
		if ready := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionReady); ready.Reason == v1alpha1.ReasonHibernated {
			return
		}
	}
	s.T.Fatalf("it does not fall asleep: %s", s.Cluster().Status.Activity)
}

// OnNodes puts the pods of the cluster on nodes of their own, named after them, and returns an operator that watches nodes.
func (s *Etcd) OnNodes() *reconcile.Loop[*v1alpha1.EtcdCluster, model.State] {
	s.T.Helper()
	var pods corev1.PodList
	if err := s.API.List(s.T.Context(), &pods); err != nil {
		s.T.Fatal(err)
	}
	for i := range pods.Items {
		pods.Items[i].Spec.NodeName = "node-of-" + pods.Items[i].Name
		node := &corev1.Node{}
		node.Name = pods.Items[i].Spec.NodeName
		for _, err := range []error{s.API.Update(s.T.Context(), &pods.Items[i]), s.API.Create(s.T.Context(), node)} {
			if err != nil {
				s.T.Fatal(err)
			}
		}
	}
	op := s.NewOperator()
	s.children.Nodes = s.API
	return op
}
