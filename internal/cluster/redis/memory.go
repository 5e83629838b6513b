package redis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// What a server may use follows from the limit of its container where spec.config does not say it:
//
//	limit ─┬─ backlog: 1 %, at least 10 MiB or, of a small limit, 1/32, and at most 256 MiB
//	       └─ of the rest ─┬─ 3/4: maxmemory, the keys and what is counted with them
//	                       └─ 1/4: pages that are written while a fork writes the file or a copy, buffers of clients and
//	                               replicas, keys on their way to another server, fragmentation
//
// Neither is part of the file that servers start with: they are told once it is certain that nothing is lost by it.
const (
	backlogLeast = 10 << 20
	backlogMost  = 256 << 20
)

// Parameters that are derived.
const (
	maxMemory   = "maxmemory"
	backlogSize = "repl-backlog-size"
)

// derivedBacklog is the size of the replication backlog of a server with a limit, in bytes.
func derivedBacklog(limit int64) int64 {
	return min(max(limit/100, min(backlogLeast, limit/32)), backlogMost)
}

// derivedMaxMemory is what the data of a server with a limit and a backlog may take, in bytes.
func derivedMaxMemory(limit, backlog int64) int64 { return max(limit-backlog, 0) / 4 * 3 }

// evictsAny tells whether a policy throws any key away when there is no more room, so that writes never fail for want of it.
func evictsAny(policy string) bool { return strings.HasPrefix(policy, "allkeys-") }

// limit is the least memory that a container of a shard may use at present, in bytes; 0: no limit. Whoever copies a server
// has to hold as much as it does.
func (v *view) limit(shard int) int64 {
	least := v.Spec.MemoryLimit
	if least == 0 || shard < 0 || shard >= len(v.shards) {
		return least
	}
	for _, p := range v.shards[shard] {
		if p.MemoryLimit > 0 {
			least = min(least, p.MemoryLimit)
		}
	}
	return least
}

// settings are what the server of a pod is to have: what the specification says, and what follows from the limit.
func (v *view) settings(p *Pod) map[string]string {
	limit := v.limit(p.Shard)
	if limit == 0 {
		return v.Spec.Live
	}
	out := map[string]string{}
	maps.Copy(out, v.Spec.Live)
	if _, given := out[backlogSize]; !given {
		out[backlogSize] = strconv.FormatInt(derivedBacklog(limit), 10)
	}
	if _, given := out[maxMemory]; !given {
		out[maxMemory] = strconv.FormatInt(derivedMaxMemory(limit, number(out[backlogSize])), 10)
	}
	return out
}

// due are the settings that a server has otherwise and may be told now.
func (v *view) due(p *Pod) map[string]string {
	values := map[string]string{}
	wanted := v.settings(p)
	for name, want := range wanted {
		if have, ok := p.Node.Config[name]; ok && have != want {
			values[name] = want
		}
	}
	if p.keepsAtOnce() {
		delete(values, appendFsync)
	}
	if _, ok := values[appendOnly]; ok && !v.mayEnableLog(p) {
		delete(values, appendOnly)
	}
	if _, ok := values[maxMemory]; ok && !v.mayLimit(p, wanted) {
		delete(values, maxMemory)
	}
	if _, ok := values[backlogSize]; ok && !v.mayKeepBacklog(p, wanted) {
		delete(values, backlogSize)
	}
	return values
}

// mayLimit tells whether a server may be told its maxmemory. Where that is more than it may use now, its container comes first.
func (v *view) mayLimit(p *Pod, wanted map[string]string) bool {
	want, limit := number(wanted[maxMemory]), v.limit(p.Shard)
	if want == 0 || limit == 0 || want < limit {
		return !tightens(p, want) || (v.holdsAll(p) && v.fits(p, wanted))
	}
	return false
}

// holdsAll tells whether a server has all data that it is to have: before that, nobody knows how much it will use.
func (v *view) holdsAll(p *Pod) bool {
	head := v.head(p.Shard)
	return !p.Node.Loading && head != nil && (p == head || p.follows(head))
}

// used is how much of its memory a server uses, in bytes, or is about to, as what it copies does.
func (v *view) used(p *Pod) int64 {
	if head := v.head(p.Shard); head != nil {
		return max(p.Node.Memory.Used, head.Node.Memory.Used)
	}
	return p.Node.Memory.Used
}

// tightens tells whether a server is to be given less than it has.
func tightens(p *Pod, want int64) bool {
	have := number(p.Node.Config[maxMemory])
	return want > 0 && (have == 0 || want < have)
}

// fits tells whether a server uses no more than it is to be given. One that does would refuse writes from then on, or throw keys away
// that nobody has asked it to. That somebody who writes spec.config.maxMemory for a cache wants the latter.
func (v *view) fits(p *Pod, wanted map[string]string) bool {
	want := number(wanted[maxMemory])
	if _, given := v.Spec.Live[maxMemory]; given {
		return evictsAny(wanted["maxmemory-policy"]) || v.used(p) <= want
	}
	return v.used(p)+v.growth(p, wanted) <= int64(float64(want)*headroom)
}

// growth is how much more the backlog of a server is to take, in bytes.
func (v *view) growth(p *Pod, wanted map[string]string) int64 {
	return max(number(wanted[backlogSize])-number(p.Node.Config[backlogSize]), 0)
}

// mayKeepBacklog tells whether a server has room for its backlog, which counts as much as keys do. What somebody asks for he gets.
func (v *view) mayKeepBacklog(p *Pod, wanted map[string]string) bool {
	if _, given := v.Spec.Live[backlogSize]; given {
		return true
	}
	room := v.room(p)
	return room == 0 || v.growth(p, wanted) == 0 || p.Node.Memory.Used+v.growth(p, wanted) <= int64(float64(room)*headroom)
}

// room is what a server may use, now or as soon as it has its settings, in bytes; 0: no limit.
func (v *view) room(p *Pod) int64 {
	least := v.limit(p.Shard)
	for _, most := range []int64{p.Node.Memory.Max, number(v.settings(p)[maxMemory])} {
		if most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	return least
}

// overfull are the servers that use more than they are to be given.
func (v *view) overfull() []*Pod {
	var out []*Pod
	for _, p := range v.read {
		wanted := v.settings(p)
		if _, known := p.Node.Config[maxMemory]; known && tightens(p, number(wanted[maxMemory])) && !v.fits(p, wanted) {
			out = append(out, p)
		}
	}
	return out
}

// refuseMaxMemory tells when spec.config.maxMemory is below what a server uses. It goes on with what it has.
func refuseMaxMemory(v *view) (cluster.Plan, bool) {
	full := v.overfull()
	if _, given := v.Spec.Live[maxMemory]; !given || len(full) == 0 {
		return cluster.Pass()
	}
	p := full[0]
	return cluster.Refuse(ReasonNoRoom,
		"spec.config.maxMemory is %d MiB, and %s uses about %d MiB, so that its writes would fail; it keeps what it has: raise spec.config.maxMemory, delete keys, or choose a spec.config.maxMemoryPolicy that evicts any key",
		number(v.Spec.Live[maxMemory])>>20, p.Name, about(p.Node.Memory.Used)>>20)
}

// about rounds a size up to where the next write does not change it.
func about(bytes int64) int64 {
	step := int64(1 << 20)
	for step*16 < bytes {
		step *= 2
	}
	return (bytes + step - 1) / step * step
}

// limitFor is the limit of a container in which a server has room for what it uses, in bytes: a backlog is at most 1/32 of it.
func limitFor(used int64) int64 { return about(int64(float64(used) / headroom / 3 * 4 / 31 * 32)) }

// Reasons of the condition MemoryHealthy.
const (
	ReasonMemoryFits    = "MemoryFits"
	ReasonNoMemoryLimit = "NoLimit"
	ReasonOverfull      = "MoreThanMaxMemory"
)

// memoryHealthy says whether servers keep within what their limits leave them.
func (v *view) memoryHealthy() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionMemoryHealthy, Status: metav1.ConditionTrue, Reason: ReasonMemoryFits}
	full := v.overfull()
	switch {
	case len(v.read) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no server could be read"
	case len(full) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonOverfull
		most := slices.MaxFunc(full, func(a, b *Pod) int { return int(a.Node.Memory.Used>>20 - b.Node.Memory.Used>>20) })
		c.Message = fmt.Sprintf(
			"%s use more than the maxmemory of %d MiB that they are to have, and keep what they have: raise spec.resources.limits.memory to %d MiB, or spec.config.maxMemory",
			list(names(full), func(n string) string { return n }), number(v.settings(most)[maxMemory])>>20, limitFor(most.Node.Memory.Used)>>20)
	case v.Spec.MemoryLimit == 0 && number(v.Spec.Live[maxMemory]) == 0:
		c.Reason, c.Message = ReasonNoMemoryLimit, "servers may use all memory of their nodes: neither spec.resources.limits.memory nor spec.config.maxMemory is set"
	default:
		c.Message = "every server has a maxmemory, and uses less"
	}
	return c
}
