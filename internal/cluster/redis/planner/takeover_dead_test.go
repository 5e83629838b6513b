package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextWithoutAMajorityReplacesADeadPrimary(t *testing.T) {
	succeeds := steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"}
	rows.Run(t, map[string]row{
		"a primary that runs no more and left no data is replaced as soon as it is missed": {
			state: single().ephemeral(), spoil: func(f *fixture) { f.vanish("c-0-0") },
			step: succeeds, message: "up to byte 1000 of the replication stream and lost the connection 6s ago; what was acknowledged later is lost",
		},
		"a replica on a claim that is being deleted takes over from a dead primary": {
			state: single(), spoil: func(f *fixture) {
				f.Spec.Persistent = true
				f.silence("c-0-0", time.Minute, false)
				f.Claims = []model.Claim{{Name: "data-c-0-1", Ordinal: 1, Leaving: true}}
			},
			step: succeeds,
		},
		"a claim that is being deleted without a pod holds back who takes over": {
			state: single(), spoil: func(f *fixture) {
				f.Spec.Persistent = true
				f.silence("c-0-0", time.Minute, false)
				f.Claims = []model.Claim{{Name: "data-c-0-2", Ordinal: 2, Leaving: true}}
			},
			reason: ReasonStarting, message: "claim data-c-0-2 is being deleted",
		},
		"a primary whose successor in the same pod has nothing is replaced": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").HasRun = false
			},
			step: succeeds,
		},
		"a primary whose pod is ending is replaced when its server has ended": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Deleting = true
			},
			step: succeeds,
		},
		"a primary is not replaced before the others miss it": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Second, false)
				f.drop("c-0-0")
				f.views(id("c-0-0"), func(p *model.Peer) { p.Failing = false })
			},
			reason: ReasonElection, message: "the others have yet to find out",
		},
		"a primary is not replaced while its server runs as far as Kubernetes reports": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 30*time.Second, false)
				f.pod("c-0-0").Started = now.Add(-time.Hour)
			},
			reason: ReasonUnreachable,
		},
		"a human is told of a primary whose server may run for long": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Minute, false)
				f.pod("c-0-0").Started = now.Add(-time.Hour)
			},
			reason: ReasonNoMajority, stalled: true, message: "its server may still run; only 0 of 1 primaries can vote on that",
		},
		"with a majority the servers elect": {
			state: formed().ephemeral(), spoil: func(f *fixture) { f.silence("c-1-0", 44*time.Second, true); f.drop("c-1-0") }, reason: ReasonStarting,
		},
		"a human is told when it stays stuck, and the dead one may be alive": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", time.Minute, true)
				f.pod("c-1-0").Started = now.Add(-time.Hour)
			},
			reason: ReasonNotElected, stalled: true, message: "its server may still run; the servers have not elected anybody in 45s",
		},
		"a replica takes over without a vote when the election of the servers stays stuck": {
			state: formed().ephemeral(), spoil: func(f *fixture) { f.silence("c-1-0", 45*time.Second, true); f.drop("c-1-0") },
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "the servers have not elected anybody in 45s",
		},
	})
}

func TestNextWithoutAMajorityWaitsForAPrimaryThatMayComeBack(t *testing.T) {
	succeeds := steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"}
	rows.Run(t, map[string]row{
		"a process that restarts in its pod finds its data again": {
			state: single().ephemeral(), spoil: func(f *fixture) { f.silence("c-0-0", 6*time.Second, false) },
			reason: ReasonElection, message: "c-0-1 takes over when that has lasted for 30s",
		},
		"a primary whose node is gone does not restart in its pod": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Gone, f.pod("c-0-0").NodeLost = true, true
			},
			step: succeeds,
		},
		"a primary whose pod is ending does not restart in its pod": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Deleting = true
			},
			step: succeeds,
		},
		"with storage, a pod that is missing comes back with it": {
			state: single(), spoil: func(f *fixture) { f.silence("c-0-0", 20*time.Second, false); f.drop("c-0-0") },
			reason: ReasonElection, message: "is being started and may have data that no replica has",
		},
		"a primary with storage is waited for no longer than the patience": {
			state: single(), spoil: func(f *fixture) { f.silence("c-0-0", 30*time.Second, false) }, step: succeeds,
		},
		"a primary that cannot start is not waited for": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Stuck = "Unschedulable: 0/3 nodes are available"
			},
			step: succeeds,
		},
		"a primary of an outdated template that cannot start is replaced before its pod is deleted": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				p := f.pod("c-0-0")
				p.Stuck, p.Outdated = "CrashLoopBackOff", true
			},
			step: succeeds,
		},
		"a primary on a node that does not report is not waited for": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 45*time.Second, false)
				p := f.pod("c-0-0")
				p.Started, p.NodeLost = now.Add(-time.Hour), true
			},
			step: succeeds,
		},
		"a primary whose disk is another's is not waited for": {
			state: single(), spoil: func(f *fixture) { f.loseDisk("c-0-0"); f.pod("c-0-1").Node.LinkUp = false }, step: succeeds,
		},
		"Kubernetes takes a while to miss a node": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 2*time.Minute, false)
				p := f.pod("c-0-0")
				p.Started, p.NodeLost, p.Unready = now.Add(-time.Hour), true, now.Add(-70*time.Second)
			},
			step: succeeds,
		},
	})
}

func TestNextWithHalfOfThePrimaries(t *testing.T) {
	rows.Run(t, map[string]row{
		"of two primaries neither can replace the other": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.pair2()
				f.vanish("c-1-0")
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"of three two are lost at once, and one is replaced": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-1-0", 6*time.Second, false)
				f.silence("c-2-0", 6*time.Second, false)
				f.drop("c-1-0")
				f.drop("c-2-0")
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "only 1 of 3 primaries can vote on that",
		},
		"when one of two lost primaries has been replaced, there is a majority for the other one": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-1-0", 6*time.Second, false)
				f.silence("c-2-0", 6*time.Second, true)
				f.drop("c-1-0")
				f.drop("c-2-0")
				f.disown("c-1-0")
				f.views(id("c-1-1"), func(p *model.Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", slots.Share(1, 3), 9 })
			},
			reason: ReasonStarting,
		},
		"two primaries of three come back with disks that are another's, and one is replaced": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.replaceDisk("c-2-0")
				f.pod("c-2-0").Addr.IP, f.pod("c-2-0").Node.Peers[0].Addr.IP = "10.9.9.8", "10.9.9.8"
				f.join("c-1-0")
				f.join("c-2-0")
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
		"slots that were on their way are known in full on the dead disk alone": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				f.open("c-0-0", slots.Set{{From: 7, To: 7}}, "c-1-0", false)
				f.silence("c-1-0", time.Minute, false)
			},
			reason: ReasonNoMajority, stalled: true, message: "slots that were on their way to or from it are known in full on its disk alone",
		},
		"slots that were on their way do not hold up a takeover when the dead disk is gone": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.pair2()
				f.open("c-0-0", slots.Set{{From: 7, To: 7}}, "c-1-0", false)
				f.vanish("c-1-0")
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
	})
}
