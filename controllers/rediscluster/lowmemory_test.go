package rediscluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
			s.Write()
			s.DefaultMaxMemory()
			s.SetMemory("256Mi")
			for _, server := range s.Servers {
				server.Memory.Used, server.Memory.Resident = 400<<20, 450<<20
			}
			lives := func(passes int) (killed []string) {
				for range passes {
					s.Kubelet(t.Context())
					s.DefaultMaxMemory()
					killed = s.KillOverLimit(needs) // A server that loads answers nothing before it is killed.
					s.Pass()
				}
				return killed
			}
			lives(10)
			s.RecreatePods(tc.pods...)
			if killed := lives(60); !slices.Equal(killed, tc.pods) {
				t.Errorf("%v were killed, %s\n%s", killed, s.Cluster().Status.Activity, s.Told())
			}
			inner := s.API.Client
			if tc.refused {
				s.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "carts", errors.New("exceeded quota")))
			}
			s.SetMemory("1Gi")
			lives(20)
			if tc.refused {
				if activity := s.Cluster().Status.Activity; !strings.Contains(activity, "exceeded quota") {
					t.Errorf("the refusal is not named: %s", activity)
				}
				s.API.Client = inner
				kind := s.Loop.Kind.(*Reconciler)
				later := kind.Now().Add(askAgain)
				kind.Now = func() time.Time { return later }
			}
			lives(60)
			s.Settle()
			if got := s.Limits(); got["1Gi"] != 6 {
				t.Errorf("limits %v", got)
			}
			s.Sound()
		})
	}
}
