package steps

import (
	"fmt"
)

// DeleteClaim deletes the claim of a pod that has left, if it still is the one that was decided on.
type DeleteClaim struct{ Name, UID, ResourceVersion string }

// ReasonDeleteClaim is the reason of DeleteClaim.
const ReasonDeleteClaim = "DeletingClaim"

func (s DeleteClaim) String() string { return "delete claim " + s.Name }

// ReplaceDisk deletes the claim of a volume that cannot come back or is in the way, and its pod: another pod gets a new volume.
type ReplaceDisk struct {
	Claim DeleteClaim
	Pod   PodRef
	// Gone says that the pod's node is gone as well, so that nobody is left there to confirm that it has ended.
	Gone bool
}

// ReasonReplaceDisk is the reason of ReplaceDisk.
const ReasonReplaceDisk = "ReplacingDisk"

func (s ReplaceDisk) String() string { return fmt.Sprintf("give pod %s a new disk", s.Pod.Name) }
