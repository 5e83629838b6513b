package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// nextReplicated decides on the next step in the mode Replicated. Who is the primary comes before everything that needs one.
func nextReplicated(s model.State, onlyRepairs bool) cluster.Plan {
	v := lookAhead(s, onlyRepairs)
	plan := cluster.Decide(v, replicatedPhases(), keepLastCopy)
	return plan.Refined(func(plan cluster.Plan) cluster.Plan { return complement(v, plan) })
}

// complement puts in the place of a step what has to come before it in this mode, as long as there is something.
func complement(v *model.View, plan cluster.Plan) cluster.Plan {
	step := plan.Step
	if !isCarriedOut(v, step) {
		step = nil
	}
	switch s := step.(type) {
	case steps.Failover:
		plan = prepareHandOver(v, plan, s)
	case steps.Restart, steps.ScaleShards:
		if before := unguard(v, s); before != nil {
			plan.Step, plan.Reason, plan.After = before, before.Meta().Reason, atOnce
		}
	}
	if plan.Settled() {
		plan.After = v.Spec.NodeTimeout // Nobody but the operator notices that the primary hangs. That it has ended Kubernetes tells.
	}
	return tellHeldBack(v, plan).WithTerminating(facts.TerminatingClaims(v))
}

// refuseTwoPrimaries stops where several servers are primaries and nobody was ever appointed: somebody has told them to.
func refuseTwoPrimaries(v *model.View) (cluster.Plan, bool) {
	if all := facts.ActingPrimaries(v); len(all) > 1 && v.Appointed.Pod == "" {
		return cluster.Refuse(steps.ReasonRivals,
			"the pods %v are all primaries, and clients were sent to none of them: run REPLICAOF on all but the one whose data is to stay", model.PodNames(all))
	}
	return cluster.Pass()
}
