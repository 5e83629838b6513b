package redis

import (
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A process remembers when it last stood for election, also if it won. Until it has been allowed to
// retry, a further attempt counts as part of the last one and expires without a vote
// (failover_auth_time in clusterHandleSlaveFailover of the servers' source, logged as "Failover
// attempt expired"). During a planned hand-over, the primary holds writes for nothing meanwhile. So
// no planned step hands a shard to such a process.

// retryAfter returns how long after an election a process cannot win another one: twice the time
// that it waits for votes, which is two node timeouts and two seconds at least, and a second in
// which the last attempt was begun.
func (s Spec) retryAfter() time.Duration { return 2*max(2*s.NodeTimeout, 2*time.Second) + time.Second }

// Stand notes that a step has a process stand for election.
func (h Processes) Stand(step cluster.Step, now time.Time) {
	var to string
	switch step := step.(type) {
	case Failover:
		to = step.To
	case Elect:
		to = step.To
	default:
		return
	}
	for uid, p := range h {
		if p.pod == to {
			p.stood = now
			h[uid] = p
		}
	}
}

// stoodLately reports whether a pod cannot be elected yet because it stood for election before, and
// notes it for waitForRetry.
func (v *view) stoodLately(p *Pod) bool {
	if p.Stood.IsZero() || v.Now.Sub(p.Stood) >= v.Spec.retryAfter() {
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
	return cluster.Wait(ReasonElection, later, "%s stood for election less than %s ago (four node timeouts), and the servers do not elect it again before that: then it takes its shard over",
		v.stood.Name, v.Spec.retryAfter())
}
