package controllersim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/redis/manifests"
)

// Lose takes pods away with all that they had.
func (s *Redis) Lose(pods ...string) {
	s.T.Helper()
	for _, name := range pods {
		if err := s.API.Delete(s.T.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			s.T.Fatal(err)
		}
		s.Net.Remove(s.Servers[name])
		delete(s.Servers, name)
	}
}

// Told takes the events so far.
func (s *Redis) Told() string {
	s.T.Helper()
	recorder, ok := s.Loop.Events.(*events.FakeRecorder)
	if !ok {
		s.T.Fatalf("events go to a %T", s.Loop.Events)
	}
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return strings.Join(out, "\n")
}

// Endless has a pod be deleted and stay, ready, because nobody confirms that it has ended.
func (s *Redis) Endless(name string) {
	s.T.Helper()
	ctx := s.T.Context()
	var p corev1.Pod
	if err := s.API.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, &p); err != nil {
		s.T.Fatal(err)
	}
	p.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := s.API.Status().Update(ctx, &p); err != nil {
		s.T.Fatal(err)
	}
	p.Finalizers = []string{"somebody.else/holds"}
	if err := s.API.Update(ctx, &p); err != nil {
		s.T.Fatal(err)
	}
	if err := s.API.Delete(ctx, &p); err != nil {
		s.T.Fatal(err)
	}
}

// BreakOff is the failure of a node: the API server still has what it heard of a pod there last.
func (s *Redis) BreakOff(pod, node string) {
	s.T.Helper()
	ctx := s.T.Context()
	var p corev1.Pod
	if err := s.API.Get(ctx, types.NamespacedName{Namespace: "default", Name: pod}, &p); err != nil {
		s.T.Fatal(err)
	}
	p.Spec.NodeName = node
	if err := s.API.Update(ctx, &p); err != nil {
		s.T.Fatal(err)
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: manifests.ContainerServer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(s.Net.Now())
	if err := s.API.Status().Update(ctx, &p); err != nil {
		s.T.Fatal(err)
	}
	s.Servers[pod].Stop()
}

// Node puts a pod on a node.
func (s *Redis) Node(name string) *corev1.Node {
	s.T.Helper()
	node := &corev1.Node{}
	if err := s.API.Get(s.T.Context(), client.ObjectKey{Name: name}, node); err != nil {
		s.T.Fatal(err)
	}
	return node
}
