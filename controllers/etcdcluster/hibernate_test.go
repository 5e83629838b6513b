package etcdcluster

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
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestAClusterHibernatesAndIsTheSameAfterwards(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	before, id := s.Objects(), s.Cluster().Status.ClusterID
	s.Hibernate()
	var pods corev1.PodList
	set, budget := &appsv1.StatefulSet{}, &policyv1.PodDisruptionBudget{}
	for _, err := range []error{s.API.List(t.Context(), &pods), s.API.Get(t.Context(), s.Name, set), s.API.Get(t.Context(), s.Name, budget)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(pods.Items) > 0 || *set.Spec.Replicas != 0 || budget.Spec.MinAvailable.IntValue() != 2 {
		t.Errorf("%d pods, %d replicas, a budget of %s", len(pods.Items), *set.Spec.Replicas, budget.Spec.MinAvailable)
	}
	op := s.NewOperator()
	for range 2 {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
	}
	writes := s.Writes
	for range 5 {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Writes != writes {
		t.Errorf("asleep it costs %d writes: %v", s.Writes-writes, s.Log[writes:])
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(false) })
	s.UntilReady()
	if diff := cmp.Diff(before, s.Objects()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if s.Cluster().Status.ClusterID != id || len(s.Net.Led) != 1 || s.Net.Lost() != "" {
		t.Errorf("cluster %s is now %s, of %d that led; lost: %s", id, s.Cluster().Status.ClusterID, len(s.Net.Led), s.Net.Lost())
	}
}

// The authority is due as well after so long a sleep: no server has to be restarted for a new one.
func TestCertificatesAreRenewedInItsSleep(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.Hibernate()
	certificate := func(name string) string {
		t.Helper()
		secret := &corev1.Secret{}
		if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: s.Name.Namespace, Name: name}, secret); err != nil {
			t.Fatal(err)
		}
		return string(secret.Data[corev1.TLSCertKey])
	}
	names := []string{
		cluster.CASecret(s.Name.Name), cluster.ServerTLSSecret(s.Name.Name), cluster.PeerTLSSecret(s.Name.Name), cluster.OperatorTLSSecret(s.Name.Name),
		cluster.ConnectionSecret(s.Name.Name),
	}
	var before []string
	for _, name := range names {
		before = append(before, certificate(name))
	}
	op := s.NewOperator()
	kind, ok := op.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", op.Kind)
	}
	now := kind.Now()
	kind.Now = func() time.Time { return now }
	for range 120 {
		now = now.Add(30 * 24 * time.Hour)
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
		if !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionTLSReady) {
			t.Fatalf("%s: %+v", now, s.Cluster().Status.Conditions)
		}
		renewed := 0
		for i, name := range names {
			if certificate(name) != before[i] {
				renewed++
			}
		}
		if renewed == len(names) {
			t.Logf("all are renewed after %d days", int(now.Sub(ownedtest.New(&fakeapi.API{}).Now()).Hours()/24))
			return
		}
	}
	t.Error("not all certificates were renewed within ten years")
}

func TestTheLeaderLeavesACordonedNode(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	op := s.OnNodes()
	leader := s.Cluster().Status.Leader
	node := &corev1.Node{}
	if err := s.API.Get(t.Context(), client.ObjectKey{Name: "node-of-" + leader}, node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	if err := s.API.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
	}
	now := s.Cluster().Status.Leader
	if now == leader || now == "" {
		t.Errorf("%q leads after %q", now, leader)
	}
	want := "default/orders"
	if got := owned.ClustersOn(s.API, v1alpha1.ComponentEtcd)(t.Context(), node); len(got) != 1 || got[0].String() != want {
		t.Errorf("the node concerns %v instead of %s", got, want)
	}
	if got := owned.ClustersOn(s.API, v1alpha1.ComponentRedis)(t.Context(), node); len(got) > 0 {
		t.Errorf("the node concerns %v", got)
	}
}
