package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// Health tells whether the backups of a schedule are what it promises. Of a cluster that is hibernated nothing is late.
func Health(t ScheduleState) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionBackupHealthy, Status: metav1.ConditionFalse}
	newest, wrong := t.newest(), t.late()
	state, why := t.Recording()
	switch {
	case t.Asleep && t.lastCheckFailure() == "":
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonHibernated
		c.Message = "no backup is taken of a cluster that is hibernated: the next one begins when it wakes up"
	case t.lastFailure() != "":
		c.Reason, c.Message = ReasonLastFailed, "the last backup failed: "+t.lastFailure()
	case newest == nil && wrong == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, ReasonNoBackup, "no backup has been due yet"
	case wrong != "":
		c.Reason, c.Message = ReasonLate, wrong
	case t.lastCheckFailure() != "":
		c.Reason, c.Message = ReasonCheckFailed, "the last check failed: "+t.lastCheckFailure()
	case t.unchecked() != "":
		c.Reason, c.Message = ReasonUnverified, t.unchecked()
	case state == RecordingBehind:
		c.Reason, c.Message = ReasonBehind, why
	default:
		c.Status, c.Reason = metav1.ConditionTrue, ReasonHealthy
		c.Message = fmt.Sprintf("the newest backup is %s", newest.Name)
	}
	return c
}

// missing is the newest time of a schedule whose deadline has passed and after which nothing was done, nil when there is none. That it is
// too late to begin makes it no better.
func (t ScheduleState) missing(s Schedule, last, created time.Time) *time.Time {
	then := t.Now.Add(-s.Deadline)
	if last.After(then) && last.Before(t.Now.Add(wrongClock)) {
		return nil
	}
	s.Deadline = 0
	due, _, _, err := s.Due(last, created, then)
	if err != nil {
		return nil // It is refused, which is told elsewhere.
	}
	return due
}

// late says which backup should be there and is not.
func (t ScheduleState) late() string {
	var last time.Time
	if n := t.newest(); n != nil {
		last = n.Due
		if n.Began.After(last) {
			last = n.Began // It has waited for its cluster, and holds what the times between asked for.
		}
	}
	deadline := t.Take.Deadline
	due := t.missing(t.Take, last, t.Created)
	if due == nil {
		return ""
	}
	text := fmt.Sprintf("the backup that was due at %s is not complete %s later", due.UTC().Format(time.RFC3339), deadline)
	if t.Suspended {
		text += " (spec.suspend is true)"
	}
	return text
}

// lastFailure is why the newest backup failed that ended, empty when it did not.
func (t ScheduleState) lastFailure() string {
	var last *Run
	for i := range t.Runs {
		if r := &t.Runs[i]; !r.running() && !r.Leaving && (last == nil || r.Due.After(last.Due)) {
			last = r
		}
	}
	if last == nil {
		return ""
	}
	return last.Failed
}

func (t ScheduleState) lastCheckFailure() string {
	var last *Run
	for i := range t.Runs {
		if r := &t.Runs[i]; !r.Checked.IsZero() && (last == nil || r.Checked.After(last.Checked)) {
			last = r
		}
	}
	if last == nil || last.Verified {
		return ""
	}
	return strings.TrimSpace(last.Name + ": " + last.Unverified)
}

// unchecked says which check should have been made and was not.
func (t ScheduleState) unchecked() string {
	if t.Check == nil || slices.ContainsFunc(t.Runs, func(r Run) bool { return r.Checking && !r.Stuck }) {
		return ""
	}
	since := t.Now // Before the first backup there was nothing to check.
	for _, r := range t.Runs {
		if r.Complete && r.Finished.Before(since) {
			since = r.Finished
		}
	}
	due := t.missing(*t.Check, t.lastChecked(), since)
	if due == nil {
		return ""
	}
	return fmt.Sprintf("the check that was due at %s has not been made", due.UTC().Format(time.RFC3339))
}

// ScheduleConditions returns Ready, BackupHealthy, Reconciling and Stalled for the outcome of one pass.
func ScheduleConditions(t ScheduleState, p cluster.Plan, err error) []metav1.Condition {
	return append(cluster.Progress(p, err), cluster.Ready(p, err, "backups are taken as specified"), Health(t))
}
