package controllersim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// KillOverLimit ends servers whose container has less memory than their data needs, as the kernel
// does while they load it, and starts the others again.
func (s *Redis) KillOverLimit(needs resource.Quantity) (killed []string) {
	s.T.Helper()
	var pods corev1.PodList
	if err := s.API.List(s.T.Context(), &pods); err != nil {
		s.T.Fatal(err)
	}
	for i := range pods.Items {
		p, server := &pods.Items[i], s.Servers[pods.Items[i].Name]
		resources := p.Spec.Containers[0].Resources.DeepCopy()
		status := corev1.ContainerStatus{Name: manifests.ContainerServer, Resources: resources}
		ready := corev1.ConditionTrue
		if limit := resources.Limits[corev1.ResourceMemory]; limit.Cmp(needs) < 0 {
			killed = append(killed, p.Name)
			server.Stop()
			ready = corev1.ConditionFalse
			status.RestartCount = 3
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: owned.CrashLoop, Message: "back-off 40s restarting failed container"}
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
		} else if !server.Up {
			server.Start(model.Address{IP: p.Status.PodIP, Port: model.ClientPort})
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		if err := s.API.Status().Update(s.T.Context(), p); err != nil {
			s.T.Fatal(err)
		}
	}
	return killed
}

// DefaultMaxMemory has servers report the limit that they start with, as real ones do.
func (s *Redis) DefaultMaxMemory() {
	for _, server := range s.Servers {
		if server.Config == nil {
			server.Config = map[string]string{}
		}
		if server.Config["maxmemory"] == "" {
			server.Config["maxmemory"] = "0"
		}
	}
}

// RecreatePods deletes pods, as the eviction from a drained node does.
func (s *Redis) RecreatePods(names ...string) {
	s.T.Helper()
	for _, name := range names {
		p := &corev1.Pod{}
		if err := s.API.Get(s.T.Context(), client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
			s.T.Fatal(err)
		}
		if err := s.API.Delete(s.T.Context(), p); err != nil {
			s.T.Fatal(err)
		}
	}
}

// SetMemory changes the memory limit in the specification.
func (s *Redis) SetMemory(limit string) {
	s.T.Helper()
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Resources = WithMemory(limit) })
}
