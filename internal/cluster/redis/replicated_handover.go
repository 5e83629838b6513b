package redis

import (
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A planned hand-over takes one write after another, each of which is read back:
//
//  1. The candidate needs a replica for its writes from the first one on (min-replicas-to-write, Node.Config).
//  2. The Service of the primary leads to it (State.Candidate). Clients that are connected notice nothing.
//  3. A moment later the primary hands over (FAILOVER). Its clients are cut off, and find the new primary.
//  4. The new primary is written down, the pods are labelled, and the Service leads to the label again, see assignRoles.
//
// Until 3 the primary goes on, and the Service is led back to it where the candidate is lost or the hand-over fails. After 3 the
// candidate is the primary, whatever is written down.

// rerouted is how long it takes until a changed Service leads elsewhere on all nodes: kube-proxy does it once a second at most.
const rerouted = time.Second

// atOnce is how soon a step is followed by the next one of the same change, which nothing has to be waited for.
const atOnce = time.Millisecond

// maxHandOverPause is the longest pause between two hand-overs that failed.
const maxHandOverPause = 15 * time.Second

// FailedHandOvers are the hand-overs of the mode Replicated that failed since one succeeded, as far as the running operator has
// carried them out. One that has just started knows of none, and tries again.
type FailedHandOvers struct {
	Count int
	// Last is when the last one ended.
	Last time.Time
}

// Note counts the outcome of a step, if it is a hand-over.
func (f *FailedHandOvers) Note(step cluster.Step, err error, now time.Time) {
	if _, ok := step.(HandOver); !ok {
		return
	}
	if *f = (FailedHandOvers{f.Count + 1, now}); err == nil {
		*f = FailedHandOvers{}
	}
}

// pause is how long to wait before the next hand-over: each one that fails has held the writes of clients for a while.
func (f FailedHandOvers) pause(now time.Time) time.Duration {
	if f.Count == 0 {
		return 0
	}
	return min(time.Second<<min(f.Count-1, 10), maxHandOverPause) - now.Sub(f.Last)
}

// prepareHandOver puts in the place of a hand-over what comes before it in the mode Replicated. finishHandOver does the rest.
func (v *view) prepareHandOver(plan cluster.Plan, f Failover) cluster.Plan {
	to := v.podNamed(f.To)
	if wait := v.FailedHandOvers.pause(v.Now); wait > 0 {
		plan, _ = cluster.Wait(ReasonFailover, wait, "%s did not hand over to another server, and is asked again in a moment", f.From)
		return plan
	}
	if n, known := to.Node.Config[writeGuard]; known && n == "0" {
		plan.Step = GuardWrites{to.Name, 1}
	} else {
		plan.Step = Appoint{v.Appointed, FailoverCandidate{Pod: to.Name, Since: v.Now}}
	}
	plan.Reason, plan.After = plan.Step.Meta().Reason, atOnce
	return plan
}

// finishHandOver brings a hand-over to its end that was begun, and leads the Service back to the primary where that is not possible,
// or where one that was to be promoted is not needed any more.
func finishHandOver(v *view) (cluster.Plan, bool) {
	c, was, to := v.Candidate, v.podNamed(v.Appointed.Pod), v.podNamed(v.Candidate.Pod)
	if c.Pod == "" || c.Pod == v.Appointed.Pod || was == nil || (v.leader() != was && !v.fallsSilent(was, to)) {
		return cluster.Pass()
	}
	if why := v.hindrance(was, to); why != "" {
		plan, ok := cluster.Do(Appoint{Appointment: v.Appointed}, "clients were about to be sent to %s; %s %s", c.Pod, was.Name, why)
		plan.After = soon
		return plan, ok
	}
	if since := v.Now.Sub(c.Since); since >= 0 && since < rerouted { // A time to come was written by a clock that is ahead.
		return cluster.Wait(ReasonFailover, rerouted-since, "clients are sent to %s in a moment, and %s hands over to it then", to.Name, was.Name)
	}
	plan, ok := cluster.Do(HandOver{was.Name, to.Name, to.Addr}, "clients find %s, and %s hands over to it", to.Name, was.Name)
	plan.After = atOnce
	return plan, ok
}

// fallsSilent tells whether the appointed primary does not answer, and was to hand over to a replica that does.
func (v *view) fallsSilent(was, to *Pod) bool {
	return v.leader() == nil && v.Candidate.planned() && was.unheard() && to != nil && to.Node != nil
}

// hindrance says why the appointed primary does not hand over to the candidate; empty when it does.
func (v *view) hindrance(was, to *Pod) string {
	failed := v.FailedHandOvers
	switch {
	case was.unheard():
		return "does not answer"
	case !v.Candidate.planned():
		return "is back before it took over"
	case failed.Count > 0 && !failed.Last.Before(v.Candidate.Since):
		return "did not hand over to it"
	case to == nil || to.Node == nil || to.Deleting || !v.inSync(to, was):
		return "cannot hand over to it: it is not in sync"
	}
	return ""
}
