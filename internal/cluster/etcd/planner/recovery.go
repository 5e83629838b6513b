package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// A quorum that is lost for good comes back in four phases, each of which is written down before
// anything is done:
//
//	Reported  too many members have lost their data. Nothing is done until the plan is approved, by naming the
//	          incident, or until spec.recovery.automaticAfter has passed.
//	Held      every member ends, and none starts: each start gate reads how far the log of its member goes.
//	Started   the survivor whose log goes furthest keeps a copy of its data and goes on alone (see package etcdlog). The
//	          other gates quarantine the data of their members.
//	Over      the survivor leads. The others join again with empty disks, like any member that is replaced.
//
// A volume bears the incident that its data is from after (its epoch), so that every gate does its
// part once. That of the cluster never goes back: a loss that ends without a recovery leaves the
// epoch from before, and the same loss once more is another incident.

// Reasons for waiting and refusing, for conditions and events.
const (

	// ReasonAside says that an earlier cluster of the name has set its data aside, and left nothing else.
	ReasonAside = "DataSetAside"
)

// loss is what is left of a cluster when its quorum is lost for good.
type loss struct {
	incident string
	// voters there were at most.
	voters int
	// lost says why, one member after the other.
	lost []string
	// damaged have data that they cannot start from: it may be all that is left.
	damaged []string
	// survivors have their data and answer.
	survivors []*model.Pod
	// silent may have theirs and do not answer, by the names of their pods.
	silent []string
	// unsure have empty disks, and only those that are silent could tell whether they ever had a vote.
	unsure []string
}

// assess finds out what each member that has a vote has left. A member that its peers do not list, or that is a learner, has none.
func assess(s model.State) (l loss, forGood bool) {
	sum := sha256.New()
	_, _ = fmt.Fprint(sum, s.Record.Timeline()) // What was approved of an earlier loss, of the same volumes too, is no word on this one.
	anySilent := s.Known() && anySilent(s)
	for i, m := range s.Record.Members {
		p := s.PodNamed(m.Name)
		why := whyLost(p, s.Claim(i))
		switch {
		case !mayVote(p):
			continue
		case heldFor(p, model.GateNoPeers) && anySilent:
			l.unsure = append(l.unsure, m.Name)
		case why != "":
			l.lost = append(l.lost, m.Name+" "+why)
			c := ptr.Deref(s.Claim(i), model.Claim{})
			if c.Lost == "" && p.Fatal != "" {
				l.damaged = append(l.damaged, m.Name)
			}
			_, _ = fmt.Fprint(sum, " ", m.Name, "=", c.UID)
		case p != nil && p.Status != nil && !p.Terminating:
			l.survivors = append(l.survivors, p)
		case waitsForVolume(s, i):
			_, _ = fmt.Fprint(sum, " ", m.Name, "?") // With a volume it may have data, and what was approved without is no word on that.
		default:
			l.silent = append(l.silent, m.Name)
		}
		l.voters++
	}
	l.incident = hex.EncodeToString(sum.Sum(nil))[:6]
	return l, l.forGood(len(l.lost))
}

// forGood tells whether too few are left for a quorum, when so many have lost their data.
func (l loss) forGood(lost int) bool { return lost > l.voters-model.Quorum(l.voters) }

// mayVote tells whether nothing is known by which a member has no vote: that its peers do not list it, or that it is a learner.
func mayVote(p *model.Pod) bool {
	return !heldFor(p, model.GateNotMember) && (p == nil || p.Status == nil || !p.Status.Learner)
}

// heldFor tells whether the start gate holds a member back for a reason.
func heldFor(p *model.Pod, reason string) bool {
	return p != nil && p.Gate != nil && p.Gate.Reason == reason
}

// waitsForVolume tells whether a member of a cluster that exists has no data, because its claim has no volume yet. Whether it ever had a vote is not
// known then.
func waitsForVolume(s model.State, ordinal int) bool {
	c := s.Claim(ordinal)
	return s.Known() && c != nil && c.Pending
}

// anySilent tells whether a member does not answer that may have its data.
func anySilent(s model.State) bool {
	for i, m := range s.Record.Members {
		p := s.PodNamed(m.Name)
		answers := p != nil && !p.Terminating && (p.Status != nil || p.Gate != nil)
		if !answers && whyLost(p, s.Claim(i)) == "" && !waitsForVolume(s, i) {
			return true
		}
	}
	return false
}

// whyLost says why the data of a member cannot come back, empty while it can. Unlike evidence, it has no quorum to ask.
func whyLost(p *model.Pod, c *model.Claim) string {
	switch {
	case p != nil && p.Status != nil:
		return ""
	case c != nil && c.Lost != "":
		return "has lost its volume: " + c.Lost
	case p == nil || p.Terminating:
		return ""
	case p.Gate != nil && p.Gate.Reason != model.GateHeld:
		return "has an empty disk"
	case p.Fatal != "":
		return "cannot start from its data: " + p.Fatal
	}
	return ""
}

// reportLostQuorum stops where too many members have lost their data for the others to be a quorum: that does not heal by itself.
// What it would take to go on is said in full, and done only when somebody has read it, or has said beforehand that it may be.
func reportLostQuorum(s model.State) (cluster.Plan, bool) {
	if s.Members != nil {
		return cluster.Pass()
	}
	l, forGood := assess(s)
	if !forGood || s.Record.Restores() { // Nothing was there to lose.
		return cluster.Pass()
	}
	what := fmt.Sprintf("the quorum is lost for good: %s", strings.Join(l.lost, ", "))
	switch r := s.Record.Recovery; {
	case len(l.survivors)+len(l.silent) == 0 && len(l.damaged) > 0:
		return cluster.Refuse(steps.ReasonQuorumLost, "%s, and no member has data that it can start from. What is on the volume of %s may be all that is left: copy it "+
			"before anything else. Then bring the other volumes back, or restore a backup (create a Restore of this cluster)", what, strings.Join(l.damaged, " and "))
	case len(l.survivors)+len(l.silent) == 0:
		return cluster.Refuse(steps.ReasonQuorumLost, "%s, and no member has data. Bring the volumes back, restore a backup (create a Restore of this cluster), or delete the "+
			"cluster and its claims data-%s-* and create it again", what, s.Want.Name)
	case len(l.silent) > 0:
		return cluster.Wait(steps.ReasonQuorumLost, whileWaiting, "%s. What %s has is not known, because it %s%s",
			what, l.silent[0], trouble(s.PodNamed(l.silent[0])), cure(s, l))
	case slices.ContainsFunc(l.survivors, func(p *model.Pod) bool { return p.Status.Leader != 0 || s.Now.Sub(p.Started) < youth }):
		return cluster.Pass() // They may be about to find each other.
	case !s.Want.Persistent:
		return cluster.Refuse(steps.ReasonQuorumLost, "%s. Without spec.storage the data of %s goes with its pod, so it cannot be made to go on "+
			"alone: read what is left there, delete the cluster and create it again", what, l.survivors[0].Name)
	case r.Incident != l.incident:
		reported := model.Recovery{
			Incident: l.incident, Phase: model.RecoveryReported, Former: r.Epoch(), Since: s.Now.UTC().Truncate(time.Second), Candidates: names(l.survivors),
		}
		return cluster.Do(steps.SetRecovery{To: reported}, "%s", what)
	default:
		return propose(s, r, l, what)
	}
}

// cure says what to do about a member that does not answer. Where no other has data, that one's may be the only copy.
func cure(s model.State, l loss) string {
	const restore = "restore a backup (create a Restore of this cluster)"
	switch {
	case !s.Known(), s.Want.Persistent && len(l.survivors) > 0:
		return "; if its data cannot come back, delete its claim and its pod"
	case !s.Want.Persistent:
		return ". Bring its node back, and keep its pod, which has its data; if it cannot come back, " + restore
	}
	return ", and no other member has data to start from. Bring its node or its volume back, and keep its claim; if its data cannot come back, " + restore
}

// inDoubt says what to do where the quorum is lost for good if all members with empty disks had a vote, empty otherwise. Whether they had is known
// to none that answers.
func inDoubt(s model.State) string {
	l, _ := assess(s)
	if len(l.unsure) == 0 || len(l.silent) == 0 || starting(s) || !l.forGood(len(l.lost)+len(l.unsure)) {
		return ""
	}
	return fmt.Sprintf(". Whether %s had data is not known while %s does not answer%s", strings.Join(l.unsure, " and "), l.silent[0], cure(s, l))
}

// propose says what would be done, and does it when that is approved.
func propose(s model.State, r model.Recovery, l loss, what string) (cluster.Plan, bool) {
	after, wait := s.Want.RecoverAfter, time.Duration(0)
	held := r
	held.Phase = model.RecoveryHeld
	if after > 0 {
		wait = after - s.Now.Sub(r.Since)
	}
	switch {
	case s.Want.Approved == r.Incident:
		return cluster.Do(steps.SetRecovery{To: held}, "plan %s is approved: all members end, and what they have is compared", r.Incident)
	case after > 0 && wait <= 0:
		return cluster.Do(steps.SetRecovery{To: held}, "%s have passed since the quorum was lost (spec.recovery.automaticAfter): all members end, "+
			"and what they have is compared", after)
	}
	p, ok := cluster.Refuse(steps.ReasonQuorumLost, "%s. Plan %s: %s%s; a copy of its data is kept, and the others join again with empty "+
		"disks, next to what they have now. %s. %s", what, r.Incident, strings.Join(names(l.survivors), " or "), goesOn(l), wouldLose(s, l), howToApprove(s, r, wait))
	p.After = wait
	return p, ok
}

func goesOn(l loss) string {
	if len(l.survivors) > 1 {
		return ", whichever has the longest log, goes on as the only member"
	}
	return " goes on as the only member"
}

// wouldLose compares what the survivors have with what was seen of the cluster before.
func wouldLose(s model.State, l loss) string {
	have := int64(0)
	for _, p := range l.survivors {
		have = max(have, p.Status.Revision)
	}
	seen := s.Maintenance.Newest
	switch {
	case seen.Revision > have:
		return fmt.Sprintf("It has revision %d, %d less than was seen at %s: those changes are lost", have, seen.Revision-have, seen.At.UTC().Format(time.TimeOnly))
	case seen.Revision > 0:
		return fmt.Sprintf("It has revision %d, and no later one was seen", have)
	}
	return fmt.Sprintf("It has revision %d; whether there was a later one is not known", have)
}

func howToApprove(s model.State, r model.Recovery, wait time.Duration) string {
	how := "To do that: " + cluster.ToAnnotate("etcdclusters", s.Want.Namespace, s.Want.Name, v1alpha1.AnnotationRecover, r.Incident)
	if wait > 0 {
		return how + fmt.Sprintf("; it is done by itself at %s (spec.recovery.automaticAfter)", s.Now.Add(wait).UTC().Format(time.TimeOnly))
	}
	return how + ". Or bring the volumes back"
}

func names(pods []*model.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// recoverQuorum carries on with a recovery that has begun. Until it is over, nothing else is done but what the rules before it do: to
// let a pod run that cannot, and to give a volume more room.
func recoverQuorum(s model.State) (cluster.Plan, bool) {
	r := s.Record.Recovery
	switch {
	case r.Phase == model.RecoveryReported && s.Members != nil:
		return cluster.Do(steps.SetRecovery{To: r.Healed()}, "the quorum is back")
	case r.Phase == model.RecoveryHeld && r.Restore != nil:
		return holdForRestore(s, r)
	case r.Phase == model.RecoveryStarted && r.Restore != nil:
		return foundFromBackup(s)
	case r.Phase == model.RecoveryHeld:
		return holdForRecovery(s, r)
	case r.Phase == model.RecoveryStarted && s.Members != nil:
		over := r
		over.Phase = model.RecoveryOver
		return cluster.Do(steps.SetRecovery{To: over}, "%s goes on as the only member, and the others join it again. A copy of its data from before is "+
			"in %s of its volume, and what others had in the same place of theirs", r.Survivor, model.CopyName(r.Incident))
	case r.Phase == model.RecoveryStarted:
		return awaitSurvivor(s, r)
	}
	return cluster.Pass()
}

// holdForRecovery ends every member and waits until the start gates have told what there is. A member that lost its data or got no volume has nothing to tell.
func holdForRecovery(s model.State, r model.Recovery) (cluster.Plan, bool) {
	for i, m := range s.Record.Members {
		p, c := s.PodNamed(m.Name), s.Claim(i)
		switch {
		case p != nil && p.EverRan && (!p.Terminating || p.Gone):
			return cluster.Do(deletePod(*p), "%s ends, because recovery %s compares what the members have", p.Name, r.Incident)
		case c != nil && c.Lost != "", waitsForVolume(s, i):
		case p == nil || p.Terminating || p.Gate == nil:
			return cluster.Wait(steps.ReasonRecovering, whileWaiting, "recovery %s waits for the start gate of %s to say what there is: it %s", r.Incident, m.Name, trouble(p))
		}
	}
	best := longest(s, r.Candidates)
	if best == nil {
		return cluster.Refuse(steps.ReasonRecovering, "recovery %s finds no log that it could go on from: bring volumes back, restore a backup (create a Restore of this "+
			"cluster), or delete the cluster and its claims data-%s-* and create it again", r.Incident, s.Want.Name)
	}
	next := r
	next.Phase, next.Survivor = model.RecoveryStarted, best.Name
	return cluster.Do(steps.SetRecovery{To: next}, "%s has the longest log (entry %d of term %d) and goes on alone", best.Name, best.Gate.Log.Index, best.Gate.Log.Term)
}

// longest is the pod whose gate tells of the longest log, of those that may go on.
func longest(s model.State, candidates []string) *model.Pod {
	var best *model.Pod
	for i, p := range s.Pods {
		if p.Gate == nil || p.Gate.Log == nil || !slices.Contains(candidates, p.Name) {
			continue
		}
		if best == nil || best.Gate.Log.Less(*p.Gate.Log) {
			best = &s.Pods[i]
		}
	}
	return best
}

// awaitSurvivor replaces the pods whose gates do not know yet who the survivor is.
func awaitSurvivor(s model.State, r model.Recovery) (cluster.Plan, bool) {
	for _, p := range s.Pods {
		if p.Gate != nil && p.Gate.Reason == model.GateHeld && (!p.Terminating || p.Gone) {
			return cluster.Do(deletePod(p), "%s was held back by recovery %s, which goes on with %s", p.Name, r.Incident, r.Survivor)
		}
	}
	survivor := s.PodNamed(r.Survivor)
	if survivor != nil && survivor.Fatal != "" {
		return cluster.Refuse(steps.ReasonRecovering, "%s cannot start as the only member: %s. A copy of its data from before is in %s of its volume",
			r.Survivor, survivor.Fatal, model.CopyName(r.Incident))
	}
	return cluster.Wait(steps.ReasonRecovering, whileStarting, "%s starts as the only member; for now it %s", r.Survivor, trouble(survivor))
}

// refuseQuarantinedData stops where members of an earlier cluster of this name have quarantined their
// data, and have nothing else: it was deleted during an in-place restore. Their disks are empty, and
// that cluster was not.
func refuseQuarantinedData(s model.State) (cluster.Plan, bool) {
	if s.Members != nil {
		return cluster.Pass()
	}
	var held []string
	for _, p := range s.Pods {
		if !p.Terminating && p.Gate != nil && p.Gate.Reason == model.GateAside {
			held = append(held, p.Gate.Message)
		}
	}
	if s.Known() || len(held) == 0 {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonAside, "an earlier cluster of this name was deleted while it began anew, and no member founds a new one: %s. "+
		"Go back to that (docs/recovery.md). To give it up, delete the cluster and its claims data-%s-*, and create it again, with spec.bootstrap.restore or empty",
		strings.Join(held, "; "), s.Want.Name)
}
