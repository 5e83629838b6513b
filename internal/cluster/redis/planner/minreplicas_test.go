package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// writesGuarded is a settled cluster whose primaries ask for one replica.
func writesGuarded() *fixture {
	f := formed()
	f.Spec.MinReplicas = 1
	for i := range f.Pods {
		f.Pods[i].Node.Config = map[string]string{model.WriteGuard: "1"}
		f.Pods[i].Node.Copies = 1 - f.Pods[i].Ordinal
	}
	return f
}

func (f *fixture) letOff(pods ...string) {
	for _, name := range pods {
		f.pod(name).Node.Config[model.WriteGuard] = "0"
	}
}

func guards(n int, pods ...string) steps.GuardShards {
	var s steps.GuardShards
	for _, p := range pods {
		s.Guards = append(s.Guards, steps.GuardWrites{Pod: p, Replicas: n})
	}
	return s
}

func TestWritesAreGuarded(t *testing.T) {
	f := formed()
	for name, tc := range map[string]row{
		"all as it is to be": {state: writesGuarded()},
		"not set yet, on primaries and replicas": {
			state: writesGuarded(), spoil: func(f *fixture) { f.letOff("c-0-0", "c-0-1") }, step: guards(1, "c-0-0", "c-0-1"),
		},
		"not wanted any more": {
			state: writesGuarded(), spoil: func(f *fixture) { f.Spec.MinReplicas = 0; f.letOff("c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0") },
			step: guards(0, "c-2-1"),
		},
		"a replica that is out of reach is missed": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-1").Node = nil }, reason: ReasonUnreachable,
		},
		"and so is one that lost its primary": {
			state: writesGuarded(), spoil: func(f *fixture) { f.unlink("c-0-1") }, reason: ReasonSync,
		},
		"and one whose node does not report, although its pod is to go": {
			state: writesGuarded(), spoil: func(f *fixture) {
				p := f.pod("c-0-1")
				p.Node, p.NodeLost, p.Deleting, p.Ready = nil, true, true, false
			},
			reason: ReasonUnreachable,
		},
		"one that ends is not": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-1").Deleting = true }, step: guards(0, "c-0-0"),
		},
		"nor one that is gone": {
			state: writesGuarded(), spoil: func(f *fixture) { f.Pods = append(f.Pods[:1:1], f.Pods[2:]...) }, step: guards(0, "c-0-0"),
		},
		"nor one that has yet to start": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-1").Node, f.pod("c-0-1").HasRun = nil, false }, step: guards(0, "c-0-0"),
		},
		"nor one that copies its primary for the first time": {
			state: writesGuarded(), spoil: func(f *fixture) {
				f.unlink("c-0-1")
				f.pod("c-0-1").Node.EverLinked = false
			},
			step: guards(0, "c-0-0"),
		},
		"a primary that was let off stays so until a replica is back": {
			state: writesGuarded(), spoil: func(f *fixture) { f.unlink("c-0-1"); f.letOff("c-0-0") }, reason: ReasonSync,
		},
		"and until it counts for its primary": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-0").Node.Copies = 0; f.letOff("c-0-0") },
			reason: steps.ReasonGuardWrites, message: "c-0-0 takes writes that fewer than 1 replicas acknowledge until it hears of them",
		},
		"a primary that takes no writes says why": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-0").Node.Acknowledging = new(int) },
			reason: steps.ReasonGuardWrites, message: "c-0-0 takes no writes until 1 replicas acknowledge them; 0 do",
		},
		"but whoever is elected is held to it": {
			state: writesGuarded(), spoil: func(f *fixture) { f.letOff("c-0-1") }, step: guards(1, "c-0-1"),
		},
		"a server that may not be asked": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-1").Node.Config = nil },
		},
		"the restart of the last replica": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-1").Outdated = true },
			step: guards(0, "c-0-0"),
		},
		"another disk for the last replica": {
			state: writesGuarded(), spoil: func(f *fixture) {
				f.views(id("c-0-1"), func(p *model.Peer) { p.Replica, p.PrimaryID = false, "" })
				f.pod("c-0-0").Node.Stream, f.pod("c-0-1").Node.Stream = "stream", "stream"
				f.Claims = append(f.Claims, model.Claim{Name: "data-c-0-1", UID: "claim", ResourceVersion: "7", Shard: 0, Ordinal: 1})
				f.Sets[0].Guarded = true
			},
			step: guards(0, "c-0-0"),
		},
		"while it is let off already": {
			state: writesGuarded(), spoil: func(f *fixture) {
				f.Spec.MinReplicas = 0
				f.letOff("c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1")
				f.pod("c-0-1").Outdated = true
			},
			step: steps.Restart{Pods: []steps.PodRef{ref(f.pod("c-0-1"))}, Cause: steps.ReasonRestart},
		},
		"a hand-over": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-0").Outdated = true },
			step: guards(0, "c-0-0", "c-0-1"),
		},
		"a hand-over of a pod that is asked to go": {
			state: writesGuarded(), spoil: func(f *fixture) { f.pod("c-0-0").Deleting = true },
			step: guards(0, "c-0-0", "c-0-1"),
		},
		"a replica that is one too many": {
			state: writesGuarded(), spoil: func(f *fixture) {
				f.Spec.Replicas, f.Spec.MinReplicas = 0, 0
				f.letOff("c-0-1", "c-1-1", "c-2-1", "c-0-0", "c-1-0", "c-2-0")
			},
			step: steps.ScaleShards{Sets: []steps.SetSize{{Shard: 0, From: 2, To: 1}, {Shard: 1, From: 2, To: 1}, {Shard: 2, From: 2, To: 1}}},
		},
	} {
		t.Run(name, tc.Check)
	}
}

// TestAPrimaryIsLetOffUntilTheStepThatNeedsItIsTaken has the step come next, and no rule take back what was done for it.
func TestAPrimaryIsLetOffUntilTheStepThatNeedsItIsTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		outdated string
		guards   steps.GuardShards
		then     cluster.Step
	}{
		"a restart of the last replica": {"c-0-1", guards(0, "c-0-0"), steps.Restart{Pods: []steps.PodRef{ref(formed().pod("c-0-1"))}, Cause: steps.ReasonRestart}},
		"a hand-over":                   {"c-0-0", guards(0, "c-0-0", "c-0-1"), steps.Failover{Shard: 0, From: "c-0-0", To: "c-0-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := writesGuarded()
			f.pod(tc.outdated).Outdated = true
			if got := Next(f.State); cmp.Diff(cluster.Step(tc.guards), got.Step) != "" || got.After != atOnce || got.Reason != steps.ReasonGuardWrites {
				t.Errorf("%s, %s after %s", got.Step, got.Reason, got.After)
			}
			for _, g := range tc.guards.Guards {
				f.letOff(g.Pod)
			}
			if got := Next(f.State).Step; cmp.Diff(tc.then, got) != "" {
				t.Errorf("then %v", got)
			}
			f.pod(tc.outdated).Outdated = false
			for i := range tc.guards.Guards {
				tc.guards.Guards[i].Replicas = 1
			}
			if got := Next(f.State).Step; cmp.Diff(cluster.Step(tc.guards), got) != "" {
				t.Errorf("when it is not wanted any more: %v", got)
			}
		})
	}
}

func TestChangingMinReplicasIsARepair(t *testing.T) {
	if got := guards(0, "c-0-0"); got.Meta().Reason != steps.ReasonGuardWrites ||
		cmp.Diff("have 0 replicas acknowledge the writes of c-0-0", got.String()) != "" {
		t.Errorf("%s: %s", got.Meta().Reason, got)
	}
	if !(steps.GuardShards{}).Meta().Repair {
		t.Error("it is no repair")
	}
}
