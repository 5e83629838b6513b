package steps

import (
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// RemakeSet deletes the StatefulSet and leaves its pods running, if it still is the one that was
// decided on. It is recreated with the wanted claim template, and adopts them.
type RemakeSet struct{ UID string }

// ExpandClaim makes a claim ask for a larger volume, if it still is what was decided on.
type ExpandClaim struct {
	Name, UID, ResourceVersion string
	Size                       int64
}

func (RemakeSet) String() string { return "make the StatefulSet anew around its pods" }

func (s ExpandClaim) String() string { return "expand claim " + s.Name + " to " + model.Bytes(s.Size) }
