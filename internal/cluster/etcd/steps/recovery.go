package steps

import (
	"fmt"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// StartRestore removes the cluster id from the record of a cluster none of whose members runs, so
// that they found it from a backup.
type StartRestore struct{ To model.Recovery }

func (s StartRestore) String() string { return "begin anew with " + s.To.Restore.Directory }

// Edit makes members with an empty disk found the cluster.
func (s StartRestore) Edit(r *model.Record) {
	r.Recovery, r.Restore = s.To, s.To.Restore
	r.Bootstrap, r.ClusterID, r.Flushed, r.Snapshot = model.BootstrapNew, 0, false, model.Snapshot{}
}

// SetRecovery writes down how far a recovery has got, if the record still is what the decision was made on.
type SetRecovery struct{ To model.Recovery }

func (s SetRecovery) String() string {
	switch {
	case s.To.Restore != nil:
		return fmt.Sprintf("begin anew with %s: %s", s.To.Restore.Directory, s.To.Phase)
	case s.To.Survivor == "" && (s.To.Incident == "" || s.To.Phase == model.RecoveryOver):
		return "forget that the quorum was lost"
	}
	return fmt.Sprintf("recovery %s: %s %s", s.To.Incident, s.To.Phase, s.To.Survivor)
}

// reason returns the reason of the phase that the recovery reaches.
func (s SetRecovery) reason() string {
	if s.To.Restore != nil {
		return ReasonRestoring
	}
	switch s.To.Phase {
	case model.RecoveryReported:
		return ReasonQuorumLost
	case model.RecoveryHeld, model.RecoveryStarted:
		return ReasonRecovering
	case model.RecoveryOver:
	}
	return "QuorumRecovered"
}
