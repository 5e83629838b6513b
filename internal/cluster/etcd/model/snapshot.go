package model

import (
	"encoding/json"
	"time"
)

// SnapshotTrust is how old a snapshot may be for pods to get another version. What was written since is not in it.
const SnapshotTrust = time.Hour

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

// Snapshot returns what the record keeps of the Backup.
func (b Backup) Snapshot() Snapshot {
	return Snapshot{
		Backup: b.Name, UID: b.UID, URL: b.URL, Directory: b.Directory, Revision: b.Revision, Size: b.Size,
		From: b.From, For: b.For, Time: b.Verified,
	}
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
