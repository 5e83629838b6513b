package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
)

// A Restore is looked up, confirmed, and then carried out by the planner of its cluster, which writes down what it begins before it
// begins. From then on the Restore only watches:
//
//	Restore   find the backup ── name the plan ── Confirmed
//	cluster                                          └── is well ── what there is is saved ── begins ── has begun ── restored
//	Restore                                                                                             watches       Complete

// Reasons of conditions and events.
const (
	ReasonUnconfirmed = "AwaitingConfirmation"
	ReasonConfirmed   = "Confirmed"
	ReasonSaving      = "SavingCurrentData"
	ReasonRestored    = "Restored"
)

// RestoreState is what was observed of a Restore.
type RestoreState struct {
	Now time.Time
	// Name of the resource, UID tells it from others of the name.
	Name, Namespace, UID string
	// Target is the cluster, nil when there is none of that name.
	Target *Target
	// Request looks the backup up, nil once it is Found.
	Request *RestoreRequest
	Found   *Found
	// Confirmed is the plan that somebody has confirmed, empty for none.
	Confirmed string
	// Saves says that what the cluster has is backed up before, by the planner of the cluster. Saved is the last of these backups, nil while
	// there is none.
	Saves bool
	Saved *Saved
	// Complete is what came of it, by what was reported before; nil while it has not been carried out.
	Complete *job.Restored
}

// Found is the backup that is restored.
type Found struct {
	job.Stored
	// Target is the newest revision of etcd that is restored, 0: all that the snapshot holds.
	Target int64
	// LastChange is when the target was recorded, where a time was asked for.
	LastChange *time.Time
}

// Target is a cluster that a backup is put into.
type Target struct {
	// Noun is its kind and name for people.
	Noun string
	// Scope tells it apart from others that have had its name, and what is lost of it where only that is restored.
	Scope string
	// Leaving says that it is being deleted.
	Leaving bool
	// Unsaved says why what it has cannot be backed up, empty when it can.
	Unsaved string
	// Missing says what keeps any backup from being put into it, Refused why this one cannot be; empty when nothing does.
	Missing, Refused string
	// Replaces says in a sentence what becomes of what the cluster has.
	Replaces string
	// Begun says that the cluster has written down that it begins, Doing what it says of itself.
	Begun bool
	Doing string
	// Restored is what came of it, nil while it goes on.
	Restored *job.Restored
}

// Saved is the Backup of what a cluster had before.
type Saved struct {
	Name string
	// Complete says that it is stored, and Since when that was noticed.
	Complete bool
	Since    time.Time
	// Failed says why there will be none, Activity what it is doing.
	Failed, Activity string
	// Foreign says that the Backup of the name was made for something else, Stalled that what it is doing waits for somebody.
	Foreign, Stalled bool
}

// Hopeless reports whether there will be no Backup unless somebody does something about that.
func (s *Saved) Hopeless() bool { return s != nil && (s.Foreign || s.Stalled || s.Failed != "") }

// SaveCurrent makes the Backup of what the cluster has.
type SaveCurrent struct{ Name string }

func (s SaveCurrent) String() string { return "save what the cluster has as Backup " + s.Name }

// SavedTrust is how old a Backup of what there is may be when that is replaced: what was written since is not in it.
const SavedTrust = 2 * time.Minute

// SavedName names the Backups of what a cluster had before a Restore: n counts them from 1 on.
func SavedName(restore string, n int) string {
	const most = 56 // Letters that the name of a Backup has.
	end := "-before"
	if n > 1 {
		end += "-" + strconv.Itoa(n)
	}
	return restore[:min(len(restore), most-len(end))] + end
}

// Save decides about the backup of what is about to be replaced, when nothing else is in the way of that. next is the name of another one.
func (s *Saved) Save(noun, next string, now time.Time) (cluster.Plan, bool) {
	switch {
	case s == nil:
		return cluster.Do(SaveCurrent{next}, "%s is confirmed: what there is is backed up before it is replaced", noun)
	case s.Hopeless():
		return cluster.Pass() // The Restore says so, and nothing else waits for that.
	case !s.Complete:
		return cluster.Wait(ReasonSaving, watching, "%s is confirmed: what there is is being backed up as %s: %s", noun, s.Name, s.Activity)
	case now.Sub(s.Since) > SavedTrust:
		return cluster.Do(SaveCurrent{next}, "Backup %s of what there is was complete %s ago, which is too long, and another one is taken", s.Name, now.Sub(s.Since).Round(time.Second))
	}
	return cluster.Pass()
}

// Plan tells apart what may be confirmed: this resource, with this backup, for this cluster. It is empty until all of that is known.
func (s RestoreState) Plan() string {
	if s.Found == nil || s.Target == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(s.UID + " " + s.Target.Scope + " " + s.Found.Directory + " " + strconv.FormatInt(s.Found.Target, 10)))
	return hex.EncodeToString(sum[:])[:6]
}

// Ready reports whether the cluster may begin.
func (s RestoreState) Ready() bool {
	if t := s.Target; t == nil || t.Leaving || t.Missing != "" || t.Refused != "" {
		return false
	}
	return s.Found != nil && s.Confirmed == s.Plan() && (s.Saved == nil || !s.Saved.Foreign)
}

// done is what came of it, nil while it has not been carried out.
func (s RestoreState) done() *job.Restored {
	if s.Complete != nil || s.Target == nil {
		return s.Complete
	}
	return s.Target.Restored
}

// NextOfRestore decides what to do about a Restore.
func NextOfRestore(s RestoreState) cluster.Plan {
	if s.done() != nil {
		return cluster.Plan{Message: "the backup is restored"}
	}
	return cluster.Decide(s, restore, nil)
}

// watchTarget stops where there is no cluster, and does not interfere once that has begun.
func watchTarget(s RestoreState) (cluster.Plan, bool) {
	switch t := s.Target; {
	case t == nil:
		return cluster.Refuse(ReasonClusterMissing, "there is no cluster of the name that spec.cluster says in this namespace: correct the name in another Restore, "+
			"or create a cluster that begins with the backup (spec.bootstrap.restore)")
	case t.Begun:
		return cluster.Wait(ReasonRestoring, watching, "%s is being restored: %s", t.Noun, t.Doing)
	case t.Leaving:
		return cluster.Refuse(ReasonClusterMissing, "%s is being deleted", t.Noun)
	case t.Missing != "":
		return cluster.Refuse(ReasonRestoreRefused, "%s cannot be restored in place: %s", t.Noun, t.Missing)
	}
	return cluster.Pass()
}

// lookUp finds out which backup it is.
func lookUp(s RestoreState) (cluster.Plan, bool) {
	if s.Found != nil {
		return cluster.Pass()
	}
	report, p := s.Request.Find("", s.Now)
	if report != nil {
		return cluster.Wait(ReasonRestoring, time.Second, "%s is found", s.Request.Noun) // The next look has it.
	}
	return p, true
}

func fits(s RestoreState) (cluster.Plan, bool) {
	switch b := s.Saved; {
	case s.Target.Refused != "":
		return cluster.Refuse(ReasonRestoreRefused, "%s cannot be restored from %s: %s", s.Target.Noun, s.Found.Directory, s.Target.Refused)
	case b != nil && b.Foreign:
		return cluster.Refuse(v1alpha1.ReasonForeignObject, "Backup %s was not made for this Restore of this cluster: delete it, or give the Restore another name", b.Name)
	}
	return cluster.Pass()
}

// confirm says in full what would be done, and waits for somebody to say that it may.
func confirm(s RestoreState) (cluster.Plan, bool) {
	if s.Confirmed == s.Plan() {
		return cluster.Pass()
	}
	other := ""
	if s.Confirmed != "" {
		other = fmt.Sprintf(" (plan %s, which is confirmed, is another one)", s.Confirmed)
	}
	return cluster.Refuse(ReasonUnconfirmed, "plan %s: %s is restored from %s. %s To do that: %s%s",
		s.Plan(), s.Target.Noun, s.Found, s.Target.Replaces, cluster.ToAnnotate("restores", s.Namespace, s.Name, v1alpha1.AnnotationConfirm, s.Plan()), other)
}

// String says in words which backup it is.
func (f *Found) String() string {
	text := fmt.Sprintf("%s, %s of %s from %s", f.Directory, job.Bytes(f.Size), strings.TrimSpace(f.Engine+" "+f.Version), f.Finished.UTC().Format(time.RFC3339))
	switch {
	case f.Target > 0 && f.LastChange != nil:
		return text + fmt.Sprintf(", up to revision %d, the last change until then, of %s", f.Target, f.LastChange.UTC().Format(time.RFC3339))
	case f.Target > 0:
		return text + fmt.Sprintf(", up to revision %d", f.Target)
	case f.Revision > 0:
		return text + fmt.Sprintf(", revision %d", f.Revision)
	case f.Keys > 0:
		return text + fmt.Sprintf(", %d keys", f.Keys)
	}
	return text
}

// awaitCopy tells of the backup of what is about to be replaced.
func awaitCopy(s RestoreState) (cluster.Plan, bool) {
	switch b := s.Saved; {
	case !s.Saves:
		return cluster.Pass()
	case s.Target.Unsaved != "" && (b == nil || !b.Complete):
		return cluster.Refuse(ReasonSaving, "what %s has cannot be backed up before it is replaced: %s. Create another Restore with spec.saveCurrent: false", s.Target.Noun, s.Target.Unsaved)
	case b == nil:
		return cluster.Wait(ReasonSaving, watching, "plan %s is confirmed, and what %s has is backed up when all of it is well: %s", s.Plan(), s.Target.Noun, s.Target.Doing)
	case b.Failed != "":
		return cluster.Refuse(ReasonSaving, "what %s has could not be backed up, and is not replaced before: %s. Remove the cause and delete Backup %s, or create another Restore with spec.saveCurrent: false",
			s.Target.Noun, strings.TrimSuffix(b.Failed, "."), b.Name)
	case b.Stalled:
		return cluster.Refuse(ReasonSaving, "what %s has cannot be backed up as %s, and is not replaced before: %s. Remove the cause, or create another Restore with spec.saveCurrent: false",
			s.Target.Noun, b.Name, strings.TrimSuffix(b.Activity, "."))
	case !b.Complete:
		return cluster.Wait(ReasonSaving, watching, "what %s has is being backed up as %s: %s", s.Target.Noun, b.Name, b.Activity)
	}
	return cluster.Pass()
}

func begins(s RestoreState) (cluster.Plan, bool) {
	return cluster.Wait(ReasonRestoring, watching, "plan %s is confirmed, and %s begins as soon as it can: %s", s.Plan(), s.Target.Noun, s.Target.Doing)
}

// RestoreConditions returns Confirmed, Complete, Reconciling and Stalled for the outcome of one pass.
func RestoreConditions(s RestoreState, p cluster.Plan, err error) []metav1.Condition {
	progress := cluster.Progress(p, err)
	confirmed := metav1.Condition{Type: v1alpha1.ConditionConfirmed, Status: metav1.ConditionFalse, Reason: progress[0].Reason, Message: progress[0].Message}
	complete := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: progress[0].Reason, Message: progress[0].Message}
	begun := s.Target != nil && s.Target.Begun
	if r := s.done(); r != nil {
		begun = true
		complete.Status, complete.Reason, complete.Message = metav1.ConditionTrue, ReasonRestored, r.String()
	}
	if begun || s.Ready() {
		confirmed.Status, confirmed.Reason = metav1.ConditionTrue, ReasonConfirmed
		confirmed.Message = "the plan was confirmed"
	}
	return append(progress, confirmed, complete)
}
