package rediscluster

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

// newResizeStage is a settled cluster whose pods can be resized, or not.
func newResizeStage(t *testing.T, can bool) *controllersim.Redis {
	t.Helper()
	o := fakeapi.RedisCluster()
	o.Spec.Resources = controllersim.WithMemory("1Gi")
	s := newRedisStage(t, o)
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("the loop has a %T", s.Loop.Kind)
	}
	kind.CanResize = func() (bool, error) { return can, nil }
	s.Settle()
	s.CarryOut()
	return s
}

func TestResourcesReachRunningPods(t *testing.T) {
	s := newResizeStage(t, true)
	old := s.Uids()
	s.Give("2Gi")
	if diff := cmp.Diff(old, s.Uids()); diff != "" {
		t.Errorf("pods were restarted:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"2Gi": 6}, s.Limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if got := s.FirstSet().Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String(); got != "2Gi" {
		t.Errorf("new pods get %s", got)
	}
	s.Loop.Kind.(*Reconciler).CanResize = nil
	s.Pass()
	s.Settle()
	if diff := cmp.Diff(old, s.Uids()); diff != "" {
		t.Errorf("pods that were resized count as outdated:\n%s", diff)
	}
}

func TestPodsThatCannotBeResizedAreRestarted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		can   bool
		spoil func(s *controllersim.Redis)
	}{
		"an API server that cannot": {},
		"one that does not resize such a pod": {true, func(s *controllersim.Redis) {
			s.Refuse(apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "carts", nil))
		}},
		"a node that is too small, beside one that is not": {true, func(s *controllersim.Redis) {
			s.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("no room")))
			s.Nodes("8Gi")
		}},
		"a kubelet that cannot": {true, func(s *controllersim.Redis) {
			var pods corev1.PodList
			if err := s.API.List(s.T.Context(), &pods); err != nil {
				s.T.Fatal(err)
			}
			for i := range pods.Items {
				pods.Items[i].Status.ContainerStatuses[0].Resources = nil
				if err := s.API.Status().Update(s.T.Context(), &pods.Items[i]); err != nil {
					s.T.Fatal(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newResizeStage(t, tc.can)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			old := s.Uids()
			o := s.Cluster()
			o.Spec.Resources = controllersim.WithMemory("2Gi")
			if err := s.API.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s.Pass()
			}
			s.Settle()
			for pod, uid := range s.Uids() {
				if old[pod] == uid {
					t.Errorf("pod %s was not restarted", pod)
				}
			}
			if diff := cmp.Diff(map[string]int{"2Gi": 6}, s.Limits()); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPodIsNotRestartedForANodeThatItsVolumeIsNotOn: it would come back where it was, and have been away.
func TestAPodIsNotRestartedForANodeThatItsVolumeIsNotOn(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]string{"on its own": "small", "on the larger one": "open"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newResizeStage(t, true)
			s.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("no room")))
			s.Nodes("8Gi")
			for pod := range s.Uids() {
				volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-" + pod}}
				volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
				}}}}
				if err := s.API.Create(t.Context(), volume); err != nil {
					t.Fatal(err)
				}
				claim := &corev1.PersistentVolumeClaim{}
				if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "data-" + pod}, claim); err != nil {
					t.Fatal(err)
				}
				claim.Spec.VolumeName = volume.Name
				if err := s.API.Update(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
			}
			old := s.Uids()
			o := s.Cluster()
			o.Spec.Resources = controllersim.WithMemory("2Gi")
			if err := s.API.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				s.Pass()
			}
			activity := s.Cluster().Status.Activity
			if stays := cmp.Diff(old, s.Uids()) == ""; stays != (host == "small") || stays != strings.HasPrefix(activity, "Kubernetes does not give carts-0-0 the resources") {
				t.Errorf("its pods stay: %t, %s", stays, activity)
			}
		})
	}
}

// TestAPodThatKubernetesRefusesKeepsWhatItHas: a quota would refuse a new pod as well. It is asked again after a while.
func TestAPodThatKubernetesRefusesKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	s := newResizeStage(t, true)
	s.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("exceeded quota")))
	s.Nodes("1536Mi")
	old := s.Uids()
	o := s.Cluster()
	o.Spec.Resources = controllersim.WithMemory("2Gi")
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.Pass()
	}
	if activity := s.Cluster().Status.Activity; !strings.HasPrefix(activity, "Kubernetes does not give carts-0-0 the resources") || !strings.Contains(activity, "exceeded quota") {
		t.Errorf("activity: %s", activity)
	}
	if diff := cmp.Diff(map[string]int{"1Gi": 6}, s.Limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	inner, ok := s.API.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", s.API.Client)
	}
	s.API.Client = interceptor.NewClient(inner, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			if sub == "resize" {
				return inner.Patch(ctx, o, p)
			}
			return inner.SubResource(sub).Patch(ctx, o, p)
		},
	})
	kind := s.Loop.Kind.(*Reconciler)
	later := kind.Now().Add(askAgain)
	kind.Now = func() time.Time { return later }
	for range 20 {
		s.Pass()
		s.CarryOut()
	}
	s.Settle()
	if diff := cmp.Diff(map[string]int{"2Gi": 6}, s.Limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(old, s.Uids()); diff != "" {
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
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	for _, server := range s.Servers {
		server.Config = map[string]string{"min-replicas-to-write": "0", "min-replicas-max-lag": "10"}
	}
	change := func(edit func(o *v1alpha1.RedisCluster)) {
		t.Helper()
		o := s.Cluster()
		edit(o)
		if err := s.API.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.Pass()
		}
		s.Settle()
		for name, server := range s.Servers {
			if diff := cmp.Diff(map[string]string{"min-replicas-to-write": "1", "min-replicas-max-lag": "5"}, server.Config); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	one := int32(1)
	old := s.Uids()
	change(func(o *v1alpha1.RedisCluster) { o.Spec.Config = &v1alpha1.RedisConfig{MinReplicasToWrite: &one} })
	if diff := cmp.Diff(old, s.Uids()); diff != "" {
		t.Errorf("pods were restarted:\n%s", diff)
	}
	change(func(o *v1alpha1.RedisCluster) {
		o.Spec.Template = &v1alpha1.PodTemplate{Labels: map[string]v1alpha1.TemplateValue{"team": "a"}}
	})
	for pod, uid := range s.Uids() {
		if old[pod] == uid {
			t.Errorf("pod %s was not restarted", pod)
		}
	}
}
