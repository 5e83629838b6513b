package redis

import (
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// rateOver is the least time over which commands are counted.
const rateOver = 10 * time.Second

// Rates remember what primaries have carried out, by the name of the shard.
type Rates map[string]*count

// count is how many commands a process had carried out at a time, and how many a second since the time before; below 0: unknown.
type count struct {
	process  string
	at       time.Time
	commands int64
	rate     float64
}

// next is how many commands a second a primary carries out; below 0: unknown.
func (r Rates) next(now time.Time, shard string, n *Node) float64 {
	c := r[shard]
	switch {
	case c == nil || c.process != n.Process || n.Commands < c.commands:
		r[shard] = &count{n.Process, now, n.Commands, -1}
	case now.Sub(c.at) >= rateOver:
		rate := float64(n.Commands-c.commands) / now.Sub(c.at).Seconds()
		r[shard] = &count{n.Process, now, n.Commands, rate}
	}
	return r[shard].rate
}

// keep forgets shards that are gone.
func (r Rates) keep(shards []string) {
	left := map[string]bool{}
	for _, name := range shards {
		left[name] = true
	}
	for name := range r {
		if !left[name] {
			delete(r, name)
		}
	}
}

// Load is what the primary of a shard holds and does.
type Load struct {
	// Used by data in bytes, and Room for it; Room 0: there is no limit, or any key may be evicted when it is reached.
	Used, Room int64
	// Rate of commands per second since it was last read; below 0: unknown.
	Rate float64
}

// Loads are those of all primaries, by the number of the shard; nil when a server is missing or could not be read, or a shard comes or
// goes.
func Loads(s State, r Rates) []Load {
	v := look(s)
	if !v.complete || !v.formed || !v.settledShards() {
		return nil
	}
	out, names := make([]Load, 0, len(v.shards)), make([]string, 0, len(v.shards))
	for shard := range v.shards {
		p, name := v.head(shard), cluster.ShardSet(v.Spec.Name, shard)
		if p == nil || p.Node == nil {
			return nil
		}
		m := p.Node.Memory
		l := Load{Used: max(0, m.Used-m.Uncounted-m.Empty), Rate: r.next(v.Now, name, p.Node)}
		if room := v.room(p); room > 0 && !m.Evicts { // Also before it has been told: it is not as long as it is too full.
			l.Room = max(1, room-m.Empty)
		}
		out, names = append(out, l), append(names, name)
	}
	r.keep(names)
	return out
}

// MemoryFor is the limit of memory in bytes in which the fullest server fits when it uses so many percent more, and the least limit that the largest
// process keeps within; 0 when a server is missing or could not be read, or is meant to be full.
func MemoryFor(s State, percent int64) (fit, held int64) {
	v := look(s)
	if !v.complete {
		return 0, 0
	}
	used, resident := int64(0), int64(0)
	for _, p := range v.read {
		if p.Node.Memory.Used == 0 || p.Node.Memory.Evicts {
			return 0, 0
		}
		used, resident = max(used, p.Node.Memory.Used-p.Node.Memory.Uncounted), max(resident, p.Node.Memory.Resident)
	}
	return limitFor(used / 100 * (100 + percent)), int64(float64(resident)/headroom) + 1
}

// Evicts tells whether servers are to throw any key away when there is no more room.
func Evicts(spec v1alpha1.RedisClusterSpec) bool {
	return spec.Config != nil && spec.Config.MaxMemoryPolicy != nil && evictsAny(*spec.Config.MaxMemoryPolicy)
}

// Limits tells whether servers have a maxmemory that the specification names, or that follows from their limit.
func Limits(spec v1alpha1.RedisClusterSpec) bool {
	return MemoryLimit(spec.Resources) > 0 || (spec.Config != nil && spec.Config.MaxMemory != nil)
}
