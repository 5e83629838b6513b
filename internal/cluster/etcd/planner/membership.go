package planner

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
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
func founded(s model.State, c model.Claim) bool {
	return s.Set != nil && c.Age <= s.Set.Age+atOnce && c.Age+founding >= s.Set.Age
}

// refuseUnknownFounders refuses listed members outside the specification before the identity of the
// cluster is recorded.
func refuseUnknownFounders(s model.State) (cluster.Plan, bool) {
	if s.Known() {
		return cluster.Pass()
	}
	return refuseMismatch(s)
}

// refuseUnknownMembers refuses listed members outside the specification.
func refuseUnknownMembers(s model.State) (cluster.Plan, bool) { return refuseMismatch(s) }

// refuseMismatch returns the refusal of members that are not those of the specification, if there
// are any.
func refuseMismatch(s model.State) (cluster.Plan, bool) {
	made := s.Want.Members(len(s.Record.Members))
	if !slices.Equal(s.Record.Members, made) {
		return cluster.Refuse(ReasonMembership, "the cluster was made of %s, and the specification asks for %s: "+
			"a member cannot get another name; set the DNS domain of the Kubernetes cluster back", describe(s.Record.Members), describe(made))
	}
	for _, m := range s.Members {
		if s.Ordinal(m) < 0 {
			return cluster.Refuse(ReasonMembership, "etcd has a member %s (%s, learner: %t) that the specification does not%s",
				model.FormatID(m.ID), m.PeerURL, m.Learner, cureOf(s, m))
		}
	}
	return cluster.Pass()
}

// settleUnrecordedMembers gives every member that the quorum lists a place in the record, and so a pod, unless it is leaving: that one is removed as
// soon as its pod has ended and let its clients go. It comes back where the data of members differs meanwhile: without it those that are
// right may be no majority any more.
func settleUnrecordedMembers(s model.State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	for _, m := range s.Members {
		i := s.Ordinal(m)
		if i < have {
			continue
		}
		name := s.Want.Peers[i].Name
		if i < s.Want.Size {
			return cluster.Do(steps.Resize{From: have, To: i + 1}, "etcd has a member %s that has no pod", name)
		}
		if a := corruption(s); a != nil {
			return cluster.Do(steps.Resize{From: have, To: i + 1}, "etcd has raised the alarm %s, and %s, which was leaving, helps to tell whose data is right", a.Type, name)
		}
		if p := s.PodNamed(name); p != nil && (!p.Terminating || p.Status != nil) {
			return cluster.Wait(ReasonLeaving, whileLeaving, "%s is leaving: its pod hands its clients over and ends", name)
		}
		return cluster.Do(removeMember(s, m), "spec.size is %d, and %s has ended", s.Want.Size, name)
	}
	return cluster.Pass()
}

// replaceLost removes a member whose data is proven to be lost. It comes back with an empty disk, as a learner: to add it
// first would raise the quorum while it cannot vote (Cluster API issue 3676). Slow is not lost.
func replaceLost(s model.State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		why, loses := evidence(s, m)
		if why == "" {
			continue
		}
		name := s.Pod(m).Name
		if !canSpare(s, m) {
			return cluster.Wait(ReasonMemberLost, whileWaiting, "%s %s; it is replaced once enough others are healthy%s", name, why, troubles(s))
		}
		c := s.Claim(s.Ordinal(m))
		if loses && c != nil && c.Age < between && !founded(s, *c) {
			return cluster.Wait(ReasonMemberLost, between-c.Age, "%s %s; its volume is only %s old, so it is not replaced again before %s have passed",
				name, why, c.Age.Round(time.Second), between)
		}
		if p, ok := handOver(s, m, why); ok {
			return p, true
		}
		return cluster.Do(removeMember(s, m),
			"%s %s: the member is removed, and added again with an empty disk", name, why)
	}
	return cluster.Pass()
}

// evidence says why a member's data is proven to be lost, or out of its reach for good, empty when it is not. loses tells whether there is a disk that
// would be lost with it.
func evidence(s model.State, m model.Member) (why string, loses bool) {
	p, c := s.Pod(m), s.Claim(s.Ordinal(m))
	switch {
	case p == nil:
		return "", false
	case p.Corrupt:
		return "has other data than the majority", s.Want.Persistent
	case p.Status != nil:
		return "", false
	case c != nil && c.Lost != "":
		return "has lost its volume: " + c.Lost, false
	case isStranded(c, p):
		return "cannot be scheduled: " + c.Stranded, true
	case !s.Want.Persistent && p.Gone:
		return "was on a node that is gone, without spec.storage", false
	case p.Terminating:
		return "", false
	case p.Gate != nil && p.Gate.Reason == model.GateLostDisk && m.Published:
		return "has an empty disk", false
	}
	return unusable(s, p, c)
}

// unusable says why etcd cannot start from the disk of a pod, whatever is on it.
func unusable(s model.State, p *model.Pod, c *model.Claim) (why string, loses bool) {
	switch {
	case p.Fatal != "":
		return "cannot start from its data: " + p.Fatal, s.Want.Persistent
	case p.Full && c != nil && !c.Grows(s.Want):
		return "has no room left on its disk, and " + c.Name + " is not being expanded", true
	}
	return "", false
}

// canSpare reports whether the healthy members are a quorum of those that there are without the given one. That goes without
// saying for one that is not healthy: the leader has its quorum without it.
func canSpare(s model.State, m model.Member) bool {
	if m.Learner {
		return true
	}
	voters, well := 0, 0
	for _, other := range s.Members {
		if other.Learner || other.ID == m.ID {
			continue
		}
		voters++
		if s.Healthy(other) {
			well++
		}
	}
	return voters > 0 && well >= model.Quorum(voters)
}

// handOver moves leadership away from a member, if it has it.
func handOver(s model.State, from model.Member, why string) (cluster.Plan, bool) {
	leader := s.Leader()
	if leader == nil || leader.ID != from.ID || !s.Healthy(*leader) {
		return cluster.Pass()
	}
	to := successor(s, leader.ID)
	if to == nil {
		return cluster.Pass()
	}
	name, next := s.Pod(from).Name, s.Pod(*to).Name
	return cluster.Do(steps.MoveLeader{From: name, To: to.ID, Pod: next}, "%s, the leader, %s: %s takes over first", name, why, next)
}

// via is a pod to speak to the quorum through, other than that of the given member where there is one.
func via(s model.State, but model.Member) string {
	if leader := s.Leader(); leader != nil && leader.ID != but.ID && s.Healthy(*leader) {
		return s.Pod(*leader).Name
	}
	for _, m := range s.Members {
		if m.ID != but.ID && !m.Learner && s.Healthy(m) {
			return s.Pod(m).Name
		}
	}
	return ""
}

// promote gives a learner that has caught up its vote.
func promote(s model.State) (cluster.Plan, bool) {
	leader := s.Leader()
	for _, m := range s.Members {
		if !m.Learner || !s.Healthy(m) || !s.Healthy(*leader) || s.Ordinal(m) >= s.Want.Size {
			continue
		}
		p, have, all := s.Pod(m), s.Pod(m).Status.Applied, s.Pod(*leader).Status.Applied
		if float64(have) < inSync*float64(all) {
			return cluster.Wait(ReasonCatchingUp, whileJoining, "%s is catching up: it has %d of %d log entries", p.Name, have, all)
		}
		return cluster.Do(steps.Promote{ID: m.ID, Name: p.Name, Via: s.Pod(*leader).Name}, "%s has caught up with the leader", p.Name)
	}
	return cluster.Pass()
}

// inSync is the part of the leader's log that etcd demands of a learner before it is promoted.
const inSync = 0.9

// rejoin takes the next step that brings a member back that the record has and the quorum does not.
func rejoin(s model.State) (cluster.Plan, bool) {
	p, _ := nextJoin(s)
	return p, p.Step != nil
}

// waitForRejoin waits for what keeps such a member from joining.
func waitForRejoin(s model.State) (cluster.Plan, bool) {
	p, ok := nextJoin(s)
	return p, ok && p.Step == nil
}

// nextJoin returns the next step for the members that the record has and the quorum does not, else
// what they wait for. The disk of such a member has the data of a member that was removed for good,
// from which etcd would not start. A member that cannot run does not keep the others from joining.
func nextJoin(s model.State) (cluster.Plan, bool) {
	first, waits := cluster.Pass()
	for i, r := range s.Record.Members[:min(len(s.Record.Members), s.Want.Size)] {
		if p := s.PodNamed(r.Name); s.Member(r.URL) != nil || (waits && (p == nil || p.Gate == nil)) {
			continue
		}
		plan, ok := join(s, i, r)
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
func join(s model.State, ordinal int, r model.Peer) (cluster.Plan, bool) {
	if p, ok := clearOrdinal(s, ordinal); ok {
		return p, true
	}
	p := s.PodNamed(r.Name)
	switch {
	case p == nil:
		return cluster.Wait(ReasonJoining, whileWaiting, "%s joins: it has no pod yet%s", r.Name, whyNotCreated(s, ordinal))
	case p.Stuck && p.Gate == nil:
		return cluster.Wait(ReasonJoining, whileWaiting, "%s does not join yet: it %s", r.Name, p.Problem)
	case !allVote(s):
		return cluster.Pass()
	}
	return cluster.Do(steps.AddLearner{Name: r.Name, URL: r.URL, Via: via(s, model.Member{})}, "%s joins, without a vote until it has the data", r.Name)
}

// clearOrdinal removes what an earlier member of an ordinal left.
func clearOrdinal(s model.State, ordinal int) (cluster.Plan, bool) {
	name := s.Want.Peers[ordinal].Name
	p, c := s.PodNamed(name), s.Claim(ordinal)
	used := p != nil && p.EverRan
	switch {
	case outlived(c, p):
		return cluster.Do(deleteClaim(*c), "%s holds the data of a member that has left the cluster", c.Name)
	case p != nil && (!p.Terminating || p.Gone) && (used || leaving(c) || p.Gate.Lost()):
		return cluster.Do(deletePod(*p), "%s belongs to a member that has left the cluster", p.Name)
	case p != nil && p.Terminating:
		return cluster.Wait(ReasonJoining, whileWaiting, "the former pod %s is being deleted", p.Name)
	case leaving(c):
		return cluster.Wait(ReasonJoining, whileWaiting, "the former claim %s is being deleted", c.Name)
	}
	return cluster.Pass()
}

// atOnce is how far apart the times of a pod and of its claim may be, which are made in this order: Kubernetes gives them in seconds, and its API
// servers have a clock each.
const atOnce = 5 * time.Second

// ranOn reports whether a pod may have run on a claim. One that was made after the pod is not its own: the pod is gone, and not everybody
// has heard of it.
func ranOn(p *model.Pod, c *model.Claim) bool { return p != nil && p.EverRan && c.Age+atOnce >= p.Age }

// isStranded reports whether a pod has waited for a node for long enough that it needs another volume.
func isStranded(c *model.Claim, p *model.Pod) bool {
	return c != nil && c.Stranded != "" && p.Age >= stranding
}

// outlived reports whether a claim is to be deleted after the member of its pod has left the cluster.
func outlived(c *model.Claim, p *model.Pod) bool {
	return c != nil && !c.Leaving && (c.Lost != "" || c.Stranded != "" || ranOn(p, c))
}

func leaving(c *model.Claim) bool { return c != nil && c.Leaving }

// allVote reports whether every member is a healthy voter: etcd adds a member only then, and one at a time.
func allVote(s model.State) bool {
	return !slices.ContainsFunc(s.Members, func(m model.Member) bool { return m.Learner || !s.Healthy(m) })
}

// removeDispensableSurplus takes the members out that spec.size does not ask for and that the cluster does not miss, before anything waits for
// them.
func removeDispensableSurplus(s model.State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		if i := s.Ordinal(m); i >= s.Want.Size && (m.Learner || !s.Healthy(m)) {
			name := s.Want.Peers[i].Name
			return cluster.Do(removeMember(s, m), "spec.size is %d, and %s has no vote or is not well", s.Want.Size, name)
		}
	}
	return cluster.Pass()
}

// recordRemoval removes the surplus member of the highest ordinal from the record, and so its pod,
// after etcd has removed it from the member list.
func recordRemoval(s model.State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	if have <= s.Want.Size || surplus(s) != nil {
		return cluster.Pass()
	}
	return cluster.Do(steps.Resize{From: have, To: have - 1}, "spec.size is %d: %s has left the cluster", s.Want.Size, s.Want.Peers[have-1].Name)
}

// bringBackLeaving brings the pod of a leaving member back when the others lost their quorum before it was removed: it has its data and its
// vote still.
func bringBackLeaving(s model.State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	c := s.Claim(have)
	if s.Members != nil || !s.Known() || readyPods(s) >= model.Quorum(have) || c == nil || c.Leaving || anyYoung(s) || starting(s) {
		return cluster.Pass()
	}
	return cluster.Do(steps.Resize{From: have, To: have + 1}, "no quorum of members answers, and %s, which was leaving, may still have a vote%s",
		s.Want.Peers[have].Name, troubles(s))
}

// surplus is the member of the highest ordinal, nil when the quorum lists none.
func surplus(s model.State) *model.Member {
	return s.Member(s.Record.Members[len(s.Record.Members)-1].URL)
}

// shrink takes the member of the highest ordinal out that spec.size does not ask for, after it has handed leadership over. Its
// pod ends first, because a member that is removed drops its clients. Of two members none can be spared: there it is removed
// first.
func shrink(s model.State) (cluster.Plan, bool) {
	have, m := len(s.Record.Members), surplus(s)
	if have <= s.Want.Size || m == nil {
		return cluster.Pass()
	}
	name := s.Want.Peers[have-1].Name
	if p, ok := handOver(s, *m, "is to leave"); ok {
		return p, true
	}
	if len(s.Members) > 2 {
		return cluster.Do(steps.Resize{From: have, To: have - 1}, "spec.size is %d, and the cluster has %d members: %s ends first", s.Want.Size, have, name)
	}
	return cluster.Do(removeMember(s, *m), "spec.size is %d, and the cluster has %d members", s.Want.Size, have)
}

// deleteLeftClaims deletes the claim of a member that left. It comes before such a claim could be taken for that of a new member.
// One without labels of the cluster stays: a user may have removed them to keep its data, see refuseUnlabelled.
func deleteLeftClaims(s model.State) (cluster.Plan, bool) {
	for _, c := range s.Claims {
		if c.Ordinal < len(s.Record.Members) || c.Ordinal >= len(s.Want.Peers) || c.Unlabelled {
			continue
		}
		name := s.Want.Peers[c.Ordinal].Name
		switch p := s.PodNamed(name); {
		case p != nil:
			return cluster.Wait(ReasonLeaving, whileWaiting, "%s has left the cluster; its pod is being deleted", name)
		case c.Leaving:
			return cluster.Wait(ReasonLeaving, whileWaiting, "claim %s of a member that has left is being deleted", c.Name)
		}
		return cluster.Do(deleteClaim(c), "%s holds the data of a member that has left the cluster", c.Name)
	}
	return cluster.Pass()
}

// grow makes room for one more member.
func grow(s model.State) (cluster.Plan, bool) {
	have := len(s.Record.Members)
	if have >= s.Want.Size || inTheWay(s) != nil {
		return cluster.Pass()
	}
	if p := s.PodNamed(s.Want.Peers[have].Name); p != nil {
		return cluster.Wait(ReasonLeaving, whileWaiting, "the former pod %s is being deleted", p.Name)
	}
	return cluster.Do(steps.Resize{From: have, To: have + 1}, "spec.size is %d, and the cluster has %d members", s.Want.Size, have)
}
