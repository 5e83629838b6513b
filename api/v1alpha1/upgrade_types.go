package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdUpgradeSpec says how a newer version is reached.
type EtcdUpgradeSpec struct {
	// snapshot is Required or Skip. Required makes a Backup before the first pod
	// gets a newer version, and waits until it is complete and verified; while
	// that fails, the upgrade does not begin. Skip goes on without one. Without
	// spec.storage and spec.upgrade.destination there is nowhere to keep one, and
	// none is made. Default: Required.
	// +optional
	Snapshot *UpgradeSnapshot `json:"snapshot,omitempty"`
	// destination of the Backup, which stays there until somebody deletes it.
	// Default: a volume claim of its own (<name>-snapshot, as large and of the
	// same class as those of the members), which keeps the newest two and follows
	// spec.storage.deletionPolicy.
	// +optional
	Destination *BackupDestination `json:"destination,omitempty"`
}

// UpgradeSnapshot says whether an upgrade waits for a Backup.
// +kubebuilder:validation:Enum=Required;Skip
type UpgradeSnapshot string

// Snapshots before an upgrade.
const (
	// SnapshotRequired makes an upgrade wait for a verified Backup.
	SnapshotRequired UpgradeSnapshot = "Required"
	// SnapshotSkip lets it begin without one.
	SnapshotSkip UpgradeSnapshot = "Skip"
)

// NeedsSnapshot reports whether an upgrade waits for a snapshot.
func (s *EtcdUpgradeSpec) NeedsSnapshot() bool {
	return s == nil || s.Snapshot == nil || *s.Snapshot == SnapshotRequired
}

// BackupDestination is where the Backup before an upgrade goes, nil for a claim of the cluster.
func (s *EtcdUpgradeSpec) BackupDestination() *BackupDestination {
	if s == nil {
		return nil
	}
	return s.Destination
}

// EtcdSnapshotStatus is a Backup that was made before an upgrade, and verified.
type EtcdSnapshotStatus struct {
	// backup is the name of the Backup, which may have been deleted since.
	Backup string `json:"backup"`
	// url of its destination.
	URL string `json:"url"`
	// directory of the backup below the url.
	Directory string `json:"directory"`
	// version of etcd that it was taken from.
	Version string `json:"version"`
	// revision of etcd that it holds at least.
	Revision int64 `json:"revision"`
	// size of the data in bytes.
	Size int64 `json:"size"`
	// time at which it was verified.
	Time metav1.Time `json:"time"`
}
