package redis

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// With appendfsync everysec, a server has its disk keep its append-only file when a second has passed since it last did, by the time of day. When that is
// put back, by somebody or by a time synchronisation that comes late, the disk keeps nothing until it is where it was: all supported
// servers, see TestAClockThatIsPutBack. With appendfsync always the next write is kept whatever the time is, and what is counted from then on is the
// new time. So such a server is told that until it has written something, and then to go on as before, see configure.

const (
	appendOnly  = "appendonly"
	appendFsync = "appendfsync"
	everySecond = "everysec"
	fsyncAlways = "always"
	// noFsyncOnRewrite says that the disk is not to keep the append-only file while a child of the server writes to it as well.
	noFsyncOnRewrite = "no-appendfsync-on-rewrite"
)

// leap is how far a clock goes back before that counts: what is less is over within moments, or is the network's doing.
const leap = time.Second

// appendLog is what was seen of the append-only file of a process.
type appendLog struct {
	// clock of the server at the last look.
	clock anomaly.Clock
	// putBack see Pod.PutBack. atOnce is the size of the file, in bytes, once the server had been told that the disk is to keep every write; 0: it has not.
	putBack bool
	atOnce  int64
}

// watchLog compares the clock and the append-only file of a server with what was seen of the same process before. One that is seen for the first time, and has
// been told that the disk is to keep every write where that is not wanted, was told so by an operator before.
func (p *Pod) watchLog(was appendLog, wanted string) appendLog {
	if p.Node == nil || p.Node.Clock.IsZero() {
		return was
	}
	is, told := was, p.Node.Config[appendFsync] == fsyncAlways
	is.clock = p.Clock
	if first := was.clock.Server == ""; first && told || !first && was.clock.Least-p.Clock.Most > leap {
		is.putBack, is.atOnce = true, 0
	}
	forgoes := p.Node.Forked && p.Node.Config[noFsyncOnRewrite] == "yes"
	switch {
	case wanted != everySecond:
		is.putBack = false
	case !is.putBack:
	case !told || forgoes:
		is.atOnce = 0
	case is.atOnce == 0, p.Node.Log < is.atOnce: // A log that was rewritten is shorter.
		is.atOnce = p.Node.Log
	case p.Node.Log > is.atOnce:
		is.putBack = false
	}
	p.PutBack = is.putBack
	return is
}

// keepsAtOnce tells whether the disk is to keep every write of a server. One that cannot write its log would end, where it otherwise refuses writes.
func (p *Pod) keepsAtOnce() bool { return p.PutBack && p.Node.Log > 0 }

// mayEnableLog reports whether a server may be told appendonly yes now. Enabling it forks the server to write a new file (startAppendOnly in the servers'
// source), so that one server of a shard does so at a time. The primary is first: when it restarts in place before that, it loads the file from before
// appendonly was switched off, and its replicas copy it. A server that loads its data refuses the parameter (DENY_LOADING_CONFIG).
func (v *view) mayEnableLog(p *Pod) bool {
	return !p.Node.Loading && !slices.ContainsFunc(v.read, func(o *Pod) bool {
		if o == p || o.Shard != p.Shard || o.Node.Loading {
			return false
		}
		if o.Node.Config[appendOnly] != "no" {
			return o.Node.Forked && !o.Node.OnDisk
		}
		if o.ownsSlots() != p.ownsSlots() {
			return o.ownsSlots()
		}
		return o.Ordinal < p.Ordinal
	})
}

// waitForAppendOnlyFile waits for servers whose append-only file is off and cannot be switched on yet.
func waitForAppendOnlyFile(v *view) (cluster.Plan, bool) {
	for _, p := range v.read {
		if v.Spec.Live[appendOnly] == "yes" && p.Node.Config[appendOnly] == "no" {
			return waitForDisk(p)
		}
	}
	return cluster.Pass()
}

// KeepLogs has the disks of servers keep every write at once, whose clocks were put back.
type KeepLogs struct{ Pods []string }

// ReasonKeepLogs is the reason of KeepLogs.
const ReasonKeepLogs = "KeepingLogs"

func (s KeepLogs) String() string {
	return "set " + appendFsync + " " + fsyncAlways + " on " + list(s.Pods, func(name string) string { return name })
}

// Calls sends CONFIG SET.
func (s KeepLogs) Calls() []Call {
	return calls(s.Pods, func(name string) Call {
		return Call{name, func(ctx context.Context, c Client) error {
			return c.Configure(ctx, map[string]string{appendFsync: fsyncAlways})
		}}
	})
}

// setFsyncAlways has servers whose clocks were put back begin anew with having their disks keep what they write.
func setFsyncAlways(v *view) (cluster.Plan, bool) {
	var step KeepLogs
	for _, p := range v.read {
		if have, ok := p.Node.Config[appendFsync]; ok && have != fsyncAlways && p.keepsAtOnce() {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "the clock of %s was put back: until it is where it was, the disk would keep nothing of what is written, so that it keeps every write at once "+
		"until the next one is there", list(step.Pods, func(name string) string { return name }))
}
