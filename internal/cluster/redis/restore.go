package redis

import (
	"fmt"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster"
)

// Restore is the backup that a new cluster begins with. Its servers start empty, form a cluster of the shards that are wanted, and are
// loaded; clients are let in after that.
type Restore struct {
	// Wish is set until it is known which backup it is. No server is started before.
	Wish *plan.Wish
	// Loading is set while it has not been loaded.
	Loading *plan.Loading
}

// RecordBackup remembers which backup the cluster begins with. Servers are started afterwards.
type RecordBackup struct {
	Destination v1alpha1.BackupDestination
	Directory   string
}

// Reason names the step.
func (RecordBackup) Reason() string { return plan.ReasonRestoring }

func (s RecordBackup) String() string { return fmt.Sprintf("begin with backup %s", s.Directory) }

// awaitsBackup reports whether no server may be started yet.
func (s State) awaitsBackup() bool { return s.Restore != nil && s.Restore.Wish != nil }

// beginWithBackup looks the backup up before there is anything else.
func beginWithBackup(s State) cluster.Plan {
	w, claim := s.Restore.Wish, ""
	if len(s.Claims) > 0 {
		claim = s.Claims[0].Name
	}
	report, p := w.Find(claim, s.Now)
	if report == nil {
		return p
	}
	b := report.Backup
	step := RecordBackup{Directory: b.Directory}
	if w.Source.Destination != nil {
		step.Destination = *w.Source.Destination
	}
	p, _ = cluster.Do(step, "%d shards begin with %s, which is %s with %d keys of %d shards of %s %s in %s",
		s.Spec.Shards, w.Noun, plan.Bytes(b.Size), b.Keys, b.Shards, b.Engine, b.Version, b.Directory)
	return p
}

// loadBackup loads the servers of a new cluster once all of them serve.
func loadBackup(v *view) (cluster.Plan, bool) {
	if v.Restore == nil || v.Restore.Loading == nil {
		return cluster.Pass()
	}
	return v.Restore.Loading.Next(v.Now)
}
