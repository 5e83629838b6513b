package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

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
