package steps

import (
	"github.com/quorate/quorate/internal/cluster"
)

// Bootstrap and membership.

func (WriteBootstrap) Meta() cluster.Meta { return cluster.Meta{Reason: "Bootstrapping"} }

func (RecordClusterID) Meta() cluster.Meta { return cluster.Meta{Reason: "RecordingClusterID"} }

func (s Resize) Meta() cluster.Meta { return cluster.Meta{Reason: s.reason()} }

func (AddLearner) Meta() cluster.Meta { return cluster.Meta{Reason: "AddingLearner"} }

func (Promote) Meta() cluster.Meta { return cluster.Meta{Reason: "PromotingLearner"} }

func (RemoveMember) Meta() cluster.Meta { return cluster.Meta{Reason: "RemovingMember"} }

func (MoveLeader) Meta() cluster.Meta { return cluster.Meta{Reason: "MovingLeader", HandsOver: true} }

// Recovery, restores and snapshots.

func (s SetRecovery) Meta() cluster.Meta { return cluster.Meta{Reason: s.reason()} }

func (StartRestore) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonRestoring} }

func (TakeSnapshot) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonSnapshot} }

func (RecordSnapshot) Meta() cluster.Meta { return cluster.Meta{Reason: "SnapshotTaken"} }

func (DropBackup) Meta() cluster.Meta { return cluster.Meta{Reason: "DroppingBackup"} }

// Authentication.

func (EnableAuth) Meta() cluster.Meta { return cluster.Meta{Reason: "EnablingAuth"} }

func (SetRootPassword) Meta() cluster.Meta { return cluster.Meta{Reason: "SettingRootPassword"} }

func (RecordPassword) Meta() cluster.Meta { return cluster.Meta{Reason: "RecordingRootPassword"} }

func (LetClientsIn) Meta() cluster.Meta { return cluster.Meta{Reason: "LettingClientsIn"} }

// Versions, settings and transport.

func (s SetVersion) Meta() cluster.Meta { return cluster.Meta{Reason: s.reason()} }

func (Downgrade) Meta() cluster.Meta { return cluster.Meta{Reason: "Downgrading"} }

func (CancelDowngrade) Meta() cluster.Meta { return cluster.Meta{Reason: "CancellingDowngrade"} }

func (NoteFlushed) Meta() cluster.Meta { return cluster.Meta{Reason: "SnapshotsWritten"} }

func (Prove) Meta() cluster.Meta { return cluster.Meta{Reason: "SettingsProven"} }

func (Reject) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonCanary} }

func (SetTransport) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonTransport} }

func (UpdatePeer) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonTransport} }

// Pods, claims and StatefulSets.

func (DeletePod) Meta() cluster.Meta { return cluster.Meta{Reason: "RestartingMember"} }

func (DeleteClaim) Meta() cluster.Meta { return cluster.Meta{Reason: "DeletingClaim"} }

func (ExpandClaim) Meta() cluster.Meta { return cluster.Meta{Reason: "ExpandingVolume"} }

func (RemakeSet) Meta() cluster.Meta { return cluster.Meta{Reason: "RemakingStatefulSet"} }

func (SetBudget) Meta() cluster.Meta { return cluster.Meta{Reason: "SettingBudget"} }

func (Hibernate) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonHibernating} }

func (Wake) Meta() cluster.Meta { return cluster.Meta{Reason: "WakingUp"} }

// Maintenance.

func (Compact) Meta() cluster.Meta { return cluster.Meta{Reason: "Compacting"} }

func (DrainMember) Meta() cluster.Meta { return cluster.Meta{Reason: "DrainingMember"} }

func (Defragment) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonDefragmenting} }

func (ServeAgain) Meta() cluster.Meta { return cluster.Meta{Reason: "ServingAgain", Repair: true} }

func (Disarm) Meta() cluster.Meta { return cluster.Meta{Reason: "DisarmingAlarm"} }
