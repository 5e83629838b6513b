package steps

import (
	"fmt"

	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// RecordBackup remembers which backup is put into the cluster. Nothing is done about that before.
type RecordBackup struct{ Record model.RestoreRecord }

func (s RecordBackup) String() string { return fmt.Sprintf("begin with backup %s", s.Record.Directory) }

// LoadBackup starts the Job that loads the backup of the record.
type LoadBackup struct {
	model.RestoreRecord
	// Into are the servers that import the slots; none: each key goes to the owner of its slot.
	Into []Refill
}

var _ planner.Load = LoadBackup{}

func (LoadBackup) String() string { return "load the backup" }

// Sum tells apart what Jobs are to do. The one that loads what a new cluster begins with needs none.
func (s LoadBackup) Sum() string {
	if s.Served {
		return s.Token + " served"
	}
	return s.Token
}

// Repeats reports whether it may be done again: slots that were imported are served when it is known that all of them are there.
func (s LoadBackup) Repeats() bool { return len(s.Into) > 0 }

// Replaces reports whether what the servers have is deleted before they are loaded.
func (s LoadBackup) Replaces() bool { return s.Token != "" && len(s.Slots) == 0 }
