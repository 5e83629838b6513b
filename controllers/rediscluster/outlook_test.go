package rediscluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestWhatAnEditedRedisClusterIsPlannedForIsWhatTheOperatorDoesFirst(t *testing.T) {
	changes := map[string]func(*v1alpha1.RedisClusterSpec){
		"nothing":        func(*v1alpha1.RedisClusterSpec) {},
		"more replicas":  func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(2)) },
		"fewer replicas": func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(0)) },
		"a setting": func(spec *v1alpha1.RedisClusterSpec) {
			spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "100"}}
		},
		"fewer shards": func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = 2 },
		"more shards":  func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = 4 },
		"a version":    func(spec *v1alpha1.RedisClusterSpec) { spec.Version = "8.0.3" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := newRedisStage(t, fakeapi.RedisCluster())
			s.Settle()
			plan := func(o *v1alpha1.RedisCluster, ensure bool) string {
				t.Helper()
				kind := New(ownedtest.New(s.API))
				kind.Connect, kind.ConnectMover = s.Connect, s.ConnectMover
				if ensure {
					if err := kind.Ensure(t.Context(), o); err != nil {
						t.Fatal(err)
					}
				}
				observe := kind.Outlook
				if ensure {
					observe = kind.Observe
				}
				seen, err := observe(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				return controllersim.InWords(kind.Next(seen))
			}
			edited, writes := s.Cluster(), s.API.Writes.Load()
			change(&edited.Spec)
			edited.Generation++
			outlook := plan(edited, false)
			if now := s.API.Writes.Load(); now != writes {
				t.Errorf("the outlook has written %d times", now-writes)
			}
			s.Edit(change)
			if diff := cmp.Diff(plan(s.Cluster(), true), outlook); diff != "" {
				t.Errorf("(-what the operator does +what was planned):\n%s", diff)
			}
			t.Log(outlook)
		})
	}
}
