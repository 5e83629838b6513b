package etcd

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A change of the membership, whichever way it was begun, is finished from what is there:
//
//	record       quorum lists       what follows
//	------------------------------------------------------------------------------
//	has it       nothing            its old disk and pod go, it is added as learner
//	has it       a learner          it catches up and is promoted
//	has it       a voter            nothing, unless its data is lost: it is removed
//	has it not   one that is wanted  the record gets it back, so that it has a pod
//	has it not   one that is not     it is removed when its pod has ended
//
// and of what spec.size does not ask for, the highest ordinal leaves first: the record and the pod, then the member, then the claim.

// between is the least time between two replacements of a member that had a disk to lose: what breaks a disk once a
// minute is not cured by another one.
const between = 10 * time.Minute

// stranding is how long a pod is left to the scheduler before its volume is given up for one on another node.
const stranding = time.Minute

// founding is how much younger than its StatefulSet a claim may be that was made with it.
const founding = 2 * time.Minute

// founded tells whether a claim is the first one of its pod, made with the StatefulSet.
func (s State) founded(c Claim) bool {
	return s.Set != nil && c.Age <= s.Set.Age+atOnce && c.Age+founding >= s.Set.Age
}

// refuseUnknownFounders refuses listed members outside the specification before the identity of the
// cluster is recorded.
func refuseUnknownFounders(s State) (cluster.Plan, bool) {
	if s.known() {
		return cluster.Pass()
	}
	return s.refuseMismatch()
}

// refuseUnknownMembers refuses listed members outside the specification.
func refuseUnknownMembers(s State) (cluster.Plan, bool) { return s.refuseMismatch() }

// refuseMismatch returns the refusal of members that are not those of the specification, if there
// are any.
func (s State) refuseMismatch() (cluster.Plan, bool) {
	made := s.Want.members(len(s.Record.Members))
	if !slices.Equal(s.Record.Members, made) {
		return cluster.Refuse(ReasonMembership, "the cluster was made of %s, and the specification asks for %s: "+
			"a member cannot get another name; set the DNS domain of the Kubernetes cluster back", describe(s.Record.Members), describe(made))
	}
	for _, m := range s.Members {
		if s.Ordinal(m) < 0 {
			return cluster.Refuse(ReasonMembership, "etcd has a member %s (%s, learner: %t) that the specification does not%s",
				FormatID(m.ID), m.PeerURL, m.Learner, s.cureOf(m))
		}
	}
	return cluster.Pass()
}

// settleUnrecordedMembers gives every member that the quorum lists a place in the record, and so a pod, unless it is leaving: that one is removed as
// soon as its pod has ended and let its clients go. It comes back where the data of members differs meanwhile: without it those that are
// right may be no majority any more.
func settleUnrecordedMembers(s State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	for _, m := range s.Members {
		i := s.Ordinal(m)
		if i < have {
			continue
		}
		name := s.Want.Peers[i].Name
		if i < s.Want.Size {
			return cluster.Do(Resize{From: have, To: i + 1}, "etcd has a member %s that has no pod", name)
		}
		if a := s.corruption(); a != nil {
			return cluster.Do(Resize{From: have, To: i + 1}, "etcd has raised the alarm %s, and %s, which was leaving, helps to tell whose data is right", a.Type, name)
		}
		if p := s.podNamed(name); p != nil && (!p.Terminating || p.View != nil) {
			return cluster.Wait(ReasonLeaving, whileLeaving, "%s is leaving: its pod hands its clients over and ends", name)
		}
		return cluster.Do(s.removal(m), "spec.size is %d, and %s has ended", s.Want.Size, name)
	}
	return cluster.Pass()
}

// replaceLost removes a member whose data is proven to be lost. It comes back with an empty disk, as a learner: to add it
// first would raise the quorum while it cannot vote (Cluster API issue 3676). Slow is not lost.
func replaceLost(s State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		why, loses := s.evidence(m)
		if why == "" {
			continue
		}
		name := s.pod(m).Name
		if !s.canSpare(m) {
			return cluster.Wait(ReasonMemberLost, whileWaiting, "%s %s; it is replaced once enough others are healthy%s", name, why, troubles(s))
		}
		c := s.claim(s.Ordinal(m))
		if loses && c != nil && c.Age < between && !s.founded(*c) {
			return cluster.Wait(ReasonMemberLost, between-c.Age, "%s %s; its volume is only %s old, so it is not replaced again before %s have passed",
				name, why, c.Age.Round(time.Second), between)
		}
		if p, ok := s.handOver(m, why); ok {
			return p, true
		}
		return cluster.Do(s.removal(m),
			"%s %s: the member is removed, and added again with an empty disk", name, why)
	}
	return cluster.Pass()
}

// evidence says why a member's data is proven to be lost, or out of its reach for good, empty when it is not. loses tells whether there is a disk that
// would be lost with it.
func (s State) evidence(m Member) (why string, loses bool) {
	p, c := s.pod(m), s.claim(s.Ordinal(m))
	switch {
	case p == nil:
		return "", false
	case p.Corrupt:
		return "has other data than the majority", s.Want.Persistent
	case p.View != nil:
		return "", false
	case c != nil && c.Lost != "":
		return "has lost its volume: " + c.Lost, false
	case c.stranded(p):
		return "cannot be scheduled: " + c.Stranded, true
	case !s.Want.Persistent && p.Gone:
		return "was on a node that is gone, without spec.storage", false
	case p.Terminating:
		return "", false
	case p.Gate != nil && p.Gate.Reason == GateLostDisk && m.Published:
		return "has an empty disk", false
	}
	return s.unusable(p, c)
}

// unusable says why etcd cannot start from the disk of a pod, whatever is on it.
func (s State) unusable(p *Pod, c *Claim) (why string, loses bool) {
	switch {
	case p.Fatal != "":
		return "cannot start from its data: " + p.Fatal, s.Want.Persistent
	case p.Full && c != nil && !c.grows(s.Want):
		return "has no room left on its disk, and " + c.Name + " is not being expanded", true
	}
	return "", false
}

// canSpare reports whether the healthy members are a quorum of those that there are without the given one. That goes without
// saying for one that is not healthy: the leader has its quorum without it.
func (s State) canSpare(m Member) bool {
	if m.Learner {
		return true
	}
	voters, well := 0, 0
	for _, other := range s.Members {
		if other.Learner || other.ID == m.ID {
			continue
		}
		voters++
		if s.healthy(other) {
			well++
		}
	}
	return voters > 0 && well >= Quorum(voters)
}

// handOver moves leadership away from a member, if it has it.
func (s State) handOver(from Member, why string) (cluster.Plan, bool) {
	leader := s.leader()
	if leader == nil || leader.ID != from.ID || !s.healthy(*leader) {
		return cluster.Pass()
	}
	to := successor(s, leader.ID)
	if to == nil {
		return cluster.Pass()
	}
	name, next := s.pod(from).Name, s.pod(*to).Name
	return cluster.Do(MoveLeader{From: name, To: to.ID, Pod: next}, "%s, the leader, %s: %s takes over first", name, why, next)
}

// via is a pod to speak to the quorum through, other than that of the given member where there is one.
func (s State) via(but Member) string {
	if leader := s.leader(); leader != nil && leader.ID != but.ID && s.healthy(*leader) {
		return s.pod(*leader).Name
	}
	for _, m := range s.Members {
		if m.ID != but.ID && !m.Learner && s.healthy(m) {
			return s.pod(m).Name
		}
	}
	return ""
}

// promote gives a learner that has caught up its vote.
func promote(s State) (cluster.Plan, bool) {
	leader := s.leader()
	for _, m := range s.Members {
		if !m.Learner || !s.healthy(m) || !s.healthy(*leader) || s.Ordinal(m) >= s.Want.Size {
			continue
		}
		p, have, all := s.pod(m), s.pod(m).View.Applied, s.pod(*leader).View.Applied
		if float64(have) < inSync*float64(all) {
			return cluster.Wait(ReasonCatchingUp, whileJoining, "%s is catching up: it has %d of %d log entries", p.Name, have, all)
		}
		return cluster.Do(Promote{ID: m.ID, Name: p.Name, Via: s.pod(*leader).Name}, "%s has caught up with the leader", p.Name)
	}
	return cluster.Pass()
}

// inSync is the part of the leader's log that etcd demands of a learner before it is promoted.
const inSync = 0.9

// rejoin takes the next step that brings a member back that the record has and the quorum does not.
func rejoin(s State) (cluster.Plan, bool) {
	p, _ := s.nextJoin()
	return p, p.Step != nil
}

// waitForRejoin waits for what keeps such a member from joining.
func waitForRejoin(s State) (cluster.Plan, bool) {
	p, ok := s.nextJoin()
	return p, ok && p.Step == nil
}

// nextJoin returns the next step for the members that the record has and the quorum does not, else
// what they wait for. The disk of such a member has the data of a member that was removed for good,
// from which etcd would not start. A member that cannot run does not keep the others from joining.
func (s State) nextJoin() (cluster.Plan, bool) {
	first, waits := cluster.Pass()
	for i, r := range s.Record.Members[:min(len(s.Record.Members), s.Want.Size)] {
		if p := s.podNamed(r.Name); s.member(r.URL) != nil || (waits && (p == nil || p.Gate == nil)) {
			continue
		}
		plan, ok := s.join(i, r)
		switch {
		case plan.Step != nil:
			return plan, true
		case !ok:
			return first, waits
		case !waits:
			first, waits = plan, true
		}
	}
	return first, waits
}

// join is the next thing to do for a member that the quorum does not list.
func (s State) join(ordinal int, r Peer) (cluster.Plan, bool) {
	if p, ok := s.clear(ordinal); ok {
		return p, true
	}
	p := s.podNamed(r.Name)
	switch {
	case p == nil:
		return cluster.Wait(ReasonJoining, whileWaiting, "%s joins: it has no pod yet%s", r.Name, s.unmade(ordinal))
	case p.Stuck && p.Gate == nil:
		return cluster.Wait(ReasonJoining, whileWaiting, "%s does not join yet: it %s", r.Name, p.Problem)
	case !s.allVote():
		return cluster.Pass()
	}
	return cluster.Do(AddLearner{Name: r.Name, URL: r.URL, Via: s.via(Member{})}, "%s joins, without a vote until it has the data", r.Name)
}

// clear removes what an earlier member of an ordinal left.
func (s State) clear(ordinal int) (cluster.Plan, bool) {
	name := s.Want.Peers[ordinal].Name
	p, c := s.podNamed(name), s.claim(ordinal)
	used := p != nil && p.EverRan
	switch {
	case c.outlived(p):
		return cluster.Do(c.deletion(), "%s holds the data of a member that has left the cluster", c.Name)
	case p != nil && (!p.Terminating || p.Gone) && (used || c.leaving() || p.Gate.lost()):
		return cluster.Do(p.deletion(), "%s belongs to a member that has left the cluster", p.Name)
	case p != nil && p.Terminating:
		return cluster.Wait(ReasonJoining, whileWaiting, "the former pod %s is being deleted", p.Name)
	case c.leaving():
		return cluster.Wait(ReasonJoining, whileWaiting, "the former claim %s is being deleted", c.Name)
	}
	return cluster.Pass()
}

// atOnce is how far apart the times of a pod and of its claim may be, which are made in this order: Kubernetes gives them in seconds, and its API
// servers have a clock each.
const atOnce = 5 * time.Second

// ranOn reports whether a pod may have run on a claim. One that was made after the pod is not its own: the pod is gone, and not everybody
// has heard of it.
func (p *Pod) ranOn(c *Claim) bool { return p != nil && p.EverRan && c.Age+atOnce >= p.Age }

// stranded reports whether a pod has waited for a node for long enough that it needs another volume.
func (c *Claim) stranded(p *Pod) bool { return c != nil && c.Stranded != "" && p.Age >= stranding }

// outlived reports whether a claim is to be deleted after the member of its pod has left the cluster.
func (c *Claim) outlived(p *Pod) bool {
	return c != nil && !c.Leaving && (c.Lost != "" || c.Stranded != "" || p.ranOn(c))
}

func (c *Claim) leaving() bool { return c != nil && c.Leaving }

func (r *GateReport) lost() bool { return r != nil && r.Reason == GateLostDisk }

// allVote reports whether every member is a healthy voter: etcd adds a member only then, and one at a time.
func (s State) allVote() bool {
	return !slices.ContainsFunc(s.Members, func(m Member) bool { return m.Learner || !s.healthy(m) })
}

// removeDispensableSurplus takes the members out that spec.size does not ask for and that the cluster does not miss, before anything waits for
// them.
func removeDispensableSurplus(s State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		if i := s.Ordinal(m); i >= s.Want.Size && (m.Learner || !s.healthy(m)) {
			name := s.Want.Peers[i].Name
			return cluster.Do(s.removal(m), "spec.size is %d, and %s has no vote or is not well", s.Want.Size, name)
		}
	}
	return cluster.Pass()
}

// recordRemoval removes the surplus member of the highest ordinal from the record, and so its pod,
// after etcd has removed it from the member list.
func recordRemoval(s State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	if have <= s.Want.Size || s.surplus() != nil {
		return cluster.Pass()
	}
	return cluster.Do(Resize{From: have, To: have - 1}, "spec.size is %d: %s has left the cluster", s.Want.Size, s.Want.Peers[have-1].Name)
}

// bringBackLeaving brings the pod of a leaving member back when the others lost their quorum before it was removed: it has its data and its
// vote still.
func bringBackLeaving(s State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	c := s.claim(have)
	if s.Members != nil || !s.known() || s.readyPods() >= Quorum(have) || c == nil || c.Leaving || s.anyYoung() || s.starting() {
		return cluster.Pass()
	}
	return cluster.Do(Resize{From: have, To: have + 1}, "no quorum of members answers, and %s, which was leaving, may still have a vote%s",
		s.Want.Peers[have].Name, troubles(s))
}

// surplus is the member of the highest ordinal, nil when the quorum lists none.
func (s State) surplus() *Member { return s.member(s.Record.Members[len(s.Record.Members)-1].URL) }

// shrink takes the member of the highest ordinal out that spec.size does not ask for, after it has handed leadership over. Its
// pod ends first, because a member that is removed drops its clients. Of two members none can be spared: there it is removed
// first.
func shrink(s State) (cluster.Plan, bool) {
	have, m := len(s.Record.Members), s.surplus()
	if have <= s.Want.Size || m == nil {
		return cluster.Pass()
	}
	name := s.Want.Peers[have-1].Name
	if p, ok := s.handOver(*m, "is to leave"); ok {
		return p, true
	}
	if len(s.Members) > 2 {
		return cluster.Do(Resize{From: have, To: have - 1}, "spec.size is %d, and the cluster has %d members: %s ends first", s.Want.Size, have, name)
	}
	return cluster.Do(s.removal(*m), "spec.size is %d, and the cluster has %d members", s.Want.Size, have)
}

// deleteLeftClaims deletes the claim of a member that left. It comes before such a claim could be taken for that of a new member.
// One without labels of the cluster stays: a user may have removed them to keep its data, see refuseUnlabelled.
func deleteLeftClaims(s State) (cluster.Plan, bool) {
	for _, c := range s.Claims {
		if c.Ordinal < len(s.Record.Members) || c.Ordinal >= len(s.Want.Peers) || c.Unlabelled {
			continue
		}
		name := s.Want.Peers[c.Ordinal].Name
		switch p := s.podNamed(name); {
		case p != nil:
			return cluster.Wait(ReasonLeaving, whileWaiting, "%s has left the cluster; its pod is being deleted", name)
		case c.Leaving:
			return cluster.Wait(ReasonLeaving, whileWaiting, "claim %s of a member that has left is being deleted", c.Name)
		}
		return cluster.Do(c.deletion(), "%s holds the data of a member that has left the cluster", c.Name)
	}
	return cluster.Pass()
}

// grow makes room for one more member.
func grow(s State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	if have >= s.Want.Size || s.inTheWay() != nil {
		return cluster.Pass()
	}
	if p := s.podNamed(s.Want.Peers[have].Name); p != nil {
		return cluster.Wait(ReasonLeaving, whileWaiting, "the former pod %s is being deleted", p.Name)
	}
	return cluster.Do(Resize{From: have, To: have + 1}, "spec.size is %d, and the cluster has %d members", s.Want.Size, have)
}
