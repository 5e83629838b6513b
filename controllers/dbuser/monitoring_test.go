package dbuser

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster/redis/users"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/controllersim/kinds"
	"github.com/quorate/quorate/test/fakeapi"
)

// monitoredRedis is a Redis cluster with spec.monitoring, and what looks after its users.
type monitoredRedis struct {
	*controllersim.Redis
	users *reconcile.Loop[*v1alpha1.RedisUser, users.State]
	reads *int
	now   time.Time
}

func newMonitoredRedis(t *testing.T, crd bool, o *v1alpha1.RedisCluster, more ...client.Object) *monitoredRedis {
	t.Helper()
	s := &monitoredRedis{Redis: kinds.NewRedis(t, o, more...), now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	if crd {
		controllersim.InstallPodMonitors(t, s.API)
	}
	s.Equip = func(c *owned.Client) { c.Now = func() time.Time { return s.now } }
	s.reads, _ = controllersim.CountReads(s.Wire)
	s.Restart()
	kind, ok := s.Loop.Kind.(*rediscluster.Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	s.users = &reconcile.Loop[*v1alpha1.RedisUser, users.State]{Kind: NewRedis(kind.Client, kind), Client: s.API, Direct: s.API, Events: events.NewFakeRecorder(1000)}
	s.Settle()
	s.passes(10)
	return s
}

// passes makes passes over everything, 20 s apart.
func (s *monitoredRedis) passes(n int) {
	s.T.Helper()
	for range n {
		s.Pass()
		s.now = s.now.Add(20 * time.Second)
		if u := s.user(); u != nil {
			if _, err := s.users.Reconcile(s.T.Context(), u); err != nil {
				s.T.Fatal(err)
			}
		}
	}
}

func (s *monitoredRedis) user() *v1alpha1.RedisUser {
	s.T.Helper()
	return found(s.T, s.API, &v1alpha1.RedisUser{})
}

func (s *monitoredRedis) exporter() *appsv1.Deployment {
	s.T.Helper()
	return found(s.T, s.API, &appsv1.Deployment{})
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
	s.T.Helper()
	d := s.exporter()
	if d == nil {
		s.T.Fatalf("there is no exporter: %+v", meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady))
	}
	d.Status.AvailableReplicas = 1
	if err := s.API.Status().Update(s.T.Context(), d); err != nil {
		s.T.Fatal(err)
	}
	s.passes(2)
}

func (s *monitoredRedis) set(change func(*v1alpha1.RedisClusterSpec)) {
	s.T.Helper()
	o := s.Cluster()
	change(&o.Spec)
	if err := s.API.Update(s.T.Context(), o); err != nil {
		s.T.Fatal(err)
	}
	s.passes(2)
}

func monitoredCarts() *v1alpha1.RedisCluster {
	o := fakeapi.RedisCluster()
	o.Spec.Monitoring = &v1alpha1.RedisMonitoringSpec{}
	return o
}

func TestTheExporterOfARedisClusterComesStaysAndGoes(t *testing.T) {
	t.Parallel()
	s := newMonitoredRedis(t, true, monitoredCarts())
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitoringPending, "no pod of Deployment carts-exporter is ready")
	s.serve()
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
	for what, o := range map[string]client.Object{"the user": s.user(), "the exporter": s.exporter(), "the PodMonitor": controllersim.PodMonitor(t, s.API, "carts-exporter")} {
		if !metav1.IsControlledBy(o, s.Cluster()) {
			t.Errorf("%s stays when the cluster goes: %v", what, o.GetOwnerReferences())
		}
	}
	u := s.UserOf("carts-0-0", "carts-exporter")
	if u == nil || len(u.Keys)+len(u.Channels) > 0 {
		t.Errorf("the exporter connects as %+v", u)
	}
	if got := s.exporter().Spec.Template.Spec; got.Containers[0].Image != "agent:1" || got.Volumes[0].Secret.SecretName != s.user().Status.SecretName {
		t.Errorf("the exporter runs as %+v", got)
	}

	before := s.API.Writes.Load()
	*s.reads = 0
	s.passes(15)
	if n := s.API.Writes.Load() - before; n != 0 || *s.reads > 5 {
		t.Errorf("an idle cluster costs %d writes and %d reads of PodMonitors", n, *s.reads)
	}

	d := s.exporter()
	d.Spec.Replicas = new(int32(0))
	if err := s.API.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s.passes(1)
	if *s.exporter().Spec.Replicas != 1 {
		t.Error("what others changed stays")
	}
	if err := s.API.Delete(t.Context(), s.exporter()); err != nil {
		t.Fatal(err)
	}
	s.passes(1)
	if s.exporter() == nil {
		t.Error("one that others deleted is not made anew")
	}

	s.set(func(r *v1alpha1.RedisClusterSpec) { r.Monitoring = nil })
	s.passes(3)
	if s.user() != nil || s.exporter() != nil || controllersim.PodMonitor(t, s.API, "carts-exporter") != nil || s.UserOf("carts-0-0", "carts-exporter") != nil {
		t.Errorf("left: %v, %v", s.user(), s.exporter())
	}
	if c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionMonitoringReady); c != nil {
		t.Errorf("nobody asks for it, and %+v", c)
	}
}

func TestTheExporterNeedsNoPodMonitor(t *testing.T) {
	t.Parallel()
	s := newMonitoredRedis(t, false, monitoredCarts())
	s.serve()
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonPodMonitorCRDMissing, "enabled to false")
	s.set(func(r *v1alpha1.RedisClusterSpec) {
		r.Monitoring.PodMonitor = &v1alpha1.PodMonitorSpec{Enabled: new(false)}
	})
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
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
	if err := s.API.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.passes(1)
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonExporterNotReady, "pod carts-exporter-x of the exporter: ErrImagePull: not found")
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
		controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonForeignObject, what+" default/carts-exporter is needed by this cluster but belongs to somebody else")
		if controllersim.PodMonitor(t, s.API, "carts-exporter") == nil {
			t.Errorf("a %s of somebody else keeps the PodMonitor from being made", what)
		}
		s.set(func(r *v1alpha1.RedisClusterSpec) { r.Monitoring = nil })
		if err := s.API.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || len(o.GetOwnerReferences()) > 0 {
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
	controllersim.WantMonitoring(t, s.Cluster().Status.Conditions, v1alpha1.ReasonMonitored, "in place")
	if got := s.exporter().Spec.Template.Spec.Volumes[0].Secret.SecretName; s.user() != nil || got != "carts-connection" {
		t.Errorf("user %v, Secret %s", s.user(), got)
	}
}
