package steps

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Defragment gives free space of the member in a pod back to the file system. It takes up to DefragmentationLimit, and is
// waited for in the background.
type Defragment struct {
	Pod string
	// Size of the database in bytes.
	Size int64
}

// DrainMember takes a pod out of the client Service.
type DrainMember struct{ Pod, UID string }

// ServeAgain takes a pod back into the client Service.
type ServeAgain struct{ Pod, UID string }

// Compact throws the history before a revision away, through the given pod.
type Compact struct {
	Pod      string
	Revision int64
}

// Disarm takes an alarm back, through the given pod.
type Disarm struct {
	Pod   string
	Alarm model.Alarm
}

func (s Defragment) String() string { return "defragment " + s.Pod }

func (s DrainMember) String() string { return "take " + s.Pod + " out of the client Service" }

func (s ServeAgain) String() string { return "take " + s.Pod + " back into the client Service" }

func (s Compact) String() string { return fmt.Sprintf("compact to revision %d", s.Revision) }

func (s Disarm) String() string {
	return fmt.Sprintf("disarm %s of member %s", s.Alarm.Type, model.FormatID(s.Alarm.MemberID))
}

// DefragmentationLimit is how long the operator waits for the defragmentation of a database: half a minute, and a second for
// each 10 MiB. An ordinary disk does 200 MiB in that second. etcd goes on behind the limit.
func DefragmentationLimit(size int64) time.Duration {
	return 30*time.Second + time.Duration(size/(10<<20))*time.Second
}
