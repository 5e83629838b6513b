package planner

import (
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
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

// RestoreRequest is what a specification says of the backup that a cluster begins with.
type RestoreRequest struct {
	// Field of the specification that says so.
	Field string
	// Noun is the backup, for people.
	Noun string
	// Source is where it is, and Missing why that is not known.
	Source  v1alpha1.RestoreSource
	Missing string
	// Sum tells requests apart.
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

func (FindBackup) String() string { return "look the backup up" }

func (s DropRestoreJob) String() string { return "delete Job " + s.Name }

// Find decides how the backup is looked up. claim is one of an earlier cluster of the name, empty when there is none. Once the backup is
// found, what was found comes back instead of a decision.
func (w RestoreRequest) Find(claim string, now time.Time) (*job.Report, cluster.Plan) {
	decide := func(p cluster.Plan, _ bool) (*job.Report, cluster.Plan) { return nil, p }
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
