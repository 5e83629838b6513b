package steps

import (
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// Bootstrap and membership.

func (SetConfigEpochs) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonSetConfigEpochs} }

func (AddSlots) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonAddSlots} }

func (Meet) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonMeet, Repair: true} }

func (Replicate) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonReplicate, Repair: true} }

func (Forget) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonForget, Repair: true} }

func (Part) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonForeign, Repair: true} }

func (AdmitReplicas) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonAdmitReplicas, Repair: true}
}

// Failover.

func (Failover) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonFailover, HandsOver: true} }

func (s End) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonEnd, Repair: true, NonBlocking: s.Former}
}

func (Elect) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonElect, Repair: true, HandsOver: true}
}

func (TakeOver) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonElect, Repair: true, HandsOver: true}
}

// The mode Replicated. Several Appoint steps are one change of the primary. AssignRoles is repeated
// until the cache returns what it wrote. HandOver completes a hand-over: it is a Repair, because the
// Service leads to a read-only replica until then. The Appoint that begins one is none.

func (HandOver) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonFailover, Repair: true, HandsOver: true}
}

func (Follow) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonFollow, Repair: true} }

func (Promote) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonPromote, Repair: true, HandsOver: true}
}

func (s Appoint) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonAssignRoles, Repair: !s.beginsHandOver(), Incremental: true}
}

func (AssignRoles) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonAssignRoles, Repair: true, Incremental: true}
}

// min-replicas-to-write.

func (GuardWrites) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonGuardWrites, Repair: true} }

func (GuardShards) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonGuardWrites, Repair: true, Incremental: true}
}

// Slots and shards.

func (CloseSlots) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonCloseSlots} }

func (CountLoad) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonCountLoad} }

func (DropShard) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonDropShard} }

func (ScaleShards) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonScaleShards} }

func (CancelMigration) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonMigrationBroken} }

func (MoveSlots) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonMoveSlots, Incremental: true} }

func (Adopt) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonMoveSlots, Repair: true} }

func (ImportLost) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonRefill, Repair: true} }

func (AssignEmpty) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonAssignEmpty, Repair: true} }

func (OwnLoaded) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonRefill, Repair: true} }

func (OpenSlots) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonMoveSlots, Repair: true} }

func (MigrateSlots) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonMoveSlots, Incremental: true}
}

// Pods, disks and Services.

func (r Restart) Meta() cluster.Meta { return cluster.Meta{Reason: r.Cause} }

func (Guard) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonGuard} }

func (Announce) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonAnnounce, NonBlocking: true} }

func (DeleteClaim) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonDeleteClaim} }

func (Withdraw) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonWithdraw, NonBlocking: true} }

func (ReplaceDisk) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonReplaceDisk, Repair: true} }

func (ResizePod) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonResize, Incremental: true, NonBlocking: true}
}

// Configuration, users and certificates. ReloadCertificates depends on no object but the Secret,
// and is repeated until servers present the certificate. SetUsers may grant the operator's user
// what other steps need. SetReplicationPassword lets a replica whose password was retired
// reconnect to its primary.

func (Configure) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonConfigure} }

func (DeleteUsers) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonDeleteUsers} }

func (s RotatePasswords) Meta() cluster.Meta { return cluster.Meta{Reason: s.Cause} }

func (KeepLogs) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonKeepLogs, Repair: true} }

func (SetUsers) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonSetUsers, Repair: true} }

func (ReloadCertificates) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonReloadCertificates, Repair: true, Incremental: true}
}

func (SetReplicationPassword) Meta() cluster.Meta {
	return cluster.Meta{Reason: ReasonReplicationPassword, Repair: true}
}

// Restores.

func (RecordBackup) Meta() cluster.Meta { return cluster.Meta{Reason: planner.ReasonRestoring} }

func (LoadBackup) Meta() cluster.Meta { return cluster.Meta{Reason: planner.ReasonRestoring} }
