package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextCompletesMovesOfSlots(t *testing.T) {
	rows.Run(t, map[string]row{
		"a slot that is open is moved to the end, wherever it is to be": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-1-0", false)
				f.open("c-1-0", slots.Set{{From: 7, To: 8}}, "c-0-0", true)
			},
			step:   steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{formed().moveOf("c-0-0", "c-1-0", slots.Set{{From: 7, To: 8}})}},
			reason: steps.ReasonMoveSlots,
		},
		"a slot whose sender has been replaced is moved to the end": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-1-0", false)
				f.open("c-1-0", slots.Set{{From: 7, To: 8}}, "c-0-1", true)
			},
			step:   steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{formed().moveOf("c-0-0", "c-1-0", slots.Set{{From: 7, To: 8}})}},
			reason: steps.ReasonMoveSlots,
		},
		"an open slot is moved to the end before any pod restarts": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-1-0", false)
				f.open("c-1-0", slots.Set{{From: 7, To: 8}}, "c-0-1", true)
				f.pod("c-2-1").Outdated = true
			},
			step:   steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{formed().moveOf("c-0-0", "c-1-0", slots.Set{{From: 7, To: 8}})}},
			reason: steps.ReasonMoveSlots,
		},
		"slots that are being sent to a former primary go to its successor first": {
			state: formed(), spoil: func(f *fixture) {
				f.disown("c-1-0")
				f.views(id("c-1-1"), func(p *model.Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", slots.Share(1, 3), 3000 })
				f.Sets[1].Guarded, f.pod("c-1-0").Node.Keys = true, 1
				f.open("c-1-0", slots.Set{{From: 7, To: 8}}, "c-0-0", true)
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-1-0", false)
			},
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{formed().moveOf("c-0-0", "c-1-1", slots.Set{{From: 7, To: 8}})}},
		},
		"a slot that is open on a primary and its replica is moved to the end": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-1-0", false)
				f.open("c-0-1", slots.Set{{From: 7, To: 8}}, "c-1-0", false)
			},
			step:   steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{formed().moveOf("c-0-0", "c-1-0", slots.Set{{From: 7, To: 8}})}},
			reason: steps.ReasonMoveSlots,
		},
		"a shard that awaits a slot stays until it has passed that on": {
			state: formed(), spoil: func(f *fixture) {
				f.shardToDrop()
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-3-0", false)
				f.open("c-3-0", slots.Set{{From: 7, To: 8}}, "c-0-0", true)
			},
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: model.Address{IP: "10.0.3.0", Port: model.ClientPort}, Slots: slots.Set{{From: 7, To: 8}}, Patience: 5 * time.Second / 6},
			}},
			reason: steps.ReasonMoveSlots,
		},
		"nothing restarts a server that awaits slots, however new it is": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-3-0", false)
				f.open("c-3-0", slots.Set{{From: 7, To: 8}}, "c-0-0", true)
				f.pod("c-3-0").Outdated, f.pod("c-3-0").Node.Version = true, "8.4.0"
			},
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: model.Address{IP: "10.0.3.0", Port: model.ClientPort}, Slots: slots.Set{{From: 7, To: 8}}, Patience: 5 * time.Second / 6},
			}},
			reason: steps.ReasonMoveSlots,
		},
	})
}

func TestNextOpensSlotsAfterAFailover(t *testing.T) {
	rows.Run(t, map[string]row{
		"the new primary opens the slots that another shard awaits, whichever servers are missing": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", slots.Set{{From: 7, To: 7}}, "c-1-0", false)
				f.open("c-1-0", slots.Set{{From: 7, To: 8}}, "c-0-1", true)
				f.pod("c-0-1").Node, f.pod("c-2-1").Node = nil, nil
			},
			step:   steps.OpenSlots{Pod: "c-0-0", ID: id("c-0-0"), Slots: slots.Set{{From: 8, To: 8}}, State: steps.SlotMigrating, Other: id("c-1-0")},
			reason: steps.ReasonMoveSlots,
		},
		"the server that awaits slots is not told of a sender that it takes for a replica, which it would refuse": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-1-0", slots.Set{{From: 7, To: 8}}, "c-0-1", true)
				f.tableOf("c-1-0", "c-0-0", func(peer *model.Peer) { peer.Replica, peer.Slots = true, nil })
				f.pod("c-0-1").Node = nil
			},
			step:   steps.OpenSlots{Pod: "c-0-0", ID: id("c-0-0"), Slots: slots.Set{{From: 7, To: 8}}, State: steps.SlotMigrating, Other: id("c-1-0")},
			reason: steps.ReasonMoveSlots,
		},
		"the server that awaits slots is told their owner": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-1-0", slots.Set{{From: 5461, To: 5461}}, "c-0-1", true)
				f.tableOf("c-1-0", "c-0-0", func(peer *model.Peer) { peer.Slots = slots.Set{{From: 0, To: 5460}} })
				f.pod("c-0-1").Node = nil
			},
			step:   steps.OpenSlots{Pod: "c-1-0", ID: id("c-1-0"), Slots: slots.Set{{From: 5461, To: 5461}}, State: steps.SlotOwner, Other: id("c-0-0")},
			reason: steps.ReasonMoveSlots,
		},
	})
}

func TestNextClosesSlotsThatDoNotMove(t *testing.T) {
	rows.Run(t, map[string]row{
		"slots are not on their way within a shard": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-1"), func(peer *model.Peer) { peer.Replica, peer.PrimaryID = false, "" })
				f.open("c-0-1", slots.Set{{From: 7, To: 8}}, "c-0-0", true)
				f.pod("c-0-1").Node.Keys = 0
			},
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-0-1", Primary: "c-0-0", PrimaryID: id("c-0-0")}}}, reason: steps.ReasonReplicate,
		},
		"a slot that has arrived is not on its way": {
			state: formed(), spoil: func(f *fixture) { f.open("c-1-0", slots.Set{{From: 7, To: 8}}, "c-0-0", false) },
			step: steps.CloseSlots{Pod: "c-1-0", Slots: slots.Set{{From: 7, To: 8}}}, reason: steps.ReasonCloseSlots,
		},
		"a slot does not go to a node that no server knows": {
			state: formed(), spoil: func(f *fixture) { f.open("c-1-0", slots.Set{{From: 6000, To: 6001}}, "stranger", false) },
			step: steps.CloseSlots{Pod: "c-1-0", Slots: slots.Set{{From: 6000, To: 6001}}}, reason: steps.ReasonCloseSlots,
		},
		"the primary closes a slot that is open on its replica alone": {
			state: formed(), spoil: func(f *fixture) { f.open("c-0-1", slots.Set{{From: 7, To: 8}}, "c-1-0", false) },
			step: steps.CloseSlots{Pod: "c-0-0", Slots: slots.Set{{From: 7, To: 8}}}, reason: steps.ReasonCloseSlots,
		},
		"a former primary that did not follow its successor awaits no slots": {
			state: formed(), spoil: func(f *fixture) {
				f.disown("c-1-0")
				f.views(id("c-1-1"), func(p *model.Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", slots.Share(1, 3), 3000 })
				f.open("c-1-0", slots.Set{{From: 6000, To: 6001}}, "c-0-0", true)
				f.Sets[1].Guarded, f.pod("c-1-0").Node.Keys = true, 1
			},
			step: steps.CloseSlots{Pod: "c-1-0", Slots: slots.Set{{From: 6000, To: 6001}}}, message: "slots 6000-6001 are not on their way to or from c-1-0 any more, whose shard c-1-1 leads",
		},
	})
}

func TestNextGivesAShardOneOwner(t *testing.T) {
	rows.Run(t, map[string]row{
		"the primary of a shard without slots is replaced by its replica": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.loseDisk("c-3-0")
			},
			step: steps.TakeOver{Shard: 3, PrimaryID: id("c-3-0"), To: "c-3-1"}, reason: steps.ReasonElect,
		},
		"two servers that share the slots of a shard become one owner": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-0"), func(peer *model.Peer) { peer.Slots = slots.Set{{From: 0, To: 5400}} })
				f.views(id("c-0-1"), func(peer *model.Peer) {
					peer.Replica, peer.PrimaryID, peer.Slots = false, "", slots.Set{{From: 5401, To: 5461}}
				})
			},
			step:   steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{formed().moveOf("c-0-1", "c-0-0", slots.Set{{From: 5401, To: 5461}})}},
			reason: steps.ReasonMoveSlots,
		},
		"the server that gets the slots of a second owner is told first whose they are": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-0"), func(peer *model.Peer) { peer.Slots = slots.Set{{From: 0, To: 5400}} })
				f.views(id("c-0-1"), func(peer *model.Peer) {
					peer.Replica, peer.PrimaryID, peer.Slots = false, "", slots.Set{{From: 5401, To: 5461}}
				})
				f.tableOf("c-0-0", "c-0-1", func(peer *model.Peer) { peer.Slots = slots.Set{{From: 5401, To: 5460}} })
			},
			step:   steps.OpenSlots{Pod: "c-0-0", ID: id("c-0-0"), Slots: slots.Set{{From: 5461, To: 5461}}, State: steps.SlotOwner, Other: id("c-0-1")},
			reason: steps.ReasonMoveSlots,
		},
		"slots that a server was given right before it died go to its successor": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-0-0")
				f.views(id("c-0-0"), func(peer *model.Peer) { peer.Slots = slots.Set{{From: 5460, To: 5461}} })
				f.views(id("c-0-1"), func(peer *model.Peer) {
					peer.Replica, peer.PrimaryID, peer.Slots = false, "", slots.Set{{From: 0, To: 5459}}
				})
				f.views("new-c-0-0", func(peer *model.Peer) { peer.Replica, peer.PrimaryID = true, id("c-0-1") })
				f.pod("c-0-0").Node.LinkUp, f.pod("c-0-0").Node.Admits = true, model.AdmitsForGood
			},
			step: steps.Adopt{Pod: "c-0-1", ID: id("c-0-1"), From: id("c-0-0"), Slots: slots.Set{{From: 5460, To: 5461}}}, reason: steps.ReasonMoveSlots,
		},
	})
}
