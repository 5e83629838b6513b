package steps

import (
	"github.com/quorate/quorate/internal/backup/planner"
)

// ReasonTerminatingClaims says that members run on claims that are being deleted.
const ReasonTerminatingClaims = "ClaimsTerminating"

// ReasonDefragmenting says that a member is being defragmented.
const ReasonDefragmenting = "DefragmentingMember"

// ReasonStarting says that members are on their way to their first quorum.
const ReasonStarting = "MembersStarting"

// ReasonQuorumLost says that too many members have lost their data for the others to be a quorum.
const ReasonQuorumLost = "QuorumLost"

// ReasonRecovering says that a lost quorum is being recovered.
const ReasonRecovering = "RecoveringQuorum"

// ReasonRestoring says that a new cluster is being made from a backup.
const ReasonRestoring = planner.ReasonRestoring

// ReasonSnapshot says that an upgrade waits for its snapshot.
const ReasonSnapshot = "TakingSnapshot"

// ReasonVolumes says that volumes are on their way to what spec.storage asks for.
const ReasonVolumes = "VolumesChanging"

// ReasonUpgrade says that an upgrade waits for the members.
const ReasonUpgrade = "UpgradeWaits"

// ReasonCanary says that the first member did not get well with new settings, which were set back.
const ReasonCanary = "CanaryFailed"
