package planner_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// simSnapshots is what a simulation has for snapshots.
type simSnapshots struct {
	// required and elsewhere are spec.upgrade: that there is to be one, and how often its destination has changed; 0: it has none.
	required  bool
	elsewhere int
	backups   []simBackup
	made      int
	// taken are the snapshots that are of use yet, by their Backup.
	taken map[string]steps.TakeSnapshot
}

type simBackup struct {
	steps.TakeSnapshot
	uid         string
	destination int
	// born, stored and ended are turns, 0 before; failed says that it did not end well.
	born, stored, ended int
	failed, leaving     bool
}

func (b simBackup) good() bool { return b.ended > 0 && !b.failed }

func (s *sim) newSnapshots() simSnapshots {
	out := simSnapshots{required: s.rng.IntN(4) > 0, elsewhere: s.rng.IntN(2), taken: map[string]steps.TakeSnapshot{}}
	for i := range s.rng.IntN(4) { // Of earlier upgrades.
		out.backups = append(out.backups, simBackup{
			TakeSnapshot: steps.TakeSnapshot{Name: fmt.Sprint("earlier-", i)}, uid: fmt.Sprint("earlier-", i), destination: s.rng.IntN(2), stored: 1, ended: 1,
		})
	}
	return out
}

func (s *sim) observeSnapshot(st *model.State, v *simView) {
	st.Want.Snapshot, st.Want.SnapshotPlace = s.snapshots.required, s.snapshotPlace()
	if st.Record == nil || st.Record.Version == st.Want.Version {
		return
	}
	at := func(turn int) time.Time { return simNow.Add(-time.Duration(s.turns-turn) * time.Minute) }
	for _, b := range slices.Backward(v.backups) {
		out := model.Backup{
			Name: b.Name, UID: b.uid, From: b.From, For: b.For, Leaving: b.leaving, Own: b.destination == 0,
			Elsewhere: b.destination != s.snapshots.elsewhere, Complete: b.stored > 0, Directory: b.uid, Revision: 7, Size: 1,
		}
		switch {
		case b.good():
			out.Verified = at(b.ended)
		case b.failed:
			out.Failed, out.Stalled, out.Since = "the volume is too small", "the volume is too small", at(b.ended)
		}
		st.Backups, st.BackupNames = append(st.Backups, out), append(st.BackupNames, b.Name)
	}
}

// snapshotPlace reports whether there is somewhere to keep a snapshot.
func (s *sim) snapshotPlace() bool { return s.persistent || s.snapshots.elsewhere > 0 }

// save carries out a step on the way to a snapshot.
func (s *sim) save(step cluster.Step) bool {
	all := &s.snapshots.backups
	switch step := step.(type) {
	case steps.TakeSnapshot:
		if s.moved() || slices.ContainsFunc(*all, func(b simBackup) bool { return b.Name == step.Name }) {
			return true
		}
		s.judgeTake()
		s.snapshots.made++
		*all = append(*all, simBackup{
			TakeSnapshot: step, uid: fmt.Sprint("backup-", s.snapshots.made), destination: s.snapshots.elsewhere, born: s.turns,
		})
	case steps.RecordSnapshot:
		return s.change(func(r *model.Record) { r.Snapshot = step.Snapshot })
	case steps.DropBackup:
		for i := range *all {
			if b := &(*all)[i]; b.uid == step.UID {
				b.leaving = true
				s.judgeDrop(*b)
			}
		}
	}
	return !s.write()
}

// judgeDrop wants a good Backup to stay, and all at a destination of the user.
func (s *sim) judgeDrop(dropped simBackup) {
	if !dropped.good() {
		return
	}
	newer := slices.ContainsFunc(s.snapshots.backups, func(b simBackup) bool {
		return b.good() && !b.leaving && b.destination == 0 && b.born >= dropped.born && b.uid != dropped.uid
	})
	if dropped.destination > 0 || !newer {
		s.badPolicy = fmt.Sprintf("Backup %s is deleted, and it is the newest that is good, or the user's", dropped.uid)
	}
}

// runBackups is one pass of the operator of Backups and of their Jobs, and of somebody who deletes them. A snapshot comes from a member
// that runs.
func (s *sim) runBackups() {
	s.snapshots.backups = slices.DeleteFunc(s.snapshots.backups, func(b simBackup) bool {
		gone := !s.maintenance.calm && s.rng.IntN(60) == 0
		if gone {
			s.note("fault: somebody deletes %s", b.uid)
		}
		return gone || b.leaving && s.rng.IntN(3) > 0
	})
	for i := range s.snapshots.backups {
		b := &s.snapshots.backups[i]
		switch {
		case b.failed && s.maintenance.calm && b.destination > 0:
			b.leaving = true // A human does as the message says.
		case b.leaving || b.ended > 0:
		case s.rng.IntN(4) == 0 && !s.maintenance.calm:
			b.ended, b.failed = s.turns, true
			s.note("fault: %s fails", b.uid)
		case b.stored == 0 && s.rng.IntN(2) == 0 && s.anyVoting():
			b.stored = s.turns
		case b.stored > 0 && s.rng.IntN(2) == 0:
			b.ended = s.turns
			s.snapshots.taken[b.uid] = b.TakeSnapshot
			s.note("%s is verified", b.uid)
		}
	}
}

// judgeTake wants room for one more on the claim of the cluster: no more than one that is good, beside those that are going.
func (s *sim) judgeTake() {
	own := 0
	for _, b := range s.seen.backups {
		if b.good() && !b.leaving && b.destination == 0 {
			own++
		}
	}
	if own > 1 {
		s.badPolicy = fmt.Sprintf("one more is taken, and %d good Backups are on the claim of the cluster", own)
	}
}

func (s *sim) anyVoting() bool {
	for _, p := range s.pods {
		if p.process != nil && s.net.Voting(p.process) {
			return true
		}
	}
	return false
}

// setVersion changes the version of the pods. At the end of its way a snapshot is of no more use.
func (s *sim) setVersion(step steps.SetVersion) bool {
	if !s.moved() {
		for uid, way := range s.snapshots.taken {
			if way.For == step.To {
				delete(s.snapshots.taken, uid)
			}
		}
	}
	return s.change(func(r *model.Record) { *r = r.With(step.To) })
}

// judgeUpgrade wants no pod to leave a minor version out, nor to get a newer version before there is a snapshot, unless the user does not,
// or there is nowhere to put one.
func (s *sim) judgeUpgrade(step steps.SetVersion) {
	if s.record.ClusterID != 0 && step.To.Minor > step.From.Minor+1 {
		s.badPolicy = fmt.Sprintf("pods get %s right after %s", step.To, step.From)
	}
	if s.moved() || !step.From.Less(step.To) || !s.snapshots.required || !s.snapshotPlace() || s.record.ClusterID == 0 {
		return
	}
	if slices.ContainsFunc(s.seen.pods, func(p simPod) bool { return p.release == step.To }) {
		return // It has begun already, and cannot go back.
	}
	if slices.ContainsFunc(s.disks(), func(d *etcdfake.Disk) bool { return d.Agreed().Minor == step.To.Minor }) {
		return // It had come to its end.
	}
	target := s.target(*s.record).release
	way, ok := s.snapshots.taken[s.record.Snapshot.UID]
	if !ok || way.For != target {
		s.badPolicy = fmt.Sprintf("pods get %s on the way to %s without a snapshot: %+v", step.To, target, s.record.Snapshot)
	}
}
