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
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// TestTheServiceOfThePrimaryNeverLeadsToTwo hands the part of the primary from one pod to another, and looks after every write.
func TestTheServiceOfThePrimaryNeverLeadsToTwo(t *testing.T) {
	o := fakeapi.RedisCluster()
	o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
	var pods []client.Object
	for _, name := range []string{"carts-0-0", "carts-0-1"} {
		l := manifests.Labels(o)
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
	ref := func(name string) steps.PodRef { return steps.PodRef{Name: name, UID: "u-" + name} }
	first, second := model.Appointment{Pod: "carts-0-0", History: "a", Guard: 5 * time.Second}, model.Appointment{Pod: "carts-0-1", History: "b"}
	now := kind.Now()
	labels := func(primary, other, role string) steps.AssignRoles {
		return steps.AssignRoles{Pods: []steps.PodRole{{Pod: ref(primary), Role: model.RolePrimary}, {Pod: ref(other), Role: role}}}
	}
	for i, s := range []struct {
		step    cluster.Step
		writes  int
		leadsTo []string
		is      primaryRecord
	}{
		{steps.Appoint{Candidate: model.FailoverCandidate{Pod: "carts-0-0", History: "a"}}, 1, nil, primaryRecord{candidate: model.FailoverCandidate{Pod: "carts-0-0", History: "a"}}},
		{steps.Appoint{Appointment: first}, 1, nil, primaryRecord{appointed: first}},
		{labels("carts-0-0", "carts-0-1", model.RoleReplica), 2, []string{"carts-0-0"}, primaryRecord{appointed: first}},
		{steps.Appoint{Appointment: first, Candidate: model.FailoverCandidate{Pod: "carts-0-1", Since: now}}, 1, []string{"carts-0-1"}, primaryRecord{first, model.FailoverCandidate{Pod: "carts-0-1", Since: now}}},
		{steps.Appoint{Appointment: first}, 1, []string{"carts-0-0"}, primaryRecord{appointed: first}},
		{steps.Appoint{Appointment: first, Candidate: model.FailoverCandidate{Pod: "carts-0-1", Since: now}}, 1, []string{"carts-0-1"}, primaryRecord{first, model.FailoverCandidate{Pod: "carts-0-1", Since: now}}},
		{labels("carts-0-1", "carts-0-0", ""), 2, []string{"carts-0-1"}, primaryRecord{first, model.FailoverCandidate{Pod: "carts-0-1", Since: now}}},
		{steps.Appoint{Appointment: second}, 1, []string{"carts-0-1"}, primaryRecord{appointed: second}},
		{steps.Appoint{Appointment: second, Candidate: model.FailoverCandidate{Pod: "carts-0-0", History: "c"}}, 1, nil, primaryRecord{second, model.FailoverCandidate{Pod: "carts-0-0", History: "c"}}},
		{steps.Appoint{Appointment: first}, 1, nil, primaryRecord{appointed: first}},
		{labels("carts-0-0", "carts-0-1", ""), 2, []string{"carts-0-0"}, primaryRecord{appointed: first}},
	} {
		if err := kind.ensureRoles(t.Context(), o, b); err != nil {
			t.Fatal(err)
		}
		seen = nil
		if err := kind.Act(t.Context(), o, s.step); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(seen, func(to []string) bool { return len(to) > 1 }) || len(seen) != s.writes {
			t.Errorf("%d, %s: the Service led to %v", i, s.step, seen)
		}
		if got := seen[len(seen)-1]; !slices.Equal(got, s.leadsTo) {
			t.Errorf("%d, %s: at last the Service leads to %v instead of %s", i, s.step, got, s.leadsTo)
		}
		restarted, err := New(ownedtest.New(w)).primaryRecord(t.Context(), o)
		if diff := cmp.Diff(s.is, restarted, cmp.AllowUnexported(primaryRecord{})); diff != "" || err != nil {
			t.Errorf("%d, %s: another operator reads something else: %s %v", i, s.step, diff, err)
		}
	}
	if to := led(t, inner, cluster.ReplicasService("carts")); len(to) > 0 {
		t.Errorf("a pod without a role is found as a replica: %v", to)
	}
}

// replicatedServer is a server of which only that it hands over matters.
type replicatedServer struct {
	steps.Client
	told      func(settings map[string]string)
	handsOver func() error
}

func (s replicatedServer) Configure(_ context.Context, settings map[string]string) error {
	s.told(settings)
	return nil
}

func (s replicatedServer) Read(context.Context) (*model.Node, error) { return &model.Node{}, nil }

func (s replicatedServer) FailoverTo(ctx context.Context, _ model.Address) error {
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
			Namespace: "default", Name: cluster.AuthSecret("carts"), Labels: manifests.Labels(o),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, v1alpha1.GroupVersion.WithKind("RedisCluster"))},
		},
		Data: map[string][]byte{acl.PasswordOperator: []byte("secret")},
	}}
	for name, role := range map[string]string{"carts-0-0": model.RolePrimary, "carts-0-1": model.RoleReplica} {
		l := manifests.Labels(o)
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
	was := model.Appointment{Pod: "carts-0-0", History: "a", Guard: 5 * time.Second}
	candidate := model.FailoverCandidate{Pod: "carts-0-1", Since: kind.Now()}
	if err := kind.Act(t.Context(), o, steps.Appoint{Appointment: was, Candidate: candidate}); err != nil {
		t.Fatal(err)
	}
	b, err := kind.builder(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	outcome := errors.New("the primary gave up")
	ctx, end := context.WithCancel(t.Context())
	kind.Connect = func(redisclient.Options) steps.Client {
		return replicatedServer{
			told: func(settings map[string]string) { t.Errorf("a server was told %v as well", settings) },
			handsOver: func() error {
				if outcome == nil {
					end() // What has been begun is brought to its end all the same.
				}
				return outcome
			},
		}
	}
	step := steps.HandOver{From: "carts-0-0", To: "carts-0-1"}
	for _, fails := range []error{outcome, nil} {
		outcome = fails
		if err := kind.Act(ctx, o, step); (err == nil) != (fails == nil) {
			t.Fatalf("the error is %v", err)
		}
		if err := kind.ensureRoles(t.Context(), o, b); err != nil {
			t.Fatal(err)
		}
		if got := led(t, w.Client, cluster.PrimaryService("carts")); !slices.Equal(got, []string{"carts-0-1"}) {
			t.Errorf("the Service leads to %v before the planner has led it elsewhere", got)
		}
		if got := kind.memory(o).failed.Count; (got == 0) != (fails == nil) {
			t.Errorf("%d hand-overs failed", got)
		}
	}
	restarted, err := New(ownedtest.New(w)).primaryRecord(t.Context(), o)
	if diff := cmp.Diff(primaryRecord{was, candidate}, restarted, cmp.AllowUnexported(primaryRecord{})); diff != "" || err != nil {
		t.Errorf("another operator reads something else: %s %v", diff, err)
	}
}

// TestAHandOverThatTakesTooLongFails has a primary that never answers: the hand-over counts as failed.
func TestAHandOverThatTakesTooLongFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, objects := replicated()
		kind := New(ownedtest.New(fakeapi.New(t, objects...)))
		kind.Connect = func(redisclient.Options) steps.Client {
			return replicatedServer{
				told:      func(map[string]string) {},
				handsOver: func() error { time.Sleep(2 * handOverTimeout); return nil },
			}
		}
		if err := kind.Act(t.Context(), o, steps.HandOver{From: "carts-0-0", To: "carts-0-1"}); err == nil {
			t.Fatal("a hand-over without an answer succeeded")
		}
		if got := kind.memory(o).failed; got.Count != 1 || got.Last.IsZero() {
			t.Errorf("it is remembered as %+v", got)
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
	first, second := model.Appointment{Pod: "carts-0-0", History: "a"}, model.Appointment{Pod: "carts-0-1", History: "b"}
	if err := kind.Act(t.Context(), o, steps.Appoint{Appointment: first}); err != nil {
		t.Fatal(err)
	}
	lost = errors.New("the answer is lost")
	if err := kind.Act(t.Context(), o, steps.Appoint{Appointment: second}); !errors.Is(err, lost) {
		t.Fatalf("the error is %v", err)
	}
	if got, err := kind.primaryRecord(t.Context(), o); err != nil || got.appointed != second {
		t.Errorf("the operator takes %+v for the appointment (%v), and the Service says %+v", got, err, second)
	}
}

// TestThePrimaryIsLabelledThoughAnotherPodCannotBe has a webhook refuse every change of the former primary.
func TestThePrimaryIsLabelledThoughAnotherPodCannotBe(t *testing.T) {
	o, objects := replicated()
	w := fakeapi.New(t, objects...)
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	refused := apierrors.NewForbidden(corev1.Resource("pods"), "carts-0-0", errors.New("denied by a webhook"))
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == "carts-0-0" {
				return refused
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	err := New(ownedtest.New(w)).Act(t.Context(), o, steps.AssignRoles{Pods: []steps.PodRole{
		{Pod: steps.PodRef{Name: "carts-0-0", UID: "u-carts-0-0"}},
		{Pod: steps.PodRef{Name: "carts-0-1", UID: "u-carts-0-1"}, Role: model.RolePrimary},
	}})
	if !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
	var pod corev1.Pod
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "carts-0-1"}, &pod); err != nil || pod.Labels[v1alpha1.LabelRole] != model.RolePrimary {
		t.Errorf("%v: %v", pod.Labels, err)
	}
}

// TestAFormerPrimaryThatHangsIsGivenASecondToEnd also where its pod was deleted before: the planner sees that it was.
func TestAFormerPrimaryThatHangsIsGivenASecondToEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		was  *int64
		want bool
	}{
		"a pod that stays":            {nil, false},
		"a pod that has long to end":  {ptr.To(int64(60)), false},
		"a pod that has no time left": {ptr.To(int64(1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-0-0", DeletionGracePeriodSeconds: tc.was}}
			if tc.was != nil {
				pod.DeletionTimestamp = ptr.To(metav1.Now())
			}
			if got := podOf(pod, 0, 0).EndsSoon; got != tc.want {
				t.Errorf("it ends soon: %t", got)
			}
		})
	}
	o, objects := replicated()
	w := fakeapi.New(t, objects...)
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	var grace []int64
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			var how client.DeleteOptions
			how.ApplyOptions(opts)
			grace = append(grace, ptr.Deref(how.GracePeriodSeconds, -1))
			return c.Delete(ctx, obj, opts...)
		},
	})
	step := steps.End{Pods: []steps.PodRef{{Name: "carts-0-0", UID: "u-carts-0-0"}}}
	if err := New(ownedtest.New(w)).Act(t.Context(), o, step); err != nil || !slices.Equal(grace, []int64{1}) {
		t.Errorf("it got %v seconds to end (%v)", grace, err)
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
			if err := kind.Act(t.Context(), o, steps.Appoint{Appointment: model.Appointment{Pod: "carts-0-0", History: "h"}}); err != nil {
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
	steps.Client
	err error
}

func (s standing) Failover(ctx context.Context, _ steps.FailoverMode) error {
	if s.err != nil {
		return s.err
	}
	return s.Client.Failover(ctx, steps.FailoverTakeover)
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
		"it is not elected": {steps.ErrUndecided, true},
		"it refuses":        {errors.New("ERR You should send CLUSTER FAILOVER to a replica"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisStage(t, fakeapi.RedisCluster())
			s.Settle()
			s.Loop.Kind.(*Reconciler).Connect = func(o redisclient.Options) steps.Client { return standing{s.Connect(o), tc.answer} }
			err := s.Loop.Kind.Act(t.Context(), s.Cluster(), steps.Failover{Shard: 0, From: "carts-0-0", To: "carts-0-1"})
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
