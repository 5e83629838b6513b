package planner

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
)

const (
	// watching is how soon a Job is asked again how far it is.
	watching = 2 * time.Second
	// pullPatience is how long a check may wait for its image before that is told, and pullLimit before it is given up.
	pullPatience = 2 * time.Minute
	pullLimit    = 30 * time.Minute
	// patience is how long a failed deletion of data rests before it is tried again.
	patience = time.Minute
)

// Next decides what to do about a backup. It is pure.
func Next(s State) cluster.Plan {
	switch {
	case s.Deleting && !s.Protected: // Somebody else still holds the resource. It is too late to bring it back under protection.
		return cluster.Plan{Message: "the stored data stays"}
	case s.Deleting:
		return cluster.Decide(s, deletion, nil)
	}
	p := cluster.Decide(s, backup, nil)
	if p.Settled() {
		p.Message = done(s)
	}
	return p
}

func done(s State) string {
	text := fmt.Sprintf("complete: %s of data, %s stored in %s", job.Bytes(s.Stored.Size), job.Bytes(s.Stored.StoredSize), s.Stored.Directory)
	if s.Checked != nil {
		text += "; verified: " + s.Checked.String()
	}
	return text
}

func protect(s State) (cluster.Plan, bool) {
	if s.Protected == s.Deletes {
		return cluster.Pass()
	}
	if s.Deletes {
		return cluster.Do(Protect{}, "the stored data goes with the resource")
	}
	return cluster.Do(Release{}, "the stored data stays when the resource goes")
}

// waitWhileLeaving waits until Jobs are gone that are being deleted: another one of the name can be made then.
func waitWhileLeaving(s State) (cluster.Plan, bool) {
	for _, j := range s.jobs() {
		if j.Leaving {
			return cluster.Wait(ReasonStopping, time.Second, "Job %s is being deleted", j.Name)
		}
	}
	return cluster.Pass()
}

func (s State) jobs() (out []*Job) {
	for _, j := range []*Job{s.Take, s.Check, s.Remove} {
		if j != nil {
			out = append(out, j)
		}
	}
	return out
}

// dropHeld deletes Jobs that are of no use any more and that Kubernetes would keep for as long as their pods run, which have volumes mounted. One that
// failed for good stays for as long as others: without it, it would be done again.
func dropHeld(s State) (cluster.Plan, bool) {
	for _, j := range []*Job{s.Take, s.Check} {
		if j == nil || !j.Held || j.Again || (j.Failed && s.Now.Sub(j.Since) < job.FinishedTTL) {
			continue
		}
		return cluster.Do(DropJob{j.Name, j.UID}, "Job %s has done its work, and another container keeps its pod running", j.Name)
	}
	return cluster.Pass()
}

// retry begins anew, after a rest, what Kubernetes would have tried again.
func (j *Job) retry(reason string, now time.Time) (cluster.Plan, bool) {
	why := strings.TrimSuffix(j.problem().Message, ".")
	if now.Sub(j.Since) < patience {
		return cluster.Wait(reason, watching, "the attempt of Job %s failed, and another one is made within a minute: %s", j.Name, why)
	}
	return cluster.Do(DropJob{j.Name, j.UID}, "the attempt of Job %s failed, and another one is made: %s", j.Name, why)
}

// takeOrFail sees to it that the backup is taken, once.
func takeOrFail(s State) (cluster.Plan, bool) {
	switch {
	case s.Stored != nil:
		return cluster.Pass()
	case s.Failed != nil:
		return cluster.Refuse(s.Failed.Reason, "no backup was taken, and none will be: %s. Create another Backup", strings.TrimSuffix(s.Failed.Message, "."))
	case s.Take == nil:
		return begin(s)
	case !s.Take.Ended && s.Take.For != "" && s.Source != nil && s.Source.History != s.Take.For:
		return cluster.Do(DropJob{s.Take.Name, s.Take.UID}, "the data of %s goes back to something else than when the Job was made", s.Source.Noun)
	case s.Take.Suspended && !s.Take.Ended:
		return resume(s)
	case !s.Take.Ended:
		return cluster.Wait(ReasonTaking, watching, "the backup is being taken: %s", s.Take.Progress(s.Now))
	case s.Take.Again:
		return s.Take.retry(ReasonTaking, s.Now)
	}
	// It ended, and what it said is lost: the backup may be complete, which the next attempt finds out.
	return cluster.Do(DropJob{s.Take.Name, s.Take.UID}, "the Job of the backup ended and left no word")
}

// resume lets the Job run that was made, or drops it where that cannot be any more.
func resume(s State) (cluster.Plan, bool) {
	if s.Source == nil || s.Source.Leaving || s.Source.Missing != "" {
		return cluster.Do(DropJob{s.Take.Name, s.Take.UID}, "what is to be backed up has changed meanwhile")
	}
	return cluster.Do(Resume{s.Take.Name, s.Take.UID}, "nobody replaces the data of %s", s.Source.Noun)
}

func begin(s State) (cluster.Plan, bool) {
	switch {
	case s.Source == nil || s.Source.Leaving:
		return cluster.Refuse(ReasonClusterMissing, "there is no cluster of that kind and name in the namespace: correct spec.cluster in another Backup, or create it")
	case s.Source.Missing != "":
		return cluster.Wait(ReasonWaiting, 5*time.Second, "%s cannot be backed up yet: %s", s.Source.Noun, s.Source.Missing)
	}
	return cluster.Do(Take{}, "a backup of %s is asked for", s.Source.Noun)
}

// check sees to it that the backup is checked if that is asked for, and reports a check that goes on.
func check(s State) (cluster.Plan, bool) {
	switch {
	case s.Check == nil && s.Verifies && s.Checked == nil:
		return cluster.Do(Check{*s.Stored}, "the backup is complete, and spec.verify asks for a check")
	case s.Check == nil && s.Unverified != nil:
		return cluster.Refuse(ReasonVerifyFailed, "the backup did not pass its check: %s", s.Unverified.Message)
	case s.Check == nil:
		return cluster.Pass()
	case s.Check.Unpullable(s.Now) != "" && s.Now.Sub(s.Check.Waiting) >= pullLimit:
		return cluster.Do(DropJob{s.Check.Name, s.Check.UID}, "the backup could not be checked: %s", s.Check.Unpullable(s.Now))
	case s.Check.Unpullable(s.Now) != "":
		return cluster.Refuse(ReasonImage, "the backup is complete, and cannot be checked: %s", s.Check.Unpullable(s.Now))
	case !s.Check.Ended:
		return cluster.Wait(ReasonVerifying, watching, "the backup is complete, and is being checked: %s", s.Check.Progress(s.Now))
	case s.Check.Again:
		return s.Check.retry(ReasonVerifying, s.Now)
	case s.Check.Failed:
		return cluster.Refuse(ReasonVerifyFailed, "the backup did not pass its check: %s", s.Check.problem().Message)
	case s.Checked == nil:
		return cluster.Do(DropJob{s.Check.Name, s.Check.UID}, "the Job of the check ended and left no word")
	}
	return cluster.Pass()
}

// keepData releases the resource where nobody has to delete its data. No pod can mount a claim that is going; Jobs end with the resource.
func keepData(s State) (cluster.Plan, bool) {
	switch {
	case s.Vanishing:
		return cluster.Do(Release{}, "the stored data goes with its claim")
	case s.Deletes:
		return cluster.Pass()
	}
	return cluster.Do(Release{}, "the stored data stays")
}

// stopJobs ends what is still being done to data that is about to go.
func stopJobs(s State) (cluster.Plan, bool) {
	for _, j := range []*Job{s.Take, s.Check} {
		switch {
		case j == nil:
		case j.Leaving:
			return cluster.Wait(ReasonStopping, time.Second, "Job %s is being deleted", j.Name)
		case !j.Ended:
			return cluster.Do(DropJob{j.Name, j.UID}, "the backup is being deleted, and Job %s still works on it", j.Name)
		case j.Held:
			return cluster.Do(DropJob{j.Name, j.UID}, "the backup is being deleted, and the pod of Job %s still runs", j.Name)
		}
	}
	return cluster.Pass()
}

func waitForReaders(s State) (cluster.Plan, bool) {
	if len(s.Readers) == 0 {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonInUse, 5*time.Second, "the data stays until %s is done with it", strings.Join(s.Readers, ", "))
}

func removeData(s State) (cluster.Plan, bool) {
	switch j := s.Remove; {
	case j == nil:
		return cluster.Do(Remove{}, "spec.deletionPolicy is Delete")
	case j.Leaving:
		return cluster.Wait(ReasonStopping, time.Second, "Job %s is being deleted", j.Name)
	case !j.Ended:
		return cluster.Wait(ReasonDeleting, watching, "the stored data is being deleted: %s", j.Progress(s.Now))
	case j.Failed && s.Now.Sub(j.Since) < patience:
		return cluster.Refuse(ReasonNotDeleted, "the stored data could not be deleted, which is tried again every minute: %s. Set spec.deletionPolicy to Retain to leave it where it is",
			strings.TrimSuffix(j.problem().Message, "."))
	case j.Failed:
		return cluster.Do(DropJob{j.Name, j.UID}, "the deletion failed and is tried again")
	}
	return cluster.Pass()
}

func release(State) (cluster.Plan, bool) {
	return cluster.Do(Release{}, "the stored data is deleted")
}

// problem says why a Job failed.
func (j *Job) problem() job.Problem {
	if j.Report != nil && j.Report.Problem != nil {
		return *j.Report.Problem
	}
	if j.Starved {
		return job.Problem{Reason: job.ReasonMemory, Message: j.Trouble}
	}
	if j.Trouble != "" {
		return job.Problem{Reason: job.ReasonFailed, Message: j.Trouble}
	}
	return job.Problem{Reason: job.ReasonFailed, Message: "Job " + j.Name + " failed and left no word"}
}

// Problem is why a Job that ended has failed for good, nil when it has not.
func (j *Job) Problem() *job.Problem {
	if j == nil || !j.Ended || !j.Failed || j.Again {
		return nil
	}
	p := j.problem()
	return &p
}

// Unpullable says that a Job waits in vain for its image, empty when it does not, or not for long.
func (j *Job) Unpullable(now time.Time) string {
	if j == nil || j.Ended || j.Leaving || j.Unpulled == "" || now.Sub(j.Waiting) < pullPatience {
		return ""
	}
	return fmt.Sprintf("image %s cannot be pulled, in which a server would be started. Make it available to the nodes, or name the Secret of its registry in "+
		"spec.template.imagePullSecrets of the cluster", j.Unpulled)
}

// Advise adds to what is said of a Job that needed more memory than it has what its user can do about that.
func (j *Job) Advise(cure string) {
	if j != nil && j.Starved {
		j.Trouble += ": " + cure
	}
}

// Progress says how far a Job is.
func (j *Job) Progress(now time.Time) string {
	age := now.Sub(j.Since)
	switch {
	case j.Trouble != "" && j.Flow == nil:
		return j.Trouble
	case j.Podless && j.Flow == nil && age >= cluster.MadeWithin:
		return fmt.Sprintf("Job %s has no pod: %s", j.Name, cluster.Unmade("job", j.Namespace, j.Name))
	case j.Flow == nil && age >= time.Minute: // Another text every minute is enough for a status.
		return fmt.Sprintf("Job %s has been there for %s", j.Name, strings.TrimSuffix(age.Truncate(time.Minute).String(), "0s"))
	case j.Flow == nil:
		return fmt.Sprintf("Job %s has been there for %s", j.Name, age.Round(time.Second))
	}
	text := j.Flow.String()
	if j.Trouble != "" {
		text += " (the attempt before: " + j.Trouble + ")"
	}
	return text
}

// Conditions returns Complete, Verified, Reconciling and Stalled for the outcome of one pass.
func Conditions(s State, p cluster.Plan, err error) []metav1.Condition {
	return append(cluster.Progress(p, err), complete(s, p, err), verified(s))
}

func complete(s State, p cluster.Plan, err error) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse}
	switch {
	case s.Stored != nil:
		c.Status, c.Reason = metav1.ConditionTrue, ReasonComplete
		c.Message = fmt.Sprintf("%s of data, %s stored", job.Bytes(s.Stored.Size), job.Bytes(s.Stored.StoredSize))
	case s.Failed != nil:
		c.Reason, c.Message = s.Failed.Reason, s.Failed.Message
	default:
		went := cluster.Progress(p, err)[0]
		c.Reason, c.Message = went.Reason, went.Message
	}
	return c
}

func verified(s State) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionVerified, Status: metav1.ConditionFalse, Reason: ReasonNotVerified, Message: "nobody has restored this backup yet",
	}
	switch {
	case s.Check.Unpullable(s.Now) != "":
		c.Reason, c.Message = ReasonImage, s.Check.Unpullable(s.Now)
	case s.Check.Problem() != nil:
		problem := s.Check.Problem()
		c.Reason, c.Message = problem.Reason, problem.Message
	case s.Unverified != nil:
		c.Reason, c.Message = s.Unverified.Reason, s.Unverified.Message
	case s.Checked != nil:
		c.Status, c.Reason = metav1.ConditionTrue, ReasonVerified
		c.Message = s.Checked.String()
	case s.Check != nil:
		c.Reason, c.Message = ReasonVerifying, "the backup is being restored into a throw-away server"
	}
	return c
}
