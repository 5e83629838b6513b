package controllers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// killOverLimit ends servers whose container has less memory than their data needs, as the kernel
// does while they load it, and starts the others again.
func (s *redisStage) killOverLimit(needs resource.Quantity) (killed []string) {
	s.t.Helper()
	var pods corev1.PodList
	if err := s.api.List(s.t.Context(), &pods); err != nil {
		s.t.Fatal(err)
	}
	for i := range pods.Items {
		p, server := &pods.Items[i], s.servers[pods.Items[i].Name]
		resources := p.Spec.Containers[0].Resources.DeepCopy()
		status := corev1.ContainerStatus{Name: redis.ContainerServer, Resources: resources}
		ready := corev1.ConditionTrue
		if limit := resources.Limits[corev1.ResourceMemory]; limit.Cmp(needs) < 0 {
			killed = append(killed, p.Name)
			server.Stop()
			ready = corev1.ConditionFalse
			status.RestartCount = 3
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: crashLoop, Message: "back-off 40s restarting failed container"}
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
		} else if !server.Up {
			server.Start(redis.Address{IP: p.Status.PodIP, Port: redis.ClientPort})
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		if err := s.api.Status().Update(s.t.Context(), p); err != nil {
			s.t.Fatal(err)
		}
	}
	return killed
}

// defaultMaxMemory has servers report the limit that they start with, as real ones do.
func (s *redisStage) defaultMaxMemory() {
	for _, server := range s.servers {
		if server.Config == nil {
			server.Config = map[string]string{}
		}
		if server.Config["maxmemory"] == "" {
			server.Config["maxmemory"] = "0"
		}
	}
}

// recreatePods deletes pods, as the eviction from a drained node does.
func (s *redisStage) recreatePods(names ...string) {
	s.t.Helper()
	for _, name := range names {
		p := &corev1.Pod{}
		if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
			s.t.Fatal(err)
		}
		if err := s.api.Delete(s.t.Context(), p); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *redisStage) setMemory(limit string) {
	s.t.Helper()
	s.edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Resources = withMemory(limit) })
}

// TestAMemoryLimitThatWasTooLowIsSetBack lowers the limit below what servers need, which those that
// run survive and those that are created later do not. The cluster recovers from it without deletion
// of pods by a user.
func TestAMemoryLimitThatWasTooLowIsSetBack(t *testing.T) {
	t.Parallel()
	needs := resource.MustParse("512Mi")
	for name, tc := range map[string]struct {
		pods         []string
		can, refused bool
	}{
		"one server, resized in place":                       {[]string{"carts-0-1"}, true, false},
		"both servers of a shard, restarted":                 {[]string{"carts-0-0", "carts-0-1"}, false, false},
		"two of three primaries, restarted":                  {[]string{"carts-0-0", "carts-1-0"}, false, false},
		"all servers of two shards, resized after a refusal": {[]string{"carts-0-0", "carts-0-1", "carts-1-0", "carts-1-1"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newResizeStage(t, tc.can)
			s.write()
			s.defaultMaxMemory()
			s.setMemory("256Mi")
			for _, server := range s.servers {
				server.Memory.Used, server.Memory.Resident = 400<<20, 450<<20
			}
			lives := func(passes int) (killed []string) {
				for range passes {
					s.kubelet(t.Context())
					s.defaultMaxMemory()
					killed = s.killOverLimit(needs) // A server that loads answers nothing before it is killed.
					s.pass()
				}
				return killed
			}
			lives(10)
			s.recreatePods(tc.pods...)
			if killed := lives(60); !slices.Equal(killed, tc.pods) {
				t.Errorf("%v were killed, %s\n%s", killed, s.cluster().Status.Activity, s.told())
			}
			inner := s.api.Client
			if tc.refused {
				s.refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("exceeded quota")))
			}
			s.setMemory("1Gi")
			lives(20)
			if tc.refused {
				if activity := s.cluster().Status.Activity; !strings.Contains(activity, "exceeded quota") {
					t.Errorf("the refusal is not named: %s", activity)
				}
				s.api.Client = inner
				kind := s.loop.Kind.(*RedisKind)
				later := kind.Now().Add(askAgain)
				kind.Now = func() time.Time { return later }
			}
			lives(60)
			s.settle()
			if got := s.limits(); got["1Gi"] != 6 {
				t.Errorf("limits %v", got)
			}
			s.sound()
		})
	}
}
