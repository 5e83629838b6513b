package etcdcluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/test/controllersim"
)

// monitoredEtcd is an etcd cluster with spec.monitoring that is Ready.
type monitoredEtcd struct {
	*controllersim.TimedEtcd
	reads *int
	fail  *error
}

func newMonitoredEtcd(t *testing.T, spec *v1alpha1.EtcdMonitoringSpec, crd bool, more ...client.Object) *monitoredEtcd {
	t.Helper()
	o := controllersim.Persistent()
	o.Spec.Monitoring = spec
	s := &monitoredEtcd{TimedEtcd: newTimed(t, o, more...)}
	if crd {
		controllersim.InstallPodMonitors(t, s.Others)
	}
	s.Restart()
	for range 40 {
		s.Pass()
		if s.Ready() {
			s.passes(4)
			return s
		}
	}
	t.Fatalf("not ready: %s", s.Cluster().Status.Activity)
	return nil
}

// Restart starts the operator anew.
func (s *monitoredEtcd) Restart() {
	s.T.Helper()
	s.reads, s.fail = controllersim.CountReads(s.Wire)
	s.TimedEtcd.Restart()
}

// passes makes passes, 20 s apart.
func (s *monitoredEtcd) passes(n int) {
	s.T.Helper()
	for range n {
		s.Pass()
	}
}

func (s *monitoredEtcd) set(spec *v1alpha1.EtcdMonitoringSpec) {
	s.T.Helper()
	o := s.Cluster()
	o.Spec.Monitoring = spec
	if err := s.Others.Update(s.T.Context(), o); err != nil {
		s.T.Fatal(err)
	}
}

const etcdPodMonitor = `
podMetricsEndpoints:
- port: client
  scheme: https
  interval: 1m0s
  relabelings:
  - {targetLabel: managed_by, replacement: quorate}
  tlsConfig:
    serverName: orders-client
    ca: {secret: {name: orders-connection, key: ca.crt}}
    cert: {secret: {name: orders-connection, key: tls.crt}}
    keySecret: {name: orders-connection, key: tls.key}
selector:
  matchLabels: {app.kubernetes.io/component: etcd, app.kubernetes.io/instance: orders, app.kubernetes.io/managed-by: quorate}
`

func TestThePodMonitorOfAnEtcdClusterComesStaysAndGoes(t *testing.T) {
	t.Parallel()
	s := newMonitoredEtcd(t, &v1alpha1.EtcdMonitoringSpec{PodMonitor: &v1alpha1.PodMonitorSpec{
		Interval: &metav1.Duration{Duration: time.Minute}, Labels: map[string]v1alpha1.PodMonitorLabel{"release": "prometheus"},
	}}, true)
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
	made := controllersim.PodMonitor(t, s.Others, "orders-etcd")
	if made == nil || !metav1.IsControlledBy(made, s.Cluster()) || made.GetLabels()["release"] != "prometheus" || made.GetLabels()["app.kubernetes.io/instance"] != "orders" {
		t.Fatalf("made %+v", made)
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(etcdPodMonitor), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, made.Object["spec"]); diff != "" {
		t.Errorf("the PodMonitor (-want +got):\n%s", diff)
	}

	before := s.Writes
	*s.reads = 0
	s.passes(15) // Five minutes.
	if s.Writes != before || *s.reads > 5 {
		t.Errorf("an idle cluster costs %d writes and %d reads: %v", s.Writes-before, *s.reads, s.Log[before:])
	}

	if err := unstructured.SetNestedField(made.Object, "10.0.0.1", "spec", "selector", "matchLabels", "app.kubernetes.io/instance"); err != nil {
		t.Fatal(err)
	}
	if err := s.Others.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	s.passes(4)
	if diff := cmp.Diff(want, controllersim.PodMonitor(t, s.Others, "orders-etcd").Object["spec"]); diff != "" {
		t.Errorf("what others changed stays (-want +got):\n%s", diff)
	}
	if err := s.Others.Delete(t.Context(), controllersim.PodMonitor(t, s.Others, "orders-etcd")); err != nil {
		t.Fatal(err)
	}
	s.passes(4)
	if controllersim.PodMonitor(t, s.Others, "orders-etcd") == nil {
		t.Error("one that others deleted is not made anew")
	}

	s.set(nil)
	s.Restart() // Nothing is remembered of it.
	s.passes(2)
	if controllersim.PodMonitor(t, s.Others, "orders-etcd") != nil {
		t.Error("it stays when nobody asks for it any more")
	}
	if c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady); c != nil {
		t.Errorf("nobody asks for it, and %+v", c)
	}
	*s.reads = 0
	s.passes(15)
	if *s.reads > 0 {
		t.Errorf("a cluster that is not monitored costs %d reads", *s.reads)
	}
}

func TestAPodMonitorIsMadeWhenItsDefinitionComes(t *testing.T) {
	t.Parallel()
	s := newMonitoredEtcd(t, &v1alpha1.EtcdMonitoringSpec{}, false)
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonPodMonitorCRDMissing, "the CRD podmonitors.monitoring.coreos.com is not installed")
	before := s.Writes
	*s.reads = 0
	s.passes(15)
	if s.Writes != before || *s.reads > 0 {
		t.Errorf("waiting costs %d writes and %d reads: %v", s.Writes-before, *s.reads, s.Log[before:])
	}
	controllersim.InstallPodMonitors(t, s.Others)
	s.passes(2)
	if controllersim.PodMonitor(t, s.Others, "orders-etcd") == nil {
		t.Error("it is not made")
	}
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")

	s.set(&v1alpha1.EtcdMonitoringSpec{PodMonitor: &v1alpha1.PodMonitorSpec{Enabled: new(false)}})
	s.passes(1)
	if controllersim.PodMonitor(t, s.Others, "orders-etcd") != nil {
		t.Error("it stays when it is switched off")
	}
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
}

func TestAPodMonitorOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	theirs := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theirs": true}}}
	theirs.SetGroupVersionKind(kube.PodMonitorKind)
	theirs.SetNamespace("default")
	theirs.SetName("orders-etcd")
	s := newMonitoredEtcd(t, &v1alpha1.EtcdMonitoringSpec{}, true, theirs)
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonForeignObject, "PodMonitor default/orders-etcd is needed by this cluster but belongs to somebody else")
	s.set(nil)
	s.passes(3)
	found := controllersim.PodMonitor(t, s.Others, "orders-etcd")
	if found == nil || len(found.GetOwnerReferences()) > 0 || !cmp.Equal(found.Object["spec"], theirs.Object["spec"]) {
		t.Errorf("it became %+v", found)
	}
}

func TestWithoutTheRightToReadPodMonitorsOnlyWhoAsksForOneHearsOfIt(t *testing.T) {
	t.Parallel()
	s := newMonitoredEtcd(t, nil, true)
	s.Restart()
	*s.fail = apierrors.NewForbidden(schema.GroupResource{Group: kube.PodMonitorKind.Group, Resource: "podmonitors"}, "orders-etcd", nil)
	s.passes(3)
	if c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady); c != nil || *s.reads > 1 {
		t.Errorf("nobody asks for one: %+v, %d reads", c, *s.reads)
	}
	s.set(&v1alpha1.EtcdMonitoringSpec{})
	s.passes(1)
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonReconcileError, "forbidden")
	*s.fail = nil
	s.passes(1)
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
}

func TestAPausedClusterGetsNoPodMonitor(t *testing.T) {
	t.Parallel()
	s := newMonitoredEtcd(t, nil, true)
	o := s.Cluster()
	o.Spec.Paused, o.Spec.Monitoring = new(true), &v1alpha1.EtcdMonitoringSpec{}
	if err := s.Others.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	s.passes(2)
	if controllersim.PodMonitor(t, s.Others, "orders-etcd") != nil {
		t.Error("it is made while the cluster is paused")
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady)
	if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonPaused {
		t.Errorf("%+v", c)
	}
}
