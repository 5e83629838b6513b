package model

import (
	"encoding/json"
	"slices"
)

// GateReport is what a gate leaves as its termination message: the operator's only way to learn of it.
type GateReport struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Log is how far the log of a member goes that is held back by a recovery, nil when it has none that can be read.
	Log *LogEnd `json:"log,omitempty"`
	// Agreed is the minor version that the members have agreed on by the data of one that is let go, 0: unknown. See etcdrestore.Agreed.
	Agreed int `json:"agreed,omitempty"`
}

// GateStart is the reason in the report of a member that is let go.
const GateStart = "Start"

// Reasons to wait. In all but GateHeld and GateNoRoom the disk is empty.
const (
	// GateLostDisk: the cluster knows this member as started, so it has lost its disk.
	GateLostDisk = "LostDisk"
	// GateNoPeers: no peer answers that could say whether the member may join.
	GateNoPeers = "NoPeers"
	// GateNotMember: the cluster does not list this member.
	GateNotMember = "NotMember"
	// GateForeignPeers: the peers belong to another cluster, or to different ones.
	GateForeignPeers = "ForeignPeers"
	// GateHeld: a lost quorum is being recovered, and the operator has yet to say who goes on.
	GateHeld = "Held"
	// GateNoRoom: there is no room on the volume for a copy of the data.
	GateNoRoom = "NoRoom"
	// GateRestore: the backup that the cluster is to begin with could not be restored.
	GateRestore = "RestoreFailed"
	// GateAside means that the disk is empty because an earlier cluster quarantined its data, which
	// is still on the volume.
	GateAside = "DataSetAside"
)

// Final reports whether waiting alone will not change the verdict.
func (r GateReport) Final() bool {
	return slices.Contains([]string{GateLostDisk, GateForeignPeers, GateHeld, GateNoRoom}, r.Reason)
}

// ParseGateReport reads a termination message; ok is false when it is none of the gate's.
func ParseGateReport(message string) (r GateReport, ok bool) {
	err := json.Unmarshal([]byte(message), &r)
	return r, err == nil && r.Reason != ""
}

// Encode returns the report as a termination message.
func (r GateReport) Encode() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return r.Message
	}
	return string(raw)
}

// LogEnd is how far the log of a member goes, committed or not.
type LogEnd struct {
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// Lost reports whether the start gate found that the member has lost its disk; false without a
// report.
func (r *GateReport) Lost() bool { return r != nil && r.Reason == GateLostDisk }
