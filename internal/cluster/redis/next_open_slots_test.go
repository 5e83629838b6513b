package redis

import (
	"testing"
	"time"

	"github.com/quorate/quorate/test/rows"
)

func TestNextCompletesMovesOfSlots(t *testing.T) {
	rows.Run(t, map[string]row{
		"a slot that is open is moved to the end, wherever it is to be": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-0", true)
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"a slot whose sender has been replaced is moved to the end": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"an open slot is moved to the end before any pod restarts": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
				f.pod("c-2-1").Outdated = true
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"slots that are being sent to a former primary go to its successor first": {
			state: formed(), spoil: func(f *fixture) {
				f.disown("c-1-0")
				f.views(id("c-1-1"), func(p *Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", Share(1, 3), 3000 })
				f.Sets[1].Guarded, f.pod("c-1-0").Node.Keys = true, 1
				f.open("c-1-0", Slots{{7, 8}}, "c-0-0", true)
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-1", Slots{{7, 8}})}},
		},
		"a slot that is open on a primary and its replica is moved to the end": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-0-1", Slots{{7, 8}}, "c-1-0", false)
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"a shard that awaits a slot stays until it has passed that on": {
			state: formed(), spoil: func(f *fixture) {
				f.shardToDrop()
				f.open("c-0-0", Slots{{7, 8}}, "c-3-0", false)
				f.open("c-3-0", Slots{{7, 8}}, "c-0-0", true)
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: Address{"10.0.3.0", ClientPort}, Slots: Slots{{7, 8}}, Patience: 5 * time.Second / 6},
			}},
			reason: ReasonMoveSlots,
		},
		"nothing restarts a server that awaits slots, however new it is": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.open("c-0-0", Slots{{7, 8}}, "c-3-0", false)
				f.open("c-3-0", Slots{{7, 8}}, "c-0-0", true)
				f.pod("c-3-0").Outdated, f.pod("c-3-0").Node.Version = true, "8.4.0"
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: Address{"10.0.3.0", ClientPort}, Slots: Slots{{7, 8}}, Patience: 5 * time.Second / 6},
			}},
			reason: ReasonMoveSlots,
		},
	})
}

func TestNextOpensSlotsAfterAFailover(t *testing.T) {
	rows.Run(t, map[string]row{
		"the new primary opens the slots that another shard awaits, whichever servers are missing": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 7}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
				f.pod("c-0-1").Node, f.pod("c-2-1").Node = nil, nil
			},
			step:   OpenSlots{"c-0-0", id("c-0-0"), Slots{{8, 8}}, SlotMigrating, id("c-1-0")},
			reason: ReasonMoveSlots,
		},
		"the server that awaits slots is not told of a sender that it takes for a replica, which it would refuse": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
				f.tableOf("c-1-0", "c-0-0", func(peer *Peer) { peer.Replica, peer.Slots = true, nil })
				f.pod("c-0-1").Node = nil
			},
			step:   OpenSlots{"c-0-0", id("c-0-0"), Slots{{7, 8}}, SlotMigrating, id("c-1-0")},
			reason: ReasonMoveSlots,
		},
		"the server that awaits slots is told their owner": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-1-0", Slots{{5461, 5461}}, "c-0-1", true)
				f.tableOf("c-1-0", "c-0-0", func(peer *Peer) { peer.Slots = Slots{{0, 5460}} })
				f.pod("c-0-1").Node = nil
			},
			step:   OpenSlots{"c-1-0", id("c-1-0"), Slots{{5461, 5461}}, SlotOwner, id("c-0-0")},
			reason: ReasonMoveSlots,
		},
	})
}

func TestNextClosesSlotsThatDoNotMove(t *testing.T) {
	rows.Run(t, map[string]row{
		"slots are not on their way within a shard": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID = false, "" })
				f.open("c-0-1", Slots{{7, 8}}, "c-0-0", true)
				f.pod("c-0-1").Node.Keys = 0
			},
			step: Replicate{[]Following{{"c-0-1", "c-0-0", id("c-0-0")}}}, reason: ReasonReplicate,
		},
		"a slot that has arrived is not on its way": {
			state: formed(), spoil: func(f *fixture) { f.open("c-1-0", Slots{{7, 8}}, "c-0-0", false) },
			step: CloseSlots{"c-1-0", Slots{{7, 8}}}, reason: ReasonCloseSlots,
		},
		"a slot does not go to a node that no server knows": {
			state: formed(), spoil: func(f *fixture) { f.open("c-1-0", Slots{{6000, 6001}}, "stranger", false) },
			step: CloseSlots{"c-1-0", Slots{{6000, 6001}}}, reason: ReasonCloseSlots,
		},
		"the primary closes a slot that is open on its replica alone": {
			state: formed(), spoil: func(f *fixture) { f.open("c-0-1", Slots{{7, 8}}, "c-1-0", false) },
			step: CloseSlots{"c-0-0", Slots{{7, 8}}}, reason: ReasonCloseSlots,
		},
		"a former primary that did not follow its successor awaits no slots": {
			state: formed(), spoil: func(f *fixture) {
				f.disown("c-1-0")
				f.views(id("c-1-1"), func(p *Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", Share(1, 3), 3000 })
				f.open("c-1-0", Slots{{6000, 6001}}, "c-0-0", true)
				f.Sets[1].Guarded, f.pod("c-1-0").Node.Keys = true, 1
			},
			step: CloseSlots{"c-1-0", Slots{{6000, 6001}}}, message: "slots 6000-6001 are not on their way to or from c-1-0 any more, whose shard c-1-1 leads",
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
			step: TakeOver{3, id("c-3-0"), "c-3-1"}, reason: ReasonElect,
		},
		"two servers that share the slots of a shard become one owner": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-0"), func(peer *Peer) { peer.Slots = Slots{{0, 5400}} })
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID, peer.Slots = false, "", Slots{{5401, 5461}} })
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-1", "c-0-0", Slots{{5401, 5461}})}},
			reason: ReasonMoveSlots,
		},
		"the server that gets the slots of a second owner is told first whose they are": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-0"), func(peer *Peer) { peer.Slots = Slots{{0, 5400}} })
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID, peer.Slots = false, "", Slots{{5401, 5461}} })
				f.tableOf("c-0-0", "c-0-1", func(peer *Peer) { peer.Slots = Slots{{5401, 5460}} })
			},
			step:   OpenSlots{"c-0-0", id("c-0-0"), Slots{{5461, 5461}}, SlotOwner, id("c-0-1")},
			reason: ReasonMoveSlots,
		},
		"slots that a server was given right before it died go to its successor": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-0-0")
				f.views(id("c-0-0"), func(peer *Peer) { peer.Slots = Slots{{5460, 5461}} })
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID, peer.Slots = false, "", Slots{{0, 5459}} })
				f.views("new-c-0-0", func(peer *Peer) { peer.Replica, peer.PrimaryID = true, id("c-0-1") })
				f.pod("c-0-0").Node.LinkUp, f.pod("c-0-0").Node.Admits = true, AdmitsForGood
			},
			step: Adopt{"c-0-1", id("c-0-1"), id("c-0-0"), Slots{{5460, 5461}}}, reason: ReasonMoveSlots,
		},
	})
}
