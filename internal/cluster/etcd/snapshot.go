package etcd

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// Before the first pod gets a newer version, a snapshot is taken, verified and written down:
//
//	spec.version 3.7.3   Job takes it   recorded            pods get 3.6.16   pods get 3.7.3
//	─────────┬───────────────┬─────────────┬──────────────────────┬─────────────────┬──────────>
//	         TakeSnapshot    RecordSnapshot                       SetVersion        SetVersion: it is spent
//
// It serves all of the way to the version that it was taken for, and no other change. What goes back to an older version needs
// none: the one from before is still there.

const (
	// ReasonSnapshot says that an upgrade waits for its snapshot.
	ReasonSnapshot = "TakingSnapshot"
	// ReasonSnapshotFailed says that an upgrade does not begin, because its snapshot cannot be had.
	ReasonSnapshotFailed = "SnapshotFailed"
)

const (
	// snapshotTrust is how old a snapshot may be for pods to get another version. What was written since is not in it.
	snapshotTrust = time.Hour
	// snapshotRest passes between a Job that failed, which has tried several times, and the next.
	snapshotRest = 5 * time.Minute
	// snapshotResultTime is what the report of a Job may take to be seen after its end.
	snapshotResultTime = 10 * time.Second
	// whileSnapshot is how soon to look again at the pod of a Job. The end of the Job is told.
	whileSnapshot = 5 * time.Second
)

// skipping is the cure where no snapshot can be had.
const skipping = "to go on without a snapshot, set spec.upgrade.snapshot to Skip"

// Snapshot is one that was taken and verified, as the record has it.
type Snapshot struct {
	SnapshotReport
	// From is the version that it was taken from, For the one that it was taken on the way to, zero once that is reached.
	From, For Version
	// Job that took it.
	Job string
	// Time at which it was complete.
	Time time.Time
}

// SnapshotReport is what the Job of a snapshot says at its end.
type SnapshotReport struct {
	File     string `json:"file"`
	Revision int64  `json:"revision"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	// Member that it was taken from.
	Member string `json:"member"`
}

// Encode returns the report as a termination message.
func (r SnapshotReport) Encode() (string, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the report: %w", err)
	}
	return string(raw), nil
}

// ParseSnapshotReport reads a termination message; ok is false when it is none of a snapshot.
func ParseSnapshotReport(message string) (r SnapshotReport, ok bool) {
	err := json.Unmarshal([]byte(message), &r)
	return r, err == nil && r.File != "" && r.Size > 0
}

// SnapshotJob is the Job that takes a snapshot.
type SnapshotJob struct {
	Name, UID string
	// From and For are the versions that it was made for, see Snapshot.
	From, For Version
	Age       time.Duration
	// Leaving says that it is being deleted.
	Leaving bool
	// Ended is when it came to its end, zero before.
	Ended time.Time
	// Failed says in words why it did, empty when it did not.
	Failed string
	// Report is what it said at its end, nil when that is unknown.
	Report *SnapshotReport
	// Problem says in words what keeps its pod from running, or what became of its last attempt; empty when nothing is known.
	Problem string
}

// TakeSnapshot makes the Job that takes a snapshot, and the claim that it is written to.
type TakeSnapshot struct{ From, For Version }

// RecordSnapshot writes down that a snapshot is there.
type RecordSnapshot struct{ Snapshot Snapshot }

// DropSnapshotJob deletes a Job, if it still is the one that was decided on.
type DropSnapshotJob struct{ Name, UID string }

func (s TakeSnapshot) String() string {
	return fmt.Sprintf("take a snapshot before %s -> %s", s.From, s.For)
}
func (s RecordSnapshot) String() string  { return "record snapshot " + s.Snapshot.File }
func (s DropSnapshotJob) String() string { return "delete Job " + s.Name }

// Reason names the step in events and conditions.
func (TakeSnapshot) Reason() string { return ReasonSnapshot }

// Reason names the step in events and conditions.
func (RecordSnapshot) Reason() string { return "SnapshotTaken" }

// Reason names the step in events and conditions.
func (DropSnapshotJob) Reason() string { return "DroppingSnapshotJob" }

// snapshotFirst takes the snapshot that an upgrade waits for, when nothing else is left to be done. Until then upgrade, flush and
// setVersion leave the version alone, and everything else goes on.
func snapshotFirst(s State) (cluster.Plan, bool) {
	if !s.moves() || !s.unsaved() {
		return cluster.Pass()
	}
	return s.snapshot()
}

// snapshotOfTheSick does the same for a newer patch while a member is not well: that may be what cures it.
func snapshotOfTheSick(s State) (cluster.Plan, bool) {
	if s.Want.Version.Minor != s.Record.Version.Minor || !s.unsaved() {
		return cluster.Pass()
	}
	if _, waits := waitForHealth(s); !waits {
		return cluster.Pass()
	}
	return s.snapshot()
}

// unsaved reports whether a newer version has to wait for a snapshot.
func (s State) unsaved() bool {
	if !s.Record.Version.Less(s.Want.Version) || !s.known() || !s.Want.Snapshot || !s.Want.Persistent {
		return false
	}
	have := s.Record.Snapshot
	return have.For != s.Want.Version || s.Now.Sub(have.Time) > snapshotTrust
}

// snapshot takes the next step towards one.
func (s State) snapshot() (cluster.Plan, bool) {
	from, to, job := s.Record.Version, s.Want.Version, s.SnapshotJob
	switch {
	case job == nil:
		return cluster.Do(TakeSnapshot{From: from, For: to}, "a snapshot of about %s comes before %s -> %s", s.dataSize(), from, to)
	case job.Leaving:
		return cluster.Wait(ReasonSnapshot, whileWaiting, "waiting for the Job of an earlier snapshot to end, before one is taken for %s -> %s", from, to)
	case job.From != from || job.For != to || job.UID == s.Record.Snapshot.Job:
		return cluster.Do(job.deletion(), "Job %s took a snapshot for another change", job.Name)
	case job.Failed != "" && s.Now.Sub(job.Ended) < snapshotRest:
		return s.held(job.Failed + "; it is tried again every five minutes")
	case job.Failed != "":
		return cluster.Do(job.deletion(), "the last snapshot failed, and is tried again: %s", job.Failed)
	case !job.Ended.IsZero():
		return s.finish(*job)
	case job.Problem != "" && job.Age >= stuckPatience:
		return s.held(job.Problem)
	case job.Problem != "":
		return cluster.Wait(ReasonSnapshot, whileSnapshot, "waiting for a snapshot of about %s before %s -> %s: %s", s.dataSize(), from, to, job.Problem)
	}
	return cluster.Wait(ReasonSnapshot, whileSnapshot, "waiting for a snapshot of about %s before %s -> %s", s.dataSize(), from, to)
}

// finish writes down what a Job that succeeded says it wrote. It says so in its pod only, which may be gone.
func (s State) finish(job SnapshotJob) (cluster.Plan, bool) {
	since := s.Now.Sub(job.Ended)
	switch {
	case since > snapshotTrust:
		return cluster.Do(job.deletion(), "the snapshot is %s old, and what was written since is not in it", since.Round(time.Minute))
	case job.Report != nil:
		r := *job.Report
		return cluster.Do(RecordSnapshot{Snapshot{SnapshotReport: r, From: job.From, For: job.For, Job: job.UID, Time: job.Ended}},
			"a snapshot of %s is verified: revision %d, %s", r.Member, r.Revision, bytes(r.Size))
	case since < snapshotResultTime:
		return cluster.Wait(ReasonSnapshot, whileWaiting, "waiting for the report of Job %s", job.Name)
	}
	return cluster.Do(job.deletion(), "Job %s has ended, but its report is lost: the snapshot is taken again", job.Name)
}

// held says why an upgrade does not begin.
func (s State) held(why string) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonSnapshotFailed, "%s -> %s waits for a snapshot, and that fails: %s. Remove the cause, or %s",
		s.Record.Version, s.Want.Version, why, skipping)
}

// SnapshotRefused says what is to be done where the API server does not allow a snapshot.
func SnapshotRefused(err error) string {
	return fmt.Sprintf("the upgrade waits for a snapshot, and that is not allowed: %v. Allow it, or %s", err, skipping)
}

func (j SnapshotJob) deletion() DropSnapshotJob { return DropSnapshotJob{j.Name, j.UID} }

// unheard tells, while no quorum answers, what else has to wait for it.
func (s State) unheard() string {
	if s.Want.Version.Minor != s.Record.Version.Minor || !s.unsaved() {
		return ""
	}
	return fmt.Sprintf("; %s waits for a snapshot, and so for a quorum: %s", s.Want.Version, skipping)
}

// withoutSnapshot says why an upgrade begins without a snapshot, empty when it does not.
func (s State) withoutSnapshot() string {
	switch {
	case !s.known() || !s.Record.Version.Less(s.Want.Version):
		return ""
	case !s.Want.Snapshot:
		return ", without a snapshot, as spec.upgrade.snapshot says"
	case !s.Want.Persistent:
		return ", without a snapshot, because there is no spec.storage to keep one on"
	}
	return ""
}

// dataSize is the size of the largest database, rounded up so that it changes seldom.
func (s State) dataSize() string {
	var most int64 = 1
	for _, p := range s.Pods {
		if p.View != nil {
			most = max(most, p.View.DBSize)
		}
	}
	return roundUp(most)
}

// arrived returns what is left of a snapshot when pods are made with a version: at the end of its way it serves no other change.
func (s Snapshot) arrived(v Version) Snapshot {
	if s.For == v {
		s.For = Version{}
	}
	return s
}

// storedSnapshot is a snapshot as the ConfigMap has it.
type storedSnapshot struct {
	SnapshotReport
	From string    `json:"from"`
	For  string    `json:"for,omitempty"`
	Job  string    `json:"job"`
	Time time.Time `json:"time"`
}

func (s Snapshot) encode() string {
	if s.File == "" {
		return ""
	}
	stored := storedSnapshot{SnapshotReport: s.SnapshotReport, From: s.From.String(), Job: s.Job, Time: s.Time.UTC()}
	if s.For != (Version{}) {
		stored.For = s.For.String()
	}
	raw, err := json.Marshal(stored)
	if err != nil {
		return "" // Only a year beyond 9999 cannot be written.
	}
	return string(raw)
}

func decodeSnapshot(text string) (s Snapshot, err error) {
	if text == "" {
		return s, nil
	}
	var stored storedSnapshot
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return s, err
	}
	s = Snapshot{SnapshotReport: stored.SnapshotReport, Job: stored.Job, Time: stored.Time}
	if s.From, err = ParseVersion(stored.From); err != nil || stored.For == "" {
		return s, err
	}
	s.For, err = ParseVersion(stored.For)
	return s, err
}

func snapshotStatus(s State) *v1alpha1.EtcdSnapshotStatus {
	if s.Record == nil || s.Record.Snapshot.File == "" {
		return nil
	}
	have := s.Record.Snapshot
	return &v1alpha1.EtcdSnapshotStatus{
		Claim: cluster.Snapshot(s.Want.Name), File: have.File, Version: have.From.String(), Revision: have.Revision, Size: have.Size,
		SHA256: have.SHA256, Time: metav1.NewTime(have.Time),
	}
}
