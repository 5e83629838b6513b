package planner

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// due are the settings that a server has otherwise and may be told now.
func due(v *model.View, p *model.Pod) map[string]string {
	values := map[string]string{}
	wanted := facts.WantedSettings(v, p)
	for name, want := range wanted {
		if have, ok := p.Node.Config[name]; ok && have != want {
			values[name] = want
		}
	}
	if facts.KeepsAtOnce(p) {
		delete(values, model.AppendFsync)
	}
	if _, ok := values[model.AppendOnly]; ok && !mayEnableLog(v, p) {
		delete(values, model.AppendOnly)
	}
	if _, ok := values[model.MaxMemory]; ok && !mayLimit(v, p, wanted) {
		delete(values, model.MaxMemory)
	}
	if _, ok := values[model.BacklogSize]; ok && !mayKeepBacklog(v, p, wanted) {
		delete(values, model.BacklogSize)
	}
	return values
}

// mayLimit tells whether a server may be told its maxmemory. Where that is more than it may use now, its container comes first.
func mayLimit(v *model.View, p *model.Pod, wanted map[string]string) bool {
	want, limit := model.ParseNumber(wanted[model.MaxMemory]), facts.MemoryLimit(v, p.Shard)
	if want == 0 || limit == 0 || want < limit {
		return !facts.Tightens(p, want) || (holdsAll(v, p) && facts.MemoryFits(v, p, wanted))
	}
	return false
}

// holdsAll tells whether a server has all data that it is to have: before that, nobody knows how much it will use.
func holdsAll(v *model.View, p *model.Pod) bool {
	head := v.DesignatedPrimary(p.Shard)
	return !p.Node.Loading && head != nil && (p == head || facts.Follows(p, head))
}

// mayKeepBacklog tells whether a server has room for its backlog, which counts as much as keys do. What somebody asks for he gets.
func mayKeepBacklog(v *model.View, p *model.Pod, wanted map[string]string) bool {
	if _, given := v.Spec.Live[model.BacklogSize]; given {
		return true
	}
	room := facts.MemoryRoom(v, p)
	return room == 0 || facts.MemoryGrowth(p, wanted) == 0 || p.Node.Memory.Used+facts.MemoryGrowth(p, wanted) <= int64(float64(room)*facts.Headroom)
}

// refuseMaxMemory tells when spec.config.maxMemory is below what a server uses. It goes on with what it has.
func refuseMaxMemory(v *model.View) (cluster.Plan, bool) {
	full := facts.Overfull(v)
	if _, given := v.Spec.Live[model.MaxMemory]; !given || len(full) == 0 {
		return cluster.Pass()
	}
	p := full[0]
	return cluster.Refuse(ReasonNoRoom,
		"spec.config.maxMemory is %d MiB, and %s uses about %d MiB, so that its writes would fail; it keeps what it has: raise spec.config.maxMemory, delete keys, or choose a spec.config.maxMemoryPolicy that evicts any key",
		model.ParseNumber(v.Spec.Live[model.MaxMemory])>>20, p.Name, facts.About(p.Node.Memory.Used)>>20)
}

// Reasons of the condition MemoryHealthy.
const (
	ReasonMemoryFits    = "MemoryFits"
	ReasonNoMemoryLimit = "NoLimit"
	ReasonOverfull      = "MoreThanMaxMemory"
)

// memoryHealthy says whether servers keep within what their limits leave them.
func memoryHealthy(v *model.View) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionMemoryHealthy, Status: metav1.ConditionTrue, Reason: ReasonMemoryFits}
	full := facts.Overfull(v)
	switch {
	case len(v.Readable) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no server could be read"
	case len(full) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonOverfull
		most := slices.MaxFunc(full, func(a, b *model.Pod) int { return int(a.Node.Memory.Used>>20 - b.Node.Memory.Used>>20) })
		c.Message = fmt.Sprintf(
			"%s use more than the maxmemory of %d MiB that they are to have, and keep what they have: raise spec.resources.limits.memory to %d MiB, or spec.config.maxMemory",
			steps.JoinItems(model.PodNames(full), func(n string) string { return n }), model.ParseNumber(facts.WantedSettings(v, most)[model.MaxMemory])>>20, facts.LimitFor(most.Node.Memory.Used)>>20)
	case v.Spec.MemoryLimit == 0 && model.ParseNumber(v.Spec.Live[model.MaxMemory]) == 0:
		c.Reason, c.Message = ReasonNoMemoryLimit, "servers may use all memory of their nodes: neither spec.resources.limits.memory nor spec.config.maxMemory is set"
	default:
		c.Message = "every server has a maxmemory, and uses less"
	}
	return c
}
