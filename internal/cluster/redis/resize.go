package redis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
)

// Where Kubernetes can, a change of spec.resources reaches running containers, one pod after the other:
//
//	more memory:  limit of the replicas ──> limit of the primary ──> maxmemory
//	less memory:  maxmemory, once the data fits ──> limit of one pod after the other
//
// A pod that gets them only by a restart counts as outdated, and is restarted like one.

// Resizing is how far the container of a server is from the resources that it is to have.
type Resizing struct {
	// Wanted says that it was not asked to have them yet, and Running that it was.
	Wanted, Running bool
	// Deferred says that the node has no room at present. Problem is what Kubernetes gives as the reason why it is not done yet.
	Deferred bool
	Problem  string
	// Refused says why Kubernetes does not give them to it. A restart would not either.
	Refused string
}

// ResizePod gives the container of a server other resources while it runs.
type ResizePod struct{ Pod PodRef }

// Reasons of the resources of servers.
const (
	ReasonResize    = "ResizingPods"
	ReasonNodeFull  = "NodeHasNoRoom"
	ReasonHoldsMore = "MemoryInUse"
	// ReasonResizeRefused is that of waiting until a quota or a node allows it.
	ReasonResizeRefused = "ResizeRefused"
)

func (s ResizePod) String() string { return "resize " + s.Pod.Name }

// resizePods gives servers the resources that they are to have, one at a time. It waits for nothing else: more memory may be just what a
// server needs to get well. Who copies another one gets more first.
func resizePods(v *view) (cluster.Plan, bool) {
	if slices.ContainsFunc(v.Pods, func(p Pod) bool { return p.Resize.Running && !p.Resize.Deferred && !p.Outdated && !p.Deleting }) {
		return cluster.Pass()
	}
	for _, heads := range []bool{false, true} {
		for shard, pods := range v.shards {
			head := v.head(shard)
			for _, p := range pods {
				if (p == head) == heads && v.mayResize(p) {
					return cluster.Do(ResizePod{p.ref()}, "%s is to have other resources, and gets them without a restart", p.Name)
				}
			}
		}
	}
	return cluster.Pass()
}

func (v *view) mayResize(p *Pod) bool {
	return p.Resize.Wanted && !p.Outdated && !p.Deleting && (!v.lowers(p) || v.mayLower(p))
}

// lowers tells whether the container of a server is to have less memory.
func (v *view) lowers(p *Pod) bool {
	return v.Spec.MemoryLimit > 0 && p.MemoryLimit > v.Spec.MemoryLimit
}

// mayLower tells whether a server keeps within less memory for certain: it has been told so, it does, and nothing is about to fork.
func (v *view) mayLower(p *Pod) bool {
	if p.Node == nil || p.Node.Loading || !p.Node.OnDisk {
		return false
	}
	most := number(p.Node.Config[maxMemory])
	return most > 0 && most <= number(v.settings(p)[maxMemory]) && !v.holdsMore(p)
}

// holdsMore tells whether the process of a server takes more memory than its container is to have.
func (v *view) holdsMore(p *Pod) bool {
	return p.Node.Memory.Resident > int64(float64(v.Spec.MemoryLimit)*headroom)
}

// refuseLessMemory stops before servers get less memory than they use, with or without a restart.
func refuseLessMemory(v *view) (cluster.Plan, bool) {
	return refuseIf(ReasonNoRoom, v.tooLittleMemory())
}

// tooLittleMemory returns which server uses more memory than it is to get; empty for none.
func (v *view) tooLittleMemory() string {
	full := v.overfull()
	for _, p := range v.read {
		if v.lowers(p) && slices.Contains(full, p) {
			return fmt.Sprintf(
				"spec.resources.limits.memory is %d MiB, which leaves %d MiB for data, and %s uses about %d MiB; it keeps the memory that it has: raise it to %d MiB, or delete keys",
				v.Spec.MemoryLimit>>20, number(v.settings(p)[maxMemory])>>20, p.Name, about(p.Node.Memory.Used)>>20, limitFor(p.Node.Memory.Used)>>20)
		}
	}
	return ""
}

// waitForLessMemory tells of a server whose data would fit into less memory, and whose process does not.
func waitForLessMemory(v *view) (cluster.Plan, bool) {
	for _, p := range v.read {
		if p.Resize.Wanted && !p.Outdated && v.lowers(p) && v.holdsMore(p) {
			return cluster.Wait(ReasonHoldsMore, slowly,
				"the data of %s fits into %d MiB, and its process takes about %d MiB: it gets less memory when it has given some back; set activedefrag in spec.config.extra, or delete the pod",
				p.Name, v.Spec.MemoryLimit>>20, about(p.Node.Memory.Resident)>>20)
		}
	}
	return cluster.Pass()
}

// keepsResources says why a pod that cannot start does not get the resources of the specification,
// which may be all it lacks; empty if nothing withholds them.
func (p *Pod) keepsResources() string {
	switch {
	case p.Resize.Refused != "":
		return fmt.Sprintf("; Kubernetes does not give it the resources of spec.resources (%s): set them to what is allowed and a node has, or make room", p.Resize.Refused)
	case p.Resize.Deferred:
		return fmt.Sprintf("; node %s has no room for the resources of spec.resources (%s): make room there", p.NodeName, p.Resize.Problem)
	}
	return ""
}

// waitForResize tells what Kubernetes has yet to carry out.
func waitForResize(v *view) (cluster.Plan, bool) {
	find := func(is func(r Resizing) bool) *Pod {
		for i := range v.Pods {
			if p := &v.Pods[i]; !p.Outdated && !p.Deleting && is(p.Resize) {
				return p
			}
		}
		return nil
	}
	if p := find(func(r Resizing) bool { return r.Running && !r.Deferred }); p != nil {
		return cluster.Wait(ReasonResize, later, "%s", strings.TrimSuffix(p.Name+" is about to have its new resources: "+p.Resize.Problem, ": "))
	}
	if p := find(func(r Resizing) bool { return r.Wanted }); p != nil && !p.Node.OnDisk {
		return waitForDisk(p)
	} else if p != nil {
		return cluster.Wait(ReasonResize, later, "%s is to have other resources", p.Name)
	}
	if p := find(func(r Resizing) bool { return r.Refused != "" }); p != nil {
		return cluster.Wait(ReasonResizeRefused, slowly,
			"Kubernetes does not give %s the resources that it is to have, and it keeps those that it has (%s): set spec.resources to what is allowed and a node has, or make room",
			p.Name, p.Resize.Refused)
	}
	if p := find(func(r Resizing) bool { return r.Deferred }); p != nil {
		return cluster.Wait(ReasonNodeFull, slowly,
			"node %s has no room for the resources that %s is to have (%s): make room there, or delete the pod so that it gets another node",
			p.NodeName, p.Name, p.Resize.Problem)
	}
	return cluster.Pass()
}
