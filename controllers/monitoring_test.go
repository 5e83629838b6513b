package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/cluster/redis/users"
)

// installPodMonitors has an API server know PodMonitors.
func installPodMonitors(t *testing.T, c client.Client) {
	t.Helper()
	mapper, ok := c.RESTMapper().(*meta.DefaultRESTMapper)
	if !ok {
		t.Fatalf("%T", c.RESTMapper())
	}
	mapper.Add(kube.PodMonitorKind, meta.RESTScopeNamespace)
}

// podMonitor reads one, nil when there is none.
func podMonitor(t *testing.T, c client.Client, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kube.PodMonitorKind)
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// reading counts the reads of PodMonitors.
type reading struct {
	client.Client
	n *int
	// fail is what they are answered with.
	fail *error
}

func (r reading) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if o.GetObjectKind().GroupVersionKind() == kube.PodMonitorKind {
		*r.n++
		if *r.fail != nil {
			return *r.fail
		}
	}
	return r.Client.Get(ctx, key, o, opts...)
}

// countReads counts the reads of the operators from now on.
func countReads(w *wire) (reads *int, fail *error) {
	reads, fail = new(int), new(error)
	w.tap = func(of client.Client) client.Client { return reading{of, reads, fail} }
	return reads, fail
}

func wantMonitoring(t *testing.T, conditions []metav1.Condition, reason, words string) {
	t.Helper()
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionMonitoringReady)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, words) || (c.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReasonMonitored) {
		t.Errorf("MonitoringReady is %+v, want %s with %q", c, reason, words)
	}
	for typ, want := range map[string]bool{v1alpha1.ConditionReady: true, v1alpha1.ConditionStalled: false} {
		if meta.IsStatusConditionTrue(conditions, typ) != want {
			t.Errorf("%s is not %t: %+v", typ, want, meta.FindStatusCondition(conditions, typ))
		}
	}
}

// monitoredEtcd is an etcd cluster with spec.monitoring that is Ready.
type monitoredEtcd struct {
	*timed
	reads *int
	fail  *error
}

func newMonitoredEtcd(t *testing.T, spec *v1alpha1.EtcdMonitoringSpec, crd bool, more ...client.Object) *monitoredEtcd {
	t.Helper()
	o := persistent()
	o.Spec.Monitoring = spec
	s := &monitoredEtcd{timed: newTimed(t, o, more...)}
	if crd {
		installPodMonitors(t, s.others)
	}
	s.restart()
	for range 40 {
		s.pass()
		if s.ready() {
			s.passes(4)
			return s
		}
	}
	t.Fatalf("not ready: %s", s.cluster().Status.Activity)
	return nil
}

// restart starts the operator anew.
func (s *monitoredEtcd) restart() {
	s.t.Helper()
	s.reads, s.fail = countReads(s.wire)
	s.timed.restart()
}

// passes makes passes, 20 s apart.
func (s *monitoredEtcd) passes(n int) {
	s.t.Helper()
	for range n {
		s.pass()
	}
}

func (s *monitoredEtcd) set(spec *v1alpha1.EtcdMonitoringSpec) {
	s.t.Helper()
	o := s.cluster()
	o.Spec.Monitoring = spec
	if err := s.others.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
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
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
	made := podMonitor(t, s.others, "orders-etcd")
	if made == nil || !metav1.IsControlledBy(made, s.cluster()) || made.GetLabels()["release"] != "prometheus" || made.GetLabels()["app.kubernetes.io/instance"] != "orders" {
		t.Fatalf("made %+v", made)
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(etcdPodMonitor), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, made.Object["spec"]); diff != "" {
		t.Errorf("the PodMonitor (-want +got):\n%s", diff)
	}

	before := s.writes
	*s.reads = 0
	s.passes(15) // Five minutes.
	if s.writes != before || *s.reads > 5 {
		t.Errorf("an idle cluster costs %d writes and %d reads: %v", s.writes-before, *s.reads, s.log[before:])
	}

	if err := unstructured.SetNestedField(made.Object, "10.0.0.1", "spec", "selector", "matchLabels", "app.kubernetes.io/instance"); err != nil {
		t.Fatal(err)
	}
	if err := s.others.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	s.passes(4)
	if diff := cmp.Diff(want, podMonitor(t, s.others, "orders-etcd").Object["spec"]); diff != "" {
		t.Errorf("what others changed stays (-want +got):\n%s", diff)
	}
	if err := s.others.Delete(t.Context(), podMonitor(t, s.others, "orders-etcd")); err != nil {
		t.Fatal(err)
	}
	s.passes(4)
	if podMonitor(t, s.others, "orders-etcd") == nil {
		t.Error("one that others deleted is not made anew")
	}

	s.set(nil)
	s.restart() // Nothing is remembered of it.
	s.passes(2)
	if podMonitor(t, s.others, "orders-etcd") != nil {
		t.Error("it stays when nobody asks for it any more")
	}
	if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady); c != nil {
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
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonPodMonitorCRDMissing, "the CRD podmonitors.monitoring.coreos.com is not installed")
	before := s.writes
	*s.reads = 0
	s.passes(15)
	if s.writes != before || *s.reads > 0 {
		t.Errorf("waiting costs %d writes and %d reads: %v", s.writes-before, *s.reads, s.log[before:])
	}
	installPodMonitors(t, s.others)
	s.passes(2)
	if podMonitor(t, s.others, "orders-etcd") == nil {
		t.Error("it is not made")
	}
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")

	s.set(&v1alpha1.EtcdMonitoringSpec{PodMonitor: &v1alpha1.PodMonitorSpec{Enabled: new(false)}})
	s.passes(1)
	if podMonitor(t, s.others, "orders-etcd") != nil {
		t.Error("it stays when it is switched off")
	}
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
}

func TestAPodMonitorOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	theirs := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theirs": true}}}
	theirs.SetGroupVersionKind(kube.PodMonitorKind)
	theirs.SetNamespace("default")
	theirs.SetName("orders-etcd")
	s := newMonitoredEtcd(t, &v1alpha1.EtcdMonitoringSpec{}, true, theirs)
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonForeignObject, "PodMonitor default/orders-etcd is needed by this cluster but belongs to somebody else")
	s.set(nil)
	s.passes(3)
	found := podMonitor(t, s.others, "orders-etcd")
	if found == nil || len(found.GetOwnerReferences()) > 0 || !cmp.Equal(found.Object["spec"], theirs.Object["spec"]) {
		t.Errorf("it became %+v", found)
	}
}

func TestWithoutTheRightToReadPodMonitorsOnlyWhoAsksForOneHearsOfIt(t *testing.T) {
	t.Parallel()
	s := newMonitoredEtcd(t, nil, true)
	s.restart()
	*s.fail = apierrors.NewForbidden(schema.GroupResource{Group: kube.PodMonitorKind.Group, Resource: "podmonitors"}, "orders-etcd", nil)
	s.passes(3)
	if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady); c != nil || *s.reads > 1 {
		t.Errorf("nobody asks for one: %+v, %d reads", c, *s.reads)
	}
	s.set(&v1alpha1.EtcdMonitoringSpec{})
	s.passes(1)
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonReconcileError, "forbidden")
	*s.fail = nil
	s.passes(1)
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
}

func TestAPausedClusterGetsNoPodMonitor(t *testing.T) {
	t.Parallel()
	s := newMonitoredEtcd(t, nil, true)
	o := s.cluster()
	o.Spec.Paused, o.Spec.Monitoring = new(true), &v1alpha1.EtcdMonitoringSpec{}
	if err := s.others.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.restart()
	s.passes(2)
	if podMonitor(t, s.others, "orders-etcd") != nil {
		t.Error("it is made while the cluster is paused")
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady)
	if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonPaused {
		t.Errorf("%+v", c)
	}
}

// monitoredRedis is a Redis cluster with spec.monitoring, and what looks after its users.
type monitoredRedis struct {
	*redisStage
	users *Loop[*v1alpha1.RedisUser, users.State]
	reads *int
	now   time.Time
}

func newMonitoredRedis(t *testing.T, crd bool, o *v1alpha1.RedisCluster, more ...client.Object) *monitoredRedis {
	t.Helper()
	s := &monitoredRedis{redisStage: newRedisStage(t, o, more...), now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	if crd {
		installPodMonitors(t, s.api)
	}
	s.equip = func(c *Children) { c.Now = func() time.Time { return s.now } }
	s.reads, _ = countReads(s.wire)
	s.restart()
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	s.users = &Loop[*v1alpha1.RedisUser, users.State]{Kind: NewRedisUserKind(kind.Children, kind), Client: s.api, Direct: s.api, Events: events.NewFakeRecorder(1000)}
	s.settle()
	s.passes(10)
	return s
}

// passes makes passes over everything, 20 s apart.
func (s *monitoredRedis) passes(n int) {
	s.t.Helper()
	for range n {
		s.pass()
		s.now = s.now.Add(20 * time.Second)
		if u := s.user(); u != nil {
			if _, err := s.users.Reconcile(s.t.Context(), u); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func (s *monitoredRedis) user() *v1alpha1.RedisUser {
	s.t.Helper()
	return found(s.t, s.api, &v1alpha1.RedisUser{})
}

func (s *monitoredRedis) exporter() *appsv1.Deployment {
	s.t.Helper()
	return found(s.t, s.api, &appsv1.Deployment{})
}

// found reads what has the name of the exporter, nil when there is none.
func found[T client.Object](t *testing.T, c client.Client, into T) T {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "carts-exporter"}, into)
	if apierrors.IsNotFound(err) {
		var none T
		return none
	}
	if err != nil {
		t.Fatal(err)
	}
	return into
}

// serve has the Deployment be available.
func (s *monitoredRedis) serve() {
	s.t.Helper()
	d := s.exporter()
	if d == nil {
		s.t.Fatalf("there is no exporter: %+v", meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady))
	}
	d.Status.AvailableReplicas = 1
	if err := s.api.Status().Update(s.t.Context(), d); err != nil {
		s.t.Fatal(err)
	}
	s.passes(2)
}

func (s *monitoredRedis) set(change func(*v1alpha1.RedisClusterSpec)) {
	s.t.Helper()
	o := s.cluster()
	change(&o.Spec)
	if err := s.api.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	s.passes(2)
}

func monitoredCarts() *v1alpha1.RedisCluster {
	o := redisCluster()
	o.Spec.Monitoring = &v1alpha1.RedisMonitoringSpec{}
	return o
}

func TestTheExporterOfARedisClusterComesStaysAndGoes(t *testing.T) {
	t.Parallel()
	s := newMonitoredRedis(t, true, monitoredCarts())
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitoringPending, "no pod of Deployment carts-exporter is ready")
	s.serve()
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
	for what, o := range map[string]client.Object{"the user": s.user(), "the exporter": s.exporter(), "the PodMonitor": podMonitor(t, s.api, "carts-exporter")} {
		if !metav1.IsControlledBy(o, s.cluster()) {
			t.Errorf("%s stays when the cluster goes: %v", what, o.GetOwnerReferences())
		}
	}
	u := s.userOf("carts-0-0", "carts-exporter")
	if u == nil || len(u.Keys)+len(u.Channels) > 0 {
		t.Errorf("the exporter connects as %+v", u)
	}
	if got := s.exporter().Spec.Template.Spec; got.Containers[0].Image != "agent:1" || got.Volumes[0].Secret.SecretName != s.user().Status.SecretName {
		t.Errorf("the exporter runs as %+v", got)
	}

	before := s.api.writes.Load()
	*s.reads = 0
	s.passes(15)
	if n := s.api.writes.Load() - before; n != 0 || *s.reads > 5 {
		t.Errorf("an idle cluster costs %d writes and %d reads of PodMonitors", n, *s.reads)
	}

	d := s.exporter()
	d.Spec.Replicas = new(int32(0))
	if err := s.api.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s.passes(1)
	if *s.exporter().Spec.Replicas != 1 {
		t.Error("what others changed stays")
	}
	if err := s.api.Delete(t.Context(), s.exporter()); err != nil {
		t.Fatal(err)
	}
	s.passes(1)
	if s.exporter() == nil {
		t.Error("one that others deleted is not made anew")
	}

	s.set(func(r *v1alpha1.RedisClusterSpec) { r.Monitoring = nil })
	s.passes(3)
	if s.user() != nil || s.exporter() != nil || podMonitor(t, s.api, "carts-exporter") != nil || s.userOf("carts-0-0", "carts-exporter") != nil {
		t.Errorf("left: %v, %v", s.user(), s.exporter())
	}
	if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady); c != nil {
		t.Errorf("nobody asks for it, and %+v", c)
	}
}

func TestTheExporterNeedsNoPodMonitor(t *testing.T) {
	t.Parallel()
	s := newMonitoredRedis(t, false, monitoredCarts())
	s.serve()
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonPodMonitorCRDMissing, "enabled to false")
	s.set(func(r *v1alpha1.RedisClusterSpec) {
		r.Monitoring.PodMonitor = &v1alpha1.PodMonitorSpec{Enabled: new(false)}
	})
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
}

func TestAnExporterThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	s := newMonitoredRedis(t, true, monitoredCarts())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-exporter-x", Labels: s.exporter().Spec.Template.Labels},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "exporter", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}},
		}}},
	}
	if err := s.api.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.passes(1)
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonExporterNotReady, "pod carts-exporter-x of the exporter: ErrImagePull: not found")
}

func TestWhatOthersHaveInThePlaceOfAnExporterIsLeftAlone(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]client.Object{
		"Deployment": &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-exporter"}},
		"RedisUser": &v1alpha1.RedisUser{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-exporter", UID: "ru-1"}, Spec: v1alpha1.RedisUserSpec{ClusterName: "carts"},
		},
	} {
		s := newMonitoredRedis(t, true, monitoredCarts(), o)
		wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonForeignObject, what+" default/carts-exporter is needed by this cluster but belongs to somebody else")
		if podMonitor(t, s.api, "carts-exporter") == nil {
			t.Errorf("a %s of somebody else keeps the PodMonitor from being made", what)
		}
		s.set(func(r *v1alpha1.RedisClusterSpec) { r.Monitoring = nil })
		if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || len(o.GetOwnerReferences()) > 0 {
			t.Errorf("the %s of somebody else: %v, %v", what, o.GetOwnerReferences(), err)
		}
	}
}

func TestTheExporterOfServersThatAskNobodyHasNoUser(t *testing.T) {
	t.Parallel()
	o := monitoredCarts()
	mode := v1alpha1.AuthDisabled
	o.Spec.Auth = &v1alpha1.AuthSpec{Mode: &mode}
	s := newMonitoredRedis(t, true, o)
	s.serve()
	wantMonitoring(t, s.cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
	if got := s.exporter().Spec.Template.Spec.Volumes[0].Secret.SecretName; s.user() != nil || got != "carts-connection" {
		t.Errorf("user %v, Secret %s", s.user(), got)
	}
}

func TestWhatFailsIsToldBeforeWhatFollowsFromIt(t *testing.T) {
	o := redisCluster()
	c := newChildren(newWorld(t, o))
	pending := cluster.Hold{Reason: v1alpha1.ReasonMonitoringPending, Message: "no pod is ready"}
	c.monitor(o, errors.New("the user may not be made"))
	if got := c.monitoringReady(o, true, pending); got.Reason != v1alpha1.ReasonReconcileError || got.Message != "the user may not be made" {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
	c.monitor(o, nil)
	if got := c.monitoringReady(o, true, pending); got.Reason != v1alpha1.ReasonMonitoringPending {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
}
