package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Reasons for waiting and for refusing.
const (
	ReasonStarting        = "StartingPods"
	ReasonUnreachable     = "PodsUnreachable"
	ReasonGossip          = "WaitingForGossip"
	ReasonSync            = "WaitingForReplicas"
	ReasonDisk            = "WaitingForDisk"
	ReasonDamaged         = "DataDamaged"
	ReasonLeaving         = "PodsLeaving"
	ReasonElection        = "WaitingForElection"
	ReasonIslands         = "SeparateClusters"
	ReasonShardLost       = "ShardLost"
	ReasonRetained        = "RetainedSizeMismatch"
	ReasonNotElected      = "ReplicaNotElected"
	ReasonNoMajority      = "NoMajority"
	ReasonSlotsUnassigned = "SlotsUnassigned"
	ReasonForeignSlots    = "SlotsInForeignShard"
	ReasonKeysNoSlots     = "KeysWithoutSlots"
	ReasonVersion         = "VersionMismatch"
	ReasonCanary          = "CanaryFailed"
	ReasonStorage         = "StorageChangeUnsupported"
	ReasonUnsafeRestart   = "RestartWouldLoseData"
)

// Next decides on the one step to take now, if any. It is pure: the same state always gives the same
// plan. See shardedPhases and replicatedPhases for the order of the rules: the order of urgency. Rules before
// waitForAll may act while servers cannot be read; those after it rely on the report of each.
func Next(s model.State) cluster.Plan { return next(s, false) }

// Repairs returns the plan for a cluster in which only repairs are carried out, because the objects of its
// specification could not be applied. It is that of Next, and prepares no other step than a repair: else
// min-replicas-to-write would stay relaxed for a restart that is not made.
func Repairs(s model.State) cluster.Plan { return next(s, true) }

func next(s model.State, onlyRepairs bool) cluster.Plan {
	if awaitsBackup(s) {
		return beginWithBackup(s)
	}
	if p, ok := noteLoaded(s.Restore); ok {
		return p
	}
	if s.Spec.Replicated {
		return nextReplicated(s, onlyRepairs)
	}
	v := lookAhead(s, onlyRepairs)
	plan := cluster.Decide(v, shardedPhases(), keepLastCopy)
	return plan.Refined(func(p cluster.Plan) cluster.Plan {
		if guards := lift(v, p.Step); len(guards.Guards) > 0 && isCarriedOut(v, p.Step) {
			p.Step, p.Reason, p.After = guards, guards.Meta().Reason, atOnce
		}
		return tellHeldBack(v, p).WithTerminating(facts.TerminatingClaims(v))
	})
}

// Explain names the rule that Next decides by.
func Explain(s model.State) cluster.Explanation {
	if awaitsBackup(s) {
		return cluster.Explanation{Phase: "begin", Rule: "beginWithBackup", Why: "a cluster that begins with a backup has no servers before it is known which one"}
	}
	if _, ok := noteLoaded(s.Restore); ok {
		return cluster.Explanation{Phase: "begin", Rule: "noteLoaded", Why: "what a Job has loaded is recorded before anything else, so that it is not loaded again"}
	}
	phases := shardedPhases()
	if s.Spec.Replicated {
		phases = replicatedPhases()
	}
	return cluster.Explain(lookAhead(s, false), phases, keepLastCopy)
}

// Outline lists the rules of Next in their order, for the mode Sharded or Replicated.
func Outline(replicated bool) []cluster.Section {
	if replicated {
		return cluster.Outline(replicatedPhases())
	}
	return cluster.Outline(shardedPhases())
}

// waitForAll waits until every wanted pod exists and answers: from here on no rule meets the unknown.
func waitForAll(v *model.View) (cluster.Plan, bool) {
	if v.Complete {
		return cluster.Pass()
	}
	return awaitServers(v)
}

// awaitServers returns the wait for the pods and servers of a cluster that is not complete.
func awaitServers(v *model.View) (cluster.Plan, bool) {
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Node == nil && p.Stuck != "" {
			return cluster.Wait(ReasonUnreachable, facts.Later, "pod %s cannot start: %s%s", p.Name, p.Stuck, keepsResources(p))
		}
	}
	wanted := v.PodCount()
	switch {
	case len(v.Pods) < wanted:
		return cluster.Wait(ReasonStarting, facts.Later, "%d of %d pods exist%s", len(v.Pods), wanted, unmade(v))
	case v.LayoutDiffers() && len(v.Readable) == len(v.Pods):
		return cluster.Wait(ReasonStarting, facts.Later, "%d of %d StatefulSets exist", len(v.Sets), len(v.Shards))
	}
	missing := ""
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Deleting {
			missing = "; " + p.Name + " is being deleted"
			break
		} else if p.Node == nil {
			missing = "; the first that does not is " + strings.TrimSuffix(p.Name+": "+cmp.Or(p.Error, p.Gate), ": ") + facts.WhyEnded(v, p)
			break
		}
	}
	reason := ReasonUnreachable
	if !v.HasOwners {
		reason = ReasonStarting
	}
	return cluster.Wait(reason, facts.UntilAnswered(v), "%d of %d servers answer%s", len(v.Readable), wanted, missing)
}

// unmade names a pod that its StatefulSet should have made by now, and how to find out why it is not there; empty for none.
func unmade(v *model.View) string {
	for shard, pods := range v.Shards {
		set := v.SetOf[shard]
		for ordinal := range set.Replicas {
			if set.Overdue && !slices.ContainsFunc(pods, func(p *model.Pod) bool { return p.Ordinal == ordinal }) {
				name := cluster.ShardSet(v.Spec.Name, shard)
				return fmt.Sprintf("; %s does not: %s", cluster.Pod(name, ordinal), cluster.Unmade("statefulset", v.Spec.Namespace, name))
			}
		}
	}
	return ""
}

// waitForReady waits until Kubernetes, too, has noticed that the servers accept connections.
func waitForReady(v *model.View) (cluster.Plan, bool) {
	if p := facts.FirstUnready(v); p != nil {
		return cluster.Wait(ReasonStarting, facts.Later, "pod %s is not ready", p.Name)
	}
	return cluster.Pass()
}

// Renewal returns the plan that is carried out while spec.paused is true. Its step leads the Service back to the primary
// if a pause interrupted a change of the primary, or reloads certificates. Without either, the plan has no step.
func Renewal(s model.State) cluster.Plan {
	v := model.NewView(s)
	if plan, ok := undoCandidate(v); ok {
		return plan
	}
	plan, _ := reload(v, projection)
	return plan
}

// refuseStorage stops at a change that this version of the operator does not carry out. Admission refuses it as well.
func refuseStorage(v *model.View) (cluster.Plan, bool) {
	if !v.Spec.StorageChanged {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonStorage, "spec.storage is not what the cluster was made with: set it back")
}
