package planner

import (
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// awaitsBackup reports whether no server may be started yet.
func awaitsBackup(s model.State) bool { return s.Restore != nil && s.Restore.Wish != nil }

// beginWithBackup looks the backup up before there is anything else.
func beginWithBackup(s model.State) cluster.Plan {
	w, claim := s.Restore.Wish, ""
	if len(s.Claims) > 0 {
		claim = s.Claims[0].Name
	}
	report, p := w.Find(claim, s.Now)
	if report == nil {
		return p
	}
	b := report.Backup
	step := steps.RecordBackup{Record: model.RestoreRecord{Directory: b.Directory}}
	if w.Source.Destination != nil {
		step.Record.Destination = *w.Source.Destination
	}
	p, _ = cluster.Do(step, "%d shards begin with %s, which is %s with %d keys of %d shards of %s %s in %s",
		s.Spec.Shards, w.Noun, job.Bytes(b.Size), b.Keys, b.Shards, b.Engine, b.Version, b.Directory)
	return p
}

// noteLoaded writes down that a load is complete, before anything else: done again, it would take away what clients have written since.
func noteLoaded(r *model.Restore) (cluster.Plan, bool) {
	if r == nil || r.Loading == nil || facts.Fills(r) {
		return cluster.Pass()
	}
	if restored := r.Loading.Loaded(steps.LoadBackup{RestoreRecord: r.RestoreRecord}); restored != nil {
		return r.Loading.Note(*restored)
	}
	return cluster.Pass()
}

// waitForLoad lets nothing begin while servers are loaded that could wait: a load is begun anew when it is disturbed.
func waitForLoad(v *model.View) (cluster.Plan, bool) {
	r := v.Restore
	if r == nil || r.Loading == nil {
		return cluster.Pass()
	}
	load := steps.LoadBackup{RestoreRecord: r.RestoreRecord}
	restored, p := r.Loading.Next(load, v.Now)
	switch {
	case restored != nil:
		return r.Loading.Note(*restored)
	case r.Loading.Runs(load):
		return p, true
	}
	return cluster.Pass()
}

// loadBackup loads the servers once all of them serve.
func loadBackup(v *model.View) (cluster.Plan, bool) {
	if c := v.Confirmed; facts.MayBegin(v.State) && !c.Lost {
		if p, ok := c.Saved.Save(c.Noun, c.SaveAs, v.Now); ok && c.Saves && v.Restore == nil {
			return p, true
		}
		return cluster.Do(steps.RecordBackup{Record: c.RestoreRecord}, "%s is confirmed: all data is replaced by backup %s", c.Noun, c.Directory)
	}
	r := v.Restore
	if r == nil || r.Loading == nil {
		return cluster.Pass()
	}
	_, p := r.Loading.Next(steps.LoadBackup{RestoreRecord: r.RestoreRecord}, v.Now)
	return p, true
}
