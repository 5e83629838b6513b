package etcd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// Before the first pod gets a newer version, a Backup is made, verified and written down:
//
//	spec.version 3.7.3   Backup is taken   recorded            pods get 3.6.16   pods get 3.7.3
//	─────────┬───────────────┬─────────────────┬──────────────────────┬─────────────────┬──────────>
//	         TakeSnapshot    and verified      RecordSnapshot         SetVersion        SetVersion: it is spent
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
	// snapshotRest passes between a Backup that failed, which has tried several times, and the next.
	snapshotRest = 5 * time.Minute
	// whileSnapshot is how soon to look again at a Backup. What becomes of it is told.
	whileSnapshot = 5 * time.Second
	// maxBackupName is how long the name of a Backup may be.
	maxBackupName = 56
)

// skipping is the cure where no Backup can be had.
const skipping = "set spec.upgrade.snapshot to Skip to go on without one"

// Snapshot is a Backup that was verified, as the record has it.
type Snapshot struct {
	// Backup is its name, and UID what tells it from others of that name.
	Backup, UID string
	// URL of its destination, and Directory below that.
	URL, Directory string
	// Revision that it holds at least, and Size of its data in bytes.
	Revision, Size int64
	// From is the version that it was taken from, For the one that it was taken on the way to, zero once that is reached.
	From, For Version
	// Time at which it was verified.
	Time time.Time
}

// Backup is one that was made before an upgrade of this cluster, this one or an earlier one.
type Backup struct {
	Name, UID string
	// From and For are the versions that it was made for, see Snapshot.
	From, For Version
	// Leaving says that it is being deleted.
	Leaving bool
	// Former says that it is of another history than that of the cluster: of a former one of the name, or from before a restore.
	Former bool
	// Elsewhere says that its destination is not the one that backups go to now.
	Elsewhere bool
	// Own says that it is kept on the claim of the cluster: its data goes with it.
	Own bool
	// Complete says that its data is stored, Verified when that was proven, zero before.
	Complete bool
	Verified time.Time
	// Checking says that it is being found out, once more perhaps, whether it can be restored.
	Checking bool
	// Failed says in words why nothing will come of it, empty while something may, and Since when that turned out.
	Failed string
	Since  time.Time
	// Stalled says in words what it waits for that only a human can change, empty when it does not.
	Stalled string
	// Activity is what it does, in its own words.
	Activity string
	// URL, Directory, Revision and Size: see Snapshot.
	URL, Directory string
	Revision, Size int64
}

// TakeSnapshot creates a Backup, and the claim that it is written to where it has no other destination.
type TakeSnapshot struct {
	Name      string
	From, For Version
}

// RecordSnapshot writes down that a snapshot is there.
type RecordSnapshot struct{ Snapshot Snapshot }

// DropBackup deletes a Backup, if it still is the one that was decided on.
type DropBackup struct{ Name, UID string }

func (s TakeSnapshot) String() string {
	return fmt.Sprintf("create Backup %s before %s -> %s", s.Name, s.From, s.For)
}
func (s RecordSnapshot) String() string { return "record Backup " + s.Snapshot.Backup }
func (s DropBackup) String() string     { return "delete Backup " + s.Name }

// backUpBeforeUpgrade takes the Backup that an upgrade waits for, when nothing else is left to be done.
// Until then upgrade, flushLog and setVersion leave the version alone, and everything else goes on.
func backUpBeforeUpgrade(s State) (cluster.Plan, bool) {
	if !s.moves() || !s.unsaved() {
		return cluster.Pass()
	}
	return s.snapshot()
}

// snapshotForUnhealthy does the same for a newer patch while a member is not well: that may be what cures it.
func snapshotForUnhealthy(s State) (cluster.Plan, bool) {
	if s.Want.Version.Minor != s.Record.Version.Minor || !s.unsaved() || s.allHealthy() {
		return cluster.Pass()
	}
	return s.snapshot()
}

// unsaved reports whether a newer version has to wait for a snapshot.
func (s State) unsaved() bool {
	if !s.Record.Version.Less(s.Want.Version) || !s.known() || !s.Want.Snapshot || !s.Want.SnapshotPlace {
		return false
	}
	have := s.Record.Snapshot
	return have.For != s.Want.Version || s.Now.Sub(have.Time) > snapshotTrust
}

// snapshot takes the next step towards one.
func (s State) snapshot() (cluster.Plan, bool) {
	from, to, b := s.Record.Version, s.Want.Version, s.backup()
	if other, why := s.unneeded(b); other != nil {
		return cluster.Do(other.deletion(), "Backup %s %s", other.Name, why)
	}
	switch {
	case b == nil:
		return cluster.Do(TakeSnapshot{Name: backupName(s.Want.Name, to, s.BackupNames), From: from, For: to},
			"a Backup of about %s comes before %s -> %s", s.dataSize(), from, to)
	case !b.Verified.IsZero():
		return cluster.Do(RecordSnapshot{b.snapshot()}, "Backup %s is verified: revision %d, %s", b.Name, b.Revision, bytes(b.Size))
	case b.Failed == "" && b.Stalled != "":
		return s.held(b.Name, b.Stalled)
	case b.Failed == "":
		return cluster.Wait(ReasonSnapshot, whileSnapshot, "%s -> %s waits for Backup %s of about %s: %s",
			from, to, b.Name, s.dataSize(), cmp.Or(b.Activity, "it has not begun"))
	case b.Complete && !b.Own: // Another one would leave as much behind, again and again.
		return s.held(b.Name, b.Failed)
	case s.Now.Sub(b.Since) < snapshotRest:
		return s.held(b.Name, strings.TrimSuffix(b.Failed, ".")+" (it is tried again every five minutes)")
	}
	return cluster.Do(b.deletion(), "Backup %s failed, and is made again: %s", b.Name, b.Failed)
}

// backup is the newest one that this change can wait for, nil when there is none.
func (s State) backup() *Backup {
	for i := range s.Backups {
		b := &s.Backups[i]
		made := b.From == s.Record.Version && b.For == s.Want.Version && !b.Elsewhere && !b.Former && b.UID != s.Record.Snapshot.UID
		if made && !b.Leaving && (b.Verified.IsZero() || s.Now.Sub(b.Verified) <= snapshotTrust) {
			return b
		}
	}
	return nil
}

// unneeded is a Backup that is to go, and why: one that was made for another change and is of no use, and all on the claim of the
// cluster but the newest that is good, which makes two with the current one or the one to come.
func (s State) unneeded(current *Backup) (*Backup, string) {
	good := 0
	for i := range s.Backups {
		b := &s.Backups[i]
		switch {
		case b == current || b.Leaving || b.Checking:
		case b.Verified.IsZero():
			return b, "was made for another change, and is not verified"
		case b.Own && good > 0:
			return b, "is older than the newest, which stays beside the one to come"
		case b.Own:
			good++
		}
	}
	return nil, ""
}

// held says why an upgrade does not begin.
func (s State) held(name, why string) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonSnapshotFailed, "%s -> %s waits for Backup %s, and that fails: %s. Remove the cause and delete Backup %s, or %s",
		s.Record.Version, s.Want.Version, name, strings.TrimSuffix(why, "."), name, skipping)
}

// SnapshotRefused says what is to be done where the API server does not allow a snapshot.
func SnapshotRefused(err error) string {
	return fmt.Sprintf("the upgrade waits for a Backup, and that is not allowed: %v. Allow it, or %s", err, skipping)
}

func (b Backup) deletion() DropBackup { return DropBackup{b.Name, b.UID} }

func (b Backup) snapshot() Snapshot {
	return Snapshot{
		Backup: b.Name, UID: b.UID, URL: b.URL, Directory: b.Directory, Revision: b.Revision, Size: b.Size,
		From: b.From, For: b.For, Time: b.Verified,
	}
}

// backupName is the first name for a Backup before a version that is not taken.
func backupName(name string, v Version, taken []string) string {
	before := fmt.Sprintf("-before-%d-%d-%d", v.Major, v.Minor, v.Patch)
	for n := 1; ; n++ {
		end := before
		if n > 1 {
			end += fmt.Sprintf("-%d", n)
		}
		out := name[:min(len(name), maxBackupName-len(end))] + end
		if !slices.Contains(taken, out) {
			return out
		}
	}
}

// unheard tells, while no quorum answers, what else has to wait for it.
func (s State) unheard() string {
	if s.Want.Version.Minor != s.Record.Version.Minor || !s.unsaved() {
		return ""
	}
	return fmt.Sprintf("; %s waits for a Backup, and so for a quorum: %s", s.Want.Version, skipping)
}

// withoutSnapshot says why an upgrade begins without a snapshot, empty when it does not.
func (s State) withoutSnapshot() string {
	switch {
	case !s.known() || !s.Record.Version.Less(s.Want.Version):
		return ""
	case !s.Want.Snapshot:
		return ", without a snapshot, as spec.upgrade.snapshot says"
	case !s.Want.SnapshotPlace:
		return ", without a snapshot, because there is neither spec.upgrade.destination nor spec.storage to keep one on"
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
	Backup    string    `json:"backup"`
	UID       string    `json:"uid"`
	URL       string    `json:"url"`
	Directory string    `json:"directory"`
	Revision  int64     `json:"revision"`
	Size      int64     `json:"size"`
	From      string    `json:"from"`
	For       string    `json:"for,omitempty"`
	Time      time.Time `json:"time"`
}

func (s Snapshot) encode() string {
	if s.Backup == "" {
		return ""
	}
	stored := storedSnapshot{
		Backup: s.Backup, UID: s.UID, URL: s.URL, Directory: s.Directory, Revision: s.Revision, Size: s.Size,
		From: s.From.String(), Time: s.Time.UTC(),
	}
	if s.For != (Version{}) {
		stored.For = s.For.String()
	}
	raw, err := json.Marshal(stored)
	if err != nil {
		return "" // Only a year beyond 9999 cannot be written.
	}
	return string(raw)
}

// decodeSnapshot reads what encode wrote. A record that names no Backup is none.
func decodeSnapshot(text string) (s Snapshot, err error) {
	if text == "" {
		return s, nil
	}
	var stored storedSnapshot
	if err := json.Unmarshal([]byte(text), &stored); err != nil || stored.Backup == "" {
		return s, err
	}
	s = Snapshot{
		Backup: stored.Backup, UID: stored.UID, URL: stored.URL, Directory: stored.Directory,
		Revision: stored.Revision, Size: stored.Size, Time: stored.Time,
	}
	if s.From, err = ParseVersion(stored.From); err != nil || stored.For == "" {
		return s, err
	}
	s.For, err = ParseVersion(stored.For)
	return s, err
}

func snapshotStatus(s State) *v1alpha1.EtcdSnapshotStatus {
	if s.Record == nil || s.Record.Snapshot.Backup == "" {
		return nil
	}
	have := s.Record.Snapshot
	return &v1alpha1.EtcdSnapshotStatus{
		Backup: have.Backup, URL: have.URL, Directory: have.Directory, Version: have.From.String(), Revision: have.Revision,
		Size: have.Size, Time: metav1.NewTime(have.Time),
	}
}
