package planner

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// With appendfsync everysec, a server has its disk keep its append-only file when a second has
// passed since it last did, by the time of day. When the clock is put back, by hand or by a late
// time synchronisation, the disk keeps nothing until the clock is where it was: all supported
// servers, see TestAClockThatIsPutBack in package redisclient. With appendfsync always the next
// write is kept whatever the time is, and the server counts from the new time on. So such a server
// gets appendfsync always until it has written something, and then its own setting again, see due.

// mayEnableLog reports whether a server may be told appendonly yes now. Enabling it forks the server to write a new file (startAppendOnly in the servers'
// source), so that one server of a shard does so at a time. The primary is first: when it restarts in place before that, it loads the file from before
// appendonly was switched off, and its replicas copy it. A server that loads its data refuses the parameter (DENY_LOADING_CONFIG).
func mayEnableLog(v *model.View, p *model.Pod) bool {
	return !p.Node.Loading && !slices.ContainsFunc(v.Readable, func(o *model.Pod) bool {
		if o == p || o.Shard != p.Shard || o.Node.Loading {
			return false
		}
		if o.Node.Config[model.AppendOnly] != "no" {
			return o.Node.Forked && !o.Node.OnDisk
		}
		if o.OwnsSlots() != p.OwnsSlots() {
			return o.OwnsSlots()
		}
		return o.Ordinal < p.Ordinal
	})
}

// waitForAppendOnlyFile waits for servers whose append-only file is off and cannot be switched on yet.
func waitForAppendOnlyFile(v *model.View) (cluster.Plan, bool) {
	for _, p := range v.Readable {
		if v.Spec.Live[model.AppendOnly] == "yes" && p.Node.Config[model.AppendOnly] == "no" {
			return waitForDisk(p)
		}
	}
	return cluster.Pass()
}

// setFsyncAlways sets appendfsync always on servers whose clocks were put back.
func setFsyncAlways(v *model.View) (cluster.Plan, bool) {
	var step steps.KeepLogs
	for _, p := range v.Readable {
		if have, ok := p.Node.Config[model.AppendFsync]; ok && have != model.FsyncAlways && facts.KeepsAtOnce(p) {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "the clock of %s was put back: until it is where it was, the disk would keep nothing of what is written, so that it keeps every write at once "+
		"until the next one is there", steps.JoinItems(step.Pods, func(name string) string { return name }))
}
