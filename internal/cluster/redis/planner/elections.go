package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// waitForRetry waits until a replica that is to take its shard over can be elected.
func waitForRetry(v *model.View) (cluster.Plan, bool) {
	if v.Stood == nil {
		return cluster.Pass()
	}
	return awaitRetry(v, v.Stood)
}

// awaitRetry returns the wait until a replica can be elected again.
func awaitRetry(v *model.View, p *model.Pod) (cluster.Plan, bool) {
	return cluster.Wait(ReasonElection, facts.Later, "%s stood for election less than %s ago (four node timeouts), and the servers do not elect it again before that: then it takes its shard over",
		p.Name, facts.RetryAfter(v.Spec))
}
