package redis

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// noticed is how much later than a replica at the latest a primary notices that the two do not hear of each other: the replica may have
// reported once more, which it does every second, both count in whole seconds, and the primary looks once a second.
const noticed = 4 * time.Second

// lacksFirstPrimary reports whether no primary was ever appointed and no server is a primary.
func (v *view) lacksFirstPrimary() bool { return v.Appointed.Pod == "" && v.leader() == nil }

// waitForFirstServers waits for all servers of a cluster without a first primary: any of them may
// have the most keys.
func waitForFirstServers(v *view) (cluster.Plan, bool) {
	if !v.lacksFirstPrimary() || v.complete {
		return cluster.Pass()
	}
	return v.awaitServers()
}

// settleFirstClaims settles the retained claims of a cluster without a first primary.
func settleFirstClaims(v *view) (cluster.Plan, bool) {
	if !v.lacksFirstPrimary() {
		return cluster.Pass()
	}
	return v.awaitClaims()
}

// appointFirstPrimary makes the first primary of a cluster: over disks of an earlier cluster of
// this name the server with the most keys goes on.
func appointFirstPrimary(v *view) (cluster.Plan, bool) {
	if !v.lacksFirstPrimary() {
		return cluster.Pass()
	}
	if p := v.loading(); p != nil {
		return cluster.Wait(ReasonSync, v.pace(soon*3, slowly), "%s loads its data", p.Name)
	}
	best := v.richest()
	return v.promote(best, "nobody has been primary yet, and %s holds %d keys, as many as any other server", best.Name, best.Node.Keys)
}

// When the appointed server is a primary no more, another one is appointed, or that one again. All
// acknowledged writes are on the appointed one, and what was copied of it is on every server that
// was connected to it: the one that got furthest is promoted.

// lostPrimary reports whether a primary was appointed and no server is one.
func (v *view) lostPrimary() bool { return v.Appointed.Pod != "" && v.leader() == nil }

// waitForUnreachableCandidate waits for a server that does not answer and may have the newest data.
func waitForUnreachableCandidate(v *view) (cluster.Plan, bool) {
	if !v.lostPrimary() {
		return cluster.Pass()
	}
	was := v.podNamed(v.Appointed.Pod)
	if v.Appointed.Guard == 0 && v.comesBackWithMore(was, v.furthestHeir(was)) {
		return cluster.Pass() // No other server was asked to have all that it has.
	}
	if p := v.unheardHeir(was); p != nil {
		return cluster.Wait(ReasonUnreachable, soon*3,
			"%s is gone, and %s may have the newest data but does not answer: it is waited for as long as it runs; to do without it, delete the pod", v.Appointed.Pod, p.Name)
	}
	return cluster.Pass()
}

// reinstateWithMore makes the appointed server primary again that has acknowledged writes which no
// other server was sent.
func reinstateWithMore(v *view) (cluster.Plan, bool) {
	if was := v.podNamed(v.Appointed.Pod); v.lostPrimary() && v.comesBackWithMore(was, v.furthestHeir(was)) {
		return v.reinstatement(was)
	}
	return cluster.Pass()
}

// waitForHandOver waits for the server that the appointed one has handed over to.
func waitForHandOver(v *view) (cluster.Plan, bool) {
	was := v.podNamed(v.Appointed.Pod)
	if to := v.handsOver(was); v.lostPrimary() && to != nil && was.Node.LinkUp {
		return cluster.Wait(ReasonFailover, soon, "%s copies %s already, which did not say yet that it leads", was.Name, to.Name)
	}
	return cluster.Pass()
}

// promoteFurthest makes the server primary that has most of what was copied of the appointed one.
func promoteFurthest(v *view) (cluster.Plan, bool) {
	best := v.furthestHeir(v.podNamed(v.Appointed.Pod))
	if !v.lostPrimary() || best == nil {
		return cluster.Pass()
	}
	return v.promote(best, "%s is primary no more, and %s has most of what was copied of it", v.Appointed.Pod, best.Name)
}

// reinstate makes the appointed server primary again where no other server has any of its data.
func reinstate(v *view) (cluster.Plan, bool) {
	if !v.lostPrimary() {
		return cluster.Pass()
	}
	return v.reinstatement(v.podNamed(v.Appointed.Pod))
}

// comesBackWithMore tells whether the appointed server has acknowledged writes, on a disk that is there or may come back, which the one that got furthest
// was never sent: nobody had to copy them, as far as is written down, or that one was out of sync.
func (v *view) comesBackWithMore(was, best *Pod) bool {
	if v.Appointed.Guard > 0 && (best == nil || v.wasInSync(was, best)) {
		return false
	}
	if was != nil && was.Node != nil {
		r := was.Node.Replication
		return r.ID != v.Appointed.History && r.FormerID != v.Appointed.History && (was.Node.Loading || was.Node.Keys > 0)
	}
	lost := func(c Claim) bool {
		return c.Lost != "" && cluster.Pod(cluster.ShardSet(v.Spec.Name, c.Shard), c.Ordinal) == v.Appointed.Pod
	}
	return v.outageOfPod(v.Appointed.Pod).returns && !slices.ContainsFunc(v.Claims, lost)
}

// wasInSync tells whether an heir copied a primary until that ended, or to within what the two take to notice. Its label is from when it was last looked at, and
// says nothing of a time in which it could not be read. What any of the others has acknowledged the furthest has, if all of them are there; else it has to have heard
// the primary for as long as that may have led.
func (v *view) wasInSync(was, heir *Pod) bool {
	if heir.Role != RoleReplica {
		return false
	}
	if v.allHeirs(was) {
		return true
	}
	end := v.Now // Its pod has just gone.
	if was != nil {
		end = was.Ended
	}
	if was != nil && was.unheard() && was.Unready.After(end) {
		end = was.Unready
	}
	heard := v.Now.Add(-heir.Node.Replication.Silence)
	return !heard.Before(end.Add(-v.Appointed.Guard - noticed))
}

// allHeirs tells whether all other servers are there, and have the history of the appointed primary.
func (v *view) allHeirs(was *Pod) bool {
	others := slices.DeleteFunc(v.everyPod(), func(p *Pod) bool { return p == was })
	return len(others) >= v.Spec.Replicas && !slices.ContainsFunc(others, func(p *Pod) bool { return p.Node == nil || !v.isHeir(p) })
}

// isHeir tells whether a server has the history of the appointed primary, or went on from it.
func (v *view) isHeir(p *Pod) bool {
	r := p.Node.Replication
	return !p.Node.Loading && (r.ID == v.Appointed.History || r.FormerID == v.Appointed.History)
}

// waitForLeavingPrimary waits for a primary that is on its way out: it holds its clients until its replicas have everything, and ends.
func waitForLeavingPrimary(v *view) (cluster.Plan, bool) {
	if leader := v.leader(); leader != nil && leader.Deleting && leader.Name == v.Appointed.Pod {
		return cluster.Wait(ReasonLeaving, soon, "%s, the primary, is being deleted", leader.Name)
	}
	return cluster.Pass()
}

// waitForFence waits until a primary that nobody can reach has stopped taking writes by itself. A silence that only the
// operator notices proves nothing: as long as a replica hears from it, it serves.
func waitForFence(v *view) (cluster.Plan, bool) {
	was := v.podNamed(v.Appointed.Pod)
	if !v.lostPrimary() || was == nil || !was.unheard() {
		return cluster.Pass()
	}
	if v.Appointed.Guard == 0 {
		return cluster.Wait(ReasonUnreachable, later,
			"%s does not answer and had no replica in sync, so that it may still take writes: wait until its container has ended, or delete the pod", was.Name)
	}
	if was.Deleting && !slices.ContainsFunc(v.everyPod(), func(p *Pod) bool { return p.Node != nil && p.Node.Asks == was.Addr && p.Node.LinkUp }) {
		return cluster.Pass() // It was told to end, and has closed its connections.
	}
	for _, p := range v.everyPod() { // Whoever is on its way out acknowledges until it has ended.
		if p.Node != nil && p.Node.Asks == was.Addr && p.Node.Replication.Silence < v.Appointed.Guard+noticed {
			return cluster.Wait(ReasonFence, soon*3,
				"%s does not answer, and may take writes until its replicas have heard nothing of it for %s", was.Name, v.Appointed.Guard+noticed)
		}
	}
	return cluster.Pass()
}

// unheard tells whether a server seems to run and could not be read.
func (p *Pod) unheard() bool { return p.Node == nil && !p.Started.IsZero() }

// unheardHeir is a server that may have more than all that answer; nil when there is none. One that is about to end is no use, unless it may lead.
// One that hangs while the appointed server hands over to it has no more than that one.
func (v *view) unheardHeir(was *Pod) *Pod {
	lost := was != nil && was.unheard()
	handing := was != nil && was.Node != nil && !was.Deleting && was.Node.Replication.HandsOver && was.Node.Replication.ID == v.Appointed.History
	for _, p := range v.everyPod() {
		if p != was && p.unheard() && (!handing || !was.copied(p) || !p.Hangs) && (lost || !p.Deleting || v.tookOver(p, was)) {
			return p
		}
	}
	return nil
}

// tookOver tells whether a server leads as far as the appointed one knows, which has another history since.
func (v *view) tookOver(p, was *Pod) bool {
	return was != nil && was.copied(p) && was.Node.Replication.ID != v.Appointed.History
}

// copied tells whether a server was last told to copy another one.
func (p *Pod) copied(from *Pod) bool { return p.Node != nil && p.Node.Asks == from.Addr }

// handsOver is the server that a primary is handing over to: each asks the other. Nil: there is none.
func (v *view) handsOver(was *Pod) *Pod {
	for _, p := range v.everyPod() {
		if was != nil && was.copied(p) && p.copied(was) {
			return p
		}
	}
	return nil
}

// furthestHeir is the server that has most of the history of the appointed primary; nil when none has any. Of several with as much it is that one itself:
// it may be handing over, which nobody else can end; or one that has it on its disk, too.
func (v *view) furthestHeir(was *Pod) *Pod {
	if was != nil && was.Deleting {
		was = v.handsOver(was)
	}
	var best *Pod
	for _, p := range v.read {
		if !v.isHeir(p) {
			continue
		}
		if best == nil || p.Node.Offset > best.Node.Offset ||
			(p.Node.Offset == best.Node.Offset && (p == was || (best != was && p.Node.OnDisk && !best.Node.OnDisk))) {
			best = p
		}
	}
	return best
}

// cannotStart waits for the appointed pod, or stops when it will never start by itself.
func (v *view) cannotStart(was *Pod) (cluster.Plan, bool) {
	const why = "and nobody else is known to have all that it has"
	if was.damaged() {
		return cluster.Refuse(ReasonDamaged, "%s was the primary and cannot start from its data (%s), %s: "+
			"repair what is on its volume, or restore a backup into a new cluster; to go on with what the others have, delete its claim and pod", was.Name, was.Fatal, why)
	}
	return cluster.Wait(ReasonUnreachable, later,
		"%s was the primary and cannot start (%s), %s: it is waited for; to go on with what the others have, delete its claim and pod", was.Name, was.Stuck, why)
}

// reinstatement returns the way to make the appointed pod primary again: no server that was in sync
// with it has been running since, so that what is on its disk is the newest. Where that is lost,
// whoever has the most data goes on.
func (v *view) reinstatement(was *Pod) (cluster.Plan, bool) {
	switch {
	case was != nil && was.unheard() && !was.Deleting:
		return cluster.Wait(ReasonUnreachable, later,
			"%s does not answer, and nobody else is known to have all that it has: it is waited for as long as it runs; to have it started anew, delete its pod, and keep its claim%s",
			v.Appointed.Pod, v.fate(was))
	case was != nil && was.Stuck != "":
		return v.cannotStart(was)
	case was == nil || was.Node == nil || was.Deleting:
		return cluster.Wait(ReasonUnreachable, later,
			"%s was the primary and does not run, and nobody else is known to have all that it has: it is waited for; to go on with what the others have, delete its claim and pod", v.Appointed.Pod)
	case was.Node.Loading:
		return cluster.Wait(ReasonSync, v.pace(soon*3, slowly), "%s loads its data", was.Name)
	case was.Node.Keys > 0:
		return v.promote(was, "%s is back with its data, and nobody else is known to have all of it", was.Name)
	}
	if !v.complete {
		return v.awaitServers()
	}
	if p := v.loading(); p != nil {
		return cluster.Wait(ReasonSync, v.pace(soon*3, slowly), "%s came back empty, and %s loads its data", was.Name, p.Name)
	}
	best := v.richest()
	if best.Node.Keys == 0 {
		best = was
	}
	return v.promote(best, "%s came back empty, and %s holds %d keys, as many as any other server", was.Name, best.Name, best.Node.Keys)
}

// redirectReplicas makes all replicas follow the server that takes over from a primary that cannot
// be reached, before it is promoted: a replica that reconnects to the former primary would
// acknowledge its writes. So would one that copies a primary whose hand-over is not complete.
func redirectReplicas(v *view) (cluster.Plan, bool) {
	was := v.podNamed(v.Appointed.Pod)
	if !v.lostPrimary() || was == nil {
		return cluster.Pass()
	}
	heir := v.furthestHeir(was)
	if heir == nil || (!was.unheard() && (was == heir || v.handsOver(was) == nil)) {
		return cluster.Pass()
	}
	step := Follow{Primary: heir.Name, Addr: heir.Addr}
	for _, p := range v.everyPod() {
		if p != heir && p.Node != nil && !p.Node.Loading && p.Node.Asks == was.Addr {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%s is to take the place of %s, which is to find no replica any more that acknowledges its writes", heir.Name, was.Name)
	plan.After = soon / 2
	return plan, ok
}

// promote names a server the failover candidate, and makes it the primary once that is written down. All that led to the choice is
// checked again in between, as the record of the former primary stays until the new one leads.
func (v *view) promote(p *Pod, format string, args ...any) (cluster.Plan, bool) {
	history := p.Node.Replication.ID
	if c := (FailoverCandidate{Pod: p.Name, History: history}); v.Candidate != c {
		plan, ok := cluster.Do(Appoint{v.Appointed, c}, format, args...)
		plan.After = atOnce
		return plan, ok
	}
	plan, ok := cluster.Do(Promote{p.Name, history}, format, args...)
	plan.After = soon / 2
	return plan, ok
}

// loading is a server that still reads its data; nil when there is none.
func (v *view) loading() *Pod {
	for _, p := range v.read {
		if p.Node.Loading {
			return p
		}
	}
	return nil
}

// richest is the server with the most keys, the first one of several.
func (v *view) richest() *Pod {
	best := v.read[0]
	for _, p := range v.read {
		if cmp.Compare(p.Node.Keys, best.Node.Keys) > 0 {
			best = p
		}
	}
	return best
}
