package balance

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Load is what the primary of a shard holds and does.
type Load struct {
	// Used by data in bytes, and Room for it; Room 0: there is no limit, or any key may be evicted when it is reached.
	Used, Room int64
	// Rate of commands per second since it was last read; below 0: unknown.
	Rate float64
}

// Loads are those of all primaries, by the number of the shard; nil when a server is missing or could not be read, or a shard comes or
// goes.
func Loads(s model.State, r history.Rates) []Load {
	v := model.NewView(s)
	if !v.Complete || !v.HasOwners || !facts.SettledShards(v) {
		return nil
	}
	out, names := make([]Load, 0, len(v.Shards)), make([]string, 0, len(v.Shards))
	for shard := range v.Shards {
		p, name := v.DesignatedPrimary(shard), cluster.ShardSet(v.Spec.Name, shard)
		if p == nil || p.Node == nil {
			return nil
		}
		m := p.Node.Memory
		l := Load{Used: max(0, m.Used-m.Uncounted-m.Empty), Rate: r.Next(v.Now, name, p.Node)}
		if room := facts.MemoryRoom(v, p); room > 0 && !m.Evicts { // Also before it has been told: it is not as long as it is too full.
			l.Room = max(1, room-m.Empty)
		}
		out, names = append(out, l), append(names, name)
	}
	r.Keep(names)
	return out
}

// MemoryFor is the limit of memory in bytes in which the fullest server fits when it uses so many percent more, and the least limit that the largest
// process keeps within; 0 when a server is missing or could not be read, or is meant to be full.
func MemoryFor(s model.State, percent int64) (fit, held int64) {
	v := model.NewView(s)
	if !v.Complete {
		return 0, 0
	}
	used, resident := int64(0), int64(0)
	for _, p := range v.Readable {
		if p.Node.Memory.Used == 0 || p.Node.Memory.Evicts {
			return 0, 0
		}
		used, resident = max(used, p.Node.Memory.Used-p.Node.Memory.Uncounted), max(resident, p.Node.Memory.Resident)
	}
	return facts.LimitFor(used / 100 * (100 + percent)), int64(float64(resident)/facts.Headroom) + 1
}
