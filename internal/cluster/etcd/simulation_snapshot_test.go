package etcd_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// simSnapshots is what a simulation has for snapshots.
type simSnapshots struct {
	required bool
	job      *simJob
	jobs     int
	// taken are the snapshots that are of use yet, by their Job.
	taken map[string]etcd.TakeSnapshot
}

type simJob struct {
	etcd.TakeSnapshot
	uid         string
	born, ended int
	failed      bool
	reported    bool
	leaving     bool
}

func (s *sim) newSnapshots() simSnapshots {
	return simSnapshots{required: s.rng.IntN(4) > 0, taken: map[string]etcd.TakeSnapshot{}}
}

func (s *simSnapshots) copyJob() *simJob {
	if s.job == nil {
		return nil
	}
	out := *s.job
	return &out
}

func (s *sim) observeSnapshot(st *etcd.State, v *simView) {
	st.Want.Snapshot = s.snapshots.required
	if v.job == nil || st.Record == nil || st.Record.Version == st.Want.Version {
		return
	}
	minutes := func(turns int) time.Duration { return time.Duration(turns) * time.Minute }
	job := &etcd.SnapshotJob{
		Name: "orders-snapshot", UID: v.job.uid, From: v.job.From, For: v.job.For, Leaving: v.job.leaving, Age: minutes(s.turns - v.job.born),
	}
	if v.job.ended > 0 {
		job.Ended = simNow.Add(-minutes(s.turns - v.job.ended))
	}
	if v.job.failed {
		job.Failed = "the volume is too small"
	}
	if v.job.reported {
		job.Report = &etcd.SnapshotReport{File: v.job.uid + ".db", Revision: 7, Size: 1, Member: "orders-0"}
	}
	st.SnapshotJob = job
}

// save carries out a step on the way to a snapshot.
func (s *sim) save(step cluster.Step) bool {
	switch step := step.(type) {
	case etcd.TakeSnapshot:
		if s.moved() || s.snapshots.job != nil {
			return true
		}
		s.snapshots.jobs++
		s.snapshots.job = &simJob{TakeSnapshot: step, uid: fmt.Sprint("job-", s.snapshots.jobs), born: s.turns}
	case etcd.RecordSnapshot:
		return s.change(func(r *etcd.Record) { r.Snapshot = step.Snapshot })
	case etcd.DropSnapshotJob:
		if job := s.snapshots.job; job != nil && job.uid == step.UID {
			job.leaving = true
		}
	}
	return !s.write()
}

// runJob is one pass of the Job controller and the kubelet. A snapshot comes from a member that runs.
func (s *sim) runJob() {
	job := s.snapshots.job
	switch {
	case job == nil:
	case job.leaving:
		if s.rng.IntN(3) > 0 {
			s.snapshots.job = nil
		}
	case job.ended > 0:
	case s.rng.IntN(3) == 0 && !s.upkeep.calm:
		job.ended, job.failed = s.turns, true
		s.note("fault: the snapshot fails")
	case s.rng.IntN(2) == 0 && s.anyVoting():
		job.ended, job.reported = s.turns, s.upkeep.calm || s.rng.IntN(5) > 0
		s.snapshots.taken[job.uid] = job.TakeSnapshot
		s.note("the snapshot is taken, reported: %t", job.reported)
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
func (s *sim) setVersion(step etcd.SetVersion) bool {
	if !s.moved() {
		for uid, way := range s.snapshots.taken {
			if way.For == step.To {
				delete(s.snapshots.taken, uid)
			}
		}
	}
	return s.change(func(r *etcd.Record) { *r = r.With(step.To) })
}

// judgeUpgrade wants no pod to get a newer version before there is a snapshot, unless the user does not, or there is nowhere to put one.
func (s *sim) judgeUpgrade(step etcd.SetVersion) {
	if s.moved() || !step.From.Less(step.To) || !s.snapshots.required || !s.persistent || s.record.ClusterID == 0 {
		return
	}
	if slices.ContainsFunc(s.seen.pods, func(p simPod) bool { return p.release == step.To }) {
		return // It has begun already, and cannot go back.
	}
	target := s.target(*s.record).release
	way, ok := s.snapshots.taken[s.record.Snapshot.Job]
	if !ok || way.For != target {
		s.badPolicy = fmt.Sprintf("pods get %s on the way to %s without a snapshot: %+v", step.To, target, s.record.Snapshot)
	}
}
