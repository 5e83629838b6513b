package controllers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis"
)

func withMemory(limit string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}
}

// newResizeStage is a settled cluster whose pods can be resized, or not.
func newResizeStage(t *testing.T, can bool) *redisStage {
	t.Helper()
	o := redisCluster()
	o.Spec.Resources = withMemory("1Gi")
	s := newRedisStage(t, o)
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("the loop has a %T", s.loop.Kind)
	}
	kind.CanResize = func() (bool, error) { return can, nil }
	s.settle()
	s.carryOut()
	return s
}

// carryOut gives the containers what their pods ask for, as a kubelet does.
func (s *redisStage) carryOut() {
	s.t.Helper()
	var pods corev1.PodList
	if err := s.api.List(s.t.Context(), &pods); err != nil {
		s.t.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: redis.ContainerServer, Resources: p.Spec.Containers[0].Resources.DeepCopy()}}
		if err := s.api.Status().Update(s.t.Context(), p); err != nil {
			s.t.Fatal(err)
		}
	}
}

// give changes the resources of the cluster, and lets it settle.
func (s *redisStage) give(limit string) {
	s.t.Helper()
	o := s.cluster()
	o.Spec.Resources = withMemory(limit)
	if err := s.api.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	for range 20 {
		s.pass()
		s.carryOut()
	}
	s.settle()
}

func (s *redisStage) limits() map[string]int {
	s.t.Helper()
	var pods corev1.PodList
	if err := s.api.List(s.t.Context(), &pods); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]int{}
	for _, p := range pods.Items {
		limit := p.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
		out[limit.String()]++
	}
	return out
}

func TestResourcesReachRunningPods(t *testing.T) {
	s := newResizeStage(t, true)
	old := s.uids()
	s.give("2Gi")
	if diff := cmp.Diff(old, s.uids()); diff != "" {
		t.Errorf("pods were restarted:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"2Gi": 6}, s.limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if got := s.firstSet().Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String(); got != "2Gi" {
		t.Errorf("new pods get %s", got)
	}
	s.loop.Kind.(*RedisKind).CanResize = nil
	s.pass()
	s.settle()
	if diff := cmp.Diff(old, s.uids()); diff != "" {
		t.Errorf("pods that were resized count as outdated:\n%s", diff)
	}
}

func TestPodsThatCannotBeResizedAreRestarted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		can   bool
		spoil func(s *redisStage)
	}{
		"an API server that cannot": {},
		"one that does not resize such a pod": {true, func(s *redisStage) {
			s.refuse(apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "carts", nil))
		}},
		"a node that is too small, beside one that is not": {true, func(s *redisStage) {
			s.refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("no room")))
			s.nodes("8Gi")
		}},
		"a kubelet that cannot": {true, func(s *redisStage) {
			var pods corev1.PodList
			if err := s.api.List(s.t.Context(), &pods); err != nil {
				s.t.Fatal(err)
			}
			for i := range pods.Items {
				pods.Items[i].Status.ContainerStatuses[0].Resources = nil
				if err := s.api.Status().Update(s.t.Context(), &pods.Items[i]); err != nil {
					s.t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newResizeStage(t, tc.can)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			old := s.uids()
			o := s.cluster()
			o.Spec.Resources = withMemory("2Gi")
			if err := s.api.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s.pass()
			}
			s.settle()
			for pod, uid := range s.uids() {
				if old[pod] == uid {
					t.Errorf("pod %s was not restarted", pod)
				}
			}
			if diff := cmp.Diff(map[string]int{"2Gi": 6}, s.limits()); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

// refuse has the API server refuse to resize pods.
func (s *redisStage) refuse(err error) {
	s.t.Helper()
	inner, ok := s.api.Client.(client.WithWatch)
	if !ok {
		s.t.Fatalf("%T cannot be watched", s.api.Client)
	}
	s.api.Client = interceptor.NewClient(inner, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if sub == "resize" {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// nodes are one of that much memory, and a larger one that is cordoned.
func (s *redisStage) nodes(memory string) {
	s.t.Helper()
	for name, has := range map[string]string{"open": memory, "cordoned": "1Ti"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Spec: corev1.NodeSpec{Unschedulable: name == "cordoned"}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(has)}
		if err := s.api.Create(s.t.Context(), n); err != nil {
			s.t.Fatal(err)
		}
	}
	s.children.Nodes = s.api
}

// TestAPodIsNotRestartedForANodeThatItsVolumeIsNotOn: it would come back where it was, and have been away.
func TestAPodIsNotRestartedForANodeThatItsVolumeIsNotOn(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]string{"on its own": "small", "on the larger one": "open"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newResizeStage(t, true)
			s.refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("no room")))
			s.nodes("8Gi")
			for pod := range s.uids() {
				volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-" + pod}}
				volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
				}}}}
				if err := s.api.Create(t.Context(), volume); err != nil {
					t.Fatal(err)
				}
				claim := &corev1.PersistentVolumeClaim{}
				if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "data-" + pod}, claim); err != nil {
					t.Fatal(err)
				}
				claim.Spec.VolumeName = volume.Name
				if err := s.api.Update(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
			}
			old := s.uids()
			o := s.cluster()
			o.Spec.Resources = withMemory("2Gi")
			if err := s.api.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				s.pass()
			}
			activity := s.cluster().Status.Activity
			if stays := cmp.Diff(old, s.uids()) == ""; stays != (host == "small") || stays != strings.HasPrefix(activity, "Kubernetes does not give carts-0-0 the resources") {
				t.Errorf("its pods stay: %t, %s", stays, activity)
			}
		})
	}
}

// TestAPodThatKubernetesRefusesKeepsWhatItHas: a quota would refuse a new pod as well. It is asked again after a while.
func TestAPodThatKubernetesRefusesKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	s := newResizeStage(t, true)
	s.refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("exceeded quota")))
	s.nodes("1536Mi")
	old := s.uids()
	o := s.cluster()
	o.Spec.Resources = withMemory("2Gi")
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.pass()
	}
	if activity := s.cluster().Status.Activity; !strings.HasPrefix(activity, "Kubernetes does not give carts-0-0 the resources") || !strings.Contains(activity, "exceeded quota") {
		t.Errorf("activity: %s", activity)
	}
	if diff := cmp.Diff(map[string]int{"1Gi": 6}, s.limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	inner, ok := s.api.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", s.api.Client)
	}
	s.api.Client = interceptor.NewClient(inner, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			if sub == "resize" {
				return inner.Patch(ctx, o, p)
			}
			return inner.SubResource(sub).Patch(ctx, o, p)
		},
	})
	kind := s.loop.Kind.(*RedisKind)
	later := kind.Now().Add(askAgain)
	kind.Now = func() time.Time { return later }
	for range 20 {
		s.pass()
		s.carryOut()
	}
	s.settle()
	if diff := cmp.Diff(map[string]int{"2Gi": 6}, s.limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(old, s.uids()); diff != "" {
		t.Errorf("pods were restarted:\n%s", diff)
	}
}

func TestTheAPIServerSaysOnceThatItCanResize(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   bool
	}{
		"it can":    {`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods"},{"name":"pods/resize"}]}`, true},
		"it cannot": {`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods"},{"name":"pods/status"}]}`, false},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/api/v1") {
				asked++
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(tc.answer))
		}))
		can := CanResize(&rest.Config{Host: server.URL}, server.Client())
		for range 2 {
			if got, err := can(); err != nil || got != tc.want {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		if once := asked == 1; once != tc.want {
			t.Errorf("%s: asked %d times", name, asked)
		}
		server.Close()
	}
}

// TestWritesAreGuardedAgainAfterARestart: primaries are let off for as long as their replicas are restarted.
func TestWritesAreGuardedAgainAfterARestart(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	for _, server := range s.servers {
		server.Config = map[string]string{"min-replicas-to-write": "0", "min-replicas-max-lag": "10"}
	}
	change := func(edit func(o *v1alpha1.RedisCluster)) {
		t.Helper()
		o := s.cluster()
		edit(o)
		if err := s.api.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.pass()
		}
		s.settle()
		for name, server := range s.servers {
			if diff := cmp.Diff(map[string]string{"min-replicas-to-write": "1", "min-replicas-max-lag": "5"}, server.Config); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	one := int32(1)
	old := s.uids()
	change(func(o *v1alpha1.RedisCluster) { o.Spec.Config = &v1alpha1.RedisConfig{MinReplicasToWrite: &one} })
	if diff := cmp.Diff(old, s.uids()); diff != "" {
		t.Errorf("pods were restarted:\n%s", diff)
	}
	change(func(o *v1alpha1.RedisCluster) {
		o.Spec.Template = &v1alpha1.PodTemplate{Labels: map[string]v1alpha1.TemplateValue{"team": "a"}}
	})
	for pod, uid := range s.uids() {
		if old[pod] == uid {
			t.Errorf("pod %s was not restarted", pod)
		}
	}
}
