package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextReplacesDamagedData(t *testing.T) {
	rows.Run(t, map[string]row{
		"a replica that cannot read its data begins with an empty disk": {
			state: formed(), spoil: damage("c-1-1"), step: replaced("c-1-1"),
			message: "c-1-1 cannot start from its data (" + damageWords + "), and c-1-0 has all of it: it begins anew as a replica",
		},
		"a former primary that cannot read its data begins with an empty disk":           {state: formed(), spoil: and(takenOver, damage("c-1-0")), step: replaced("c-1-0")},
		"a primary that cannot read its data keeps it before another one has taken over": {state: formed(), spoil: damage("c-1-0"), reason: ReasonUnreachable},
		"a replica that cannot read its data keeps it while the primary has yet to write its own to disk": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) { f.pod("c-1-0").Node.OnDisk = false }), reason: ReasonUnreachable,
		},
		"a replica that loads what was repaired is left alone": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) { f.pod("c-1-1").Stuck = "" }), reason: ReasonUnreachable,
		},
		"without a volume of its own its next pod is empty": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) { f.Spec.Persistent, f.Claims = false, nil }),
			step: steps.Restart{Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}, Cause: steps.ReasonRestart},
		},
		"a volume that has just been replaced is not replaced again": {
			state: formed(), spoil: and(damage("c-1-1"), made(4*time.Minute)), reason: ReasonDamaged,
			message: "c-1-1 cannot start from its data (" + damageWords + "); its volume is only 4m0s old, so it is not replaced again before 10m0s have passed",
		},
		"a pod without a volume that has just been replaced is not replaced again": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) {
				f.Spec.Persistent, f.Claims, f.pod("c-1-1").Made = false, nil, now.Add(-4*time.Minute)
			}),
			reason: ReasonDamaged,
		},
		"a volume that is ten minutes old is replaced again": {state: formed(), spoil: and(damage("c-1-1"), made(10*time.Minute)), step: replaced("c-1-1")},
		"a young volume is replaced immediately where it is the first one": {
			state: formed(), spoil: and(damage("c-1-1"), made(4*time.Minute), func(f *fixture) { f.Sets[1].Made = now.Add(-5 * time.Minute) }), step: replaced("c-1-1"),
		},
		"a damaged replica that has new settings, as the first, has them back first": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) { f.pod("c-1-1").Unready = now.Add(-time.Hour); f.onlyNew("c-1-1") }),
			reason: ReasonCanary, stalled: true,
		},
		"what one shard waits for does not hold up another": {
			state: formed(), spoil: and(damage("c-0-1"), made(4*time.Minute), damage("c-1-1")), step: replaced("c-1-1"),
		},
	})
}

func TestNextKeepsDamagedDataWithoutProofOfAnother(t *testing.T) {
	rows.Run(t, map[string]row{
		"a primary that comes back and claims slots that others give to no server has no data for them": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) {
				for _, other := range []string{"c-0-0", "c-0-1", "c-2-0", "c-2-1"} {
					f.tableOf(other, "c-1-0", func(p *model.Peer) { p.Slots = nil })
				}
			}), reason: ReasonUnreachable,
		},
		"damaged data stays while others know of another owner": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) {
				f.tableOf("c-2-1", "c-1-1", func(p *model.Peer) { p.Replica, p.Slots, p.Epoch = false, slots.Share(1, 3), 4000 })
			}), reason: ReasonUnreachable,
		},
		"damaged data stays while too few others can confirm the owner": {
			state: formed(), spoil: and(damage("c-1-1"), func(f *fixture) {
				for _, other := range []string{"c-0-0", "c-0-1"} {
					f.pod(other).Node = nil
				}
			}), reason: ReasonUnreachable,
		},
		"a shard whose owner is gone cannot say so": {
			state: formed(), spoil: and(func(f *fixture) { f.loseShard("0") }, damage("c-1-1")), step: replaced("c-1-1"),
		},
		"a lost node whose shard is unknown is of a shard without an owner": {
			state: formed(), spoil: and(func(f *fixture) {
				f.loseShard("0")
				f.views(id("c-0-0"), func(p *model.Peer) { p.Host, p.Addr = "", model.Address{} })
			}, damage("c-1-1")), step: replaced("c-1-1"),
		},
		"slots that had just been moved to it are named where its successor has not heard of them": {
			state: formed(), spoil: and(takenOver, damage("c-1-0"), func(f *fixture) {
				last := slots.Set{{From: 5400, To: 5461}}
				f.tableOf("c-0-0", "c-0-0", func(p *model.Peer) { p.Slots = slots.Share(0, 3).Minus(last) })
				f.views(id("c-1-0"), func(p *model.Peer) { p.Answered = now.Add(-2 * time.Minute) })
				f.tableOf("c-0-0", "c-1-0", func(p *model.Peer) { p.Replica, p.PrimaryID, p.Slots, p.Failed = false, "", last, true })
			}),
			reason: ReasonDamaged, stalled: true,
			message: "c-1-0 cannot start from its data (" + damageWords + "), and slots 5400-5461 had just been moved to it when it ended, as c-1-1, which was elected in its place, has not heard",
		},
	})
}

func TestNextLeavesDamagedDataToAHuman(t *testing.T) {
	rows.Run(t, map[string]row{
		"where there is no other shard, a human decides": {
			state: single(), spoil: damage("c-0-1"), reason: ReasonDamaged, stalled: true,
			message: "c-0-1 cannot start from its data (" + damageWords + "), and no other shard can tell that c-0-0, which says that it is the primary, has been it since: " +
				"repair what is on its volume; or delete its claim and pod, to go on with what c-0-0 has",
		},
		"the primary that is known to have taken over from a damaged one replaces its data": {
			state: single(), spoil: and(func(f *fixture) {
				f.handOver(0)
				f.views(id("c-0-0"), func(p *model.Peer) { p.Replica, p.PrimaryID = false, "" })
			}, damage("c-0-0")), step: replaced("c-0-0"),
		},
		"where there are other shards, and none can be read, they are waited for": {
			state: formed(), spoil: and(takenOver, func(f *fixture) {
				f.views(id("c-1-0"), func(p *model.Peer) { p.Replica, p.PrimaryID = false, "" })
				for _, other := range []string{"c-0-0", "c-0-1", "c-2-0", "c-2-1"} {
					f.pod(other).Node = nil
				}
			}, damage("c-1-0")), reason: ReasonUnreachable,
		},
		"a damaged replica of a shard without slots is for a human": {
			state: formed(), spoil: and((*fixture).grow, (*fixture).pair, damage("c-3-1")), reason: ReasonDamaged, stalled: true,
			message: "c-3-1 cannot start from its data (" + damageWords + "), and its shard owns no slots: delete its claim and pod, to have it begin anew",
		},
		"where no server answers, damaged data stays": {
			state: single(), spoil: and(damage("c-0-0"), func(f *fixture) { f.pod("c-0-1").Node = nil }), reason: ReasonUnreachable,
		},
		"where no server can read the data of a shard, a human decides": {
			state: formed(), spoil: and(damage("c-1-1"), damage("c-1-0")), reason: ReasonDamaged, stalled: true,
			message: "no server of shard 1 can start from its data (c-1-0: " + damageWords + "): repair what is on a volume of theirs; or delete the claims and pods of " +
				"c-1-0, c-1-1, to have the slots back from a backup (a Restore with spec.slots: Lost) or to go on without that data",
		},
	})
}
