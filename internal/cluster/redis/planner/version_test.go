package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextRollsOutAVersion(t *testing.T) {
	rows.Run(t, map[string]row{
		"one replica goes first": {state: formed(), spoil: func(f *fixture) { f.upgraded() }, step: restartOf("c-0-1")},
		"no other replica follows before the first is in sync": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.unlink("c-0-1") }, reason: ReasonSync,
		},
		"no other replica follows before the first is ready": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.pod("c-0-1").Ready = false }, reason: ReasonStarting,
		},
		"no other replica follows when the first turns out to be of another version": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.pod("c-0-1").Node.Version = "8.0.2" }, reason: ReasonVersion, stalled: true,
			message: "pod c-0-1 runs version 8.0.2 and spec.version is 9.0.1",
		},
		"after the first replica all others are restarted, one of each shard": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1") }, step: restartOf("c-1-1", "c-2-1"),
		},
		"a primary hands over when all replicas have the version": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1", "c-1-1", "c-2-1") }, step: steps.Failover{Shard: 0, From: "c-0-0", To: "c-0-1"},
		},
		"no replica is promoted while another one is older": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Replicas = 2
				f.withThird()
				f.Sets[0].Replicas, f.Sets[2].Replicas = 3, 3
				f.upgraded("c-0-1", "c-1-1", "c-2-1")
			},
			reason: ReasonStarting,
		},
		"no replica is promoted while another one is older, in a shard that is about to shrink": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Replicas = 1
				f.withThird()
				f.lead("c-1-2")
				f.upgraded("c-1-1")
			},
			step: restartOf("c-0-1", "c-1-0", "c-2-1"),
		},
		"a former primary is restarted immediately when it cannot copy the newer one": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				f.Sets[1].Replicas, f.Pods = 2, f.Pods[:6]
				f.lead("c-1-1")
				f.upgraded("c-0-1", "c-1-1", "c-2-1")
				n := f.pod("c-1-0").Node
				n.LinkUp, n.LinkDown, n.EverLinked = false, 0, true
				f.Sets[1].Guarded = true
			},
			step: restartOf("c-1-0"),
		},
	})
}

func TestNextStopsAtAFirstReplicaThatFails(t *testing.T) {
	rows.Run(t, map[string]row{
		"a replica that does not start is waited for": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(time.Minute) }, reason: ReasonUnreachable,
		},
		"a replica that does not start is not waited for longer than its time": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(5 * time.Minute) }, reason: ReasonCanary, stalled: true,
			message: "c-0-1 has new settings and does not get well (the server does not answer); no other pod gets them: set spec.version back to 8.0.2",
		},
		"a replica that does not get into sync is not waited for longer than its time": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-1")
				f.unlink("c-0-1")
				f.pod("c-0-1").Node.LinkDown = time.Hour
			},
			reason: ReasonCanary, stalled: true, message: "(it is not in sync with its primary)",
		},
		"a bad template without another version is set back as a whole": {
			state: formed(), spoil: func(f *fixture) {
				outdate(f)
				f.pod("c-0-1").Outdated = false
				f.neverAnswers(5 * time.Minute)
			},
			reason: ReasonCanary, stalled: true, message: "set the last change of the specification back",
		},
		"a pod that dies later is no canary": {
			state: formed(), spoil: func(f *fixture) { f.neverAnswers(5 * time.Minute) }, reason: ReasonUnreachable,
		},
		"a pod whose node is lost is no canary": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(5 * time.Minute); f.pod("c-0-1").NodeLost = true },
			reason: ReasonUnreachable,
		},
		"a pod of a template that works elsewhere is no canary": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1", "c-1-1"); f.neverAnswers(5 * time.Minute) }, reason: ReasonUnreachable,
		},
		"a pod of a template that works elsewhere is no canary where it does not get into sync": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-1", "c-1-1")
				f.unlink("c-0-1")
				f.pod("c-0-1").Node.LinkDown = time.Hour
			},
			reason: ReasonSync,
		},
	})
}

func TestNextGoesBackToAVersion(t *testing.T) {
	rows.Run(t, map[string]row{
		"a replica that is newer goes back": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.setBack() }, step: restartOf("c-0-1"),
		},
		"a replica that is newer and did not start goes back": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-1")
				f.neverAnswers(5 * time.Minute)
				f.pod("c-0-1").Started, f.pod("c-0-1").Stuck = time.Time{}, "ImagePullBackOff: no such image"
				f.setBack()
			},
			step: steps.Restart{Cause: steps.ReasonReplaceStuck, Pods: []steps.PodRef{{Name: "c-0-1", UID: "uid-c-0-1"}}},
		},
		"a primary that is newer does not go back": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-0", "c-0-1"); f.setBack() }, reason: ReasonVersion, stalled: true,
			message: "spec.version is 8.0.2, and c-0-0, the primary of shard 0, runs 9.0.1 already: an older server cannot read its data; set spec.version to 9.0.1 or later",
		},
		"the replicas of a primary that is newer do not go back": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-0", "c-0-1")
				f.setBack()
				f.unlink("c-0-1")
			},
			reason: ReasonVersion, stalled: true,
		},
		"a version that was never left is not gone back to": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Version = "7.4.6"; outdate(f) }, reason: ReasonVersion, stalled: true,
		},
		"a patch goes back": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Version = "8.0.1"; outdate(f) }, step: restartOf("c-0-1"),
		},
	})
}
