package job

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

const (
	mib = int64(1) << 20

	// agentLeast is what the agent needs in bytes, and agentStream what it needs besides for each part that it reads or writes at the same
	// time, whatever their size: an upload holds four pieces of one.
	agentLeast  = 72 * mib
	agentStream = 56 * mib
	agentMemory = agentLeast + agentStream
	// leastServer is what a server needs without any data, with room for what is only there at times.
	leastServer = 192 * mib

	// growth is how much larger data is in the memory of a server than in a backup, where strings are packed, and perKey what a key takes
	// besides in bytes: its entries in the tables of keys and of expiries, or in the index of etcd.
	growth = 3
	perKey = 128
)

// MemoryCure is what helps when a Job of a Backup needs more memory than it has.
const MemoryCure = "raise spec.resources.limits.memory of the Backup, and of the BackupSchedule that makes it if there is one"

// ServerMemory is how much memory a server needs for data, in bytes: three times the size of an RDB or of a database of etcd, and 128 bytes
// for each key as far as their number is known.
func ServerMemory(size, keys int64) int64 { return growth*size + perKey*keys }

// serverMemory is that for the largest part of a backup; one that says nothing of its parts may be all one.
func (s Stored) serverMemory() int64 {
	if s.Memory > 0 {
		return s.Memory
	}
	return ServerMemory(s.Size, s.Keys)
}

// InServer lets work on a backup be done in the image of its data store, so that a server can be started there; without an image it is
// done without one.
func (w Work) InServer(image string, of Stored) Work {
	w.Server, w.Memory = image, of.serverMemory()
	return w
}

// serverResources are for the agent and beside it a server that needs so much memory. Half of the limit is what is asked for: the limit
// is a guess on the safe side.
func serverResources(server int64) *corev1ac.ResourceRequirementsApplyConfiguration {
	limit := (agentMemory + leastServer + server + mib - 1) / mib * mib
	return corev1ac.ResourceRequirements().
		WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: *resource.NewQuantity(limit/2, resource.BinarySI)}).
		WithLimits(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: *resource.NewQuantity(limit, resource.BinarySI)})
}
