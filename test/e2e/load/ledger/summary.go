package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/test/e2e/load/updates"
)

// Summary is the result of a load, printed as one line of JSON.
type Summary struct {
	// Mode is etcd or redis.
	Mode string `json:"mode"`
	// Written counts the writes that were begun: Acked + Failed + Unknown.
	Written int `json:"written"`
	Acked   int `json:"acked"`
	Failed  int `json:"failed"`
	Unknown int `json:"unknown"`
	// UnknownPresent counts those of unknown outcome that turned out to be there.
	UnknownPresent int `json:"unknownPresent"`
	// Checked is true when every acknowledged write was looked for.
	Checked bool `json:"checked"`
	// Lost counts acknowledged writes that are gone or hold another value; LostKeys names the first of them.
	Lost     int      `json:"lost"`
	LostKeys []string `json:"lostKeys,omitempty"`
	// Losses are when lost writes had been acknowledged, and went; the first few thousand of them.
	Losses []Loss `json:"losses,omitempty"`
	// Stale counts acknowledged writes found at a revision below the acknowledged one.
	Stale int `json:"stale"`
	// Returned counts reads of acknowledged writes that were missed and later there again; Returns
	// are the first few thousand of them.
	Returned int    `json:"returned,omitempty"`
	Returns  []Loss `json:"returns,omitempty"`
	// OutOfOrder counts writes that got a revision at or below that of a write acknowledged before they began.
	OutOfOrder int `json:"outOfOrder"`
	// LongestStallMs is the longest time without any acknowledged write, LaneStallMs the same for each shard.
	LongestStallMs int64            `json:"longestStallMs"`
	LaneStallMs    map[string]int64 `json:"laneStallMs,omitempty"`
	DurationMs     int64            `json:"durationMs"`
	// Stalls are all times of half a second and more without an acknowledged write, lane by lane.
	Stalls []Stall `json:"stalls,omitempty"`
	// Watch is what a watcher saw, Registers what readers and writers of the same keys did; nil without them.
	Watch     *WatchSummary    `json:"watch,omitempty"`
	Registers *RegisterSummary `json:"registers,omitempty"`
	// Updates is what became of keys that are overwritten, deleted and incremented; nil without
	// them.
	Updates *updates.Summary `json:"updates,omitempty"`
	// LastRevision is the highest acknowledged revision; ClusterIDs are the ids that acknowledgements carried.
	LastRevision int64    `json:"lastRevision,omitempty"`
	ClusterIDs   []string `json:"clusterIDs,omitempty"`
	// Misses are why writes were not acknowledged.
	Misses Reasons `json:"misses,omitempty"`
}

// Loss is an acknowledged write that is gone. AckedMs is when it was acknowledged, SeenMs when it was there for the last time as far as
// anybody looked, and MissedMs when somebody looked and it was not; all in Unix milliseconds.
type Loss struct {
	Key      string `json:"key"`
	AckedMs  int64  `json:"ackedMs"`
	SeenMs   int64  `json:"seenMs"`
	MissedMs int64  `json:"missedMs"`
}

// Stall is a time without an acknowledged write, in Unix milliseconds, and why writes were not acknowledged in it, as far as a client is told.
type Stall struct {
	Lane   string `json:"lane"`
	FromMs int64  `json:"fromMs"`
	ToMs   int64  `json:"toMs"`
	Why    string `json:"why,omitempty"`
}

// RegisterSummary is what became of keys that several clients read, write, and compare and swap.
type RegisterSummary struct {
	// Operations counts what entered the history, Unknown how many of them got no answer, Unseen how many of those never happened.
	Operations int `json:"operations"`
	Unknown    int `json:"unknown"`
	Unseen     int `json:"unseen"`
	// Result is Ok when the history is linearizable, Illegal when it is not, and Unknown when that took too long to find out.
	Result string `json:"result"`
}

// String is the summary in words.
func (s Summary) String() string {
	text := fmt.Sprintf("%s: %d acknowledged, %d failed, %d unknown (%d of them present), %d lost, longest stall %d ms in %d s",
		s.Mode, s.Acked, s.Failed, s.Unknown, s.UnknownPresent, s.Lost, s.LongestStallMs, s.DurationMs/1000)
	lanes := make([]string, 0, len(s.LaneStallMs))
	for _, name := range slices.Sorted(maps.Keys(s.LaneStallMs)) {
		lanes = append(lanes, fmt.Sprintf("%s %d ms", name, s.LaneStallMs[name]))
	}
	if len(lanes) > 0 {
		text += " (by shard: " + strings.Join(lanes, ", ") + ")"
	}
	if why := s.Misses.String(); why != "" {
		text += "; not acknowledged: " + why
	}
	return text
}

// Found is what a key holds after the load.
type Found struct {
	Value    string
	Revision int64
}

// maxLostKeys bounds the length of a summary.
const maxLostKeys = 10

// maxLosses bounds how many lost writes are told with their time.
const maxLosses = 5000

// Check compares what was acknowledged with what is there. found holds every key that exists; want says what value a
// key must have; last is the data store's revision now, 0 where there is none.
func (l *Ledger) Check(found map[string]Found, want func(key string) string, last int64) Summary {
	acked, unknown := l.Keys()
	l.Look(acked, found, want)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range acked {
		write := l.acked[key]
		switch {
		case !write.missed.IsZero():
			l.s.Lost++
			if len(l.s.LostKeys) < maxLostKeys {
				l.s.LostKeys = append(l.s.LostKeys, key)
			}
			if len(l.s.Losses) < maxLosses {
				l.s.Losses = append(l.s.Losses, Loss{key, write.at.UnixMilli(), write.seen.UnixMilli(), write.missed.UnixMilli()})
			}
		case found[key].Revision < write.Revision:
			l.s.Stale++
		}
	}
	for _, key := range unknown {
		if _, ok := found[key]; ok {
			l.s.UnknownPresent++
		}
	}
	if last < l.highest {
		l.s.Stale++
	}
	l.compareWatch()
	l.s.Checked = true
	return l.summary()
}
