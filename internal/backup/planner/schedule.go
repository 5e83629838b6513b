package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
)

// ScheduleState is what was observed of a schedule and of the backups that were made for it.
type ScheduleState struct {
	Now  time.Time
	Name string
	// Noun is the cluster, for people.
	Noun string
	// Created is when the schedule was made.
	Created time.Time
	// Deleting says that it is being deleted, Suspended that no backups are to begin, Forbid that not two are taken at a time.
	Deleting, Suspended, Forbid bool
	// Asleep says that the cluster is hibernated: a backup that is made then waits until it wakes up.
	Asleep bool
	// Take says when backups are due, Check when the newest is to be checked; nil: never.
	Take  Schedule
	Check *Schedule
	// Retention of backups, in days and months of Zone.
	Retention Retention
	Zone      *time.Location
	// Runs are the backups.
	Runs []Run
	// Records says that changes are to be recorded between backups, and Recorder is what does so, nil when there is none.
	Records  bool
	Recorder *Recorder
}

// Recorder is the pod that records changes.
type Recorder struct {
	Name, UID string
	// Since is when it was made.
	Since time.Time
	// Trouble is what keeps its pod from running, empty when nothing does.
	Trouble string
	// Stream is how far it is, nil when it does not answer.
	Stream *job.Stream
}

// States of a recording, for people.
const (
	RecordingStarting = "Starting"
	RecordingCurrent  = "Current"
	RecordingBehind   = "Behind"
)

// recordingGrace is how long what was acknowledged may take to be stored before that is called behind.
const recordingGrace = time.Minute

// Recording says how far the recording of changes is, and why; empty when there is to be none.
func (t ScheduleState) Recording() (state, why string) {
	r := t.Recorder
	switch {
	case !t.Records:
		return "", ""
	case r == nil:
		return RecordingStarting, "the pod that records changes is about to be made"
	case r.Stream == nil && r.Trouble != "":
		return RecordingBehind, "the pod that records changes cannot run: " + r.Trouble
	case r.Stream == nil && t.Now.Sub(r.Since) > recordingGrace:
		return RecordingBehind, "the pod that records changes does not answer"
	case r.Stream == nil:
		return RecordingStarting, "the pod that records changes is starting"
	case r.Stream.Needs != "" && t.newest() == nil:
		return RecordingStarting, r.Stream.Needs
	case r.Stream.Needs != "":
		return RecordingBehind, "recording needs a full backup to go on: " + r.Stream.Needs
	case r.Stream.Time.IsZero() && t.Now.Sub(r.Since) <= recordingGrace:
		return RecordingStarting, "recording has begun"
	case t.Now.Sub(r.Stream.Time) > recordingGrace:
		why = "of what was acknowledged in the last minutes, something may not be stored"
		if r.Stream.Trouble != "" {
			why += ": " + r.Stream.Trouble
		}
		return RecordingBehind, why
	}
	return RecordingCurrent, ""
}

// Run is a backup that was made for a schedule.
type Run struct {
	Name, UID string
	// Due is when it was to begin, Began when it did, and Finished when it was complete.
	Due, Began, Finished time.Time
	// Complete says that it is stored in full, Failed why it never will be. Neither: it is being taken.
	Complete bool
	Failed   string
	// Checking says that it is being checked, Stuck that this waits in vain. Checked is when it last was, Verified that it passed, Unverified
	// why it did not, Took how long that took.
	Checking   bool
	Stuck      bool
	Checked    time.Time
	Verified   bool
	Unverified string
	Took       time.Duration
	// Unplanned is the history that could not be recorded without it, empty when it was due by the schedule.
	Unplanned string
	// Leaving says that it is being deleted, InUse that a cluster is being restored from it.
	Leaving, InUse bool
}

func (r Run) running() bool { return !r.Complete && r.Failed == "" && !r.Leaving }

// Reasons of conditions and events.
const (
	ReasonScheduling  = "CreatingBackup"
	ReasonExpiring    = "DeletingExpiredBackup"
	ReasonSchedule    = "InvalidSchedule"
	ReasonHealthy     = "BackupsInTime"
	ReasonNoBackup    = "NoBackupYet"
	ReasonLate        = "BackupLate"
	ReasonBehind      = "RecordingBehind"
	ReasonUnverified  = "BackupUnverified"
	ReasonLastFailed  = "LastBackupFailed"
	ReasonCheckFailed = "LastCheckFailed"
)

// CreateBackup makes the Backup that is due.
type CreateBackup struct {
	Name string
	Due  time.Time
	// Unplanned is the history that cannot be recorded without it, empty for one that the schedule asks for.
	Unplanned string
}

// CheckBackup starts the check of a Backup.
type CheckBackup struct{ Name string }

// DeleteBackup deletes a Backup that retention does not keep.
type DeleteBackup struct{ Name, UID string }

func (s CreateBackup) String() string { return "create Backup " + s.Name }

func (s CheckBackup) String() string { return "check Backup " + s.Name }

func (s DeleteBackup) String() string { return "delete Backup " + s.Name }

// recordingPoll is how often the pod that records changes is asked how far it is.
const recordingPoll = 10 * time.Second

// NextOfSchedule decides what to do about a schedule. It is pure.
func NextOfSchedule(t ScheduleState) cluster.Plan {
	if t.Deleting {
		return cluster.Plan{Message: "the schedule is being deleted; its backups stay"}
	}
	p := cluster.Decide(t, schedule, nil)
	if p.Settled() {
		next, _ := NextDue(t) // A schedule without a next time was refused.
		p.Message = fmt.Sprintf("the next backup of %s is due at %s", t.Noun, next.UTC().Format(time.RFC3339))
		p.After = max(time.Second, min(next.Sub(t.Now), time.Minute))
		switch {
		case t.Suspended:
			p.Message = "no backups begin while spec.suspend is true"
		case t.Asleep:
			p.Message, p.After = fmt.Sprintf("the next backup of %s begins when it wakes up: it is hibernated", t.Noun), time.Minute
		}
		if t.Records {
			p.After = min(p.After, recordingPoll)
		}
	}
	return p
}

// NextDue is when the next backup is due, or the one that is due now; false where a schedule has no such time, or its cluster sleeps.
func NextDue(t ScheduleState) (time.Time, bool) {
	due, _, next, err := t.Take.Due(t.lastDue(), t.Created, t.Now)
	if due != nil {
		next = *due
	}
	return next, err == nil && !next.IsZero() && !t.Suspended && !t.Asleep
}

func refuseSchedule(t ScheduleState) (cluster.Plan, bool) {
	if err := t.Take.Check(); err != nil {
		return cluster.Refuse(ReasonSchedule, "spec.schedule: %v", err)
	}
	if t.Check != nil {
		if err := t.Check.Check(); err != nil {
			return cluster.Refuse(ReasonSchedule, "spec.verify.schedule: %v", err)
		}
	}
	return cluster.Pass()
}

// lastDue is when the newest backup was due, zero when there was none.
func (t ScheduleState) lastDue() (last time.Time) {
	for _, r := range t.Runs {
		if r.Due.After(last) && r.Unplanned == "" {
			last = r.Due
		}
	}
	return last
}

// takeDue makes the backup that is due.
func takeDue(t ScheduleState) (cluster.Plan, bool) {
	due, missed, _, err := t.Take.Due(t.lastDue(), t.Created, t.Now)
	if err != nil {
		return cluster.Refuse(ReasonSchedule, "spec.schedule: %v", err)
	}
	if due == nil || t.Suspended || ((t.Forbid || t.Asleep) && slices.ContainsFunc(t.Runs, Run.running)) {
		return cluster.Pass()
	}
	name := t.Name + "-" + due.UTC().Format("20060102150405")
	text := fmt.Sprintf("a backup of %s is due", t.Noun)
	if missed > 0 {
		text += fmt.Sprintf(", and %d before it were missed", missed)
	}
	return cluster.Do(CreateBackup{name, *due, ""}, "%s", text)
}

// StopRecorder deletes what records changes.
type StopRecorder struct{ Name, UID string }

func (s StopRecorder) String() string { return "delete StatefulSet " + s.Name }

func stopRecorder(t ScheduleState) (cluster.Plan, bool) {
	if t.Records || t.Recorder == nil {
		return cluster.Pass()
	}
	return cluster.Do(StopRecorder{t.Recorder.Name, t.Recorder.UID}, "spec.incremental is not set any more")
}

// takeForRecorder makes a backup out of turn when changes cannot be recorded without one: otherwise nothing could be restored to the time until
// the next one. Where the last one did not help to record this history, it waits for its turn.
func takeForRecorder(t ScheduleState) (cluster.Plan, bool) {
	r := t.Recorder
	if r == nil || r.Stream == nil || r.Stream.Needs == "" || t.Suspended || slices.ContainsFunc(t.Runs, Run.running) {
		return cluster.Pass()
	}
	const settle, atMost = 20 * time.Second, 10 * time.Minute
	for _, run := range t.Runs {
		since := run.Finished
		if run.Failed != "" {
			since = run.Due.Add(atMost)
		}
		if t.Now.Sub(since) < settle || (run.Unplanned == r.Stream.Timeline && t.Now.Sub(run.Due) < atMost) {
			return cluster.Pass()
		}
	}
	due := t.Now.Truncate(time.Second)
	return cluster.Do(CreateBackup{t.Name + "-" + due.UTC().Format("20060102150405"), due, r.Stream.Timeline}, "a full backup is needed to record changes: %s", r.Stream.Needs)
}

// checkDue starts the check of the newest backup when one is due.
func checkDue(t ScheduleState) (cluster.Plan, bool) {
	newest := t.newest()
	if t.Check == nil || newest == nil || slices.ContainsFunc(t.Runs, func(r Run) bool { return r.Checking }) {
		return cluster.Pass()
	}
	due, _, _, err := t.Check.Due(t.lastChecked(), t.Created, t.Now)
	if err != nil {
		return cluster.Refuse(ReasonSchedule, "spec.verify.schedule: %v", err)
	}
	if due == nil {
		return cluster.Pass()
	}
	return cluster.Do(CheckBackup{newest.Name}, "a check of the newest backup is due")
}

func (t ScheduleState) lastChecked() (last time.Time) {
	for _, r := range t.Runs {
		if r.Checked.After(last) {
			last = r.Checked
		}
	}
	return last
}

// newest is the newest complete backup, nil when there is none.
func (t ScheduleState) newest() (newest *Run) {
	for i := range t.Runs {
		if r := &t.Runs[i]; r.Complete && !r.Leaving && (newest == nil || r.Finished.After(newest.Finished)) {
			newest = r
		}
	}
	return newest
}

// expire deletes a backup that is not to be kept, the oldest first.
func expire(t ScheduleState) (cluster.Plan, bool) {
	uids := map[string]string{}
	var kept []Kept
	for _, r := range t.Runs {
		if r.Leaving {
			continue
		}
		uids[r.Name] = r.UID
		kept = append(kept, Kept{ID: r.Name, Taken: r.Due, Complete: r.Complete, Verified: r.Verified, InUse: r.InUse || r.Checking || r.running()})
	}
	expired := t.Retention.Expired(kept, t.Now, t.Zone)
	if len(expired) == 0 {
		return cluster.Pass()
	}
	first := slices.MinFunc(expired, func(a, b Kept) int { return a.Taken.Compare(b.Taken) })
	return cluster.Do(DeleteBackup{first.ID, uids[first.ID]}, "spec.retention does not keep %s", first.ID)
}
