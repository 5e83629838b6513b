package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// configure brings the settings of all servers that can be read to what is wanted. It waits for nothing: a setting may be
// just what a server needs to get well. What a server does not know it is not told, nor what would cost it data or writes, see due.
func configure(v *model.View) (cluster.Plan, bool) {
	step := steps.Configure{Names: v.Spec.LiveNames}
	for _, p := range v.Readable {
		if values := due(v, p); len(values) > 0 {
			step.Pods = append(step.Pods, steps.PodSettings{Pod: p.Name, Values: values})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "the servers have other values than their configuration says: they are set without a restart")
}
