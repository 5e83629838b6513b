package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextRestartsOutdatedReplicas(t *testing.T) {
	rows.Run(t, map[string]row{
		"the first replica to be restarted has to prove the new template alone": {
			state: formed(), spoil: outdate,
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-0-1", UID: "uid-c-0-1"}}},
		},
		"after the first replica one of each shard is restarted": {
			state: formed(), spoil: func(f *fixture) { outdate(f); f.pod("c-0-1").Outdated = false },
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}, {Name: "c-2-1", UID: "uid-c-2-1"}}},
		},
		"no replica is restarted before the last one is back": {
			state: formed(), spoil: func(f *fixture) {
				outdate(f)
				f.pod("c-1-1").Outdated = false
				f.unlink("c-1-1")
			}, reason: ReasonSync,
		},
		"an outdated replica that is not in sync is restarted": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Outdated = true; f.unlink("c-1-1") },
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}},
		},
		"an outdated replica is given time to get into sync": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated = true
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 2 * time.Second
			}, reason: ReasonSync,
		},
		"an outdated replica that neither answers nor is ready is restarted": {
			state: formed(), spoil: func(f *fixture) {
				p := f.pod("c-1-1")
				p.Outdated, p.Ready, p.Node = true, false, nil
			},
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}},
		},
		"an outdated replica that is ready is not restarted because it cannot be reached": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Outdated, f.pod("c-1-1").Node = true, nil },
			reason: ReasonUnreachable,
		},
		"an outdated replica is not restarted while its primary is not well": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-1-0").Node.StateOK = true, false
				f.unlink("c-1-1")
			},
			reason: ReasonGossip,
		},
		"the wrong version that was set back is rolled back": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-0-1").Outdated, f.pod("c-0-1").Node.Version = true, "8.2.1" },
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-0-1", UID: "uid-c-0-1"}}},
		},
		"the wrong version is not rolled out": {
			state: formed(), spoil: func(f *fixture) {
				outdate(f)
				f.pod("c-0-1").Outdated, f.pod("c-0-1").Node.Version = false, "8.2.1"
			},
			reason: ReasonVersion, stalled: true,
		},
		"no replica is restarted while its shard has data that is not on disk": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-1-0").Node.OnDisk = true, false
			},
			reason: ReasonDisk,
		},
		"a failed rewrite of an append-only file is named, with its cure": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-1-0").Node.OnDisk, f.pod("c-1-0").Node.RewriteFailed = true, false, true
			},
			reason: ReasonDisk, message: "run BGREWRITEAOF on it",
		},
		"a replica is restarted whatever the disks of other shards do": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-0-0").Node.OnDisk = true, false
			},
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}},
		},
		"another patch version is rolled out": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Version = "8.0.3"; f.pod("c-0-1").Outdated = true },
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-0-1", UID: "uid-c-0-1"}}},
		},
	})
}

func TestNextHandsOverOutdatedPrimaries(t *testing.T) {
	rows.Run(t, map[string]row{
		"an outdated primary hands over": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Outdated = true },
			step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"},
		},
		"an outdated primary waits for a replica that is far behind": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Outdated = true
				f.pod("c-1-0").Node.Offset = 1000 + facts.MaxLag + 1
			},
			reason: ReasonSync,
		},
		"an outdated primary waits for a replica that most primaries do not know as one yet": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Outdated = true
				f.seenAsPrimary("c-1-1", "c-0-0", "c-2-0")
			},
			reason: ReasonSync, message: "no replica of c-1-0 has caught up and is known to the other primaries as one",
		},
		"an outdated primary hands over to a replica that one of three primaries does not know as one yet": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Outdated = true; f.seenAsPrimary("c-1-1", "c-2-0") },
			step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"},
		},
		"an outdated primary waits for a replica whose copy is not on disk yet": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Outdated, f.pod("c-1-1").Node.OnDisk = true, false
			},
			reason: ReasonDisk,
		},
	})
}

func TestNextReplacesStuckPods(t *testing.T) {
	rows.Run(t, map[string]row{
		"a pod that cannot start is replaced when it is outdated": {
			state: formed(), spoil: func(f *fixture) {
				p := f.pod("c-1-1")
				p.Node, p.Started, p.Outdated, p.Stuck = nil, time.Time{}, true, "ImagePullBackOff"
			},
			step: steps.Restart{Cause: steps.ReasonReplaceStuck, Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}},
		},
		"pods whose servers run are not replaced for what else is wrong with them": {
			state: formed(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Node, f.Pods[i].Outdated, f.Pods[i].Stuck = nil, true, "ImagePullBackOff"
				}
			},
			reason: ReasonUnreachable,
		},
		"a pod that cannot start is left alone when it is current": {
			state: formed(), spoil: func(f *fixture) {
				p := f.pod("c-1-1")
				p.Node, p.Stuck = nil, "ImagePullBackOff"
			},
			reason: ReasonUnreachable,
		},
		"the only copy on an ephemeral volume is not deleted to replace a stuck pod": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Persistent = false
				p := f.pod("c-1-0")
				p.Node, p.Started, p.Outdated, p.Stuck = nil, time.Time{}, true, "CrashLoopBackOff"
			},
			reason: ReasonUnsafeRestart, stalled: true,
		},
	})
}
