package backup

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
)

// takeOutcome is what came of a backup, by its Job or, where that is gone, by what was reported of it.
func takeOutcome(o *v1alpha1.Backup, take *planner.Job) (*job.Stored, *job.Problem) {
	if take != nil && take.Ended && !take.Failed && take.Report != nil && take.Report.Backup != nil {
		return take.Report.Backup, nil
	}
	if p := take.Problem(); p != nil {
		return nil, p
	}
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionComplete)
	switch {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		return storedBy(o.Status), nil
	case o.Status.CompletionTime != nil: // Stalled says nothing: it is False while the Job is being deleted, or something cannot be read.
		return nil, &job.Problem{Reason: c.Reason, Message: c.Message}
	}
	return nil, nil
}

// storedBy reads back what a status says of a complete backup.
func storedBy(s v1alpha1.BackupStatus) *job.Stored {
	engine, version, _ := strings.Cut(s.Engine, " ")
	out := &job.Stored{
		Directory: s.Directory, Engine: engine, Version: version, Size: s.Size, StoredSize: s.StoredSize, Revision: s.Revision, Keys: s.Keys,
		Memory: s.ServerMemory,
	}
	if s.StartTime != nil {
		out.Started = s.StartTime.Time
	}
	if s.CompletionTime != nil {
		out.Finished = s.CompletionTime.Time
	}
	return out
}

// checkOutcome is what the last check that succeeded found out, and why the last one failed if it did: by its Job or, where that is gone
// or has not ended, by what was reported.
func checkOutcome(o *v1alpha1.Backup, check *planner.Job) (*job.Checked, *job.Problem) {
	if check != nil && check.Ended && !check.Failed && check.Report != nil && check.Report.Checked != nil {
		return check.Report.Checked, nil
	}
	var checked *job.Checked
	if v := o.Status.Verification; v != nil {
		checked = &job.Checked{Time: v.Time.Time, Took: time.Duration(v.Seconds) * time.Second, Keys: v.Keys, Revision: v.Revision, Server: v.Server}
	}
	if p := check.Problem(); p != nil {
		return checked, p
	}
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionVerified)
	if c == nil || c.Status == metav1.ConditionTrue || c.Reason == planner.ReasonNotVerified || c.Reason == planner.ReasonVerifying {
		return checked, nil
	}
	return checked, &job.Problem{Reason: c.Reason, Message: c.Message}
}
