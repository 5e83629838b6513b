package envtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/podmonitor"
)

// monitoredCluster is a RedisCluster on a real API server, and the loop of an operator that is not restarted. There are no pods: what
// monitoring is made of does not wait for them.
type monitoredCluster struct {
	t      *testing.T
	client client.Client
	loop   *reconcile.Loop[*v1alpha1.RedisCluster, model.State]
	name   client.ObjectKey
	now    time.Time
}

func newMonitoredCluster(t *testing.T) *monitoredCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(apiServer(t).config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	mode := v1alpha1.AuthDisabled // A user would wait for servers.
	o := &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "seen"},
		Spec: v1alpha1.RedisClusterSpec{
			Version: "8.0.2", Shards: 1, Auth: &v1alpha1.AuthSpec{Mode: &mode}, Monitoring: &v1alpha1.RedisMonitoringSpec{},
		},
	}
	if err := c.Create(testContext(t), o); err != nil {
		t.Fatal(err)
	}
	s := &monitoredCluster{t: t, client: c, name: client.ObjectKeyFromObject(o), now: time.Now()}
	kind := rediscluster.New(&owned.Client{
		Client: c, Direct: c, Domain: "cluster.local", AgentImage: "agent:1", Dial: owned.DialDirect, Now: func() time.Time { return s.now },
	})
	s.loop = &reconcile.Loop[*v1alpha1.RedisCluster, model.State]{Kind: kind, Client: c, Events: events.NewFakeRecorder(10000)}
	t.Cleanup(func() { _ = c.Delete(testContext(t), o) }) // The server goes away with the tests.
	return s
}

// pass makes a pass, a minute and a half after the one before, and returns what the cluster says of its monitoring.
func (s *monitoredCluster) pass() *metav1.Condition {
	s.t.Helper()
	s.now = s.now.Add(90 * time.Second)
	o := s.cluster()
	if _, err := s.loop.Reconcile(testContext(s.t), o); err != nil {
		s.t.Logf("reconcile: %v", err)
	}
	return meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady)
}

// until makes passes until the condition has the reason, or is away where that is empty.
func (s *monitoredCluster) until(reason string) {
	s.t.Helper()
	var c *metav1.Condition
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		c = s.pass()
		if (c == nil && reason == "") || (c != nil && c.Reason == reason) {
			return
		}
	}
	s.t.Fatalf("MonitoringReady is %+v, want %q", c, reason)
}

func (s *monitoredCluster) cluster() *v1alpha1.RedisCluster {
	s.t.Helper()
	o := &v1alpha1.RedisCluster{}
	if err := s.client.Get(testContext(s.t), s.name, o); err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *monitoredCluster) get(into client.Object) bool {
	s.t.Helper()
	err := s.client.Get(testContext(s.t), client.ObjectKey{Namespace: "default", Name: "seen-exporter"}, into)
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		s.t.Fatal(err)
	}
	return err == nil
}

func monitorObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kube.PodMonitorKind)
	return u
}

// The way of an exporter and its PodMonitor on a real API server, with the definition that the operator of Prometheus brings: before that is
// there, when it comes, while others meddle, and to the end.
func TestMonitoringOnARealAPIServer(t *testing.T) {
	s := newMonitoredCluster(t)
	crd, err := podmonitor.CRD(testContext(t), "../..")
	if err != nil {
		t.Fatal(err)
	}
	s.until(v1alpha1.ReasonPodMonitorCRDMissing)
	if !s.get(&appsv1.Deployment{}) {
		t.Fatal("the exporter waits for the PodMonitor")
	}

	if err := apiServer(t).client.Create(testContext(t), crd.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.IgnoreNotFound(apiServer(t).client.Delete(testContext(t), crd)) })
	s.until(v1alpha1.ReasonMonitoringPending) // Only the pod is missing.
	made := monitorObject()
	if !s.get(made) || !metav1.IsControlledBy(made, s.cluster()) {
		t.Fatalf("the PodMonitor is %+v", made.Object)
	}

	exporter := &appsv1.Deployment{}
	s.get(exporter)
	versions := []string{made.GetResourceVersion(), exporter.ResourceVersion, s.cluster().ResourceVersion}
	for range 5 {
		s.pass()
	}
	s.get(made)
	s.get(exporter)
	for i, now := range []string{made.GetResourceVersion(), exporter.ResourceVersion, s.cluster().ResourceVersion} {
		if now != versions[i] {
			t.Errorf("nothing has changed, and yet object %d was written: %s, then %s", i, versions[i], now)
		}
	}

	meddle(t, s, made)
	s.foreign(made)

	o := s.cluster()
	o.Spec.Monitoring = nil
	if err := s.client.Update(testContext(t), o); err != nil {
		t.Fatal(err)
	}
	s.until("")
	if s.get(monitorObject()) || s.get(&appsv1.Deployment{}) {
		t.Error("what nobody asks for any more stays")
	}
}

// meddle changes what a PodMonitor is about, and wants that undone.
func meddle(t *testing.T, s *monitoredCluster, made *unstructured.Unstructured) {
	t.Helper()
	want, _, err := unstructured.NestedMap(made.Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(made.Object, "others", "spec", "selector", "matchLabels", "app.kubernetes.io/instance"); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Update(testContext(t), made); err != nil {
		t.Fatal(err)
	}
	s.pass()
	s.get(made)
	got, _, err := unstructured.NestedMap(made.Object, "spec")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("what others changed stays: %v (-want +got):\n%s", err, diff)
	}
}

// foreign puts somebody else's in its place, and wants that left alone.
func (s *monitoredCluster) foreign(made *unstructured.Unstructured) {
	s.t.Helper()
	ctx := testContext(s.t)
	theirs := monitorObject()
	theirs.SetNamespace(made.GetNamespace())
	theirs.SetName(made.GetName())
	theirs.Object["spec"] = map[string]any{"selector": map[string]any{}, "podMetricsEndpoints": []any{}}
	if err := s.client.Delete(ctx, made); err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Create(ctx, theirs); err != nil {
		s.t.Fatal(err)
	}
	s.until(v1alpha1.ReasonForeignObject)
	if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady); !strings.Contains(c.Message, "PodMonitor default/seen-exporter") {
		s.t.Errorf("%+v", c)
	}
	if err := s.client.Delete(ctx, theirs); err != nil {
		s.t.Errorf("somebody else's PodMonitor: %v", err)
	}
	s.until(v1alpha1.ReasonMonitoringPending)
}
