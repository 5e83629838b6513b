package rediscluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// TestTheServiceOfThePrimaryNeverLeadsToTwo hands the part of the primary from one pod to another, and looks after every write.
func TestTheServiceOfThePrimaryNeverLeadsToTwo(t *testing.T) {
	o := fakeapi.RedisCluster()
	o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
	var pods []client.Object
	for _, name := range []string{"carts-0-0", "carts-0-1"} {
		l := redis.Labels(o)
		l["statefulset.kubernetes.io/pod-name"] = name
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name, UID: types.UID("u-" + name), Labels: l}})
	}
	w := fakeapi.New(t, append(pods, o)...)
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	var seen [][]string
	look := func() { seen = append(seen, led(t, inner, cluster.PrimaryService("carts"))) }
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			defer look()
			return c.Patch(ctx, obj, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			defer look()
			return c.Apply(ctx, obj, opts...)
		},
	})
	kind := New(ownedtest.New(w))
	b, err := kind.builder(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ref := func(name string) redis.PodRef { return redis.PodRef{Name: name, UID: "u-" + name} }
	first := redis.AssignRoles{
		Appointment: redis.Appointment{Pod: "carts-0-0", History: "a", Guard: 5 * time.Second},
		Pods:        []redis.PodRole{{Pod: ref("carts-0-0"), Role: redis.RolePrimary}, {Pod: ref("carts-0-1"), Role: redis.RoleReplica}},
	}
	second := redis.AssignRoles{
		Appointment: redis.Appointment{Pod: "carts-0-1", History: "b"},
		Pods:        []redis.PodRole{{Pod: ref("carts-0-1"), Role: redis.RolePrimary}, {Pod: ref("carts-0-0")}},
	}
	for _, step := range []redis.AssignRoles{first, second} {
		seen = nil
		if err := kind.ensureRoles(t.Context(), o, b); err != nil {
			t.Fatal(err)
		}
		if err := kind.Act(t.Context(), o, step); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(seen, func(to []string) bool { return len(to) > 1 }) {
			t.Errorf("the Service led to %v", seen)
		}
		if got := seen[len(seen)-1]; !slices.Equal(got, []string{step.Appointment.Pod}) {
			t.Errorf("at last the Service leads to %v instead of %s", got, step.Appointment.Pod)
		}
		restarted, err := New(ownedtest.New(w)).appointment(t.Context(), o)
		if diff := cmp.Diff(step.Appointment, restarted); diff != "" || err != nil {
			t.Errorf("another operator reads something else: %s %v", diff, err)
		}
	}
	if to := led(t, inner, cluster.ReplicasService("carts")); len(to) > 0 {
		t.Errorf("a pod without a role is found as a replica: %v", to)
	}
}

// replicatedServer is a server of which only that it hands over matters.
type replicatedServer struct {
	redis.Client
	told      func(settings map[string]string)
	handsOver func() error
}

func (s replicatedServer) Configure(_ context.Context, settings map[string]string) error {
	s.told(settings)
	return nil
}

func (s replicatedServer) Read(context.Context) (*redis.Node, error) { return &redis.Node{}, nil }

func (s replicatedServer) FailoverTo(ctx context.Context, _ redis.Address) error {
	return errors.Join(s.handsOver(), ctx.Err())
}

func (s replicatedServer) Close() error { return nil }

// replicated is a cluster with two servers in one shard, and the objects of it that a hand-over reads.
func replicated() (*v1alpha1.RedisCluster, []client.Object) {
	o := fakeapi.RedisCluster()
	o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
	o.Spec.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
	objects := []client.Object{o, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: cluster.AuthSecret("carts"), Labels: redis.Labels(o),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, v1alpha1.GroupVersion.WithKind("RedisCluster"))},
		},
		Data: map[string][]byte{redis.PasswordOperator: []byte("secret")},
	}}
	for name, role := range map[string]string{"carts-0-0": redis.RolePrimary, "carts-0-1": redis.RoleReplica} {
		l := redis.Labels(o)
		l["statefulset.kubernetes.io/pod-name"], l[v1alpha1.LabelRole] = name, role
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name), Labels: l}})
	}
	return o, objects
}

// TestClientsAreSentAheadOfAHandOver looks at where they are sent, and who is on record, when the primary is told to hand over.
func TestClientsAreSentAheadOfAHandOver(t *testing.T) {
	o, objects := replicated()
	w := fakeapi.New(t, objects...)
	kind := New(ownedtest.New(w))
	was := redis.Appointment{Pod: "carts-0-0", History: "a", Guard: 5 * time.Second}
	if err := kind.Act(t.Context(), o, redis.AssignRoles{Appointment: was}); err != nil {
		t.Fatal(err)
	}
	want := func(when, to string, record redis.Appointment) {
		t.Helper()
		if got := led(t, w.Client, cluster.PrimaryService("carts")); !slices.Equal(got, []string{to}) {
			t.Errorf("%s: the Service leads to %v instead of %s", when, got, to)
		}
		restarted, err := New(ownedtest.New(w)).appointment(t.Context(), o)
		if diff := cmp.Diff(record, restarted); diff != "" || err != nil {
			t.Errorf("%s: another operator reads something else: %s %v", when, diff, err)
		}
	}
	outcome := errors.New("the primary gave up")
	var guarded []string
	ctx, end := context.WithCancel(t.Context())
	kind.Connect = func(redisclient.Options) redis.Client {
		return replicatedServer{
			told: func(settings map[string]string) { guarded = append(guarded, settings["min-replicas-to-write"]) },
			handsOver: func() error {
				if !slices.Equal(guarded, []string{"1"}) {
					t.Errorf("the heir was told to need %q replicas before it leads", guarded)
				}
				want("meanwhile", "carts-0-1", was)
				if guarded = nil; outcome == nil {
					end() // What has been begun is written down all the same.
				}
				return outcome
			},
		}
	}
	ref := func(name string) redis.PodRef { return redis.PodRef{Name: name, UID: "u-" + name} }
	step := redis.HandOver{From: "carts-0-0", To: "carts-0-1", Record: redis.AssignRoles{
		Appointment: redis.Appointment{Pod: "carts-0-1", History: "a"},
		Pods:        []redis.PodRole{{Pod: ref("carts-0-0")}, {Pod: ref("carts-0-1"), Role: redis.RolePrimary}},
	}}
	if err := kind.Act(t.Context(), o, step); err == nil || !strings.Contains(err.Error(), outcome.Error()) {
		t.Fatalf("the error is %v", err)
	}
	want("after it has failed", "carts-0-0", was)
	outcome = nil
	if err := kind.Act(ctx, o, step); err != nil {
		t.Fatal(err)
	}
	want("in the end", "carts-0-1", step.Record.Appointment)
}

// TestAHandOverThatTakesTooLongIsTakenBack has a primary that never answers: nothing goes through any more in the time of the
// hand-over, and the Service is set back all the same.
func TestAHandOverThatTakesTooLongIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, objects := replicated()
		w := fakeapi.New(t, objects...)
		inner, ok := w.Client.(client.WithWatch)
		if !ok {
			t.Fatalf("%T cannot be watched", w.Client)
		}
		w.Client = interceptor.NewClient(inner, interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return c.Apply(ctx, obj, opts...)
			},
		})
		kind := New(ownedtest.New(w))
		if err := kind.Act(t.Context(), o, redis.AssignRoles{Appointment: redis.Appointment{Pod: "carts-0-0"}}); err != nil {
			t.Fatal(err)
		}
		kind.Connect = func(redisclient.Options) redis.Client {
			return replicatedServer{
				told:      func(map[string]string) {},
				handsOver: func() error { time.Sleep(2 * handOverTimeout); return nil },
			}
		}
		if err := kind.Act(t.Context(), o, redis.HandOver{From: "carts-0-0", To: "carts-0-1"}); err == nil {
			t.Fatal("a hand-over without an answer succeeded")
		}
		if got := led(t, inner, cluster.PrimaryService("carts")); !slices.Equal(got, []string{"carts-0-0"}) {
			t.Errorf("the Service leads to %v", got)
		}
	})
}

// TestAnAppointmentWhoseAnswerIsLostIsReadAgain has the write arrive and its answer not.
func TestAnAppointmentWhoseAnswerIsLostIsReadAgain(t *testing.T) {
	o := fakeapi.RedisCluster()
	o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
	w := fakeapi.New(t, o)
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	var lost error
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return errors.Join(c.Apply(ctx, obj, opts...), lost)
		},
	})
	kind := New(ownedtest.New(w))
	first, second := redis.Appointment{Pod: "carts-0-0", History: "a"}, redis.Appointment{Pod: "carts-0-1", History: "b"}
	if err := kind.Act(t.Context(), o, redis.AssignRoles{Appointment: first}); err != nil {
		t.Fatal(err)
	}
	lost = errors.New("the answer is lost")
	if err := kind.Act(t.Context(), o, redis.AssignRoles{Appointment: second}); !errors.Is(err, lost) {
		t.Fatalf("the error is %v", err)
	}
	if got, err := kind.appointment(t.Context(), o); err != nil || got != second {
		t.Errorf("the operator takes %+v for the appointment (%v), and the Service says %+v", got, err, second)
	}
}

// TestAFormerPrimaryThatHangsIsEnded also where Kubernetes refuses to: clients are sent to the new one all the same, and the label that says who it was
// stays until its pod is ended.
func TestAFormerPrimaryThatHangsIsEnded(t *testing.T) {
	o := fakeapi.RedisCluster()
	o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
	objects := []client.Object{o}
	for name, role := range map[string]string{"carts-0-0": redis.RolePrimary, "carts-0-1": redis.RoleReplica} {
		l := redis.Labels(o)
		l["statefulset.kubernetes.io/pod-name"], l[v1alpha1.LabelRole] = name, role
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("u-" + name), Labels: l, Finalizers: []string{"test/stays"},
		}})
	}
	w := fakeapi.New(t, objects...)
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	refusal := errors.New("an admission policy says no")
	var grace []int64
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			var how client.DeleteOptions
			how.ApplyOptions(opts)
			grace = append(grace, ptr.Deref(how.GracePeriodSeconds, -1))
			return errors.Join(refusal, c.Delete(ctx, obj, opts...))
		},
	})
	kind := New(ownedtest.New(w))
	ref := func(name string) redis.PodRef { return redis.PodRef{Name: name, UID: "u-" + name} }
	step := redis.AssignRoles{
		Appointment: redis.Appointment{Pod: "carts-0-1", History: "a"},
		Pods:        []redis.PodRole{{Pod: ref("carts-0-0")}, {Pod: ref("carts-0-1"), Role: redis.RolePrimary}},
		Ends:        []redis.PodRef{ref("carts-0-0")},
	}
	for _, refused := range []bool{true, false} {
		if !refused {
			refusal = nil
		}
		if err := kind.Act(t.Context(), o, step); refused != (err != nil) {
			t.Fatalf("refused %t: %v", refused, err)
		}
		var was, now corev1.Pod
		for name, into := range map[string]*corev1.Pod{"carts-0-0": &was, "carts-0-1": &now} {
			if err := inner.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, into); err != nil {
				t.Fatal(err)
			}
		}
		if got := led(t, inner, cluster.PrimaryService("carts")); !slices.Contains(got, "carts-0-1") {
			t.Errorf("refused %t: clients are sent to %v", refused, got)
		}
		if role := was.Labels[v1alpha1.LabelRole]; (role == redis.RolePrimary) != refused || now.Labels[v1alpha1.LabelRole] != redis.RolePrimary {
			t.Errorf("refused %t: the roles are %q and %q", refused, role, now.Labels[v1alpha1.LabelRole])
		}
	}
	if !slices.Equal(grace, []int64{1, 1}) {
		t.Errorf("the pods got %v seconds to end", grace)
	}
}

// TestARefusedExposureStopsNothingElse has the API server refuse what is to lead clients from outside to the roles, for a new cluster and
// for one that is exposed otherwise: clients inside are sent to the primary all the same, and servers are started.
func TestARefusedExposureStopsNothingElse(t *testing.T) {
	for name, before := range map[string]*v1alpha1.RedisExternalAccess{
		"a new cluster":           nil,
		"one with ports of nodes": {Type: v1alpha1.ExternalNodePort, Annotations: map[string]v1alpha1.TemplateValue{"a": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := fakeapi.RedisCluster()
			o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
			w := fakeapi.New(t, o)
			inner, ok := w.Client.(client.WithWatch)
			if !ok {
				t.Fatalf("%T cannot be watched", w.Client)
			}
			w.Client = interceptor.NewClient(inner, interceptor.Funcs{
				Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
					if s, ok := obj.(*corev1ac.ServiceApplyConfiguration); ok && ptr.Deref(s.Spec.Type, "") == corev1.ServiceTypeLoadBalancer {
						return apierrors.NewForbidden(corev1.Resource("services"), *s.Name, errors.New("exceeded quota: services.loadbalancers"))
					}
					return c.Apply(ctx, obj, opts...)
				},
			})
			kind := New(ownedtest.New(w))
			want := corev1.ServiceType("")
			if before != nil {
				o.Spec.ExternalAccess, want = before, corev1.ServiceType(before.Type)
				if err := kind.Ensure(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			o.Spec.ExternalAccess = &v1alpha1.RedisExternalAccess{
				Type: v1alpha1.ExternalLoadBalancer, Annotations: map[string]v1alpha1.TemplateValue{"a": "2", "b": "2"},
			}
			if err := kind.Ensure(t.Context(), o); err != nil {
				t.Fatalf("the error is %v", err)
			}
			if err := kind.Act(t.Context(), o, redis.AssignRoles{Appointment: redis.Appointment{Pod: "carts-0-0", History: "h"}}); err != nil {
				t.Fatalf("nobody can be named the primary: %v", err)
			}
			for _, name := range entries(o) {
				var s corev1.Service
				if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &s); err != nil {
					t.Fatal(err)
				}
				a, ok := s.Annotations["a"]
				if s.Spec.Type != want || ok != (before != nil) || (ok && a != "1") || s.Annotations["b"] != "" {
					t.Errorf("%s is of type %q, annotated %v", name, s.Spec.Type, s.Annotations)
				}
				if to := s.Spec.Selector["statefulset.kubernetes.io/pod-name"]; name == cluster.PrimaryService("carts") && to != "carts-0-0" {
					t.Errorf("the Service leads to %q", to)
				}
			}
			var set appsv1.StatefulSet
			if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: cluster.ShardSet("carts", 0)}, &set); err != nil {
				t.Error(err)
			}
			s, err := kind.Observe(t.Context(), o)
			if err != nil || !strings.Contains(s.Spec.Unannounced, "services.loadbalancers") {
				t.Errorf("the state says %q (%v)", s.Spec.Unannounced, err)
			}
		})
	}
}

// led are the pods that a Service selects.
func led(t *testing.T, c client.Client, service string) []string {
	t.Helper()
	var s corev1.Service
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: service}, &s); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		t.Fatal(err)
	}
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(s.Spec.Selector)}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range pods.Items {
		out = append(out, pods.Items[i].Name)
	}
	return out
}

// standing is a server that answers CLUSTER FAILOVER with an error, or takes over.
type standing struct {
	redis.Client
	err error
}

func (s standing) Failover(ctx context.Context, _ redis.FailoverMode) error {
	if s.err != nil {
		return s.err
	}
	return s.Client.Failover(ctx, redis.FailoverTakeover)
}

// TestAnElectionIsKnownToTheNextOperator: servers do not elect a process again for four node
// timeouts.
func TestAnElectionIsKnownToTheNextOperator(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer error
		want   bool
	}{
		"it takes over":     {nil, true},
		"it is not elected": {redis.ErrUndecided, true},
		"it refuses":        {errors.New("ERR You should send CLUSTER FAILOVER to a replica"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisStage(t, fakeapi.RedisCluster())
			s.Settle()
			s.Loop.Kind.(*Reconciler).Connect = func(o redisclient.Options) redis.Client { return standing{s.Connect(o), tc.answer} }
			err := s.Loop.Kind.Act(t.Context(), s.Cluster(), redis.Failover{Shard: 0, From: "carts-0-0", To: "carts-0-1"})
			if (err == nil) != (tc.answer == nil) {
				t.Fatalf("the hand-over ends with %v", err)
			}
			s.Restart()
			state, err := s.Loop.Kind.Observe(t.Context(), s.Cluster())
			fakeapi.Must(t, err)
			for _, p := range state.Pods {
				if stood := !p.Stood.IsZero(); stood != (tc.want && p.Name == "carts-0-1") {
					t.Errorf("%s stood for election: %t", p.Name, stood)
				}
			}
		})
	}
}
