package history

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
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

// Next is how many commands a second a primary carries out; below 0: unknown.
func (r Rates) Next(now time.Time, shard string, n *model.Node) float64 {
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

// Keep forgets shards that are gone.
func (r Rates) Keep(shards []string) {
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
