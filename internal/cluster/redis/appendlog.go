package redis

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// With appendfsync everysec, a server has its disk keep its append-only file when a second has passed since it last did, by the time of day. When that is
// put back, by somebody or by a time synchronisation that comes late, the disk keeps nothing until it is where it was: all supported
// servers, see TestAClockThatIsPutBack. With appendfsync always the next write is kept whatever the time is, and what is counted from then on is the
// new time. So such a server is told that until it has written something, and then to go on as before.

const (
	appendFsync = "appendfsync"
	everySecond = "everysec"
	fsyncAlways = "always"
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

// watchLog compares the clock and the append-only file of a server with what was seen of the same process before.
func (p *Pod) watchLog(was appendLog) appendLog {
	if p.Node == nil || p.Node.Clock.IsZero() {
		return was
	}
	is := was
	is.clock = p.Clock
	if was.clock.Server != "" && was.clock.Least-p.Clock.Most > leap && p.Node.Log > 0 {
		is.putBack, is.atOnce = true, 0
	}
	switch {
	case !is.putBack:
	case p.Node.Config[appendFsync] != fsyncAlways:
		is.atOnce = 0
	case is.atOnce == 0, p.Node.Log < is.atOnce: // A log that was rewritten is shorter.
		is.atOnce = p.Node.Log
	case p.Node.Log > is.atOnce:
		is.putBack = false
	}
	p.PutBack = is.putBack
	return is
}
