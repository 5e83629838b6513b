package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
)

// States of a slot, as the server spells them.
const (
	SlotImporting model.SlotState = "IMPORTING"
	SlotMigrating model.SlotState = "MIGRATING"
	SlotStable    model.SlotState = "STABLE"
	SlotOwner     model.SlotState = "NODE"
)

// Mover is a connection to one server as the user that moves keys. Every call but Large and Send is one or two round trips, whatever the
// number of slots and keys.
type Mover interface {
	// SetSlots sends CLUSTER SETSLOT for each of the slots. id is that of the other node, or of the owner; empty for SlotStable.
	SetSlots(ctx context.Context, slots redisslots.Set, state model.SlotState, id string) error
	// Keys returns up to limit keys of each of the slots that has any.
	Keys(ctx context.Context, slots redisslots.Set, limit int) (map[int][]model.Key, error)
	// Process is model.Node.Process of the server that answers now.
	Process(ctx context.Context) (string, error)
	// Sees is what the table of the server says of the node with an id.
	Sees(ctx context.Context, id string) (model.Peer, error)
	// Large returns the largest key of each of the slots that has one of more than so many bytes. It looks at all keys.
	Large(ctx context.Context, slots redisslots.Set, bytes int64) (map[int]model.Key, error)
	// Send moves keys to the server at the address, those of one batch by one MIGRATE, which holds up both servers as long as it
	// takes. Where the target says nothing, the source waits for the patience, up to five times, or up to four times for what the size
	// of the batch needs where that is more. Every batch is of one slot. With replace, keys that are there already are overwritten;
	// without it they stay where they are, and Send returns them.
	Send(ctx context.Context, to model.Address, batches [][]model.Key, replace bool, patience time.Duration) (busy [][]model.Key, err error)
	// Close ends the connection.
	Close() error
}

const (
	// openSlots is how many slots of a pair of servers are open at a time. Clients are redirected twice for those.
	openSlots = 64
	// keysPerSlot is how many keys of one slot are looked at at a time.
	keysPerSlot = 200
	// batchBytes is how much one MIGRATE moves, during which other clients of the source wait: some milliseconds. A larger key goes alone.
	batchBytes = 256 << 10
	// certain is for how long it is believed that a slot is empty, and its server alive: whoever is to take over from it needs longer.
	certain = 500 * time.Millisecond
)

// Slowest is what servers are expected to manage at least when they write out and take in a key, in bytes a second. Measured were 16 to 38
// MiB on a busy machine for values of 16 bytes, and much more for larger ones, see docs/resharding.md.
const Slowest = 10 << 20

// ReasonKeyTooLarge is the reason for not moving a slot.
const ReasonKeyTooLarge = "KeyTooLarge"

// SlotMove is slots that go from one server to another.
type SlotMove struct {
	From, To     string // pods
	FromID, ToID string
	ToAddr       model.Address
	Slots        redisslots.Set
	// Process of the source. Another one may have started without data, and what it does not have has not moved.
	Process string
	// ToProcess is that of the target. Another one may have started without data, and be deposed for it, with what it got since.
	ToProcess string
	// Pull says that the target is told to get the slots from the source, see model.Node.Pulls.
	Pull bool
	// Limit is how large a key may be, in bytes; 0: none. See keyLimit in package planner.
	Limit int64
	// Patience is how long the source waits for a target that does not answer, during which it
	// serves no client. See moveTimeout in package planner.
	Patience time.Duration
}

// Run moves slots as long as more says so, and leaves none open then. It may be repeated, also after it has failed midway. Slots with a
// key that is too large stay where they are; that is an error when there are no others.
//
// The order is that of the cluster specification: the target learns first that a slot comes, and first that it has come.
// https://redis.io/docs/latest/commands/cluster-setslot/
func (m SlotMove) Run(ctx context.Context, source, target Mover, more func() bool) (done model.Moved, err error) {
	if err := m.heard(ctx, source); err != nil {
		return done, fmt.Errorf("pod %s: %w", m.From, err)
	}
	var largest tooLarge
	for left := m.Slots; len(left) > 0 && more(); {
		open := left.First(openSlots)
		left = left.Minus(open)
		keys, err := source.Keys(ctx, open, keysPerSlot)
		if err == nil {
			open, err = m.light(ctx, source, open, keys, &largest)
		}
		if err != nil {
			return done, fmt.Errorf("pod %s: %w", m.From, err)
		}
		if len(open) == 0 {
			continue
		}
		if err := target.SetSlots(ctx, open, SlotImporting, m.FromID); err != nil {
			return done, fmt.Errorf("pod %s: %w", m.To, err)
		}
		if err := same(ctx, target, m.ToProcess); err != nil {
			return done, fmt.Errorf("pod %s: %w", m.To, err)
		}
		if err := source.SetSlots(ctx, open, SlotMigrating, m.ToID); err != nil {
			return done, fmt.Errorf("pod %s: %w", m.From, err)
		}
		if err := m.empty(ctx, source, target, open, keys, &done); err != nil {
			return done, fmt.Errorf("pod %s: %w", m.From, err)
		}
		if err := target.SetSlots(ctx, open, SlotOwner, m.ToID); err != nil {
			return done, fmt.Errorf("pod %s: %w", m.To, err)
		}
		if err := source.SetSlots(ctx, open, SlotOwner, m.ToID); err != nil {
			return done, fmt.Errorf("pod %s: %w", m.From, err)
		}
		done.Slots += open.Count()
	}
	if largest.Bytes > 0 && done.Slots == 0 {
		return done, m.refuse(largest)
	}
	return done, nil
}

// heard fails when the source does not hear from the target: it would be held up each time that it is told to send keys.
func (m SlotMove) heard(ctx context.Context, source Mover) error {
	peer, err := source.Sees(ctx, m.ToID)
	if err == nil && (peer.Failing || peer.Failed) {
		err = fmt.Errorf("it does not hear from %s", m.To)
	}
	return err
}

// tooLarge is a key that is not moved.
type tooLarge struct {
	model.Key
	slot int
}

// light leaves out slots with a key that is too large, and takes them from the keys that were found. They are asked for before any is
// opened: one that is cannot be closed again without sending back what has moved.
func (m SlotMove) light(ctx context.Context, source Mover, slots redisslots.Set, keys map[int][]model.Key, largest *tooLarge) (redisslots.Set, error) {
	if m.Limit == 0 {
		return slots, nil
	}
	found := map[int]model.Key{}
	var more []redisslots.Range
	for slot, some := range keys {
		if top := slices.MaxFunc(some, func(a, b model.Key) int { return cmp.Compare(a.Bytes, b.Bytes) }); top.Bytes > m.Limit {
			found[slot] = top
		}
		if len(some) >= keysPerSlot {
			more = append(more, redisslots.Range{From: slot, To: slot})
		}
	}
	if len(more) > 0 {
		large, err := source.Large(ctx, redisslots.New(more...), m.Limit)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, large)
	}
	for slot, key := range found {
		slots = slots.Minus(redisslots.Set{{From: slot, To: slot}})
		delete(keys, slot)
		if key.Bytes > largest.Bytes {
			*largest = tooLarge{key, slot}
		}
	}
	return slots, nil
}

func (m SlotMove) refuse(largest tooLarge) error {
	return cluster.Refusal{Reason: ReasonKeyTooLarge, Message: fmt.Sprintf(
		"a key of slot %d on %s takes %d MiB, and to move it would hold up two servers for about %s, so that the others take them for dead: "+
			"delete or divide it, or set spec.config.nodeTimeout to %s or more until the slots have moved",
		largest.slot, m.From, largest.Bytes>>20, heldUp(largest.Bytes).Round(time.Second), (5*heldUp(largest.Bytes)).Round(time.Second)+time.Second)}
}

// heldUp is for how long a server may do nothing else than move so many bytes.
func heldUp(bytes int64) time.Duration { return time.Duration(bytes) * time.Second / Slowest }

// HeldUp is for how long servers may do nothing else than move some keys.
func HeldUp(keys []model.Key) time.Duration {
	bytes := int64(0)
	for _, key := range keys {
		bytes += key.Bytes
	}
	return heldUp(bytes)
}

// empty sends keys until the slots have none: first those that were found before the slots were opened. It fails when another server may
// own the slots by now.
func (m SlotMove) empty(ctx context.Context, source, target Mover, slots redisslots.Set, keys map[int][]model.Key, done *model.Moved) error {
	for {
		if err := m.send(ctx, source, keys, done); err != nil {
			return err
		}
		asked := time.Now()
		var err error
		if keys, err = source.Keys(ctx, slots, keysPerSlot); err != nil {
			return err
		}
		if len(keys) > 0 {
			continue
		}
		if err := same(ctx, source, m.Process); err != nil {
			return err
		}
		if err := m.alive(ctx, target, slots); err != nil {
			return err
		}
		if time.Since(asked) < certain {
			return nil
		}
	}
}

// alive fails when the target has heard that the source is dead, leads no more or does not own the slots. A source that stood still for a moment
// does not know yet that a replica has been elected in its place, and has none of what was written to that one. The target does: all hear that
// the source is dead before anybody votes. Redis believes that for two node timeouts, and of who owns a slot that it imports nobody; Valkey
// believes who was elected, and then that the other one lives (clusterSendFail, clearNodeFailureIfNeeded and clusterUpdateSlotsConfigWith in
// the servers' source).
func (m SlotMove) alive(ctx context.Context, target Mover, slots redisslots.Set) error {
	peer, err := target.Sees(ctx, m.FromID)
	switch {
	case err != nil:
		return err
	case peer.Replica:
		return fmt.Errorf("%s has heard that it is a replica by now", m.To)
	case peer.Failing || peer.Failed:
		return fmt.Errorf("%s does not hear from it, and others may have elected a replica in its place", m.To)
	case len(slots.Minus(peer.Slots)) > 0:
		return fmt.Errorf("%s has heard that another one, maybe a replica, owns slots of it by now", m.To)
	}
	return nil
}

// same fails when another process answers.
func same(ctx context.Context, server Mover, process string) error {
	now, err := server.Process(ctx)
	if err == nil && now != process {
		err = errors.New("the server was restarted")
	}
	return err
}

func (m SlotMove) send(ctx context.Context, source Mover, keys map[int][]model.Key, done *model.Moved) error {
	batches := batches(keys)
	if len(batches) == 0 {
		return nil
	}
	busy, err := source.Send(ctx, m.ToAddr, batches, false, m.Patience)
	if err == nil && len(busy) > 0 {
		_, err = source.Send(ctx, m.ToAddr, busy, true, m.Patience)
	}
	if err != nil {
		return err
	}
	for _, batch := range batches {
		done.Keys += len(batch)
		for _, key := range batch {
			done.Bytes += key.Bytes
		}
	}
	for _, batch := range busy {
		done.Replaced += len(batch)
	}
	return nil
}

// batches divides keys into batches of one slot each, by their sizes.
func batches(keys map[int][]model.Key) [][]model.Key {
	var out [][]model.Key
	for _, slot := range slices.Sorted(maps.Keys(keys)) {
		size := int64(0)
		for i, key := range keys[slot] {
			if size += key.Bytes; i == 0 || size > batchBytes {
				out, size = append(out, nil), key.Bytes
			}
			out[len(out)-1] = append(out[len(out)-1], key)
		}
	}
	return out
}
