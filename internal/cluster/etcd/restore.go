package etcd

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster"
)

const (
	// ReasonRestoring says that a new cluster is being made from a backup.
	ReasonRestoring = "Restoring"
	// ReasonRestoreRefused says why that cannot be; the message says what to do.
	ReasonRestoreRefused = "RestoreRefused"

	// restorePatience is how long a failed look at a backup rests before it is tried again.
	restorePatience = 30 * time.Second
)

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
	// Bump is added to the revision.
	Bump int64 `json:"bump"`
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
type RestoreWish struct {
	// Noun is the backup, for people.
	Noun string
	// Source is where it is, and Missing why that is not known.
	Source  v1alpha1.RestoreSource
	Missing string
	// Sum tells wishes apart.
	Sum string
	// Token for the new cluster.
	Token string
	// Job looks the backup up, nil when there is none; For is the sum that it was made for.
	Job *plan.Job
	For string
}

// FindBackup starts the Job that looks up which backup it is, and whether it can be read.
type FindBackup struct{ Sum string }

// DropFindJob deletes it.
type DropFindJob struct{ Name, UID string }

func (FindBackup) String() string    { return "look the backup up" }
func (s DropFindJob) String() string { return "delete Job " + s.Name }

// Reason names the step in events and conditions.
func (FindBackup) Reason() string { return ReasonRestoring }

// Reason names the step in events and conditions.
func (DropFindJob) Reason() string { return ReasonRestoring }

// beginWithBackup writes the record of a cluster that begins with a backup, once it is known that this one can be read. Nothing else has been
// made by then.
func beginWithBackup(s State, size int) (cluster.Plan, bool) {
	w := s.Want.Restore
	j := w.Job
	switch {
	case len(s.Claims) > 0:
		return cluster.Refuse(ReasonRestoreRefused, "spec.bootstrap.restore names a backup, but claim %s of an earlier cluster of this name exists, and its data is not overwritten: "+
			"remove spec.bootstrap.restore to go on with that data, or delete the claims of this cluster to begin with the backup", s.Claims[0].Name)
	case w.Missing != "":
		return cluster.Refuse(ReasonRestoreRefused, "spec.bootstrap.restore: %s", w.Missing)
	case j == nil:
		return cluster.Do(FindBackup{w.Sum}, "the cluster begins with %s", w.Noun)
	case j.Leaving:
		return cluster.Wait(ReasonRestoring, time.Second, "Job %s is being deleted", j.Name)
	case w.For != w.Sum:
		return cluster.Do(DropFindJob{j.Name, j.UID}, "spec.bootstrap.restore has changed")
	case !j.Ended:
		return cluster.Wait(ReasonRestoring, time.Second, "%s is being looked up: %s", w.Noun, j.Progress(s.Now))
	case j.Problem() != nil && s.Now.Sub(j.Since) < restorePatience:
		p := j.Problem()
		plan, ok := cluster.Refuse(p.Reason, "%s cannot be restored: %s (it is looked at again every half minute)", w.Noun, strings.TrimSuffix(p.Message, "."))
		plan.After = restorePatience - s.Now.Sub(j.Since) + time.Second
		return plan, ok
	case j.Problem() != nil, j.Report == nil, j.Report.Backup == nil:
		return cluster.Do(DropFindJob{j.Name, j.UID}, "%s is looked up again", w.Noun)
	}
	return found(s, size, j.Report)
}

// found writes the record for a backup that was found.
func found(s State, size int, r *plan.Report) (cluster.Plan, bool) {
	b, w := r.Backup, s.Want.Restore
	from, err := ParseVersion(b.Version)
	if err != nil || from.Minor > s.Want.Version.Minor || from.Minor+1 < s.Want.Version.Minor {
		return cluster.Refuse(ReasonRestoreRefused, "%s is of etcd %s, which can be restored into the same minor version or the next one, and spec.version is %s: "+
			"set spec.version, and upgrade afterwards", w.Noun, b.Version, s.Want.Version)
	}
	restore := Restore{Directory: b.Directory, Timeline: b.Timeline, Revision: r.Target, Exact: w.Source.Revision != nil || w.Source.Time != nil, Bump: RestoreBump, Token: w.Token}
	if w.Source.Destination != nil {
		restore.Destination = *w.Source.Destination
	}
	return cluster.Do(WriteBootstrap{BootstrapNew, size, s.Want.Version, &restore}, "%d members begin with %s, which is %s of etcd %s in %s",
		size, w.Noun, plan.Bytes(b.Size), b.Version, b.Directory)
}

// Restores reports whether members with an empty disk are to begin with a backup.
func (r Record) Restores() bool {
	return r.Restore != nil && r.ClusterID == 0 && r.Bootstrap == BootstrapNew
}
