package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// A newer server reads what an older one wrote, and copies an older primary; not the other way
// round. So all replicas of a shard run the newer version before it is handed to one of them, and
// afterwards there is no way back:
//
//	c-0-0 8.0 primary      c-0-0 8.0 primary      c-0-0 8.0 replica      c-0-0 8.2 replica
//	c-0-1 8.0 replica ──>  c-0-1 8.2 replica ──>  c-0-1 8.2 primary ──>  c-0-1 8.2 primary
//	            a restart              a failover             a restart
//
// A shard without replicas gets one for that time: it is handed to the new pod, and handed back.

// versionTooOld tells whether a replica is not connected to a primary that it is too old for.
func versionTooOld(v *model.View, p *model.Pod) bool {
	primary := v.DesignatedPrimary(p.Shard)
	return primary != nil && p != primary && p.Node != nil && !p.Node.LinkUp && software.Older(p.Node.Version, primary.Node.Version)
}

// refuseVersion stops where the version cannot be reached.
func refuseVersion(v *model.View) (cluster.Plan, bool) {
	return refuseIf(ReasonVersion, facts.UnreachableVersion(v))
}

// refuseIf returns a refusal with a message; none if that is empty.
func refuseIf(reason, message string) (cluster.Plan, bool) {
	if message == "" {
		return cluster.Pass()
	}
	return cluster.Refuse(reason, "%s", message)
}

// refuseCanary tells when a pod with new settings does not answer. The others wait for it, and keep the old ones.
func refuseCanary(v *model.View) (cluster.Plan, bool) {
	return refuseIf(ReasonCanary, facts.SilentCanary(v))
}

// refuseUnsynced tells when it answers and does not get into sync.
func refuseUnsynced(v *model.View) (cluster.Plan, bool) {
	return refuseIf(ReasonCanary, facts.UnsyncedCanary(v))
}

// surge gives outdated shards without replicas one for the time of their restart. The first one has to prove the new template
// alone; then so many follow at a time that the others can outvote them.
func surge(v *model.View) (cluster.Plan, bool) {
	most := max(1, (len(v.Shards)-1)/2)
	if !facts.Proven(v) {
		most = 1
	}
	var step steps.ScaleShards
	for shard := range v.Shards {
		if to := facts.WantedCopies(v, shard); v.Size(shard) < to && len(step.Sets) < most && !v.Idle(shard) {
			step.Sets = append(step.Sets, resize(v, shard, to))
		}
	}
	if len(step.Sets) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "primaries without replicas are to be restarted: each gets one for that time, so that its data stays in service")
}
