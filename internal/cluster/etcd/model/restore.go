package model

import (
	"encoding/json"
	"fmt"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
)

// InPlaceRestore is a backup that replaces the data of an existing cluster.
type InPlaceRestore struct {
	// Noun is who asks for it, for people.
	Noun string
	// Plan that was confirmed. With the time it is the incident that volumes bear afterwards.
	Plan    string
	Restore Restore
}

// RestoredFrom reports whether the cluster was founded with the backup of the token.
func (r Record) RestoredFrom(token string) bool {
	return r.ClusterID != 0 && r.Restore != nil && r.Restore.Token == token && !r.RestoresInPlace()
}

// RestoresFrom reports whether the cluster is about to be founded from the backup of the token:
// there is no way back.
func (r Record) RestoresFrom(token string) bool {
	return (r.Restore != nil && r.Restore.Token == token) || (r.Recovery.Restore != nil && r.Recovery.Restore.Token == token)
}

// Unsuited says why a backup of one version cannot be restored into pods of another, empty when it can.
func Unsuited(backup string, pods Version) string {
	from, err := ParseVersion(backup)
	if err == nil && RunsDataOf(pods, from) {
		return ""
	}
	return fmt.Sprintf("it is of etcd %s, which can be restored into the same minor version or the next one, and the pods are of %s", backup, pods)
}

// Replaces returns in words what becomes of the members' data in a restore in place.
func Replaces(members int, persistent bool, name string) string {
	kept := "What they have now goes with their pods, because there is no spec.storage."
	if persistent {
		kept = fmt.Sprintf("What they have now is set aside as %s-<time> on their volumes, which need room for both.", CopyName(name))
	}
	return fmt.Sprintf("All %d members end, clients are cut off until they are back, and what was written since the backup is not in it. %s", members, kept)
}

// RestoresInPlace reports whether a restore in place of a cluster that had clients before is not
// over: the client Service leads to no member until its identity is recorded and authentication is
// as specified.
func (r Record) RestoresInPlace() bool {
	return r.Recovery.Restore != nil && (r.Recovery.Phase == RecoveryHeld || r.Recovery.Phase == RecoveryStarted)
}

// InitialBackup is the backup that members with an empty disk begin with, or are about to, nil for none.
func (r Record) InitialBackup() *Restore {
	switch {
	case r.RestoresInPlace():
		return r.Recovery.Restore
	case r.Restores():
		return r.Restore
	}
	return nil
}

// RestoreBump is by how much the revision of a restored cluster is above that of its backup, so that it is above all that watchers and caches
// of the former cluster have seen: a week at some 1,600 writes a second.
//
// Source: etcd, Operations guide, Disaster recovery, "Restoring with revision bump".
const RestoreBump = 1_000_000_000

// Restore is the backup that the members of a new cluster begin with, each for itself and all the same. It is part of the record: whatever
// comes to be in that place meanwhile, the members agree.
type Restore struct {
	Destination v1alpha1.BackupDestination `json:"destination"`
	// Directory of the backup below the URL.
	Directory string `json:"directory"`
	// Timeline is the history that it belongs to, and Revision the newest change of it that the members are to have; 0: as many as
	// the snapshot holds. Exact says that this was asked for: a snapshot that holds more will not do.
	Timeline string `json:"timeline,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	Exact    bool   `json:"exact,omitempty"`
	// AtLeast is the revision that the backup has at least, and Bump is added to that.
	AtLeast int64 `json:"atLeast,omitempty"`
	Bump    int64 `json:"bump"`
	// Token tells the restored cluster from all others.
	Token string `json:"token"`
}

func (r *Restore) encode() string {
	if r == nil {
		return ""
	}
	raw, _ := json.Marshal(r) // Strings and numbers.
	return string(raw)
}

func parseRestore(text string) (*Restore, error) {
	if text == "" {
		return nil, nil
	}
	r := &Restore{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("key %s: %w", KeyRestore, err)
	}
	return r, nil
}

// RestoreWish is what the specification says of the backup that a new cluster is to begin with.
type RestoreWish = planner.RestoreRequest

// Restores reports whether members with an empty disk are to begin with a backup.
func (r Record) Restores() bool {
	return r.Restore != nil && r.ClusterID == 0 && r.Bootstrap == BootstrapNew
}
