package planner

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
)

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
type NoteLoaded struct{ Restored job.Restored }

func (s NoteLoaded) String() string {
	return fmt.Sprintf("note that %d keys are restored", s.Restored.Keys)
}

// Runs reports whether the Job for a load is at work.
func (l Loading) Runs(load Load) bool {
	return l.Job != nil && !l.Job.Ended && !l.Job.Leaving && l.Job.For == load.Sum()
}

// Next decides how it goes on. Once it is loaded, what came of it comes back instead of a decision.
func (l Loading) Next(load Load, now time.Time) (*job.Restored, cluster.Plan) {
	decide := func(p cluster.Plan, _ bool) (*job.Restored, cluster.Plan) { return nil, p }
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
func (l Loading) Loaded(load Load) *job.Restored {
	switch j := l.Job; {
	case j == nil || !j.Ended || j.Failed || j.For != load.Sum():
		return nil
	case j.Report != nil && j.Report.Restored != nil:
		return j.Report.Restored
	case load.Repeats():
		return nil
	}
	return &job.Restored{}
}

// Note remembers what came of it.
func (l Loading) Note(r job.Restored) (cluster.Plan, bool) {
	r.Into = "" // It has served its purpose.
	why := fmt.Sprintf("%s is restored: %d keys within %s, %d more were there already, and %d had expired", l.Noun, r.Keys, r.Took.Round(time.Millisecond), r.Present, r.Expired)
	if r.Users != "" {
		why += "; its users are not: create RedisUser resources for " + r.Users
	}
	return cluster.Do(NoteLoaded{r}, "%s", why)
}
