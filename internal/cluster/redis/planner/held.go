package planner

import (
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// heldBack returns the first pod whose start gate does not let its server start, nil for none.
func heldBack(v *model.View) *model.Pod {
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Node == nil && !p.Deleting && strings.HasPrefix(p.Stuck, gate.HeldBack) {
			return p
		}
	}
	return nil
}

// tellHeldBack adds to a plan without a step what a start gate refuses: other rules see only that a server does not
// answer, and what the gate found decides what to do about it.
func tellHeldBack(v *model.View, plan cluster.Plan) cluster.Plan {
	p := heldBack(v)
	if p == nil || plan.Step != nil || plan.Settled() || strings.Contains(plan.Message, p.Stuck) {
		return plan
	}
	plan.Message += "; pod " + p.Name + " cannot start: " + p.Stuck
	return plan
}
