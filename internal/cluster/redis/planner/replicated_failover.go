package planner

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// lacksFirstPrimary reports whether no primary was ever appointed and no server is a primary.
func lacksFirstPrimary(v *model.View) bool {
	return v.Appointed.Pod == "" && facts.ActingPrimary(v) == nil
}

// waitForFirstServers waits for all servers of a cluster without a first primary: any of them may
// have the most keys.
func waitForFirstServers(v *model.View) (cluster.Plan, bool) {
	if !lacksFirstPrimary(v) || v.Complete {
		return cluster.Pass()
	}
	return awaitServers(v)
}

// settleFirstClaims settles the retained claims of a cluster without a first primary.
func settleFirstClaims(v *model.View) (cluster.Plan, bool) {
	if !lacksFirstPrimary(v) {
		return cluster.Pass()
	}
	return awaitClaims(v)
}

// appointFirstPrimary makes the first primary of a cluster: over disks of an earlier cluster of
// this name the server with the most keys goes on.
func appointFirstPrimary(v *model.View) (cluster.Plan, bool) {
	if !lacksFirstPrimary(v) {
		return cluster.Pass()
	}
	if p := loadingPod(v); p != nil {
		return cluster.Wait(ReasonSync, facts.PollInterval(v, facts.Soon*3, facts.Slowly), "%s loads its data", p.Name)
	}
	best := richest(v)
	return promote(v, best, "nobody has been primary yet, and %s holds %d keys, as many as any other server", best.Name, best.Node.Keys)
}

// When the appointed server is a primary no more, another one is appointed, or that one again. All
// acknowledged writes are on the appointed one, and what was copied of it is on every server that
// was connected to it: the one that got furthest is promoted.

// lostPrimary reports whether a primary was appointed and no server is one.
func lostPrimary(v *model.View) bool { return v.Appointed.Pod != "" && facts.ActingPrimary(v) == nil }

// waitForUnreachableCandidate waits for a server that does not answer and may have the newest data.
func waitForUnreachableCandidate(v *model.View) (cluster.Plan, bool) {
	if !lostPrimary(v) {
		return cluster.Pass()
	}
	was := v.PodNamed(v.Appointed.Pod)
	if v.Appointed.Guard == 0 && facts.ComesBackWithMore(v, was, facts.FurthestCandidate(v, was)) {
		return cluster.Pass() // No other server was asked to have all that it has.
	}
	if p := facts.UnheardCandidate(v, was); p != nil {
		return cluster.Wait(ReasonUnreachable, facts.Soon*3,
			"%s is gone, and %s may have the newest data but does not answer: it is waited for as long as it runs; to do without it, delete the pod", v.Appointed.Pod, p.Name)
	}
	return cluster.Pass()
}

// reinstateWithMore makes the appointed server primary again that has acknowledged writes which no
// other server was sent.
func reinstateWithMore(v *model.View) (cluster.Plan, bool) {
	if was := v.PodNamed(v.Appointed.Pod); lostPrimary(v) && facts.ComesBackWithMore(v, was, facts.FurthestCandidate(v, was)) {
		return reinstatement(v, was)
	}
	return cluster.Pass()
}

// waitForHandOver waits for the server that the appointed one has handed over to.
func waitForHandOver(v *model.View) (cluster.Plan, bool) {
	was := v.PodNamed(v.Appointed.Pod)
	if to := facts.HandsOver(v, was); lostPrimary(v) && to != nil && was.Node.LinkUp {
		return cluster.Wait(steps.ReasonFailover, facts.Soon, "%s copies %s already, which did not say yet that it leads", was.Name, to.Name)
	}
	return cluster.Pass()
}

// promoteFurthest makes the server primary that has most of what was copied of the appointed one.
func promoteFurthest(v *model.View) (cluster.Plan, bool) {
	best := facts.FurthestCandidate(v, v.PodNamed(v.Appointed.Pod))
	if !lostPrimary(v) || best == nil {
		return cluster.Pass()
	}
	return promote(v, best, "%s is primary no more, and %s has most of what was copied of it", v.Appointed.Pod, best.Name)
}

// reinstate makes the appointed server primary again where no other server has any of its data.
func reinstate(v *model.View) (cluster.Plan, bool) {
	if !lostPrimary(v) {
		return cluster.Pass()
	}
	return reinstatement(v, v.PodNamed(v.Appointed.Pod))
}

// waitForLeavingPrimary waits for a primary that is on its way out: it holds its clients until its replicas have everything, and ends.
func waitForLeavingPrimary(v *model.View) (cluster.Plan, bool) {
	if leader := facts.ActingPrimary(v); leader != nil && leader.Deleting && leader.Name == v.Appointed.Pod {
		return cluster.Wait(ReasonLeaving, facts.Soon, "%s, the primary, is being deleted", leader.Name)
	}
	return cluster.Pass()
}

// waitForFence waits until a primary that nobody can reach has stopped taking writes by itself. A silence that only the
// operator notices proves nothing: as long as a replica hears from it, it serves.
func waitForFence(v *model.View) (cluster.Plan, bool) {
	was := v.PodNamed(v.Appointed.Pod)
	if !lostPrimary(v) || was == nil || !facts.Unheard(was) {
		return cluster.Pass()
	}
	if v.Appointed.Guard == 0 {
		return cluster.Wait(ReasonUnreachable, facts.Later,
			"%s does not answer and had no replica in sync, so that it may still take writes: wait until its container has ended, or delete the pod", was.Name)
	}
	if was.Deleting && !slices.ContainsFunc(v.EveryPod(), func(p *model.Pod) bool { return p.Node != nil && p.Node.Asks == was.Addr && p.Node.LinkUp }) {
		return cluster.Pass() // It was told to end, and has closed its connections.
	}
	for _, p := range v.EveryPod() { // Whoever is on its way out acknowledges until it has ended.
		if p.Node != nil && p.Node.Asks == was.Addr && p.Node.Replication.Silence < v.Appointed.Guard+facts.Noticed {
			return cluster.Wait(steps.ReasonFence, facts.Soon*3,
				"%s does not answer, and may take writes until its replicas have heard nothing of it for %s", was.Name, v.Appointed.Guard+facts.Noticed)
		}
	}
	return cluster.Pass()
}

// cannotStart waits for the appointed pod, or stops when it will never start by itself.
func cannotStart(was *model.Pod) (cluster.Plan, bool) {
	const why = "and nobody else is known to have all that it has"
	if facts.IsDamaged(was) {
		return cluster.Refuse(ReasonDamaged, "%s was the primary and cannot start from its data (%s), %s: "+
			"repair what is on its volume, or restore a backup into a new cluster; to go on with what the others have, delete its claim and pod", was.Name, was.Fatal, why)
	}
	return cluster.Wait(ReasonUnreachable, facts.Later,
		"%s was the primary and cannot start (%s), %s: it is waited for; to go on with what the others have, delete its claim and pod", was.Name, was.Stuck, why)
}

// reinstatement returns the way to make the appointed pod primary again: no server that was in sync
// with it has been running since, so that what is on its disk is the newest. Where that is lost,
// whoever has the most data goes on.
func reinstatement(v *model.View, was *model.Pod) (cluster.Plan, bool) {
	switch {
	case was != nil && facts.Unheard(was) && !was.Deleting:
		return cluster.Wait(ReasonUnreachable, facts.Later,
			"%s does not answer, and nobody else is known to have all that it has: it is waited for as long as it runs; to have it started anew, delete its pod, and keep its claim%s",
			v.Appointed.Pod, facts.WhyEnded(v, was))
	case was != nil && was.Stuck != "":
		return cannotStart(was)
	case was == nil || was.Node == nil || was.Deleting:
		return cluster.Wait(ReasonUnreachable, facts.Later,
			"%s was the primary and does not run, and nobody else is known to have all that it has: it is waited for; to go on with what the others have, delete its claim and pod", v.Appointed.Pod)
	case was.Node.Loading:
		return cluster.Wait(ReasonSync, facts.PollInterval(v, facts.Soon*3, facts.Slowly), "%s loads its data", was.Name)
	case was.Node.Keys > 0:
		return promote(v, was, "%s is back with its data, and nobody else is known to have all of it", was.Name)
	}
	if !v.Complete {
		return awaitServers(v)
	}
	if p := loadingPod(v); p != nil {
		return cluster.Wait(ReasonSync, facts.PollInterval(v, facts.Soon*3, facts.Slowly), "%s came back empty, and %s loads its data", was.Name, p.Name)
	}
	best := richest(v)
	if best.Node.Keys == 0 {
		best = was
	}
	return promote(v, best, "%s came back empty, and %s holds %d keys, as many as any other server", was.Name, best.Name, best.Node.Keys)
}

// redirectReplicas makes all replicas follow the server that takes over from a primary that cannot
// be reached, before it is promoted: a replica that reconnects to the former primary would
// acknowledge its writes. So would one that copies a primary whose hand-over is not complete.
func redirectReplicas(v *model.View) (cluster.Plan, bool) {
	was := v.PodNamed(v.Appointed.Pod)
	if !lostPrimary(v) || was == nil {
		return cluster.Pass()
	}
	heir := facts.FurthestCandidate(v, was)
	if heir == nil || (!facts.Unheard(was) && (was == heir || facts.HandsOver(v, was) == nil)) {
		return cluster.Pass()
	}
	step := steps.Follow{Primary: heir.Name, Addr: heir.Addr}
	for _, p := range v.EveryPod() {
		if p != heir && p.Node != nil && !p.Node.Loading && p.Node.Asks == was.Addr {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%s is to take the place of %s, which is to find no replica any more that acknowledges its writes", heir.Name, was.Name)
	plan.After = facts.Soon / 2
	return plan, ok
}

// promote names a server the failover candidate, and makes it the primary once that is written down. All that led to the choice is
// checked again in between, as the record of the former primary stays until the new one leads. Promote sets
// min-replicas-to-write to 0. If the server is the appointed one, the record says so first: if it cannot be reached
// after that, no replica may be promoted by the fence.
func promote(v *model.View, p *model.Pod, format string, args ...any) (cluster.Plan, bool) {
	history := p.Node.Replication.ID
	step := steps.Appoint{Appointment: v.Appointed, Candidate: model.FailoverCandidate{Pod: p.Name, History: history}}
	if p.Name == v.Appointed.Pod {
		step.Appointment.Guard = 0
	}
	if (step != steps.Appoint{Appointment: v.Appointed, Candidate: v.Candidate}) {
		plan, ok := cluster.Do(step, format, args...)
		plan.After = atOnce
		return plan, ok
	}
	plan, ok := cluster.Do(steps.Promote{Pod: p.Name, History: history}, format, args...)
	plan.After = facts.Soon / 2
	return plan, ok
}

// loadingPod is a server that still reads its data; nil when there is none.
func loadingPod(v *model.View) *model.Pod {
	for _, p := range v.Readable {
		if p.Node.Loading {
			return p
		}
	}
	return nil
}

// richest is the server with the most keys, the first one of several.
func richest(v *model.View) *model.Pod {
	best := v.Readable[0]
	for _, p := range v.Readable {
		if cmp.Compare(p.Node.Keys, best.Node.Keys) > 0 {
			best = p
		}
	}
	return best
}
