package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

const (
	// ReasonRestoring says that a cluster is being made from a backup.
	ReasonRestoring = "Restoring"
	// ReasonRestoreRefused says why that cannot be; the message says what to do.
	ReasonRestoreRefused = "RestoreRefused"

	// restorePatience is how long a Job of a restore that failed rests before it is tried again.
	restorePatience = 30 * time.Second
)

// Wish is what a specification says of the backup that a cluster is to begin with.
type Wish struct {
	// Field of the specification that says so.
	Field string
	// Noun is the backup, for people.
	Noun string
	// Source is where it is, and Missing why that is not known.
	Source  v1alpha1.RestoreSource
	Missing string
	// Sum tells wishes apart.
	Sum string
	// Token for the new cluster.
	Token string
	// Job looks the backup up, nil when there is none.
	Job *Job
}

// FindBackup starts the Job that looks up which backup it is, and whether it can be read.
type FindBackup struct{ Sum string }

// DropRestoreJob deletes a Job of a restore.
type DropRestoreJob struct{ Name, UID string }

func (FindBackup) String() string       { return "look the backup up" }
func (s DropRestoreJob) String() string { return "delete Job " + s.Name }

// Find decides how the backup is looked up. claim is one of an earlier cluster of the name, empty when there is none. Once the backup is
// found, what was found comes back instead of a decision.
func (w Wish) Find(claim string, now time.Time) (*Report, cluster.Plan) {
	decide := func(p cluster.Plan, _ bool) (*Report, cluster.Plan) { return nil, p }
	j := w.Job
	switch {
	case claim != "":
		return decide(cluster.Refuse(ReasonRestoreRefused, "%s names a backup, but claim %s of an earlier cluster of this name exists, and its data is not overwritten: "+
			"remove %s to go on with that data, or delete the claims of this cluster to begin with the backup", w.Field, claim, w.Field))
	case w.Missing != "":
		return decide(cluster.Refuse(ReasonRestoreRefused, "%s: %s", w.Field, w.Missing))
	case j == nil:
		return decide(cluster.Do(FindBackup{w.Sum}, "%s is to be restored", w.Noun))
	case j.Leaving:
		return decide(cluster.Wait(ReasonRestoring, time.Second, "Job %s is being deleted", j.Name))
	case j.For != w.Sum:
		return decide(cluster.Do(DropRestoreJob{j.Name, j.UID}, "%s has changed", w.Field))
	}
	if p, waits := j.await(w.Noun+" is being looked up", w.Noun+" cannot be restored", now); waits {
		return nil, p
	}
	if j.Report == nil || j.Report.Backup == nil {
		return decide(cluster.Do(DropRestoreJob{j.Name, j.UID}, "%s is looked up again", w.Noun))
	}
	return j.Report, cluster.Plan{}
}

// await decides about a Job of a restore that has not succeeded: to wait for it, or to begin anew after a while. doing and failed say in words
// what it does and what it means that it cannot.
func (j *Job) await(doing, failed string, now time.Time) (cluster.Plan, bool) {
	switch p := j.problem(); {
	case !j.Ended:
		return cluster.Wait(ReasonRestoring, watching, "%s: %s", doing, j.Progress(now))
	case !j.Failed:
		return cluster.Pass()
	case now.Sub(j.Since) < restorePatience:
		plan, ok := cluster.Refuse(p.Reason, "%s: %s (it is tried again every half minute)", failed, strings.TrimSuffix(p.Message, "."))
		plan.After = restorePatience - now.Sub(j.Since) + time.Second
		return plan, ok
	}
	return cluster.Do(DropRestoreJob{j.Name, j.UID}, "%s, which is tried again", failed)
}

// Loading is a restore into servers that run already: what was found is put into them by a Job.
type Loading struct {
	// Noun is the backup, for people.
	Noun string
	// Job loads it, nil when there is none.
	Job *Job
}

// Load is a step that starts the Job that loads a backup. Sum tells apart what Jobs are to do.
type Load interface {
	cluster.Step
	Sum() string
	// Repeats reports whether it may be done again when it is not known what came of it: nobody has used the data by then.
	Repeats() bool
}

// NoteLoaded remembers that it is loaded.
type NoteLoaded struct{ Restored Restored }

func (s NoteLoaded) String() string {
	return fmt.Sprintf("note that %d keys are restored", s.Restored.Keys)
}

// Runs reports whether the Job for a load is at work.
func (l Loading) Runs(load Load) bool {
	return l.Job != nil && !l.Job.Ended && !l.Job.Leaving && l.Job.For == load.Sum()
}

// Next decides how it goes on. Once it is loaded, what came of it comes back instead of a decision.
func (l Loading) Next(load Load, now time.Time) (*Restored, cluster.Plan) {
	decide := func(p cluster.Plan, _ bool) (*Restored, cluster.Plan) { return nil, p }
	j := l.Job
	switch {
	case j == nil:
		return decide(cluster.Do(load, "the servers are ready for %s", l.Noun))
	case j.Leaving:
		return decide(cluster.Wait(ReasonRestoring, time.Second, "Job %s is being deleted", j.Name))
	case j.For != load.Sum():
		return decide(cluster.Do(DropRestoreJob{j.Name, j.UID}, "Job %s loaded something else before", j.Name))
	}
	if p, waits := j.await(l.Noun+" is being loaded", l.Noun+" could not be loaded", now); waits {
		return nil, p
	}
	if r := l.Loaded(load); r != nil {
		return r, cluster.Plan{}
	}
	return decide(cluster.Do(DropRestoreJob{j.Name, j.UID}, "the Job that loads %s ended and left no word", l.Noun))
}

// Loaded is what came of a load that is complete, nil while it is not. That its pod and its report are gone does not make it less complete:
// clients may have used the data since.
func (l Loading) Loaded(load Load) *Restored {
	switch j := l.Job; {
	case j == nil || !j.Ended || j.Failed || j.For != load.Sum():
		return nil
	case j.Report != nil && j.Report.Restored != nil:
		return j.Report.Restored
	case load.Repeats():
		return nil
	}
	return &Restored{}
}

// Note remembers what came of it.
func (l Loading) Note(r Restored) (cluster.Plan, bool) {
	r.Into = "" // It has served its purpose.
	why := fmt.Sprintf("%s is restored: %d keys within %s, %d more were there already, and %d had expired", l.Noun, r.Keys, r.Took.Round(time.Millisecond), r.Present, r.Expired)
	if r.Users != "" {
		why += "; its users are not: create RedisUser resources for " + r.Users
	}
	return cluster.Do(NoteLoaded{r}, "%s", why)
}
