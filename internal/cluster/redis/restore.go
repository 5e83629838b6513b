package redis

import (
	"fmt"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// A backup is put into a cluster in one of three ways. What is done is written down before it begins, and goes on from there, whatever
// becomes of who asked for it:
//
//	a new cluster begins with it   it is looked up, servers start empty and form a cluster, it is loaded, clients are let in
//	everything is replaced         it is confirmed, all servers are well, they are emptied and loaded
//	lost slots are brought back    it is confirmed, see refill.go

// Restore is a backup that is being put into a cluster.
type Restore struct {
	// Wish is set until it is known which backup a new cluster begins with. No server is started before.
	Wish *planner.RestoreRequest
	// RestoreRecord was written down, and Loading is how far that is; nil with a Wish.
	RestoreRecord
	Loading *planner.Loading
}

// RestoreRecord says which backup is put into a cluster, and how. It is written before anything is changed.
type RestoreRecord struct {
	Destination v1alpha1.BackupDestination `json:"destination"`
	Directory   string                     `json:"directory"`
	// Token is the UID of the Restore that was confirmed, empty for the backup that the cluster began with.
	Token string `json:"token,omitempty"`
	// Slots that were lost and are brought back; none: everything is replaced.
	Slots Slots `json:"slots,omitempty"`
	// Owners are the ids of the nodes that had these, as far as any server knew.
	Owners []string `json:"owners,omitempty"`
	// Served says that the slots are served before they are loaded: see importless.
	Served bool `json:"served,omitempty"`
	// Emptied says that the slots are emptied before they are loaded: another backup may have been loaded into them in part.
	Emptied bool `json:"emptied,omitempty"`
	// Restored is what came of it, nil while it has not been loaded.
	Restored *job.Restored `json:"restored,omitempty"`
}

// Confirmed is a backup that somebody has confirmed is to be put into the cluster.
type Confirmed struct {
	// Noun is who asks for it, for people.
	Noun string
	// Lost says that it brings back lost slots, and Loss which loss that was confirmed for. It replaces everything otherwise.
	Lost bool
	Loss string
	// Saves says that what the cluster has is backed up before that is replaced. Saved is the last such backup, nil for none, and SaveAs what
	// another one is called.
	Saves  bool
	Saved  *planner.Saved
	SaveAs string
	// RestoreRecord is what is to be written down, but for the slots.
	RestoreRecord
}

// uncopied reports whether what the cluster has, which is to be backed up first, cannot be: that is hopeless, or it is being replaced already.
func (c *Confirmed) uncopied(goesOn bool) bool {
	return c.Saves && ((goesOn && (c.Saved == nil || !c.Saved.Complete)) || c.Saved.Hopeless())
}

// RecordBackup remembers which backup is put into the cluster. Nothing is done about that before.
type RecordBackup struct{ Record RestoreRecord }

func (s RecordBackup) String() string { return fmt.Sprintf("begin with backup %s", s.Record.Directory) }

// LoadBackup starts the Job that loads the backup of the record.
type LoadBackup struct {
	RestoreRecord
	// Into are the servers that import the slots; none: each key goes to the owner of its slot.
	Into []Refill
}

var _ planner.Load = LoadBackup{}

func (LoadBackup) String() string { return "load the backup" }

// Sum tells apart what Jobs are to do. The one that loads what a new cluster begins with needs none.
func (s LoadBackup) Sum() string {
	if s.Served {
		return s.Token + " served"
	}
	return s.Token
}

// Repeats reports whether it may be done again: slots that were imported are served when it is known that all of them are there.
func (s LoadBackup) Repeats() bool { return len(s.Into) > 0 }

// Replaces reports whether what the servers have is deleted before they are loaded.
func (s LoadBackup) Replaces() bool { return s.Token != "" && len(s.Slots) == 0 }

// awaitsBackup reports whether no server may be started yet.
func (s State) awaitsBackup() bool { return s.Restore != nil && s.Restore.Wish != nil }

// Bootstraps reports whether the cluster is new, and clients are to wait for what it begins with.
func (r *Restore) Bootstraps() bool { return r != nil && r.Token == "" }

// whole reports whether the backup is to be all that the cluster has.
func (r *Restore) whole() bool { return r != nil && len(r.Slots) == 0 }

// unfit says why the data is not what it is to be, empty when it is as far as a restore is concerned.
func (r *Restore) unfit() string {
	switch {
	case !r.whole():
		return ""
	case r.Bootstraps():
		return "the backup that the cluster begins with has not been loaded"
	}
	return fmt.Sprintf("all data is being replaced by backup %s: clients find a part of it, and what they write can be lost until it is complete", r.Directory)
}

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
	step := RecordBackup{RestoreRecord{Directory: b.Directory}}
	if w.Source.Destination != nil {
		step.Record.Destination = *w.Source.Destination
	}
	p, _ = cluster.Do(step, "%d shards begin with %s, which is %s with %d keys of %d shards of %s %s in %s",
		s.Spec.Shards, w.Noun, job.Bytes(b.Size), b.Keys, b.Shards, b.Engine, b.Version, b.Directory)
	return p
}

// mayBegin reports whether what was confirmed may be begun. It is not looked for while the Restore of one that has begun is there. Afterwards it takes
// the place of that where everything is deleted first, and else only when that fails: the keys of two backups would mix.
func (s State) mayBegin() bool {
	c, r := s.Confirmed, s.Restore
	switch {
	case c == nil || c.uncopied(r != nil):
		return false
	case r == nil || r.Bootstraps() || c.Token == r.Token:
		return r == nil
	}
	return (r.whole() && !c.Lost) || (r.Loading.Job != nil && r.Loading.Job.Failed)
}

// noteLoaded writes down that a load is complete, before anything else: done again, it would take away what clients have written since.
func noteLoaded(r *Restore) (cluster.Plan, bool) {
	if r == nil || r.Loading == nil || r.fills() {
		return cluster.Pass()
	}
	if restored := r.Loading.Loaded(LoadBackup{RestoreRecord: r.RestoreRecord}); restored != nil {
		return r.Loading.Note(*restored)
	}
	return cluster.Pass()
}

// waitForLoad lets nothing begin while servers are loaded that could wait: a load is begun anew when it is disturbed.
func waitForLoad(v *view) (cluster.Plan, bool) {
	r := v.Restore
	if r == nil || r.Loading == nil {
		return cluster.Pass()
	}
	load := LoadBackup{RestoreRecord: r.RestoreRecord}
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
func loadBackup(v *view) (cluster.Plan, bool) {
	if c := v.Confirmed; v.mayBegin() && !c.Lost {
		if p, ok := c.Saved.Save(c.Noun, c.SaveAs, v.Now); ok && c.Saves && v.Restore == nil {
			return p, true
		}
		return cluster.Do(RecordBackup{c.RestoreRecord}, "%s is confirmed: all data is replaced by backup %s", c.Noun, c.Directory)
	}
	r := v.Restore
	if r == nil || r.Loading == nil {
		return cluster.Pass()
	}
	_, p := r.Loading.Next(LoadBackup{RestoreRecord: r.RestoreRecord}, v.Now)
	return p, true
}
