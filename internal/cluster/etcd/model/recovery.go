package model

import (
	"encoding/json"
	"fmt"
	"time"
)

// RecoveryPhase is how far the recovery of a lost quorum has got.
type RecoveryPhase string

// Phases of a recovery, in their order.
const (
	RecoveryReported RecoveryPhase = "Reported"
	RecoveryHeld     RecoveryPhase = "Held"
	RecoveryStarted  RecoveryPhase = "Started"
	RecoveryOver     RecoveryPhase = "Over"
)

// Recovery of a quorum that was lost for good, the zero value when there was none.
type Recovery struct {
	// Incident tells losses apart: another one follows when another member loses its data, and when one was recovered from.
	Incident string        `json:"incident,omitempty"`
	Phase    RecoveryPhase `json:"phase,omitempty"`
	// Former is the incident that was recovered from last when this one was reported, empty for none.
	Former string `json:"former,omitempty"`
	// Since is when the loss was noticed.
	Since time.Time `json:"since,omitzero"`
	// Candidates have their data, by the names of their pods; Survivor is the one that goes on.
	Candidates []string `json:"candidates,omitempty"`
	Survivor   string   `json:"survivor,omitempty"`
	// Restore is the backup that the members begin with instead of a survivor; nil: there is a
	// survivor. Its key is from before the rename, and records of earlier versions hold it.
	Restore *Restore `json:"anew,omitempty"`
}

// Epoch is the incident that the data of the cluster is from after, empty for none. While one is only reported that is the former.
func (r Recovery) Epoch() string {
	if r.Phase == RecoveryReported {
		return r.Former
	}
	return r.Incident
}

// Healed is what is left of a recovery that was reported and never carried out.
func (r Recovery) Healed() Recovery {
	if r.Former == "" {
		return Recovery{}
	}
	return Recovery{Incident: r.Former, Phase: RecoveryOver}
}

// encode returns the recovery for the record, empty for none.
func (r Recovery) encode() string {
	if r.Incident == "" {
		return ""
	}
	raw, _ := json.Marshal(r) // Strings and a time.
	return string(raw)
}

func parseRecovery(text string) (r Recovery, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("key %s: %w", KeyRecovery, err)
	}
	return r, nil
}

// Less reports whether the log ends before the other one: in an earlier term, or in the same term
// at a lower index.
func (a LogEnd) Less(b LogEnd) bool {
	return a.Term < b.Term || (a.Term == b.Term && a.Index < b.Index)
}

// CopyName is the directory, next to the data directory, that a start gate keeps data in from before a recovery.
func CopyName(incident string) string { return "before-" + incident }
