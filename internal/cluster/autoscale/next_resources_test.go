package autoscale

import (
	"testing"
	"time"
)

func TestNextChangesTheMemory(t *testing.T) {
	runRows(t, map[string]row{
		"enough memory":                  {state: sized(1024, 1000), after: 48 * time.Hour},
		"more memory, for a moment":      {state: sized(1024, 1400), after: time.Minute, says: "1400 MiB is wanted"},
		"more memory":                    {state: sized(1024, 1400), after: 2 * time.Minute, step: "change spec.resources.limits.memory from 1024 MiB to 1400 MiB"},
		"much more memory":               {state: sized(1024, 4000), after: 2 * time.Minute, step: "change spec.resources.limits.memory from 1024 MiB to 2048 MiB"},
		"as much memory as may be":       {state: sized(3000, 5000), after: 2 * time.Minute, step: "change spec.resources.limits.memory from 3000 MiB to 4096 MiB"},
		"less memory":                    {state: sized(1024, 200), after: 24 * time.Hour, step: "change spec.resources.limits.memory from 1024 MiB to 512 MiB"},
		"as little memory as may be":     {state: sized(200, 20), after: 24 * time.Hour, step: "change spec.resources.limits.memory from 200 MiB to 128 MiB"},
		"memory that is not given back":  {state: with(sized(1024, 200), func(s *State) { s.Memory.Held = 700 * mib }), after: 24 * time.Hour, step: "change spec.resources.limits.memory from 1024 MiB to 700 MiB"},
		"a process that takes more":      {state: with(sized(1024, 200), func(s *State) { s.Memory.Held = 5000 * mib }), after: 48 * time.Hour},
		"too little memory to go on":     {state: with(sized(1024, 1400), func(s *State) { s.Cluster.Busy, s.Cluster.HoldsMore = "MemoryInUse", true }), step: "change spec.resources.limits.memory from 1024 MiB to 1400 MiB", says: "MemoryInUse"},
		"less than is used":              {state: with(sized(1024, 1400), func(s *State) { s.Cluster.Busy, s.Cluster.NoRoom = "NotEnoughMemory", true }), step: "change spec.resources.limits.memory from 1024 MiB to 1400 MiB", says: "NotEnoughMemory"},
		"enough memory, and held":        {state: with(sized(1024, 500), func(s *State) { s.Cluster.Busy, s.Cluster.HoldsMore = "MemoryInUse", true }), after: 48 * time.Hour, reason: ReasonBusy},
		"a recommendation to go on":      {state: with(sized(1024, 1400), func(s *State) { s.Cluster.Busy, s.Cluster.NoRoom, s.Memory.Apply = "NotEnoughMemory", true, false }), reason: ReasonBusy},
		"more memory than is allowed":    {state: sized(6000, 5900), after: 48 * time.Hour},
		"memory that was not measured":   {state: sized(1024, 0), after: time.Hour, reason: ReasonUnmeasured},
		"a recommendation":               {state: with(sized(1024, 1400), func(s *State) { s.Memory.Apply = false }), after: time.Hour, says: "a limit of memory of 1400 MiB is recommended"},
		"a recommendation without limit": {state: with(sized(0, 1400), func(s *State) { s.Memory.Apply = false }), after: time.Hour, says: "a limit of memory of 1400 MiB is recommended"},
	})
}

func TestNextChangesTheStorage(t *testing.T) {
	runRows(t, map[string]row{
		"room on the volume":            {state: etcd(1024, 200)},
		"a volume that fills":           {state: etcd(1024, 260), step: "change spec.storage.size from 1024 MiB to 1280 MiB", says: "quota of 320 MiB"},
		"a volume that is full":         {state: with(etcd(1024, 320), func(s *State) { s.Cluster.Busy = "Alarm" }), step: "change spec.storage.size from 1024 MiB to 1280 MiB"},
		"room, and not Ready":           {state: with(etcd(1024, 200), func(s *State) { s.Cluster.Busy = "Alarm" })},
		"a database that grew at once":  {state: etcd(1024, 600), step: "change spec.storage.size from 1024 MiB to 2000 MiB"},
		"twice as large at most":        {state: etcd(1024, 2000), step: "change spec.storage.size from 1024 MiB to 2048 MiB"},
		"no larger than it gains":       {state: etcd(4096, 1700), step: "change spec.storage.size from 4096 MiB to 5120 MiB"},
		"a volume that does not grow":   {state: with(etcd(2048, 260), func(s *State) { s.Storage.Has, s.Cluster.Busy = 1024*mib, "StorageMismatch" }), reason: ReasonBusy, says: "has 1024 MiB of the 2048 MiB that are asked for, and the database takes 81 % of its quota on that: StorageMismatch"},
		"volumes of other sizes":        {state: with(etcd(2048, 260), func(s *State) { s.Storage.Has = 1024 * mib })},
		"the largest volume":            {state: with(etcd(1024, 260), func(s *State) { s.Storage.Max = 1100 * mib }), step: "change spec.storage.size from 1024 MiB to 1100 MiB"},
		"a volume of the largest size":  {state: with(etcd(1024, 320), func(s *State) { s.Storage.Max = 1024 * mib })},
		"a quota that does not follow":  {state: etcd(5000, 2040)},
		"a database that nobody tells":  {state: etcd(1024, 0), reason: ReasonUnmeasured},
		"a volume that fills, in words": {state: with(etcd(1024, 260), func(s *State) { s.Mode = DryRun }), says: "it would change spec.storage.size from 1024 MiB to 1280 MiB"},
	})
}
