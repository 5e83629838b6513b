package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// Reasons for waiting and refusing, for conditions and events.
const (

	// ReasonCorrupt says that the data of members differs.
	ReasonCorrupt = "DataDiffers"
)

const (
	// fullShare of the quota is what a database may have at most for a NOSPACE alarm to be disarmed: right below the quota
	// the next few writes would raise it again.
	fullShare = 0.9
	// curableShare of the quota is what may be in use at most for a defragmentation to be worth its while.
	curableShare = 0.85
	// restBetween is how long a member is left alone after a defragmentation, and restInNeed while its quota is reached. A
	// database that fills up again at once keeps some of its history for that long, too.
	restBetween = time.Hour
	restInNeed  = 10 * time.Minute
	// compactionTime is how long etcd may take to throw history away before that counts as done.
	compactionTime = time.Minute
	// maxLag in raft entries is what a member may have yet to apply for the next one to be restarted or defragmented. At 5000 etcd
	// itself refuses requests (maxGapBetweenApplyAndCommitIndex in server/etcdserver/v3_server.go).
	maxLag = 1000
	// maxAtOnce is in how many clusters a member may be defragmented at the same time: they may share their disks.
	maxAtOnce = 4
)

// keepServing decides on the pods that other rules cannot judge. While the operator waits for a
// defragmentation, nothing else is done: the member does not answer, and that must not count as a
// fault. A member that is not about to be defragmented belongs in the client Service, except during
// a restore in place.
func keepServing(s model.State, p cluster.Plan) (_ cluster.Plan, replaced bool) {
	for _, pod := range s.Pods {
		if d := pod.Defragmentation; d != nil && d.End.IsZero() {
			wait, _ := cluster.Wait(steps.ReasonDefragmenting, whileStarting, "%s is being defragmented: %s", pod.Name, model.Bytes(d.Before))
			return wait, true
		}
	}
	for _, pod := range s.Pods {
		if !pod.Drained || pod.Terminating || restoresInPlace(s) {
			continue
		}
		if next, ok := p.Step.(steps.Defragment); ok && next.Pod == pod.Name {
			continue
		}
		again, _ := cluster.Do(steps.ServeAgain{Pod: pod.Name, UID: pod.UID}, "%s", comeBack(pod, s.Now))
		return again, true
	}
	return p, false
}

// Renewal is a plan whose step takes a pod back into the client Service, without one where none was left out. It is carried out while the cluster
// is paused, when no defragmentation begins.
func Renewal(s model.State) cluster.Plan {
	p, _ := keepServing(s, cluster.Plan{})
	return p
}

// comeBack says why a pod is taken back into the client Service.
func comeBack(p model.Pod, now time.Time) string {
	d := p.Defragmentation
	switch {
	case d == nil || now.Sub(d.End) > time.Minute:
		return p.Name + " is not being defragmented, so clients may use it"
	case d.Err != nil:
		return fmt.Sprintf("the defragmentation of %s failed after %s: %v", p.Name, took(d), d.Err)
	}
	return fmt.Sprintf("defragmented %s in %s, during which it served nobody: %s to %s", p.Name, took(d), model.Bytes(d.Before), model.Bytes(d.After))
}

func took(d *model.Defragmentation) time.Duration { return d.End.Sub(d.Begin).Round(time.Millisecond) }

// defragmentWhereWorthIt defragments the member that gains most, when no change is due.
func defragmentWhereWorthIt(s model.State) (cluster.Plan, bool) {
	policy := s.Want.Maintenance
	if !policy.Defragment || (policy.Window == nil && len(s.Members) == 1) || (policy.Window != nil && !policy.Window.Open(s.Now)) {
		return cluster.Pass()
	}
	var due []model.Pod
	for _, p := range memberPods(s) {
		if policy.WorthIt(*p.Status) && rested(s, p, restBetween) {
			due = append(due, p)
		}
	}
	if len(due) == 0 || s.Maintenance.Elsewhere >= maxAtOnce || leadsAlone(s, due) {
		return cluster.Pass()
	}
	return defragment(s, due, true, "")
}

// leadsAlone reports whether only the leader is due and all others are on nodes that are being emptied: it could hand over to
// nobody who would not give leadership back.
func leadsAlone(s model.State, due []model.Pod) bool {
	leader := s.Leader()
	to := successor(s, leader.ID)
	return len(due) == 1 && due[0].Name == s.Pod(*leader).Name && due[0].Cordoned == "" && to != nil && s.Pod(*to).Cordoned != ""
}

// rested reports whether a member has been left alone for long enough since its last defragmentation.
func rested(s model.State, p model.Pod, rest time.Duration) bool {
	d := p.Defragmentation
	return d == nil || s.Now.Sub(d.End) >= rest
}

// defragment takes the next of the given members: followers from the lowest ordinal, and the leader once it has handed over.
// drain keeps clients away before, unless there is no other member: where no member takes writes that would only cost time.
func defragment(s model.State, due []model.Pod, drain bool, why string) (cluster.Plan, bool) {
	leader := s.Leader()
	p := due[0]
	for _, other := range due {
		if s.Pod(*leader).Name != other.Name {
			p = other
			break
		}
	}
	if to := successor(s, leader.ID); to != nil && s.Pod(*leader).Name == p.Name {
		return cluster.Do(steps.MoveLeader{From: p.Name, To: to.ID, Pod: s.Pod(*to).Name},
			"%s, the leader, is to be defragmented%s: %s takes over first", p.Name, why, s.Pod(*to).Name)
	}
	gain := fmt.Sprintf("%s of %s is free", model.Bytes(p.Status.DBSize-p.Status.DBInUse), model.Bytes(p.Status.DBSize))
	if drain && len(s.Members) > 1 && !p.Drained {
		return cluster.Do(steps.DrainMember{Pod: p.Name, UID: p.UID}, "%s is to be defragmented%s: %s", p.Name, why, gain)
	}
	return cluster.Do(steps.Defragment{Pod: p.Name, Size: p.Status.DBSize}, "%s is defragmented%s: %s", p.Name, why, gain)
}

// memberPods are the pods of the members that answer and have a vote: all of them, once the rules that wait for that have passed.
func memberPods(s model.State) []model.Pod {
	var out []model.Pod
	for _, m := range voting(s) {
		if s.Healthy(m) {
			out = append(out, *s.Pod(m))
		}
	}
	return out
}

// raised returns an alarm of the given type, nil when there is none.
func raised(s model.State, typ string) *model.Alarm {
	for _, a := range s.Alarms() {
		if a.Type == typ {
			return &a
		}
	}
	return nil
}

// healSpace lets a cluster write again whose database was full. It comes after the rollout, which may bring a larger quota.
// A sweep that was interrupted is taken up where it ended: each step depends on the sizes alone.
func healSpace(s model.State) (cluster.Plan, bool) { return freeSpace(s) }

// freeSpace returns the next step, wait or refusal on the way to a database below its quota.
func freeSpace(s model.State) (cluster.Plan, bool) {
	a := raised(s, model.AlarmNoSpace)
	if a == nil {
		return cluster.Pass()
	}
	full := full(s)
	if len(full) == 0 {
		return cluster.Do(steps.Disarm{Pod: s.Pod(*s.Leader()).Name, Alarm: *a}, "every database is below %d %% of its quota of %s again",
			int(fullShare*100), model.Bytes(s.Want.Maintenance.Quota))
	}
	if !s.Want.Maintenance.Defragment {
		return refuseSpace(s, full[0], "spec.maintenance.defragmentation.mode is Disabled, so it is not cured")
	}
	var curable []model.Pod
	for _, p := range full {
		if isCurable(s, p) {
			curable = append(curable, p)
		}
	}
	switch {
	case len(curable) > 0 && s.Maintenance.Elsewhere >= maxAtOnce:
		return cluster.Wait(steps.ReasonDefragmenting, whileWaiting, "%s is full and waits while other clusters are defragmented", curable[0].Name)
	case len(curable) > 0:
		return defragment(s, curable, false, ", because its quota is reached")
	}
	return makeRoom(s, full[0])
}

// healSpaceWhileUnhealthy heals those that answer while others are not there, which everything else waits for: no write gets through
// until it is done. That goes also where they are only just a quorum. A member that is defragmented keeps clients waiting, but it
// goes on to append and to vote (https://github.com/etcd-io/etcd/issues/15477), and the leader has handed over before. What
// has to be waited for or told is left to the other rules; and so is all of it while a member has outdated settings, since
// these may have a smaller quota than the specification, by which nothing can be judged.
func healSpaceWhileUnhealthy(s model.State) (cluster.Plan, bool) {
	if whole := allHealthy(s) && len(s.Members) == len(s.Record.Members); whole || !s.Healthy(*s.Leader()) {
		return cluster.Pass()
	}
	if slices.ContainsFunc(memberPods(s), s.Outdated) || maybeBusy(s) {
		return cluster.Pass()
	}
	p, _ := freeSpace(s)
	return p, p.Step != nil
}

// maybeBusy reports whether a member that does not answer may be one that is still being defragmented: that was begun by an operator before
// this one, or has been given up as too slow.
func maybeBusy(s model.State) bool {
	largest := int64(0)
	for _, p := range memberPods(s) {
		largest = max(largest, p.Status.DBSize)
	}
	return s.Now.Sub(s.Maintenance.Since) < steps.DefragmentationLimit(largest) ||
		slices.ContainsFunc(s.Pods, func(p model.Pod) bool { return p.Status == nil && !rested(s, p, restInNeed) })
}

// isCurable reports whether a defragmentation makes a database small enough. After a compaction it is tried whatever the member
// says is in use: with 3.5 it may tell of the compaction after its next write only, and writes are refused.
func isCurable(s model.State, p model.Pod) bool {
	up := s.Maintenance
	compacted := up.Compacted != nil && *up.Compacted && !up.LastCompaction.IsZero() && s.Now.Sub(up.LastCompaction) >= compactionTime
	if compacted && (p.Defragmentation == nil || p.Defragmentation.End.Before(up.LastCompaction)) {
		return true
	}
	return hasRoom(s, p) && rested(s, p, restInNeed)
}

// hasRoom reports whether enough of the quota is free inside the database.
func hasRoom(s model.State, p model.Pod) bool {
	return float64(p.Status.DBInUse) < curableShare*float64(s.Want.Maintenance.Quota)
}

// full are the pods whose database is too large for its quota, and would be as it is.
func full(s model.State) []model.Pod {
	return slices.DeleteFunc(memberPods(s), func(p model.Pod) bool { return !tooMuch(s, p.Status.DBSize) })
}

func tooMuch(s model.State, size int64) bool {
	return float64(size) >= fullShare*float64(s.Want.Maintenance.Quota)
}

// makeRoom throws the history of a database away that is full of data. Clients can still read what is there now; a watcher
// that has not seen all of the history yet has to start anew. While writes are refused there are few of those.
func makeRoom(s model.State, p model.Pod) (cluster.Plan, bool) {
	up := s.Maintenance
	switch {
	case hasRoom(s, p) && p.Defragmentation.Err != nil:
		return refuseSpace(s, p, fmt.Sprintf("its defragmentation failed and is tried again after %s (%v)", restInNeed, p.Defragmentation.Err))
	case hasRoom(s, p):
		return refuseSpace(s, p, fmt.Sprintf("it was defragmented less than %s ago", restInNeed))
	case s.Want.Maintenance.KeepsHistory:
		return refuseSpace(s, p, `spec.config.autoCompactionRetention is "0", so its history is kept: compact by hand`)
	case up.Compacted == nil:
		return cluster.Wait(ReasonAlarm, whileWaiting, "the database of %s is full; waiting for etcd to tell whether history is left", p.Name)
	case *up.Compacted && s.Now.Sub(up.LastCompaction) < compactionTime:
		return cluster.Wait(ReasonAlarm, whileWaiting, "the database of %s is full; waiting for its history to be thrown away", p.Name)
	case *up.Compacted:
		return refuseSpace(s, p, "no history is left to throw away")
	case s.Now.Sub(up.LastCompaction) < restInNeed:
		return refuseSpace(s, p, fmt.Sprintf("its history was thrown away less than %s ago", restInNeed))
	}
	via := s.Pod(*s.Leader())
	return cluster.Do(steps.Compact{Pod: via.Name, Revision: via.Status.Revision}, "the database of %s has reached its quota of %s: its history is thrown away",
		p.Name, model.Bytes(s.Want.Maintenance.Quota))
}

func refuseSpace(s model.State, p model.Pod, why string) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonAlarm, "etcd refuses writes: the database of %s has %s, %s of it in use, and its quota is %s; %s. "+
		"Delete keys, or raise spec.config.quotaBackendBytes%s", p.Name, model.Bytes(p.Status.DBSize), model.Bytes(p.Status.DBInUse),
		model.Bytes(s.Want.Maintenance.Quota), why, largest(s.Maintenance.Largest))
}

// maxNamed is how many groups of keys a message names.
const maxNamed = 3

func largest(groups []model.KeyGroup) string {
	var parts []string
	for _, g := range groups[:min(len(groups), maxNamed)] {
		parts = append(parts, fmt.Sprintf("%q with %d keys, about %s", g.Prefix, g.Keys, model.Bytes(g.Bytes)))
	}
	if len(parts) == 0 {
		return ""
	}
	return ". Most space is taken by " + strings.Join(parts, "; ")
}

// checkCorruption looks at the alarm that members differ: a restart could spread what is wrong. The alarm may name the wrong
// member (https://github.com/etcd-io/etcd/issues/14849), so what counts are hashes of all voters at one revision. A member
// that differs from the majority is to be replaced; when all agree, because it has been or never was wrong, the alarm is
// disarmed. A learner has no hash to prove the alarm wrong with, and begins anew.
func checkCorruption(s model.State) (cluster.Plan, bool) {
	a := corruption(s)
	if a == nil {
		return cluster.Pass()
	}
	differ := slices.IndexFunc(s.Pods, func(p model.Pod) bool { return p.Corrupt })
	switch {
	case differ >= 0:
		return cluster.Refuse(ReasonCorrupt, "the data of %s differs from that of the majority (%s): it has to be replaced",
			s.Pods[differ].Name, hashes(s))
	case agree(s) && learner(s, a.MemberID) != nil:
		m := *learner(s, a.MemberID)
		return cluster.Do(removeMember(s, m),
			"etcd has raised the alarm %s for %s, which has no vote yet: it is removed, and added again with an empty disk", a.Type, s.Name(m.ID))
	case agree(s):
		return cluster.Do(steps.Disarm{Pod: s.Speaker(s.Leader()).Name, Alarm: *a}, "the data of all members with a vote is the same (%s), so the alarm %s is over", hashes(s), a.Type)
	case compared(s):
		return cluster.Refuse(ReasonCorrupt, "etcd has raised the alarm %s, and no majority of the members has the same data (%s): "+
			"find out which of them is right and create the cluster again from it", a.Type, hashes(s))
	}
	return cluster.Refuse(ReasonAlarm, "etcd has raised the alarm %s for %s: its data may differ from the others (%s)",
		a.Type, s.Name(a.MemberID), hashes(s))
}

// corruption is the alarm that members differ, nil when there is none.
func corruption(s model.State) *model.Alarm {
	for _, a := range s.Alarms() {
		if a.Type != model.AlarmNoSpace {
			return &a
		}
	}
	return nil
}

// Compare marks the pods whose data differs from that of a majority of the voters.
func Compare(s *model.State) {
	voters, _ := s.Voters()
	votes := map[model.Hash]int{}
	for _, m := range s.Members {
		if p := s.Pod(m); p != nil && p.Hash != nil && !m.Learner {
			votes[*p.Hash]++
		}
	}
	for right, n := range votes {
		if n < model.Quorum(voters) {
			continue
		}
		for i := range s.Pods {
			h := s.Pods[i].Hash
			// What was hashed at another revision says nothing.
			same := h != nil && h.Revision == right.Revision && h.CompactRevision == right.CompactRevision
			s.Pods[i].Corrupt = same && h.Sum != right.Sum
		}
	}
}

// voting are the members that have a vote. A learner tells no hash: it gets what the leader has.
func voting(s model.State) []model.Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m model.Member) bool { return m.Learner })
}

// learner returns the learner of an id, nil when there is none.
func learner(s model.State, id uint64) *model.Member {
	for i, m := range s.Members {
		if m.Learner && m.ID == id {
			return &s.Members[i]
		}
	}
	return nil
}

// compared reports whether the hash of every voter is known.
func compared(s model.State) bool {
	return !slices.ContainsFunc(voting(s), func(m model.Member) bool { p := s.Pod(m); return p == nil || p.Hash == nil })
}

// agree reports whether all voters are known to have the same data.
func agree(s model.State) bool {
	voters := voting(s)
	return compared(s) && !slices.ContainsFunc(voters, func(m model.Member) bool { return *s.Pod(m).Hash != *s.Pod(voters[0]).Hash })
}

func hashes(s model.State) string {
	var parts []string
	for _, m := range voting(s) {
		text := "unknown"
		if p := s.Pod(m); p != nil && p.Hash != nil {
			text = fmt.Sprintf("%08x at revision %d", p.Hash.Sum, p.Hash.Revision)
		}
		parts = append(parts, s.Name(m.ID)+" "+text)
	}
	return "hashes: " + strings.Join(parts, ", ")
}
