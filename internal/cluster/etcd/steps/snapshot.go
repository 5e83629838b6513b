package steps

import (
	"fmt"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// TakeSnapshot creates a Backup, and the claim that it is written to where it has no other destination.
type TakeSnapshot struct {
	Name      string
	From, For model.Version
}

// RecordSnapshot writes down that a snapshot is there.
type RecordSnapshot struct{ Snapshot model.Snapshot }

// DropBackup deletes a Backup, if it still is the one that was decided on.
type DropBackup struct{ Name, UID string }

func (s TakeSnapshot) String() string {
	return fmt.Sprintf("create Backup %s before %s -> %s", s.Name, s.From, s.For)
}

func (s RecordSnapshot) String() string { return "record Backup " + s.Snapshot.Backup }

func (s DropBackup) String() string { return "delete Backup " + s.Name }
