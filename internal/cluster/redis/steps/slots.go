package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// ReasonAssignEmpty is the reason of AssignEmpty.
const ReasonAssignEmpty = "AssigningLostSlots"

// AssignEmpty gives the slots of a lost shard to a server without data.
type AssignEmpty struct {
	Pod, ID string
	// Other is the id of some other primary, see Run.
	Other string
	Slots slots.Set
}

// Server is the one that the step is for.
func (s AssignEmpty) Server() (pod, id string) { return s.Pod, s.ID }

func (s AssignEmpty) String() string {
	return fmt.Sprintf("give slots %s to %s, empty", s.Slots, s.Pod)
}

// Run makes the server import the slots and then own them, which gives it the highest epoch: all others believe the dead owner until
// they hear of a higher one. Where the slots are said to come from does not matter, as long as the server knows it; of the dead owner
// one that came later never hears.
func (s AssignEmpty) Run(ctx context.Context, m Mover) error {
	if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.Other); err != nil {
		return err
	}
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.ID)
}

// CloseSlots makes a server forget that slots are on their way, which its own table says they are not.
type CloseSlots struct {
	Pod   string
	Slots slots.Set
}

// OpenSlots tells one of two servers between which slots are on their way what it does not know of it: with SlotMigrating the owner that
// the other one awaits them, and with SlotOwner the one that awaits them whose they are.
type OpenSlots struct {
	Pod, ID string
	Slots   slots.Set
	State   model.SlotState
	// Other is the id of the other one.
	Other string
}

// Server is the one that the step is for.
func (s OpenSlots) Server() (pod, id string) { return s.Pod, s.ID }

func (s OpenSlots) String() string {
	return fmt.Sprintf("set slots %s of %s to %s %s", s.Slots, s.Pod, s.State, model.ShortID(s.Other))
}

// Run sends CLUSTER SETSLOT. Who awaits slots is to await them from the owner as well: one that came back without slots could otherwise hand
// over what it does not own any more.
func (s OpenSlots) Run(ctx context.Context, m Mover) error {
	if s.State == SlotOwner {
		if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.Other); err != nil {
			return err
		}
	}
	return m.SetSlots(ctx, s.Slots, s.State, s.Other)
}

// Run sends CLUSTER SETSLOT STABLE.
func (s CloseSlots) Run(ctx context.Context, m Mover) error {
	return m.SetSlots(ctx, s.Slots, SlotStable, "")
}

// Server is the one that the step is for, whatever its id.
func (s CloseSlots) Server() (pod, id string) { return s.Pod, "" }

func (s CloseSlots) String() string { return fmt.Sprintf("close slots %s of %s", s.Slots, s.Pod) }

// MoveSlots moves slots and their keys between servers, until all are moved or so much time has passed. The pairs move at the same
// time, and none leaves a slot open unless it fails.
type MoveSlots struct {
	Moves []SlotMove
	For   time.Duration
}

// DropShard deletes the StatefulSet of a shard that owns nothing any more, and with it its pods.
type DropShard struct {
	Shard int
	UID   string
}

// TakeOver makes a replica primary in the place of one that is dead, without a vote.
type TakeOver struct {
	Shard     int
	PrimaryID string
	To        string
}

func (s TakeOver) String() string {
	return fmt.Sprintf("make %s primary of shard %d in the place of node %s, without a vote", s.To, s.Shard, model.ShortID(s.PrimaryID))
}

// Calls sends CLUSTER FAILOVER TAKEOVER and waits until it has happened.
func (s TakeOver) Calls() []Call { return []Call{{s.To, instead(s.PrimaryID, FailoverTakeover)}} }

// Adopt makes a server the owner of slots that its predecessor had been given, which is gone.
type Adopt struct {
	Pod, ID string
	// From is the id of the predecessor.
	From  string
	Slots slots.Set
}

// Server is the one that the step is for.
func (s Adopt) Server() (pod, id string) { return s.Pod, s.ID }

func (s Adopt) String() string {
	return fmt.Sprintf("give slots %s of node %s to %s", s.Slots, model.ShortID(s.From), s.Pod)
}

// Run makes the server import the slots, so that its claim counts for more than any other, and then own them.
func (s Adopt) Run(ctx context.Context, m Mover) error {
	if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.From); err != nil {
		return err
	}
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.ID)
}

func (s MoveSlots) String() string {
	return describe(s.Moves)
}

func describe(moves []SlotMove) string {
	return "move " + JoinItems(moves, func(m SlotMove) string { return fmt.Sprintf("%d slots from %s to %s", m.Slots.Count(), m.From, m.To) })
}

func (s DropShard) String() string { return fmt.Sprintf("delete the StatefulSet of shard %d", s.Shard) }
