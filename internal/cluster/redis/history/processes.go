package history

import (
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// leap is how far a clock goes back before that counts: what is less is over within moments, or is the network's doing.
const leap = time.Second

// appendLog is what was seen of the append-only file of a process.
type appendLog struct {
	// clock of the server at the last look.
	clock anomaly.Clock
	// putBack is what Pod.PutBack of package model says. atOnce is the size of the file, in bytes,
	// once the server had been told that the disk is to keep every write; 0: it has not.
	putBack bool
	atOnce  int64
}

// watchLog compares the clock and the append-only file of a server with what was seen of the same process before. One that is seen for the first time, and has
// been told that the disk is to keep every write where that is not wanted, was told so by an operator before.
func watchLog(p *model.Pod, was appendLog, wanted string) appendLog {
	if p.Node == nil || p.Node.Clock.IsZero() {
		return was
	}
	is, told := was, p.Node.Config[model.AppendFsync] == model.FsyncAlways
	is.clock = p.Clock
	if first := was.clock.Server == ""; first && told || !first && was.clock.Least-p.Clock.Most > leap {
		is.putBack, is.atOnce = true, 0
	}
	forgoes := p.Node.Forked && p.Node.Config[model.NoFsyncOnRewrite] == "yes"
	switch {
	case wanted != model.EverySecond:
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

// Processes are what was seen of the process in each pod, by the UID of the pod.
type Processes map[string]process

type process struct {
	pod     string
	started time.Time
	// answered says that it has answered, hangs that it has hung at every look from first to last.
	answered, hangs bool
	first, last     time.Time
	// stood is when the operator last had it stand for election; zero: never.
	stood time.Time
	log   appendLog
}

// Inattention is the longest time between two looks at a server that hangs in which nobody can say that it went on meanwhile.
const Inattention = time.Minute

// Watch notes it in a state. Once the queue of a server that hangs is full, the kernel takes no more connections for it, those of the kubelet included,
// which asks from the same node: that it does not find the pod ready tells a full queue from a network that is cut.
func (h Processes) Watch(s *model.State) {
	exists := map[string]bool{}
	for i := range s.Pods {
		p := &s.Pods[i]
		exists[p.UID] = true
		h[p.UID] = remember(p, h[p.UID], s.Now, s.Spec.Live[model.AppendFsync])
	}
	for uid, was := range h {
		switch gone := s.Now.Sub(was.last); {
		case exists[uid]:
		case gone > Inattention || !was.hangs:
			delete(h, uid)
		default:
			s.Ended = append(s.Ended, model.Ending{Pod: was.pod, For: gone})
		}
	}
}

// remember compares a pod with what was seen of it before.
func remember(p *model.Pod, was process, now time.Time, fsync string) process {
	if !was.started.Equal(p.Started) {
		was = process{}
	}
	known := was.hangs && now.Sub(was.last) <= Inattention
	full := p.TimedOut && !p.Started.IsZero() && !p.Ready
	p.Hangs = p.Hangs || full || (known && p.TimedOut)
	if was.stood.After(p.Stood) { // The cached pod may not have the annotation yet.
		p.Stood = was.stood
	}
	p.Answered = was.answered || (p.Node != nil && !p.Node.Loading)
	is := process{pod: p.Name, started: p.Started, first: now, last: now, answered: p.Answered, hangs: p.Hangs, stood: p.Stood, log: watchLog(p, was.log, fsync)}
	if known && p.Hangs {
		is.first = was.first
	}
	p.HungFor = now.Sub(is.first)
	return is
}

// A process remembers when it last stood for election, also if it won. Until it has been allowed to
// retry, a further attempt counts as part of the last one and expires without a vote
// (failover_auth_time in clusterHandleSlaveFailover of the servers' source, logged as "Failover
// attempt expired"). During a planned hand-over, the primary holds writes for nothing meanwhile. So
// no planned step hands a shard to such a process.

// AnnotationElection says on a pod when its server was last made to stand for election, in RFC 3339.
// The next operator reads it, and `kubectl quorate promote` does.
const AnnotationElection = "quorate.dev/last-election"

// LastElection reads AnnotationElection of a pod whose server started at a time. It is zero for
// another process, and for a time in the future, which a clock that is ahead wrote.
func LastElection(annotation string, started, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, annotation)
	if err != nil || at.Before(started) || at.After(now) {
		return time.Time{}
	}
	return at
}

// Stand notes that a step has a process stand for election.
func (h Processes) Stand(step cluster.Step, now time.Time) {
	to := steps.Candidate(step)
	for uid, p := range h {
		if p.pod == to {
			p.stood = now
			h[uid] = p
		}
	}
}
