// Package autoscale decides when a cluster is to have more or fewer shards, more or less memory, or
// larger volumes. It takes values and returns values: what it decides is a change of one field of
// the cluster's specification, which the cluster's own planner carries out under rules of its own.
// It must not read a metric or write a specification itself.
package autoscale

import (
	"math"
	"time"
)

// Mode says what becomes of a decision.
type Mode string

// Modes, as spec.mode names them.
const (
	Auto   Mode = "Auto"
	DryRun Mode = "DryRun"
	Frozen Mode = "Frozen"
)

// State is what was observed. What could not be read is said to be unknown; there is no gap that could be taken for "nothing is needed".
type State struct {
	// Name of the resource and its generation, and the cluster in words: RedisCluster carts.
	Name       string
	Generation int64
	Target     string
	Mode       Mode
	// Rival is an older resource for the same cluster, empty when there is none.
	Rival string
	// Cluster is nil when there is none of the wanted name.
	Cluster *Cluster
	// Shards, Memory and Storage are nil where they are left alone.
	Shards  *Shards
	Memory  *Memory
	Storage *Storage
	// Now is the time of the observation.
	Now time.Time
}

// Cluster is the one that is changed.
type Cluster struct {
	ResourceVersion string
	// Leaving says that it is being deleted.
	Leaving bool
	// Paused and Hibernated say that nothing of it is to be changed, or that none of it runs.
	Paused, Hibernated bool
	// Busy says in words why it is not as specified, empty when it is.
	Busy string
	// NoRoom says that this is because servers have too little memory for what is asked for, and HoldsMore because one has not given memory back.
	NoRoom, HoldsMore bool
}

// Shards of a cluster, and what follows them.
type Shards struct {
	// Unfit says in words why they cannot follow anything, and what to do; empty when they can.
	Unfit string
	// Current is what the specification asks for, between Min and Max it may be changed.
	Current, Min, Max int
	// MemoryPercent of its room, and Operations per second, that a primary is to have at most; Operations 0: they do not count.
	MemoryPercent, Operations int64
	OutAfter, InAfter         time.Duration
	// Loads of all primaries, by the number of the shard; nil: unknown.
	Loads []Load
	// Former is how many there were before the last change took some away that are still there; 0: it did not, or they have gone.
	Former int
	// Due is what the wishes of the last time come to, see History; 0: not known yet.
	Due int
}

// Load of a primary.
type Load struct {
	// Used of Room in bytes; Room 0: there is no limit, or keys are evicted when it is reached, so that it does not count.
	Used, Room int64
	// Rate of commands per second; below 0: unknown.
	Rate float64
}

// Memory of the servers of a cluster.
type Memory struct {
	// Unfit says in words why it cannot follow anything, and what to do; empty when it can.
	Unfit string
	// Limit in bytes that the specification asks for, and Request, 0: none. Between Min and Max the limit may be changed.
	Limit, Request, Min, Max int64
	// Fit is the limit in which the fullest server and its headroom fit; 0: unknown. Held is the least that the largest process fits in, which
	// may take more than the data in it.
	Fit, Held              int64
	GrowAfter, ShrinkAfter time.Duration
	// Apply says that the limit is changed, and not recommended alone.
	Apply bool
	// Due is what the wishes of the last time come to, see History; 0: not known yet.
	Due int64
}

// Storage of a cluster.
type Storage struct {
	// Unfit says in words why it cannot grow, and what to do; empty when it can.
	Unfit string
	// Size of a volume in bytes that the specification asks for, which may become Max. Has is what the smallest one has; 0: unknown.
	Size, Max, Has int64
	// Used by the largest database in bytes; 0: unknown.
	Used int64
	// Quota tells how much a database may take on volumes of a size, in bytes. It is a pure function.
	Quota func(size int64) int64
	// FullPercent of its quota is what a database takes when volumes grow, GrowPercent is by how much they do.
	FullPercent, GrowPercent int64
}

// measurable reports whether what is measured tells what is needed: a cluster that is on its way to something else tells of the way.
func (s State) measurable() bool {
	c := s.Cluster
	return c != nil && !c.Leaving && !c.Paused && !c.Hibernated && c.Busy == "" && s.Rival == ""
}

const (
	// tolerance is by how much a measurement may miss what it is to be before anything follows from it.
	tolerance = 0.1
	// unit is what sizes are rounded up to.
	unit = 1 << 20
	// fullest is how many percent of its room a primary has at most when others have left. A cluster moves no slots to one that is fuller than 90 %.
	fullest = 85
)

// rounded is a number of bytes that quantities can be written for.
func rounded(n int64) int64 { return (n + unit - 1) / unit * unit }

// steps returns how many of n shards a measurement asks for: all of them within the tolerance, and otherwise so many that ratio becomes at
// most one.
func steps(n int, ratio float64) int {
	if math.Abs(ratio-1) <= tolerance {
		return n
	}
	return int(math.Ceil(float64(n)*ratio - 1e-9))
}

// MemoryShare is how much of their room primaries use on average; false: unknown, or it does not count.
func (n Shards) MemoryShare() (float64, bool) {
	var used, room int64
	for _, l := range n.Loads {
		if l.Room <= 0 {
			return 0, false
		}
		used, room = used+l.Used, room+l.Room
	}
	if room == 0 {
		return 0, false
	}
	return float64(used) / float64(room), true
}

// Rate is how many commands primaries carry out on average in a second; false: unknown, or it does not count.
func (n Shards) Rate() (float64, bool) {
	sum := 0.0
	for _, l := range n.Loads {
		if l.Rate < 0 {
			return 0, false
		}
		sum += l.Rate
	}
	if n.Operations == 0 || len(n.Loads) == 0 {
		return 0, false
	}
	return sum / float64(len(n.Loads)), true
}

// needed is how many shards are needed by all measurements, without bounds; false: one that counts is unknown.
func (n Shards) needed() (int, bool) {
	if len(n.Loads) != n.Current || n.Current == 0 {
		return 0, false
	}
	most, known := 0, false
	if share, ok := n.MemoryShare(); ok {
		most, known = max(most, steps(n.Current, share*100/float64(n.MemoryPercent))), true
	}
	if n.Operations > 0 {
		rate, ok := n.Rate()
		if !ok {
			return 0, false
		}
		most, known = max(most, steps(n.Current, rate/float64(n.Operations))), true
	}
	return n.keep(most), known
}

// keep is the least number of shards, from a given one on, that no primary gets too full with when the others leave: they divide what
// those hold that leave, and keep what they hold.
func (n Shards) keep(least int) int {
	percent := min(n.MemoryPercent, fullest)
	for least = max(least, 1); least < n.Current; least++ {
		var gone int64
		for _, l := range n.Loads[least:] {
			gone += l.Used
		}
		fits := true
		for _, l := range n.Loads[:least] {
			fits = fits && (l.Room <= 0 || (l.Used+gone/int64(least))*100 <= l.Room*percent)
		}
		if fits {
			break
		}
	}
	return least
}

// wanted is how many shards are wanted within the bounds, at most twice as many and at least half as many as there are. A bound that was
// set too low takes nothing away that is needed.
func (n Shards) wanted() (int, bool) {
	needed, ok := n.needed()
	if !ok || n.Unfit != "" {
		return 0, false
	}
	wanted := min(max(needed, n.Min), n.Max)
	wanted = max(wanted, min(needed, n.Current))
	return min(max(wanted, (n.Current+1)/2), 2*n.Current), true
}

// Wanted is how many shards the last measurement asks for within the bounds; as many as there are while it is unknown.
func (n Shards) Wanted() int {
	if wanted, ok := n.wanted(); ok {
		return wanted
	}
	return n.Current
}

// wanted is the limit that is wanted within the bounds, at most twice and at least half what there is: that stays, as long as it is near enough. A
// bound that was set too low takes nothing away that is needed, and what a process does not give back is not asked for.
func (m Memory) wanted() (int64, bool) {
	if m.Fit == 0 || m.Unfit != "" {
		return 0, false
	}
	want := min(max(m.Fit, m.Min), m.Max)
	if m.Limit == 0 {
		return want, true
	}
	want = max(want, min(max(m.Fit, rounded(m.Held)), m.Limit), rounded(m.Limit/2))
	if m.Limit >= m.Min && math.Abs(float64(want)/float64(m.Limit)-1) <= tolerance {
		return m.Limit, true
	}
	return min(want, 2*m.Limit), true
}

// Wanted is the limit that the last measurement asks for within the bounds; 0: unknown.
func (m Memory) Wanted() int64 {
	wanted, _ := m.wanted()
	return wanted
}

// UsedPercent of its quota is what the largest database takes; 0: unknown.
func (v Storage) UsedPercent() int64 {
	quota := v.Quota(v.has())
	if v.Used == 0 || quota <= 0 {
		return 0
	}
	return v.Used * 100 / quota
}

// has is the size of the smallest volume, as far as it may be used.
func (v Storage) has() int64 {
	if v.Has == 0 {
		return v.Size
	}
	return min(v.Has, v.Size)
}

// full reports whether the database takes too much of the quota that it has on volumes of a size.
func (v Storage) full(size int64) bool { return v.Used*100 >= v.Quota(size)*v.FullPercent }

// grown is the size that volumes are to have: larger by GrowPercent, by more if the database is too large for that, at most twice as large, and no
// larger than it takes for the largest quota.
func (v Storage) grown() int64 {
	size, most := v.Size, min(2*v.Size, v.Max)
	for size < most && v.full(size) {
		next := min(rounded(size+size*v.GrowPercent/100), most)
		if v.Quota(next) <= v.Quota(size) {
			break
		}
		size = next
	}
	return size
}
