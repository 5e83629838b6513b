package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// Stale counts acknowledged writes found at a revision below the acknowledged one.
	Stale int `json:"stale"`
	// OutOfOrder counts writes that got a revision at or below that of a write acknowledged before they began.
	OutOfOrder int `json:"outOfOrder"`
	// LongestStallMs is the longest time without any acknowledged write, LaneStallMs the same for each shard.
	LongestStallMs int64            `json:"longestStallMs"`
	LaneStallMs    map[string]int64 `json:"laneStallMs,omitempty"`
	DurationMs     int64            `json:"durationMs"`
	// LastRevision is the highest acknowledged revision; ClusterIDs are the ids that acknowledgements carried.
	LastRevision int64    `json:"lastRevision,omitempty"`
	ClusterIDs   []string `json:"clusterIDs,omitempty"`
	// Misses are why writes were not acknowledged, in the order in which the reasons came up; the first few of them.
	Misses []Miss `json:"misses,omitempty"`
}

// Miss is one reason why writes were not acknowledged.
type Miss struct {
	Error string `json:"error"`
	Count int    `json:"count"`
	// FirstMs and LastMs are when that was noticed, since the load began.
	FirstMs int64 `json:"firstMs"`
	LastMs  int64 `json:"lastMs"`
}

// Why is what kept writes from being acknowledged, and when.
func (s Summary) Why() string {
	why := make([]string, len(s.Misses))
	for i, m := range s.Misses {
		why[i] = fmt.Sprintf("%d x %q (%d to %d ms)", m.Count, m.Error, m.FirstMs, m.LastMs)
	}
	return strings.Join(why, ", ")
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
	if why := s.Why(); why != "" {
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

// Check compares what was acknowledged with what is there. found holds every key that exists; want says what value a
// key must have; last is the data store's revision now, 0 where there is none.
func (l *Ledger) Check(found map[string]Found, want func(key string) string, last int64) Summary {
	acked, unknown := l.Keys()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range acked {
		got, ok := found[key]
		switch {
		case !ok || got.Value != want(key):
			l.s.Lost++
			if len(l.s.LostKeys) < maxLostKeys {
				l.s.LostKeys = append(l.s.LostKeys, key)
			}
		case got.Revision < l.acked[key].Revision:
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
	l.s.Checked = true
	return l.summary()
}
