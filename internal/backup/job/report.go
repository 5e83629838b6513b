package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Reasons of problems that more than one Job can have.
const (
	ReasonFailed = "BackupFailed"
	ReasonMemory = "OutOfMemory"
)

// Report is what a Job says at its end, in the termination message of its pod: 4096 bytes at most, and the operator's only way to
// learn of it.
type Report struct {
	// Problem says why the Job failed, nil when it did not.
	Problem *Problem `json:"problem,omitempty"`
	// Backup that was taken, checked, or found.
	Backup *Stored `json:"backup,omitempty"`
	// Target is the newest revision of etcd that is to be restored, 0: all that the snapshot holds.
	Target int64 `json:"target,omitempty"`
	// LastChange is when the target was recorded, where a time was asked for.
	LastChange *time.Time `json:"lastChange,omitempty"`
	// Checked is what the check of a backup found out.
	Checked *Checked `json:"checked,omitempty"`
	// Restored is what a restore came to.
	Restored *Restored `json:"restored,omitempty"`
}

// Problem is why a Job failed.
type Problem struct {
	// Reason is a CamelCase word for conditions.
	Reason string `json:"reason"`
	// Message names the cause and the cure.
	Message string `json:"message"`
	// Final says that trying again does not help.
	Final bool `json:"final,omitempty"`
}

// Stored is a complete backup.
type Stored struct {
	// Directory below the URL of the destination.
	Directory string `json:"directory"`
	// Kind and Cluster that it is of.
	Kind    string `json:"kind"`
	Cluster string `json:"cluster"`
	// Engine is etcd, redis or valkey.
	Engine  string `json:"engine"`
	Version string `json:"version"`
	// Size of the data and StoredSize of what is kept of it, in bytes.
	Size       int64 `json:"size"`
	StoredSize int64 `json:"storedSize"`
	// Revision of etcd that is in it at least. Timeline is the history that it belongs to.
	Revision int64  `json:"revision,omitempty"`
	Timeline string `json:"timeline,omitempty"`
	// Keys in it, zero where that is not known.
	Keys int64 `json:"keys,omitempty"`
	// Shards that it was taken of, and Skew between the first and the last of them.
	Shards int           `json:"shards,omitempty"`
	Skew   time.Duration `json:"skew,omitempty"`
	// Memory in bytes that a server needs for the data, of several shards for the largest one; see ServerMemory.
	Memory int64 `json:"memory,omitempty"`
	// Started and Finished by the clock of the Job.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
}

// Checked is what the check of a backup found out.
type Checked struct {
	// Time at which it ended, and Took from the first byte that was read to the data that is ready to be served.
	Time time.Time     `json:"time"`
	Took time.Duration `json:"took"`
	// Keys that were found, and Revision of etcd.
	Keys     int64 `json:"keys"`
	Revision int64 `json:"revision,omitempty"`
	// Server that was started on what was restored, such as "etcd 3.6.16", empty when none was.
	Server string `json:"server,omitempty"`
}

// Restored is what a restore came to.
type Restored struct {
	// Keys that were restored, those that were there already and those that had expired meanwhile.
	Keys    int64 `json:"keys"`
	Present int64 `json:"present,omitempty"`
	Expired int64 `json:"expired,omitempty"`
	// Revision of etcd that the data is at.
	Revision int64         `json:"revision,omitempty"`
	Took     time.Duration `json:"took"`
	// Users of the backup that the servers do not have, with commas between them.
	Users string `json:"users,omitempty"`
	// Into is which processes in which pods were loaded (separated by blanks), where that was asked for.
	Into string `json:"into,omitempty"`
}

// Encode returns the report as a termination message.
func (r Report) Encode() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// ParseReport reads a termination message; ok is false when it is none of the agent's.
func ParseReport(message string) (r Report, ok bool) {
	err := json.Unmarshal([]byte(message), &r)
	return r, err == nil && r != (Report{})
}

// Flow is what a Job that runs says of how far it is, to whoever asks at FlowPort.
type Flow struct {
	// Doing says in words what it is at.
	Doing string `json:"doing"`
	// Bytes of data that it has read, and Stored of these what was sent to or fetched from the destination.
	Bytes  int64 `json:"bytes"`
	Stored int64 `json:"stored"`
	// Total of Bytes where that is known, else 0.
	Total int64 `json:"total,omitempty"`
	// Seconds since it began.
	Seconds float64 `json:"seconds"`
	// Stream is how far a recording of changes is.
	Stream *Stream `json:"stream,omitempty"`
}

// Stream is how far a recording of changes is.
type Stream struct {
	// Timeline is the history that is recorded.
	Timeline string `json:"timeline"`
	// Revision up to which everything is stored, and Time: what was acknowledged before is.
	Revision int64     `json:"revision,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	// Behind is how many revisions are not stored.
	Behind int64 `json:"behind,omitempty"`
	// Needs says why a full backup is needed to go on, empty when it is not.
	Needs string `json:"needs,omitempty"`
	// Trouble is what went wrong last, empty once that works again.
	Trouble string `json:"trouble,omitempty"`
}

// Where a Job says how far it is.
const (
	FlowPort = 8080
	FlowPath = "/progress"
)

// String says in words how far a Job is, and how fast.
func (f Flow) String() string {
	text := fmt.Sprintf("%s, %s", f.Doing, Bytes(f.Bytes))
	if f.Total > 0 {
		text += fmt.Sprintf(" of %s", Bytes(f.Total))
	}
	if f.Seconds > 0 {
		text += fmt.Sprintf(" at %s/s", Bytes(int64(float64(f.Bytes)/f.Seconds)))
	}
	return text
}

// String says in words what a check did.
func (c Checked) String() string {
	text := fmt.Sprintf("%d keys were restored within %s", c.Keys, c.Took.Round(time.Millisecond))
	if c.Server == "" {
		return text + " and read; no server was started on them, because no image of the version is known"
	}
	return text + ", and a throw-away " + c.Server + " served them"
}

// String says in words what came of a restore.
func (r Restored) String() string {
	var parts []string
	if r.Revision > 0 {
		parts = append(parts, fmt.Sprintf("the data is at revision %d", r.Revision))
	}
	if r.Keys > 0 {
		parts = append(parts, fmt.Sprintf("%d keys are restored", r.Keys))
	}
	if r.Present > 0 {
		parts = append(parts, fmt.Sprintf("%d were there already", r.Present))
	}
	if r.Took > 0 {
		parts = append(parts, fmt.Sprintf("it took %s", r.Took.Round(time.Millisecond)))
	}
	if len(parts) == 0 {
		return "the backup is restored"
	}
	return strings.Join(parts, ", ")
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, i := float64(n)/unit, 0
	for ; value >= unit && i < 4; i++ {
		value /= unit
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[i])
}
