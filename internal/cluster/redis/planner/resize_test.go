package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

// resize says that pods are to have other resources than they ask for.
func (f *fixture) resize(pods ...string) {
	for _, name := range pods {
		f.pod(name).Resize.Wanted = true
	}
}

// raised is limited1Gi whose limit is raised to 4 GiB, and lowered is the way back.
func raised() *fixture {
	f := limited1Gi()
	f.Spec.MemoryLimit = 4 << 30
	f.resize("c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1")
	return f
}

func lowered() *fixture {
	f := limited1Gi()
	for i := range f.Pods {
		f.Pods[i].MemoryLimit = 4 << 30
	}
	f.resize("c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1")
	return f
}

// starve asks for less memory than the servers use.
func (f *fixture) starve() {
	f.Spec.MemoryLimit = 1 << 30
	for i := range f.Pods {
		p := &f.Pods[i]
		p.MemoryLimit, p.Outdated = 4<<30, true
		p.Node.Config = map[string]string{model.MaxMemory: "3189013218", model.BacklogSize: "10737418"}
		p.Node.Memory = model.Memory{Used: 2 << 30, Resident: 2 << 30, Max: 3189013218}
	}
}

func resizeOf(f *fixture, pod string) steps.ResizePod { return steps.ResizePod{Pod: ref(f.pod(pod))} }

func TestPodsAreResizedOneByOne(t *testing.T) {
	f := formed()
	rows.Run(t, map[string]row{
		"a replica is first": {state: raised(), step: resizeOf(f, "c-0-1")},
		"pods are resized one at a time": {
			state: raised(), spoil: func(f *fixture) { f.pod("c-0-1").Resize = model.Resizing{Running: true} },
			reason: steps.ReasonResize, message: "c-0-1 is about to have its new resources",
		},
		"a server that fails gets more memory too": {
			state: raised(), spoil: func(f *fixture) { f.pod("c-0-1").Node = nil; f.pod("c-2-0").Node = nil }, step: resizeOf(f, "c-0-1"),
		},
		"the primary after its replica, and all others before": {
			state: raised(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-1", "c-1-1", "c-2-1"} {
					f.pod(name).Resize, f.pod(name).MemoryLimit = model.Resizing{}, 4<<30
				}
			},
			step: resizeOf(f, "c-0-0"),
		},
		"maxmemory follows when the whole shard has more": {
			state: raised(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-0", "c-0-1"} {
					f.pod(name).Resize, f.pod(name).MemoryLimit = model.Resizing{}, 4<<30
				}
			},
			step: steps.Configure{Pods: []steps.PodSettings{
				{Pod: "c-0-0", Values: map[string]string{model.MaxMemory: "3189013218", model.BacklogSize: "42949672"}},
				{Pod: "c-0-1", Values: map[string]string{model.MaxMemory: "3189013218", model.BacklogSize: "42949672"}},
			}},
		},
		"a node without room holds up its pod alone": {
			state: raised(), spoil: func(f *fixture) { f.pod("c-0-1").Resize = model.Resizing{Running: true, Deferred: true} }, step: resizeOf(f, "c-1-1"),
		},
		"a node without room is named when nothing else is left": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.pod("c-0-1").Resize, f.pod("c-0-1").NodeName = model.Resizing{Running: true, Deferred: true, Problem: "not enough memory"}, "n1"
			},
			reason: ReasonNodeFull, message: "node n1 has no room for the resources that c-0-1 is to have (not enough memory): make room there, or delete the pod",
		},
		"a refusal is told, and holds up nobody else": {
			state: raised(), spoil: func(f *fixture) { f.pod("c-0-1").Resize = model.Resizing{Refused: "exceeded quota"} }, step: resizeOf(f, "c-1-1"),
		},
		"a refusal alone": {
			state: limited1Gi(), spoil: func(f *fixture) { f.pod("c-0-1").Resize = model.Resizing{Refused: "exceeded quota"} },
			reason: ReasonResizeRefused, message: "Kubernetes does not give c-0-1 the resources that it is to have, and it keeps those that it has (exceeded quota): set spec.resources",
		},
		"why it takes so long": {
			state: limited1Gi(), spoil: func(f *fixture) { f.pod("c-0-1").Resize = model.Resizing{Running: true, Problem: "cgroup: no"} },
			reason: steps.ReasonResize, message: "c-0-1 is about to have its new resources: cgroup: no",
		},
		"what cannot be resized is restarted": {
			state: raised(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Outdated = true
				}
			},
			step: steps.Restart{Pods: []steps.PodRef{ref(f.pod("c-0-1"))}, Cause: steps.ReasonRestart},
		},
		"while the others wait for room, only one is restarted": {
			state: raised(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Resize, f.Pods[i].Outdated = model.Resizing{Running: true, Deferred: true}, f.Pods[i].Shard < 2
				}
			},
			step: steps.Restart{Pods: []steps.PodRef{ref(f.pod("c-0-1"))}, Cause: steps.ReasonRestart},
		},
	})
}

func TestPodsGetLessMemory(t *testing.T) {
	f := formed()
	rows.Run(t, map[string]row{
		"less memory, which all servers keep within": {state: lowered(), step: resizeOf(f, "c-0-1")},
		"less memory: maxmemory comes first": {
			state: lowered(), spoil: func(f *fixture) { f.has("c-1-0", "3189013218", "42949672") },
			step: told("c-1-0", model.MaxMemory, "797253303", model.BacklogSize, "10737418"),
		},
		"less memory than the data": {
			state: lowered(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.has(f.Pods[i].Name, "3189013218", "10737418")
					f.Pods[i].Node.Memory.Used = 2 << 30
				}
			},
			reason: ReasonNoRoom, stalled: true,
			message: "spec.resources.limits.memory is 1024 MiB, which leaves 760 MiB for data, and c-0-0 uses about 2048 MiB; it keeps the memory that it has: raise it to 3328 MiB, or delete keys",
		},
		"less memory than the data, by a restart": {
			state: lowered(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.has(f.Pods[i].Name, "3189013218", "10737418")
					f.Pods[i].Node.Memory.Used, f.Pods[i].Outdated = 2<<30, true
				}
			},
			reason: ReasonNoRoom, stalled: true, message: "it keeps the memory that it has",
		},
		"less memory than the process takes": {
			state: lowered(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Node.Memory.Resident = 1000 << 20
				}
			},
			reason: ReasonHoldsMore, message: "the data of c-0-0 fits into 1024 MiB, and its process takes about 1024 MiB",
		},
		"less memory, while the file is rewritten": {
			state: lowered(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Node.OnDisk = false
				}
			},
			reason: ReasonDisk,
		},
		"other cpu, while the file is rewritten": {
			state: limited1Gi(), spoil: func(f *fixture) { f.resize("c-2-0"); f.pod("c-2-0").Node.OnDisk = false }, step: resizeOf(f, "c-2-0"),
		},
		"less memory waits for a server that cannot be read": {
			state: lowered(), spoil: func(f *fixture) {
				for i := range f.Pods {
					if f.Pods[i].Name != "c-0-1" {
						f.Pods[i].Resize, f.Pods[i].MemoryLimit = model.Resizing{}, 1<<30
					}
				}
				f.pod("c-0-1").Node = nil
			},
			reason: ReasonUnreachable,
		},
	})
}
