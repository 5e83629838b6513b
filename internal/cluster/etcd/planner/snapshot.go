package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
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

	// ReasonSnapshotFailed says that an upgrade does not begin, because its snapshot cannot be had.
	ReasonSnapshotFailed = "SnapshotFailed"
)

const (

	// snapshotRest passes between a Backup that failed, which has tried several times, and the next.
	snapshotRest = 5 * time.Minute
	// whileSnapshot is how soon to look again at a Backup. What becomes of it is told.
	whileSnapshot = 5 * time.Second
	// maxBackupName is how long the name of a Backup may be.
	maxBackupName = 56
)

// skipping is the cure where no Backup can be had.
const skipping = "set spec.upgrade.snapshot to Skip to go on without one"

// backUpBeforeUpgrade takes the Backup that an upgrade waits for, when nothing else is left to be done.
// Until then upgrade, flushLog and setVersion leave the version alone, and everything else goes on.
func backUpBeforeUpgrade(s model.State) (cluster.Plan, bool) {
	if !moves(s) || !unsaved(s) {
		return cluster.Pass()
	}
	return snapshot(s)
}

// snapshotForUnhealthy does the same for a newer patch while a member is not well: that may be what cures it.
func snapshotForUnhealthy(s model.State) (cluster.Plan, bool) {
	if s.Want.Version.Minor != s.Record.Version.Minor || !unsaved(s) || allHealthy(s) {
		return cluster.Pass()
	}
	return snapshot(s)
}

// unsaved reports whether a newer version has to wait for a snapshot.
func unsaved(s model.State) bool {
	if !s.Record.Version.Less(s.Want.Version) || !s.Known() || !s.Want.Snapshot || !s.Want.SnapshotPlace {
		return false
	}
	have := s.Record.Snapshot
	return have.For != s.Want.Version || s.Now.Sub(have.Time) > model.SnapshotTrust
}

// snapshot takes the next step towards one.
func snapshot(s model.State) (cluster.Plan, bool) {
	from, to, b := s.Record.Version, s.Want.Version, backup(s)
	if other, why := unneeded(s, b); other != nil {
		return cluster.Do(dropBackup(*other), "Backup %s %s", other.Name, why)
	}
	switch {
	case b == nil:
		return cluster.Do(steps.TakeSnapshot{Name: backupName(s.Want.Name, to, s.BackupNames), From: from, For: to},
			"a Backup of about %s comes before %s -> %s", dataSize(s), from, to)
	case !b.Verified.IsZero():
		return cluster.Do(steps.RecordSnapshot{Snapshot: b.Snapshot()}, "Backup %s is verified: revision %d, %s", b.Name, b.Revision, model.Bytes(b.Size))
	case b.Failed == "" && b.Stalled != "":
		return holdSnapshot(s, b.Name, b.Stalled)
	case b.Failed == "":
		return cluster.Wait(steps.ReasonSnapshot, whileSnapshot, "%s -> %s waits for Backup %s of about %s: %s",
			from, to, b.Name, dataSize(s), cmp.Or(b.Activity, "it has not begun"))
	case b.Complete && !b.Own: // Another one would leave as much behind, again and again.
		return holdSnapshot(s, b.Name, b.Failed)
	case s.Now.Sub(b.Since) < snapshotRest:
		return holdSnapshot(s, b.Name, strings.TrimSuffix(b.Failed, ".")+" (it is tried again every five minutes)")
	}
	return cluster.Do(dropBackup(*b), "Backup %s failed, and is made again: %s", b.Name, b.Failed)
}

// backup is the newest one that this change can wait for, nil when there is none.
func backup(s model.State) *model.Backup {
	for i := range s.Backups {
		b := &s.Backups[i]
		made := b.From == s.Record.Version && b.For == s.Want.Version && !b.Elsewhere && !b.Former && b.UID != s.Record.Snapshot.UID
		if made && !b.Leaving && (b.Verified.IsZero() || s.Now.Sub(b.Verified) <= model.SnapshotTrust) {
			return b
		}
	}
	return nil
}

// unneeded is a Backup that is to go, and why: one that was made for another change and is of no use, and all on the claim of the
// cluster but the newest that is good, which makes two with the current one or the one to come.
func unneeded(s model.State, current *model.Backup) (*model.Backup, string) {
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

// holdSnapshot says why an upgrade does not begin.
func holdSnapshot(s model.State, name, why string) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonSnapshotFailed, "%s -> %s waits for Backup %s, and that fails: %s. Remove the cause and delete Backup %s, or %s",
		s.Record.Version, s.Want.Version, name, strings.TrimSuffix(why, "."), name, skipping)
}

// SnapshotRefused says what is to be done where the API server does not allow a snapshot.
func SnapshotRefused(err error) string {
	return fmt.Sprintf("the upgrade waits for a Backup, and that is not allowed: %v. Allow it, or %s", err, skipping)
}

// backupName is the first name for a Backup before a version that is not taken.
func backupName(name string, v model.Version, taken []string) string {
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
func unheard(s model.State) string {
	if s.Want.Version.Minor != s.Record.Version.Minor || !unsaved(s) {
		return ""
	}
	return fmt.Sprintf("; %s waits for a Backup, and so for a quorum: %s", s.Want.Version, skipping)
}

// withoutSnapshot says why an upgrade begins without a snapshot, empty when it does not.
func withoutSnapshot(s model.State) string {
	switch {
	case !s.Known() || !s.Record.Version.Less(s.Want.Version):
		return ""
	case !s.Want.Snapshot:
		return ", without a snapshot, as spec.upgrade.snapshot says"
	case !s.Want.SnapshotPlace:
		return ", without a snapshot, because there is neither spec.upgrade.destination nor spec.storage to keep one on"
	}
	return ""
}

// dataSize is the size of the largest database, rounded up so that it changes seldom.
func dataSize(s model.State) string {
	var most int64 = 1
	for _, p := range s.Pods {
		if p.Status != nil {
			most = max(most, p.Status.DBSize)
		}
	}
	return roundUp(most)
}

func snapshotStatus(s model.State) *v1alpha1.EtcdSnapshotStatus {
	if s.Record == nil || s.Record.Snapshot.Backup == "" {
		return nil
	}
	have := s.Record.Snapshot
	return &v1alpha1.EtcdSnapshotStatus{
		Backup: have.Backup, URL: have.URL, Directory: have.Directory, Version: have.From.String(), Revision: have.Revision,
		Size: have.Size, Time: metav1.NewTime(have.Time),
	}
}
