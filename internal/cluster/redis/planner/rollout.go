package planner

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// replaceStuck deletes pods of an outdated template that cannot start. Without it, setting a bad change back would not
// help: a StatefulSet never replaces a pod of its own accord under OnDelete.
func replaceStuck(v *model.View) (cluster.Plan, bool) {
	step := steps.Restart{Cause: steps.ReasonReplaceStuck}
	for i := range v.Pods {
		p := &v.Pods[i]
		if isStuck(v, p) && mayBeDeleted(v, p) {
			step.Pods = append(step.Pods, ref(p))
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "pods of an outdated template cannot start: %s", firstStuck(v))
}

// refuseStuck stops where such a pod may hold the only copy of its shard. A replica with a copy has taken over before.
func refuseStuck(v *model.View) (cluster.Plan, bool) {
	for i := range v.Pods {
		if p := &v.Pods[i]; isStuck(v, p) && !mayBeDeleted(v, p) {
			return cluster.Refuse(ReasonUnsafeRestart,
				"pod %s cannot start (%s), and deleting it would delete the only copy of its shard: delete the pod yourself to accept that", p.Name, p.Stuck)
		}
	}
	return cluster.Pass()
}

// isStuck tells whether a pod of an outdated template cannot start, and one of the current template might. A server that runs has started, whatever
// else is wrong with its pod.
func isStuck(v *model.View, p *model.Pod) bool {
	return p.Outdated && p.Stuck != "" && p.Node == nil && p.Started.IsZero() && !p.Deleting && (p.Shard >= len(v.Shards) || !facts.GoesBack(v, p.Shard))
}

// mayBeDeleted tells whether a pod that cannot start takes nothing with it.
func mayBeDeleted(v *model.View, p *model.Pod) bool {
	return (v.Spec.Persistent && p.TerminatingClaim == "") || !p.HasRun || hasLivingCopy(v, p)
}

func firstStuck(v *model.View) string {
	for _, p := range v.Pods {
		if p.Outdated && p.Stuck != "" {
			return p.Stuck
		}
	}
	return ""
}

// hasLivingCopy tells whether another pod of the shard answers and owns the slots.
func hasLivingCopy(v *model.View, p *model.Pod) bool {
	return p.Shard < len(v.Shards) && v.Primary(p.Shard) != nil
}

func ref(p *model.Pod) steps.PodRef { return steps.PodRef{Name: p.Name, UID: p.UID} }

// restartBroken restarts outdated pods that are the very ones which are not well, while the primary of their shard is.
// The rules after it wait for every server: without this one, setting back what broke a replica would not help.
func restartBroken(v *model.View) (cluster.Plan, bool) {
	step := steps.Restart{Cause: steps.ReasonRestart}
	for shard, pods := range v.Shards {
		if !facts.ShardHealthy(v, shard) || facts.GoesBack(v, shard) || slices.ContainsFunc(pods, func(p *model.Pod) bool { return p.Deleting }) {
			continue
		}
		if i := slices.IndexFunc(pods, func(p *model.Pod) bool { return p.Outdated && (isUnhealthy(v, p) || outgrew(v, p)) }); i >= 0 {
			step.Pods = append(step.Pods, ref(pods[i]))
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	if !facts.Proven(v) {
		step.Pods = step.Pods[:1]
	}
	return cluster.Do(step, "pods of an outdated template are not in sync or not ready, and the primaries of their shards are well")
}

// outgrew tells whether a pod is the primary of a shard without slots, and runs a version that the
// wanted one cannot copy.
func outgrew(v *model.View, p *model.Pod) bool {
	return v.Slotless(p.Shard) && v.Importer(p.Shard) == nil && p == v.DesignatedPrimary(p.Shard) && software.Older(v.Spec.Version, p.Node.Version)
}

// isUnhealthy tells whether a pod has not done for a while what a replica is for. One that is ready and cannot be read may be a
// good one.
func isUnhealthy(v *model.View, p *model.Pod) bool {
	up := v.Now.Sub(p.Started)
	unready := min(up, v.Now.Sub(p.Unready))
	switch {
	case p.Node == nil:
		return !p.Ready && unready >= facts.Patience
	case p.OwnsSlots():
		return false
	case versionTooOld(v, p):
		return true
	case !p.Ready:
		return unready >= facts.Patience
	}
	if !p.Node.Self().Replica || p.Node.LinkUp || up < facts.Patience {
		return false
	}
	return p.Node.LinkDown >= facts.Patience || (!p.Node.EverLinked && othersFollow(v, p))
}

// othersFollow tells whether all current replicas of a pod's shard are in sync. What never was connected to its primary may
// have been the primary itself a moment ago, and then the others come first.
func othersFollow(v *model.View, p *model.Pod) bool {
	return !slices.ContainsFunc(v.Shards[p.Shard], func(o *model.Pod) bool {
		return o != p && !o.Outdated && (o.Node == nil || (o.Node.Self().Replica && (!o.Node.LinkUp || !o.Node.OnDisk)))
	})
}

// restartReplicas restarts outdated replicas, one of each shard at a time. Everything is healthy here. While no pod has
// proved yet that the new template works, only one goes.
func restartReplicas(v *model.View) (cluster.Plan, bool) {
	step := steps.Restart{Cause: steps.ReasonRestart}
	var unsaved *model.Pod
	for shard, pods := range v.Shards {
		head := v.DesignatedPrimary(shard)
		i := slices.IndexFunc(pods, func(p *model.Pod) bool { return p.Outdated && p != head })
		if i < 0 && v.Slotless(shard) {
			i = slices.IndexFunc(pods, func(p *model.Pod) bool { return p.Outdated }) // There is nothing to hand over.
		}
		if i < 0 || v.Idle(shard) {
			continue
		}
		if p := notOnDisk(v, shard); p != nil {
			unsaved = p
			continue
		}
		step.Pods = append(step.Pods, ref(pods[i]))
	}
	switch {
	case len(step.Pods) == 0 && unsaved != nil:
		return waitForDisk(unsaved)
	case len(step.Pods) == 0:
		return cluster.Pass()
	}
	if !facts.Proven(v) {
		step.Pods = step.Pods[:1]
	}
	for i := range v.Pods {
		// A pod that just came back is ready only after its probe: the next one must not go before.
		if p := &v.Pods[i]; !p.Ready {
			return cluster.Wait(ReasonStarting, facts.PollInterval(v, facts.Soon*3, facts.Later), "pod %s is not ready", p.Name)
		}
	}
	return cluster.Do(step, "%s", outdatedWhy(v, step.Pods, "replicas run an outdated pod template"))
}

// notOnDisk is a pod of the shard whose data is not all on its disk; nil when there is none. Until it is, a crash of this
// pod may cost what only the pod to be restarted has.
func notOnDisk(v *model.View, shard int) *model.Pod {
	for _, p := range v.Shards[shard] {
		if !p.Node.OnDisk {
			return p
		}
	}
	return nil
}

func waitForDisk(p *model.Pod) (cluster.Plan, bool) {
	if p.Node.Config[model.AppendOnly] == "no" {
		return cluster.Wait(ReasonDisk, facts.Later, "%s has appendonly no, so that its disk lacks what was written since: it is set back to yes when no other server of its shard writes a new append-only file", p.Name)
	}
	if p.Node.RewriteFailed {
		return cluster.Wait(ReasonDisk, facts.Later, "the last rewrite of the append-only file of %s failed (aof_last_bgrewrite_status:err), so its disk may lack what it copied, and the server "+
			"may not try again: its log says why, mostly a full disk or too little memory to fork. Make room, and run BGREWRITEAOF on it as the default user", p.Name)
	}
	return cluster.Wait(ReasonDisk, facts.Later, "%s has yet to write the data that it copied to its disk (the rewrite of its append-only file)", p.Name)
}

// failOverOutdated hands a shard whose primary is outdated to a replica that is current. One shard at a time: the others are
// the voters.
func failOverOutdated(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		primary := v.Primary(shard)
		if primary == nil || !primary.Outdated || len(pods) == 1 {
			continue
		}
		best := facts.BestReplica(v, facts.ReachedFromOutside(v, primary, facts.Current(pods)), primary)
		if best == nil && facts.BestReplica(v, facts.Current(pods), primary) != nil {
			continue // See waitForOutside.
		}
		if p := notOnDisk(v, shard); best == nil && p != nil {
			return waitForDisk(p)
		}
		if best == nil && v.Stood != nil {
			return awaitRetry(v, v.Stood)
		}
		if best == nil {
			return cluster.Wait(ReasonSync, facts.PollInterval(v, facts.Soon*3, facts.Slowly), "no replica of %s has caught up and is known to the other primaries as one", primary.Name)
		}
		why := outdatedWhy(v, []steps.PodRef{ref(primary)}, primary.Name+" runs an outdated pod template")
		return cluster.Do(steps.Failover{Shard: shard, From: primary.Name, To: best.Name}, "%s; %s has all of its data", why, best.Name)
	}
	return cluster.Pass()
}

// MayTakeOver returns an error that says why a replica cannot take over from its primary now. Both are pods with a server that answers.
func MayTakeOver(s model.State, primary, replica string) error {
	v := model.NewView(s)
	at := map[string]*model.Pod{}
	for _, p := range v.Readable {
		at[p.Name] = p
	}
	from, to := at[primary], at[replica]
	if from == nil || to == nil {
		return fmt.Errorf("%s or %s does not answer", primary, replica)
	}
	if why := facts.Obstacle(v, to, from); why != "" {
		return fmt.Errorf("%s cannot take over yet: %s", replica, why)
	}
	return facts.MayStand(&s, to)
}
