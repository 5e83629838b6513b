package steps

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// ReasonRefill is the reason of ImportLost and OwnLoaded.
const ReasonRefill = "RefillingSlots"

// Refill is a server that is to get lost slots, and those.
type Refill struct {
	Pod, ID string
	Slots   slots.Set
	// Other is the id of the node that the slots are said to come from.
	Other string
}

// ImportLost makes a server take the keys of lost slots.
type ImportLost struct {
	Pod, ID string
	// Other is the id of the dead owner, which they are said to come from. A living one would keep saying that it has no such slots, and
	// servers of Valkey then end the import, or own the slots at once.
	Other string
	Slots slots.Set
}

// OwnLoaded makes a server that was loaded the owner of the slots.
type OwnLoaded struct {
	Pod, ID string
	Slots   slots.Set
}

// Server is the one that the step is for.
func (s ImportLost) Server() (pod, id string) { return s.Pod, s.ID }

// Server is the one that the step is for.
func (s OwnLoaded) Server() (pod, id string) { return s.Pod, s.ID }

func (s ImportLost) String() string { return fmt.Sprintf("import slots %s on %s", s.Slots, s.Pod) }

func (s OwnLoaded) String() string { return fmt.Sprintf("give slots %s to %s", s.Slots, s.Pod) }

// Run makes the server import the slots, and believe that the other one owns them: it takes no key of a slot that nobody owns, and who
// came after the owner had died never hears what that owned. Nobody else does of what it believes.
func (s ImportLost) Run(ctx context.Context, m Mover) error {
	if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.Other); err != nil {
		return err
	}
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.Other)
}

// Run makes the server own the slots, which gives it the highest epoch.
func (s OwnLoaded) Run(ctx context.Context, m Mover) error {
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.ID)
}
