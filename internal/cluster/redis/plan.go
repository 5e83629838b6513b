package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// How soon to look again. The servers' gossip reports nothing to Kubernetes, so that it has to be asked; their own
// clock ticks every 100 ms.
const (
	soon  = 100 * time.Millisecond
	later = time.Second
	// slowly is for copies of large data, which take minutes.
	slowly = 2 * time.Second
)

// lively is how long after the start of a server it is worth asking at the pace of the servers' clock.
const lively = 30 * time.Second

// pace is how soon what the servers do by themselves may be over: any moment after one of them has started, and less and
// less likely so the longer it takes.
func (v *view) pace(fast, slow time.Duration) time.Duration {
	for i := range v.Pods {
		if p := &v.Pods[i]; !p.Started.IsZero() && v.Now.Sub(p.Started) < lively {
			return fast
		}
	}
	return slow
}

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
func Next(s State) cluster.Plan {
	if s.awaitsBackup() {
		return beginWithBackup(s)
	}
	if p, ok := noteLoaded(s.Restore); ok {
		return p
	}
	if s.Spec.Replicated {
		return nextReplicated(s)
	}
	v := lookAhead(s)
	plan := cluster.Decide(v, shardedPhases(), keepLastCopy)
	return plan.Refined(func(p cluster.Plan) cluster.Plan {
		if guards := v.lift(p.Step); len(guards.Guards) > 0 {
			p.Step, p.Reason, p.After = guards, guards.Meta().Reason, atOnce
		}
		return v.tellHeldBack(p).WithTerminating(v.terminatingClaims())
	})
}

// Explain names the rule that Next decides by.
func Explain(s State) cluster.Explanation {
	if s.awaitsBackup() {
		return cluster.Explanation{Phase: "begin", Rule: "beginWithBackup", Why: "a cluster that begins with a backup has no servers before it is known which one"}
	}
	if _, ok := noteLoaded(s.Restore); ok {
		return cluster.Explanation{Phase: "begin", Rule: "noteLoaded", Why: "what a Job has loaded is recorded before anything else, so that it is not loaded again"}
	}
	phases := shardedPhases()
	if s.Spec.Replicated {
		phases = replicatedPhases()
	}
	return cluster.Explain(lookAhead(s), phases, keepLastCopy)
}

// Outline lists the rules of Next in their order, for the mode Sharded or Replicated.
func Outline(replicated bool) []cluster.Section {
	if replicated {
		return cluster.Outline(replicatedPhases())
	}
	return cluster.Outline(shardedPhases())
}

// waitForAll waits until every wanted pod exists and answers: from here on no rule meets the unknown.
func waitForAll(v *view) (cluster.Plan, bool) {
	if v.complete {
		return cluster.Pass()
	}
	return v.awaitServers()
}

// awaitServers returns the wait for the pods and servers of a cluster that is not complete.
func (v *view) awaitServers() (cluster.Plan, bool) {
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Node == nil && p.Stuck != "" {
			return cluster.Wait(ReasonUnreachable, later, "pod %s cannot start: %s%s", p.Name, p.Stuck, p.keepsResources())
		}
	}
	wanted := v.pods()
	switch {
	case len(v.Pods) < wanted:
		return cluster.Wait(ReasonStarting, later, "%d of %d pods exist%s", len(v.Pods), wanted, v.unmade())
	case v.layoutDiffers() && len(v.read) == len(v.Pods):
		return cluster.Wait(ReasonStarting, later, "%d of %d StatefulSets exist", len(v.Sets), len(v.shards))
	}
	missing := ""
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Deleting {
			missing = "; " + p.Name + " is being deleted"
			break
		} else if p.Node == nil {
			missing = "; the first that does not is " + strings.TrimSuffix(p.Name+": "+cmp.Or(p.Error, p.Gate), ": ") + v.fate(p)
			break
		}
	}
	reason := ReasonUnreachable
	if !v.formed {
		reason = ReasonStarting
	}
	return cluster.Wait(reason, v.untilAnswered(), "%d of %d servers answer%s", len(v.read), wanted, missing)
}

// untilAnswered is how soon the servers that do not answer may do so.
func (v *view) untilAnswered() time.Duration {
	if v.wakingUp() {
		return soon
	}
	return later
}

// unmade names a pod that its StatefulSet should have made by now, and how to find out why it is not there; empty for none.
func (v *view) unmade() string {
	for shard, pods := range v.shards {
		set := v.sets[shard]
		for ordinal := range set.Replicas {
			if set.Overdue && !slices.ContainsFunc(pods, func(p *Pod) bool { return p.Ordinal == ordinal }) {
				name := cluster.ShardSet(v.Spec.Name, shard)
				return fmt.Sprintf("; %s does not: %s", cluster.Pod(name, ordinal), cluster.Unmade("statefulset", v.Spec.Namespace, name))
			}
		}
	}
	return ""
}

// wakingUp tells whether a server of a cluster that is not formed yet has been started and is about to answer. Until
// then pods report by themselves what happens to them.
func (v *view) wakingUp() bool {
	return !v.formed && slices.ContainsFunc(v.Pods, func(p Pod) bool {
		return !p.Started.IsZero() && v.Now.Sub(p.Started) < lively && p.Node == nil && p.Stuck == "" && !p.Deleting
	})
}

// waitForReady waits until Kubernetes, too, has noticed that the servers accept connections.
func waitForReady(v *view) (cluster.Plan, bool) {
	if p := v.firstUnready(); p != nil {
		return cluster.Wait(ReasonStarting, later, "pod %s is not ready", p.Name)
	}
	return cluster.Pass()
}

// firstUnready returns the first pod that is not ready; nil for none.
func (v *view) firstUnready() *Pod {
	if i := slices.IndexFunc(v.Pods, func(p Pod) bool { return !p.Ready }); i >= 0 {
		return &v.Pods[i]
	}
	return nil
}

// Renewal is a plan whose step has servers read their certificate anew, without one where none has to. It is carried out whatever else may not be.
func Renewal(s State) cluster.Plan {
	plan, _ := look(s).reload(projection)
	return plan
}

// refuseStorage stops at a change that this version of the operator does not carry out. Admission refuses it as well.
func refuseStorage(v *view) (cluster.Plan, bool) {
	if !v.Spec.StorageChanged {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonStorage, "spec.storage is not what the cluster was made with: set it back")
}
