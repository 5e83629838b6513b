package model

import (
	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// A backup is put into a cluster in one of three ways. The plan is recorded before it begins, and
// continues from the record, whatever becomes of the Restore:
//
//	a new cluster begins with it   it is looked up, servers start empty and form a cluster, it is loaded, clients are let in
//	everything is replaced         it is confirmed, all servers are well, they are emptied and loaded
//	lost slots are brought back    it is confirmed, see refill in package planner

// Restore is a backup that is being put into a cluster.
type Restore struct {
	// Wish is set until it is known which backup a new cluster begins with. No server is started before.
	Wish *planner.RestoreRequest
	// RestoreRecord was written down, and Loading is how far that is; nil with a Wish.
	RestoreRecord
	Loading *planner.Loading
}

// RestoreRecord says which backup is put into a cluster, and how. It is written before anything is changed.
type RestoreRecord struct {
	Destination v1alpha1.BackupDestination `json:"destination"`
	Directory   string                     `json:"directory"`
	// Token is the UID of the Restore that was confirmed, empty for the backup that the cluster began with.
	Token string `json:"token,omitempty"`
	// Slots that were lost and are brought back; none: everything is replaced.
	Slots slots.Set `json:"slots,omitempty"`
	// Owners are the ids of the nodes that had these, as far as any server knew.
	Owners []string `json:"owners,omitempty"`
	// Served says that the slots are served before they are loaded: see importless in package
	// planner.
	Served bool `json:"served,omitempty"`
	// Emptied says that the slots are emptied before they are loaded: another backup may have been loaded into them in part.
	Emptied bool `json:"emptied,omitempty"`
	// Restored is what came of it, nil while it has not been loaded.
	Restored *job.Restored `json:"restored,omitempty"`
}

// Confirmed is a backup that somebody has confirmed is to be put into the cluster.
type Confirmed struct {
	// Noun is who asks for it, for people.
	Noun string
	// Lost says that it brings back lost slots, and Loss which loss that was confirmed for. It replaces everything otherwise.
	Lost bool
	Loss string
	// Saves says that what the cluster has is backed up before that is replaced. Saved is the last such backup, nil for none, and SaveAs what
	// another one is called.
	Saves  bool
	Saved  *planner.Saved
	SaveAs string
	// RestoreRecord is what is to be written down, but for the slots.
	RestoreRecord
}
