package redis

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// maxLag is how many bytes a replica may be behind before it is trusted with its shard. The failover itself loses
// nothing whatever the lag: the primary holds its clients until the replica has everything. This bounds how long.
const maxLag = 16 << 20

// farBehind is how many bytes a replica may be behind and still count as in sync. It is larger, because the servers are
// not read at the same moment: a busy primary must not look out of sync for what it wrote in between.
const farBehind = 4 * maxLag

// replaceStuck deletes pods of an outdated template that cannot start. Without it, setting a bad change back would not
// help: a StatefulSet never replaces a pod of its own accord under OnDelete.
func replaceStuck(v *view) (cluster.Plan, bool) {
	step := Restart{Cause: ReasonReplaceStuck}
	for i := range v.Pods {
		p := &v.Pods[i]
		if v.isStuck(p) && v.mayBeDeleted(p) {
			step.Pods = append(step.Pods, p.ref())
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "pods of an outdated template cannot start: %s", v.firstStuck())
}

// refuseStuck stops where such a pod may hold the only copy of its shard. A replica with a copy has taken over before.
func refuseStuck(v *view) (cluster.Plan, bool) {
	for i := range v.Pods {
		if p := &v.Pods[i]; v.isStuck(p) && !v.mayBeDeleted(p) {
			return cluster.Refuse(ReasonUnsafeRestart,
				"pod %s cannot start (%s), and deleting it would delete the only copy of its shard: delete the pod yourself to accept that", p.Name, p.Stuck)
		}
	}
	return cluster.Pass()
}

// isStuck tells whether a pod of an outdated template cannot start, and one of the current template might. A server that runs has started, whatever
// else is wrong with its pod.
func (v *view) isStuck(p *Pod) bool {
	return p.Outdated && p.Stuck != "" && p.Node == nil && p.Started.IsZero() && !p.Deleting && (p.Shard >= len(v.shards) || !v.goesBack(p.Shard))
}

// mayBeDeleted tells whether a pod that cannot start takes nothing with it.
func (v *view) mayBeDeleted(p *Pod) bool {
	return (v.Spec.Persistent && p.terminating == "") || !p.HasRun || v.hasLivingCopy(p)
}

func (v *view) firstStuck() string {
	for _, p := range v.Pods {
		if p.Outdated && p.Stuck != "" {
			return p.Stuck
		}
	}
	return ""
}

// hasLivingCopy tells whether another pod of the shard answers and owns the slots.
func (v *view) hasLivingCopy(p *Pod) bool {
	return p.Shard < len(v.shards) && v.primary(p.Shard) != nil
}

func (p *Pod) ref() PodRef { return PodRef{p.Name, p.UID} }

// restartBroken restarts outdated pods that are the very ones which are not well, while the primary of their shard is.
// The rules after it wait for every server: without this one, setting back what broke a replica would not help.
func restartBroken(v *view) (cluster.Plan, bool) {
	step := Restart{Cause: ReasonRestart}
	for shard, pods := range v.shards {
		if !v.thrives(shard) || v.goesBack(shard) || slices.ContainsFunc(pods, func(p *Pod) bool { return p.Deleting }) {
			continue
		}
		if i := slices.IndexFunc(pods, func(p *Pod) bool { return p.Outdated && (v.ails(p) || v.outgrew(p)) }); i >= 0 {
			step.Pods = append(step.Pods, pods[i].ref())
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	if !v.proven() {
		step.Pods = step.Pods[:1]
	}
	return cluster.Do(step, "pods of an outdated template are not in sync or not ready, and the primaries of their shards are well")
}

// outgrew tells whether a pod is the head of a shard without slots, and runs a version that the wanted one cannot copy.
func (v *view) outgrew(p *Pod) bool {
	return v.slotless(p.Shard) && v.importer(p.Shard) == nil && p == v.head(p.Shard) && Older(v.Spec.Version, p.Node.Version)
}

// patience is how long a server is given to get into sync or to become ready before it counts as broken.
const patience = 30 * time.Second

// ails tells whether a pod has not done for a while what a replica is for. One that is ready and cannot be read may be a
// good one.
func (v *view) ails(p *Pod) bool {
	up := v.Now.Sub(p.Started)
	unready := min(up, v.Now.Sub(p.Unready))
	switch {
	case p.Node == nil:
		return !p.Ready && unready >= patience
	case p.ownsSlots():
		return false
	case v.leftBehind(p):
		return true
	case !p.Ready:
		return unready >= patience
	}
	if !p.Node.Self().Replica || p.Node.LinkUp || up < patience {
		return false
	}
	return p.Node.LinkDown >= patience || (!p.Node.EverLinked && v.othersFollow(p))
}

// othersFollow tells whether all current replicas of a pod's shard are in sync. What never was connected to its primary may
// have been the primary itself a moment ago, and then the others come first.
func (v *view) othersFollow(p *Pod) bool {
	return !slices.ContainsFunc(v.shards[p.Shard], func(o *Pod) bool {
		return o != p && !o.Outdated && (o.Node == nil || (o.Node.Self().Replica && (!o.Node.LinkUp || !o.Node.OnDisk)))
	})
}

// thrives tells whether a shard has a primary that could do without the others for a while.
func (v *view) thrives(shard int) bool {
	p := v.head(shard)
	return p != nil && p.Ready && p.Node.StateOK && p.Node.OnDisk && p.Node.Admits != AdmitsNobody && !p.Node.Loading
}

// proven tells whether some pod was made from the current template, and has the resources of it.
func (v *view) proven() bool {
	return slices.ContainsFunc(v.Pods, func(p Pod) bool { return !p.Outdated && p.Resize == Resizing{} })
}

// restartReplicas restarts outdated replicas, one of each shard at a time. Everything is healthy here. While no pod has
// proved yet that the new template works, only one goes.
func restartReplicas(v *view) (cluster.Plan, bool) {
	step := Restart{Cause: ReasonRestart}
	var unsaved *Pod
	for shard, pods := range v.shards {
		head := v.head(shard)
		i := slices.IndexFunc(pods, func(p *Pod) bool { return p.Outdated && p != head })
		if i < 0 && v.slotless(shard) {
			i = slices.IndexFunc(pods, func(p *Pod) bool { return p.Outdated }) // There is nothing to hand over.
		}
		if i < 0 || v.idle(shard) {
			continue
		}
		if p := v.unsaved(shard); p != nil {
			unsaved = p
			continue
		}
		step.Pods = append(step.Pods, pods[i].ref())
	}
	switch {
	case len(step.Pods) == 0 && unsaved != nil:
		return waitForDisk(unsaved)
	case len(step.Pods) == 0:
		return cluster.Pass()
	}
	if !v.proven() {
		step.Pods = step.Pods[:1]
	}
	for i := range v.Pods {
		// A pod that just came back is ready only after its probe: the next one must not go before.
		if p := &v.Pods[i]; !p.Ready {
			return cluster.Wait(ReasonStarting, v.pace(soon*3, later), "pod %s is not ready", p.Name)
		}
	}
	return cluster.Do(step, "%s", v.outdatedWhy(step.Pods, "replicas run an outdated pod template"))
}

// unsaved is a pod of the shard whose data is not all on its disk; nil when there is none. Until it is, a crash of this
// pod may cost what only the pod to be restarted has.
func (v *view) unsaved(shard int) *Pod {
	for _, p := range v.shards[shard] {
		if !p.Node.OnDisk {
			return p
		}
	}
	return nil
}

func waitForDisk(p *Pod) (cluster.Plan, bool) {
	if p.Node.Config[appendOnly] == "no" {
		return cluster.Wait(ReasonDisk, later, "%s has appendonly no, so that its disk lacks what was written since: it is set back to yes when no other server of its shard writes a new append-only file", p.Name)
	}
	if p.Node.RewriteFailed {
		return cluster.Wait(ReasonDisk, later, "the last rewrite of the append-only file of %s failed (aof_last_bgrewrite_status:err), so its disk may lack what it copied, and the server "+
			"may not try again: its log says why, mostly a full disk or too little memory to fork. Make room, and run BGREWRITEAOF on it as the default user", p.Name)
	}
	return cluster.Wait(ReasonDisk, later, "%s has yet to write the data that it copied to its disk (the rewrite of its append-only file)", p.Name)
}

// failOverOutdated hands a shard whose primary is outdated to a replica that is current. One shard at a time: the others are
// the voters.
func failOverOutdated(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		primary := v.primary(shard)
		if primary == nil || !primary.Outdated || len(pods) == 1 {
			continue
		}
		best := v.bestReplica(v.reached(primary, current(pods)), primary)
		if best == nil && v.bestReplica(current(pods), primary) != nil {
			continue // See waitForOutside.
		}
		if p := v.unsaved(shard); best == nil && p != nil {
			return waitForDisk(p)
		}
		if best == nil && v.stood != nil {
			return v.awaitRetry(v.stood)
		}
		if best == nil {
			return cluster.Wait(ReasonSync, v.pace(soon*3, slowly), "no replica of %s has caught up and is known to the other primaries as one", primary.Name)
		}
		why := v.outdatedWhy([]PodRef{primary.ref()}, primary.Name+" runs an outdated pod template")
		return cluster.Do(Failover{shard, primary.Name, best.Name}, "%s; %s has all of its data", why, best.Name)
	}
	return cluster.Pass()
}

// current are the pods that were made from the wanted template.
func current(pods []*Pod) []*Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return p.Outdated })
}

// bestReplica is the replica that is furthest with the data of its primary, nil when none is near enough. One that is not elected would hold
// up writes for the 5 s that the servers try it.
func (v *view) bestReplica(pods []*Pod, primary *Pod) *Pod {
	var best *Pod
	for _, p := range pods {
		if v.obstacle(p, primary) == "" && (best == nil || p.Node.Offset > best.Node.Offset) && !v.stoodLately(p) {
			best = p
		}
	}
	return best
}

// obstacle returns why a replica cannot take over from its primary; empty: it can, if it did not stand for election lately.
func (v *view) obstacle(p, primary *Pod) string {
	known, ok := primary.Node.Peer(p.Node.ID)
	switch {
	case p == primary:
		return "it is the primary"
	case !p.Ready:
		return "it is not ready"
	case !p.follows(primary), primary.Node.Offset-p.Node.Offset > maxLag:
		return "it has not all data of " + primary.Name
	case !p.Node.OnDisk:
		return "it has yet to write the data that it copied to its disk"
	case !ok, !known.Replica, !v.knownToVoters(p):
		return "the other servers do not know it as a replica yet"
	}
	return ""
}

// MayTakeOver returns an error that says why a replica cannot take over from its primary now. Both are pods with a server that answers.
func MayTakeOver(s State, primary, replica string) error {
	v := look(s)
	at := map[string]*Pod{}
	for _, p := range v.read {
		at[p.Name] = p
	}
	from, to := at[primary], at[replica]
	if from == nil || to == nil {
		return fmt.Errorf("%s or %s does not answer", primary, replica)
	}
	if why := v.obstacle(to, from); why != "" {
		return fmt.Errorf("%s cannot take over yet: %s", replica, why)
	}
	return s.mayStand(to)
}
