package facts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// MemoryLimit is the least memory that a container of a shard may use at present, in bytes; 0: no limit. Whoever copies a server
// has to hold as much as it does.
func MemoryLimit(v *model.View, shard int) int64 {
	least := v.Spec.MemoryLimit
	if least == 0 || shard < 0 || shard >= len(v.Shards) {
		return least
	}
	for _, p := range v.Shards[shard] {
		if p.MemoryLimit > 0 {
			least = min(least, p.MemoryLimit)
		}
	}
	return least
}

// WantedSettings are what the server of a pod is to have: what the specification says, and what follows from the limit.
func WantedSettings(v *model.View, p *model.Pod) map[string]string {
	limit := MemoryLimit(v, p.Shard)
	if limit == 0 {
		return v.Spec.Live
	}
	out := map[string]string{}
	maps.Copy(out, v.Spec.Live)
	if _, given := out[model.BacklogSize]; !given {
		out[model.BacklogSize] = strconv.FormatInt(config.DerivedBacklog(limit), 10)
	}
	if _, given := out[model.MaxMemory]; !given {
		out[model.MaxMemory] = strconv.FormatInt(config.DerivedMaxMemory(limit, model.ParseNumber(out[model.BacklogSize])), 10)
	}
	return out
}

// used is how much of its memory a server uses, in bytes, or is about to, as what it copies does.
func used(v *model.View, p *model.Pod) int64 {
	if head := v.DesignatedPrimary(p.Shard); head != nil {
		return max(p.Node.Memory.Used, head.Node.Memory.Used)
	}
	return p.Node.Memory.Used
}

// Tightens tells whether a server is to be given less than it has.
func Tightens(p *model.Pod, want int64) bool {
	have := model.ParseNumber(p.Node.Config[model.MaxMemory])
	return want > 0 && (have == 0 || want < have)
}

// MemoryFits tells whether a server uses no more than it is to be given. One that does would refuse writes from then on, or throw keys away
// that nobody has asked it to. That somebody who writes spec.config.maxMemory for a cache wants the latter.
func MemoryFits(v *model.View, p *model.Pod, wanted map[string]string) bool {
	want := model.ParseNumber(wanted[model.MaxMemory])
	if _, given := v.Spec.Live[model.MaxMemory]; given {
		return model.EvictsAny(wanted["maxmemory-policy"]) || used(v, p) <= want
	}
	return used(v, p)+MemoryGrowth(p, wanted) <= int64(float64(want)*Headroom)
}

// MemoryGrowth is how much more the backlog of a server is to take, in bytes.
func MemoryGrowth(p *model.Pod, wanted map[string]string) int64 {
	return max(model.ParseNumber(wanted[model.BacklogSize])-model.ParseNumber(p.Node.Config[model.BacklogSize]), 0)
}

// MemoryRoom is what a server may use, now or as soon as it has its settings, in bytes; 0: no limit.
func MemoryRoom(v *model.View, p *model.Pod) int64 {
	least := MemoryLimit(v, p.Shard)
	for _, most := range []int64{p.Node.Memory.Max, model.ParseNumber(WantedSettings(v, p)[model.MaxMemory])} {
		if most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	return least
}

// Overfull are the servers that use more than they are to be given.
func Overfull(v *model.View) []*model.Pod {
	var out []*model.Pod
	for _, p := range v.Readable {
		wanted := WantedSettings(v, p)
		if _, known := p.Node.Config[model.MaxMemory]; known && Tightens(p, model.ParseNumber(wanted[model.MaxMemory])) && !MemoryFits(v, p, wanted) {
			out = append(out, p)
		}
	}
	return out
}

// About rounds a size up to where the next write does not change it.
func About(bytes int64) int64 {
	step := int64(1 << 20)
	for step*16 < bytes {
		step *= 2
	}
	return (bytes + step - 1) / step * step
}

// LimitFor is the limit of a container in which a server has room for what it uses, in bytes: a backlog is at most 1/32 of it.
func LimitFor(used int64) int64 { return About(int64(float64(used) / Headroom / 3 * 4 / 31 * 32)) }

// Headroom is how much of what a server may use is filled with moved keys at most.
const Headroom = 0.9

// Lowers tells whether the container of a server is to have less memory.
func Lowers(v *model.View, p *model.Pod) bool {
	return v.Spec.MemoryLimit > 0 && p.MemoryLimit > v.Spec.MemoryLimit
}

// TooLittleMemory returns which server uses more memory than it is to get; empty for none.
func TooLittleMemory(v *model.View) string {
	full := Overfull(v)
	for _, p := range v.Readable {
		if Lowers(v, p) && slices.Contains(full, p) {
			return fmt.Sprintf(
				"spec.resources.limits.memory is %d MiB, which leaves %d MiB for data, and %s uses about %d MiB; it keeps the memory that it has: raise it to %d MiB, or delete keys",
				v.Spec.MemoryLimit>>20, model.ParseNumber(WantedSettings(v, p)[model.MaxMemory])>>20, p.Name, About(p.Node.Memory.Used)>>20, LimitFor(p.Node.Memory.Used)>>20)
		}
	}
	return ""
}
