package redis

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A process remembers when it last stood for election, also if it won. Until it has been allowed to
// retry, a further attempt counts as part of the last one and expires without a vote
// (failover_auth_time in clusterHandleSlaveFailover of the servers' source, logged as "Failover
// attempt expired"). During a planned hand-over, the primary holds writes for nothing meanwhile. So
// no planned step hands a shard to such a process.

// AnnotationElection says on a pod when its server was last made to stand for election, in RFC 3339.
// The next operator reads it, and `kubectl quorate promote` does.
const AnnotationElection = "quorate.dev/last-election"

// retryAfter returns how long after an election a process cannot win another one: twice the time
// that it waits for votes, which is two node timeouts and two seconds at least, and a second in
// which the last attempt was begun.
func (s Spec) retryAfter() time.Duration { return 2*max(2*s.NodeTimeout, 2*time.Second) + time.Second }

// Candidate returns the pod whose server a step makes stand for election; empty: none.
func Candidate(step cluster.Step) string {
	switch step := step.(type) {
	case Failover:
		return step.To
	case Elect:
		return step.To
	}
	return ""
}

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
	to := Candidate(step)
	for uid, p := range h {
		if p.pod == to {
			p.stood = now
			h[uid] = p
		}
	}
}

// mayStand returns an error that says how long to wait where a pod cannot be elected yet.
func (s *State) mayStand(p *Pod) error {
	if wait := s.Spec.retryAfter() - s.Now.Sub(p.Stood); !p.Stood.IsZero() && wait > 0 {
		return fmt.Errorf("%s stood for election less than %s ago (four node timeouts), and the servers do not elect it again before that: %s are left",
			p.Name, s.Spec.retryAfter(), wait.Round(time.Second))
	}
	return nil
}

// stoodLately reports whether a pod cannot be elected yet because it stood for election before, and
// notes it for waitForRetry.
func (v *view) stoodLately(p *Pod) bool {
	if v.mayStand(p) == nil {
		return false
	}
	v.stood = p
	return true
}

// waitForRetry waits until a replica that is to take its shard over can be elected.
func waitForRetry(v *view) (cluster.Plan, bool) {
	if v.stood == nil {
		return cluster.Pass()
	}
	return v.awaitRetry(v.stood)
}

// awaitRetry returns the wait until a replica can be elected again.
func (v *view) awaitRetry(p *Pod) (cluster.Plan, bool) {
	return cluster.Wait(ReasonElection, later, "%s stood for election less than %s ago (four node timeouts), and the servers do not elect it again before that: then it takes its shard over",
		p.Name, v.Spec.retryAfter())
}
