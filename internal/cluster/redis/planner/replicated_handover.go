package planner

import (
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// A planned hand-over takes one write after another, each of which is read back:
//
//  1. The candidate needs a replica for its writes from the first one on (min-replicas-to-write).
//  2. The Service of the primary leads to it (model.State.Candidate). Connected clients stay.
//  3. A moment later the primary hands over (FAILOVER). Its clients are cut off, and find the new primary.
//  4. The new primary is written down, the pods are labelled, and the Service leads to the label again, see assignRoles.
//
// Until 3 the primary goes on, and the Service is led back to it where the candidate is lost or the hand-over fails. After 3 the
// candidate is the primary, whatever is written down.

// rerouted is how long it takes until a changed Service leads elsewhere on all nodes: kube-proxy does it once a second at most.
const rerouted = time.Second

// atOnce is how soon a step is followed by the next one of the same change, which nothing has to be waited for.
const atOnce = time.Millisecond

// prepareHandOver puts in the place of a hand-over what comes before it in the mode Replicated. finishHandOver does the rest.
func prepareHandOver(v *model.View, plan cluster.Plan, f steps.Failover) cluster.Plan {
	to := v.PodNamed(f.To)
	if wait := v.FailedHandOvers.Pause(v.Now); wait > 0 {
		plan, _ = cluster.Wait(steps.ReasonFailover, wait, "%s did not hand over to another server, and is asked again in a moment", f.From)
		return plan
	}
	if n, known := to.Node.Config[model.WriteGuard]; known && n == "0" {
		plan.Step = steps.GuardWrites{Pod: to.Name, Replicas: 1}
	} else {
		plan.Step = steps.Appoint{Appointment: v.Appointed, Candidate: model.FailoverCandidate{Pod: to.Name, Since: v.Now}}
	}
	plan.Reason, plan.After = plan.Step.Meta().Reason, atOnce
	return plan
}

// finishHandOver brings a hand-over to its end that was begun, and leads the Service back to the primary where that is not possible,
// or where one that was to be promoted is not needed any more.
func finishHandOver(v *model.View) (cluster.Plan, bool) {
	c, was, to := v.Candidate, v.PodNamed(v.Appointed.Pod), v.PodNamed(v.Candidate.Pod)
	if c.Pod == "" || c.Pod == v.Appointed.Pod || was == nil || (facts.ActingPrimary(v) != was && !fallsSilent(v, was, to)) {
		return cluster.Pass()
	}
	if why := hindrance(v, was, to); why != "" {
		plan, ok := cluster.Do(steps.Appoint{Appointment: v.Appointed}, "clients were about to be sent to %s; %s %s", c.Pod, was.Name, why)
		plan.After = facts.Soon
		return plan, ok
	}
	if since := v.Now.Sub(c.Since); since >= 0 && since < rerouted { // A time to come was written by a clock that is ahead.
		return cluster.Wait(steps.ReasonFailover, rerouted-since, "clients are sent to %s in a moment, and %s hands over to it then", to.Name, was.Name)
	}
	plan, ok := cluster.Do(steps.HandOver{From: was.Name, To: to.Name, Addr: to.Addr}, "clients find %s, and %s hands over to it", to.Name, was.Name)
	plan.After = atOnce
	return plan, ok
}

// undoCandidate leads the Service of the primary back to the appointed one, which still is the primary.
func undoCandidate(v *model.View) (cluster.Plan, bool) {
	c, was := v.Candidate, v.PodNamed(v.Appointed.Pod)
	if c.Pod == "" || c.Pod == v.Appointed.Pod || was == nil || facts.ActingPrimary(v) != was {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(steps.Appoint{Appointment: v.Appointed}, "clients were about to be sent to %s, and %s is still the primary", c.Pod, was.Name)
	plan.After = facts.Soon
	return plan, ok
}

// fallsSilent tells whether the appointed primary does not answer, and was to hand over to a replica that does.
func fallsSilent(v *model.View, was, to *model.Pod) bool {
	return facts.ActingPrimary(v) == nil && v.Candidate.Planned() && facts.Unheard(was) && to != nil && to.Node != nil
}

// hindrance says why the appointed primary does not hand over to the candidate; empty when it does.
func hindrance(v *model.View, was, to *model.Pod) string {
	failed := v.FailedHandOvers
	switch {
	case facts.Unheard(was):
		return "does not answer"
	case !v.Candidate.Planned():
		return "is back before it took over"
	case failed.Count > 0 && !failed.Last.Before(v.Candidate.Since):
		return "did not hand over to it"
	case to == nil || to.Node == nil || to.Deleting || !facts.InSync(v, to, was):
		return "cannot hand over to it: it is not in sync"
	}
	return ""
}
