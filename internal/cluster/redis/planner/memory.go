package planner

import (
	"fmt"
	"slices"
	"strings"

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

// configure brings the settings of all servers that can be read to what is wanted. It waits for nothing: a setting may be
// just what a server needs to get well. What a server does not know it is not told, nor what would cost it data or writes, see due.
func configure(v *model.View) (cluster.Plan, bool) {
	step := steps.Configure{Names: v.Spec.LiveNames}
	for _, p := range v.Readable {
		if values := due(v, p); len(values) > 0 {
			step.Pods = append(step.Pods, steps.PodSettings{Pod: p.Name, Values: values})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "the servers have other values than their configuration says: they are set without a restart")
}

// Where Kubernetes can, a change of spec.resources reaches running containers, one pod after the
// other:
//
//	more memory:  limit of the replicas ──> limit of the primary ──> maxmemory
//	less memory:  maxmemory, once the data fits ──> limit of one pod after the other
//
// A pod that gets them only by a restart counts as outdated, and is restarted like one.

// Reasons of the resources of servers.
const (
	ReasonNodeFull  = "NodeHasNoRoom"
	ReasonHoldsMore = "MemoryInUse"
	// ReasonResizeRefused is that of waiting until a quota or a node allows it.
	ReasonResizeRefused = "ResizeRefused"
)

// resizePods gives servers the resources that they are to have, one at a time. It waits for nothing else: more memory may be just what a
// server needs to get well. Who copies another one gets more first.
func resizePods(v *model.View) (cluster.Plan, bool) {
	if slices.ContainsFunc(v.Pods, func(p model.Pod) bool { return p.Resize.Running && !p.Resize.Deferred && !p.Outdated && !p.Deleting }) {
		return cluster.Pass()
	}
	for _, heads := range []bool{false, true} {
		for shard, pods := range v.Shards {
			head := v.DesignatedPrimary(shard)
			for _, p := range pods {
				if (p == head) == heads && mayResize(v, p) {
					return cluster.Do(steps.ResizePod{Pod: ref(p)}, "%s is to have other resources, and gets them without a restart", p.Name)
				}
			}
		}
	}
	return cluster.Pass()
}

func mayResize(v *model.View, p *model.Pod) bool {
	return p.Resize.Wanted && !p.Outdated && !p.Deleting && (!facts.Lowers(v, p) || mayLower(v, p))
}

// mayLower tells whether a server keeps within less memory for certain: it has been told so, it does, and nothing is about to fork.
func mayLower(v *model.View, p *model.Pod) bool {
	if p.Node == nil || p.Node.Loading || !p.Node.OnDisk {
		return false
	}
	most := model.ParseNumber(p.Node.Config[model.MaxMemory])
	return most > 0 && most <= model.ParseNumber(facts.WantedSettings(v, p)[model.MaxMemory]) && !holdsMore(v, p)
}

// holdsMore tells whether the process of a server takes more memory than its container is to have.
func holdsMore(v *model.View, p *model.Pod) bool {
	return p.Node.Memory.Resident > int64(float64(v.Spec.MemoryLimit)*facts.Headroom)
}

// refuseLessMemory stops before servers get less memory than they use, with or without a restart.
func refuseLessMemory(v *model.View) (cluster.Plan, bool) {
	return refuseIf(ReasonNoRoom, facts.TooLittleMemory(v))
}

// waitForLessMemory tells of a server whose data would fit into less memory, and whose process does not.
func waitForLessMemory(v *model.View) (cluster.Plan, bool) {
	for _, p := range v.Readable {
		if p.Resize.Wanted && !p.Outdated && facts.Lowers(v, p) && holdsMore(v, p) {
			return cluster.Wait(ReasonHoldsMore, facts.Slowly,
				"the data of %s fits into %d MiB, and its process takes about %d MiB: it gets less memory when it has given some back; set activedefrag in spec.config.extra, or delete the pod",
				p.Name, v.Spec.MemoryLimit>>20, facts.About(p.Node.Memory.Resident)>>20)
		}
	}
	return cluster.Pass()
}

// keepsResources says why a pod that cannot start does not get the resources of the specification,
// which may be all it lacks; empty if nothing withholds them.
func keepsResources(p *model.Pod) string {
	switch {
	case p.Resize.Refused != "":
		return fmt.Sprintf("; Kubernetes does not give it the resources of spec.resources (%s): set them to what is allowed and a node has, or make room", p.Resize.Refused)
	case p.Resize.Deferred:
		return fmt.Sprintf("; node %s has no room for the resources of spec.resources (%s): make room there", p.NodeName, p.Resize.Problem)
	}
	return ""
}

// waitForResize tells what Kubernetes has yet to carry out.
func waitForResize(v *model.View) (cluster.Plan, bool) {
	find := func(is func(r model.Resizing) bool) *model.Pod {
		for i := range v.Pods {
			if p := &v.Pods[i]; !p.Outdated && !p.Deleting && is(p.Resize) {
				return p
			}
		}
		return nil
	}
	if p := find(func(r model.Resizing) bool { return r.Running && !r.Deferred }); p != nil {
		return cluster.Wait(steps.ReasonResize, facts.Later, "%s", strings.TrimSuffix(p.Name+" is about to have its new resources: "+p.Resize.Problem, ": "))
	}
	if p := find(func(r model.Resizing) bool { return r.Wanted }); p != nil && !p.Node.OnDisk {
		return waitForDisk(p)
	} else if p != nil {
		return cluster.Wait(steps.ReasonResize, facts.Later, "%s is to have other resources", p.Name)
	}
	if p := find(func(r model.Resizing) bool { return r.Refused != "" }); p != nil {
		return cluster.Wait(ReasonResizeRefused, facts.Slowly,
			"Kubernetes does not give %s the resources that it is to have, and it keeps those that it has (%s): set spec.resources to what is allowed and a node has, or make room",
			p.Name, p.Resize.Refused)
	}
	if p := find(func(r model.Resizing) bool { return r.Deferred }); p != nil {
		return cluster.Wait(ReasonNodeFull, facts.Slowly,
			"node %s has no room for the resources that %s is to have (%s): make room there, or delete the pod so that it gets another node",
			p.NodeName, p.Name, p.Resize.Problem)
	}
	return cluster.Pass()
}
