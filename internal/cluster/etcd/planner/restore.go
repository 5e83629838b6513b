package planner

import (
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// beginWithBackup writes the record of a cluster that begins with a backup, once it is known that this one can be read. Nothing else has been
// made by then.
func beginWithBackup(s model.State, size int) (cluster.Plan, bool) {
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
func found(s model.State, size int, r *job.Report) (cluster.Plan, bool) {
	b, w := r.Backup, s.Want.Restore
	if why := model.Unsuited(b.Version, s.Want.Version); why != "" {
		return cluster.Refuse(planner.ReasonRestoreRefused, "%s cannot be restored: %s: set spec.version, and upgrade afterwards", w.Noun, why)
	}
	restore := model.Restore{Directory: b.Directory, Timeline: b.Timeline, Revision: r.Target, Exact: w.Source.Revision != nil || w.Source.Time != nil, Bump: model.RestoreBump, Token: w.Token}
	if w.Source.Destination != nil {
		restore.Destination = *w.Source.Destination
	}
	return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: size, Version: s.Want.Version, Restore: &restore}, "%d members begin with %s, which is %s of etcd %s in %s",
		size, w.Noun, job.Bytes(b.Size), b.Version, b.Directory)
}
