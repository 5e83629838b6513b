package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/rows"
)

func TestMaxMemoryIsDerived(t *testing.T) {
	rows.Run(t, map[string]row{
		"a server that has what it is to have": {state: limited1Gi()},
		"a server that has no maxmemory yet gets it": {
			state: limited1Gi(), spoil: func(f *fixture) { f.has("c-0-0", "0", "1048576") },
			step: told("c-0-0", model.MaxMemory, "797253303", model.BacklogSize, "10737418"),
		},
		"a server with more data than it is to have keeps it, and gets its backlog": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.has("c-0-0", "0", "1048576")
				f.pod("c-0-0").Node.Memory.Used = 800 << 20
			},
		},
		"a server that has yet to copy more than it is to have keeps what it has": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.has("c-0-0", "0", "10737418")
				f.has("c-0-1", "0", "10737418")
				f.pod("c-0-0").Node.Memory.Used, f.pod("c-0-1").Node.Memory.Used = 800<<20, 1<<20
			},
		},
		"a server that has yet to copy is not told before it has": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.has("c-0-1", "0", "10737418")
				f.pod("c-0-1").Node.LinkUp, f.Sets[0].Guarded = false, true
			}, reason: ReasonSync,
		},
		"a server that is nearly as full as it may be keeps what it has": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.has("c-0-0", "0", "10737418")
				f.pod("c-0-0").Node.Memory.Used = 690 << 20
			},
		},
		"a server that is full and has its maxmemory keeps it": {
			state: limited1Gi(), spoil: func(f *fixture) { f.pod("c-0-0").Node.Memory.Used = 760 << 20 },
		},
		"a derived cache throws nothing away because of it": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.has("c-0-0", "0", "10737418")
				f.Spec.Live["maxmemory-policy"] = "allkeys-lru"
				for i := range f.Pods {
					f.Pods[i].Node.Config["maxmemory-policy"] = "allkeys-lru"
				}
				f.pod("c-0-0").Node.Memory.Used = 800 << 20
			},
		},
		"slots go to no server that is to have less room than they take": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.Shards = 2
				for i := range f.Pods {
					f.has(f.Pods[i].Name, "0", "10737418")
					f.Pods[i].Node.Memory.Used = 740 << 20
				}
			},
			reason: ReasonNoRoom, stalled: true, message: "which may use 760 MiB",
		},
	})
}

func TestMaxMemoryFollowsTheSpecification(t *testing.T) {
	rows.Run(t, map[string]row{
		"a cache does as it is asked to": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.Live["maxmemory-policy"], f.Spec.Live[model.MaxMemory] = "allkeys-lru", "104857600"
				for i := range f.Pods {
					f.Pods[i].Node.Config["maxmemory-policy"], f.Pods[i].Node.Config[model.MaxMemory] = "allkeys-lru", "104857600"
				}
				f.has("c-0-0", "797253303", "10737418")
				f.pod("c-0-0").Node.Memory.Used = 700 << 20
			},
			step: told("c-0-0", model.MaxMemory, "104857600"),
		},
		"less than a server uses is refused": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.Live[model.MaxMemory] = "104857600"
				for i := range f.Pods {
					f.has(f.Pods[i].Name, "104857600", "10737418")
				}
				f.has("c-0-0", "797253303", "10737418")
				f.pod("c-0-0").Node.Memory.Used = 700 << 20
			},
			reason: ReasonNoRoom, stalled: true, message: "spec.config.maxMemory is 100 MiB, and c-0-0 uses about 704 MiB, so that its writes would fail",
		},
		"what has no limit any more may use it all": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.MemoryLimit, f.Spec.Live[model.MaxMemory] = 0, "0"
				for i := range f.Pods {
					f.Pods[i].MemoryLimit = 0
					f.has(f.Pods[i].Name, "0", "10737418")
				}
				f.has("c-1-1", "797253303", "10737418")
			},
			step: told("c-1-1", model.MaxMemory, "0"),
		},
		"no server may use more than the smallest copy of its shard can hold": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.MemoryLimit = 4 << 30
				for _, name := range []string{"c-0-0", "c-1-0", "c-1-1", "c-2-0", "c-2-1"} {
					f.pod(name).MemoryLimit = 4 << 30
					if name != "c-0-0" {
						f.has(name, "3189013218", "42949672")
					}
				}
			},
		},
		"a larger maxmemory comes after the containers": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.MemoryLimit, f.Spec.Live[model.MaxMemory], f.Spec.Live[model.BacklogSize] = 4<<30, "2147483648", "10737418"
				for i := range f.Pods {
					f.Pods[i].MemoryLimit = 4 << 30
					f.has(f.Pods[i].Name, "2147483648", "10737418")
				}
				f.has("c-0-0", "797253303", "10737418")
				f.pod("c-0-1").MemoryLimit = 1 << 30
			},
		},
		"a larger maxmemory follows when the containers have their memory": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.MemoryLimit, f.Spec.Live[model.MaxMemory], f.Spec.Live[model.BacklogSize] = 4<<30, "2147483648", "10737418"
				for i := range f.Pods {
					f.Pods[i].MemoryLimit = 4 << 30
					f.has(f.Pods[i].Name, "2147483648", "10737418")
				}
				f.has("c-0-0", "797253303", "10737418")
			},
			step: told("c-0-0", model.MaxMemory, "2147483648"),
		},
		"a backlog that has no room waits": {
			state: limited1Gi(), spoil: func(f *fixture) {
				f.Spec.Live[model.MaxMemory] = "797253303"
				f.has("c-0-0", "797253303", "1048576")
				f.pod("c-0-0").Node.Memory.Used = 683 << 20
			},
		},
	})
}
