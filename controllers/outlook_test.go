package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// What kubectl quorate plan says of a manifest is what is observed and decided before it is applied.
func TestWhatAnEditedClusterIsPlannedForIsWhatTheOperatorDoesFirst(t *testing.T) {
	changes := map[string]func(*v1alpha1.EtcdClusterSpec){
		"nothing":       func(*v1alpha1.EtcdClusterSpec) {},
		"more members":  func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 },
		"fewer members": func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 },
		"a setting": func(spec *v1alpha1.EtcdClusterSpec) {
			spec.Config = &v1alpha1.EtcdConfig{SnapshotCount: new(int64(5000))}
		},
		"a version": func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.6.17" },
		"sleep":     func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(true) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, persistent())
			s.untilReady()
			plan := func(o *v1alpha1.EtcdCluster, ensure bool) string {
				t.Helper()
				kind := s.newOperator().Kind
				if ensure {
					if err := kind.Ensure(t.Context(), o); err != nil {
						t.Fatal(err)
					}
				}
				seen, err := kind.Observe(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				return inWords(kind.Next(seen))
			}
			edited, writes := s.cluster(), s.writes
			change(&edited.Spec)
			edited.Generation++
			outlook := plan(edited, false)
			if s.writes != writes {
				t.Errorf("the outlook has written: %q", s.log[writes:])
			}
			s.edit(change)
			if diff := cmp.Diff(plan(s.cluster(), true), outlook); diff != "" {
				t.Errorf("(-what the operator does +what was planned):\n%s", diff)
			}
			t.Log(outlook)
		})
	}
}

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
			s := newRedisStage(t, redisCluster())
			s.settle()
			plan := func(o *v1alpha1.RedisCluster, ensure bool) string {
				t.Helper()
				kind := NewRedisKind(newChildren(s.api))
				kind.Connect, kind.ConnectMover = s.connect, s.connectMover
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
				return inWords(kind.Next(seen))
			}
			edited, writes := s.cluster(), s.api.writes.Load()
			change(&edited.Spec)
			edited.Generation++
			outlook := plan(edited, false)
			if now := s.api.writes.Load(); now != writes {
				t.Errorf("the outlook has written %d times", now-writes)
			}
			s.edit(change)
			if diff := cmp.Diff(plan(s.cluster(), true), outlook); diff != "" {
				t.Errorf("(-what the operator does +what was planned):\n%s", diff)
			}
			t.Log(outlook)
		})
	}
}

// inWords is a plan as people read it.
func inWords(p cluster.Plan) string {
	text := p.Reason + ": " + p.Message
	if p.Step != nil {
		text = p.Step.String() + ", " + text
	}
	return text
}
