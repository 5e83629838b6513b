package etcd

import (
	"encoding/json"
	"fmt"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// ReasonRestoring says that a new cluster is being made from a backup.
const ReasonRestoring = planner.ReasonRestoring

// RestoreBump is by how much the revision of a restored cluster is above that of its backup, so that it is above all that watchers and caches
// of the former cluster have seen: a week at some 1,600 writes a second.
//
// Source: etcd, Operations guide, Disaster recovery, "Restoring with revision bump".
const RestoreBump = 1_000_000_000

// Restore is the backup that the members of a new cluster begin with, each for itself and all the same. It is part of the record: whatever
// comes to be in that place meanwhile, the members agree.
type Restore struct {
	Destination v1alpha1.BackupDestination `json:"destination"`
	// Directory of the backup below the URL.
	Directory string `json:"directory"`
	// Timeline is the history that it belongs to, and Revision the newest change of it that the members are to have; 0: as many as
	// the snapshot holds. Exact says that this was asked for: a snapshot that holds more will not do.
	Timeline string `json:"timeline,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	Exact    bool   `json:"exact,omitempty"`
	// AtLeast is the revision that the backup has at least, and Bump is added to that.
	AtLeast int64 `json:"atLeast,omitempty"`
	Bump    int64 `json:"bump"`
	// Token tells the restored cluster from all others.
	Token string `json:"token"`
}

func (r *Restore) encode() string {
	if r == nil {
		return ""
	}
	raw, _ := json.Marshal(r) // Strings and numbers.
	return string(raw)
}

func parseRestore(text string) (*Restore, error) {
	if text == "" {
		return nil, nil
	}
	r := &Restore{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("key %s: %w", KeyRestore, err)
	}
	return r, nil
}

// RestoreWish is what the specification says of the backup that a new cluster is to begin with.
type RestoreWish = planner.RestoreRequest

// beginWithBackup writes the record of a cluster that begins with a backup, once it is known that this one can be read. Nothing else has been
// made by then.
func beginWithBackup(s State, size int) (cluster.Plan, bool) {
	claim := ""
	if len(s.Claims) > 0 {
		claim = s.Claims[0].Name
	}
	report, p := s.Want.Restore.Find(claim, s.Now)
	if report == nil {
		return p, true
	}
	return found(s, size, report)
}

// found writes the record for a backup that was found.
func found(s State, size int, r *job.Report) (cluster.Plan, bool) {
	b, w := r.Backup, s.Want.Restore
	if why := Unsuited(b.Version, s.Want.Version); why != "" {
		return cluster.Refuse(planner.ReasonRestoreRefused, "%s cannot be restored: %s: set spec.version, and upgrade afterwards", w.Noun, why)
	}
	restore := Restore{Directory: b.Directory, Timeline: b.Timeline, Revision: r.Target, Exact: w.Source.Revision != nil || w.Source.Time != nil, Bump: RestoreBump, Token: w.Token}
	if w.Source.Destination != nil {
		restore.Destination = *w.Source.Destination
	}
	return cluster.Do(WriteBootstrap{BootstrapNew, size, s.Want.Version, &restore}, "%d members begin with %s, which is %s of etcd %s in %s",
		size, w.Noun, job.Bytes(b.Size), b.Version, b.Directory)
}

// Restores reports whether members with an empty disk are to begin with a backup.
func (r Record) Restores() bool {
	return r.Restore != nil && r.ClusterID == 0 && r.Bootstrap == BootstrapNew
}
