package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdUpgradeSpec says how a newer version is reached.
type EtcdUpgradeSpec struct {
	// snapshot is Required or Skip. Required takes a snapshot before the first
	// pod gets a newer version, verifies it, and keeps it on a volume of its own
	// (<name>-snapshot, as large and of the same class as those of the members);
	// while that fails, the upgrade does not begin. Skip goes on without one.
	// Without spec.storage there is no volume to keep one on, and none is taken.
	// Default: Required.
	// +optional
	Snapshot *UpgradeSnapshot `json:"snapshot,omitempty"`
}

// UpgradeSnapshot says whether an upgrade waits for a snapshot.
// +kubebuilder:validation:Enum=Required;Skip
type UpgradeSnapshot string

// Snapshots before an upgrade.
const (
	// SnapshotRequired makes an upgrade wait for a verified snapshot.
	SnapshotRequired UpgradeSnapshot = "Required"
	// SnapshotSkip lets it begin without one.
	SnapshotSkip UpgradeSnapshot = "Skip"
)

// NeedsSnapshot reports whether an upgrade waits for a snapshot.
func (s *EtcdUpgradeSpec) NeedsSnapshot() bool {
	return s == nil || s.Snapshot == nil || *s.Snapshot == SnapshotRequired
}

// EtcdSnapshotStatus is a snapshot that was taken and verified.
type EtcdSnapshotStatus struct {
	// claim that it is kept on.
	Claim string `json:"claim"`
	// file in that claim.
	File string `json:"file"`
	// version of etcd that it was taken from.
	Version string `json:"version"`
	// revision of the newest change in it.
	Revision int64 `json:"revision"`
	// size of the file in bytes.
	Size int64 `json:"size"`
	// sha256 of the database in it, which the file ends with.
	SHA256 string `json:"sha256"`
	// time at which it was complete.
	Time metav1.Time `json:"time"`
}
