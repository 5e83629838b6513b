package etcd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// Reasons for waiting and refusing, for conditions and events.
const (
	// ReasonDefragmenting says that a member is being defragmented.
	ReasonDefragmenting = "DefragmentingMember"
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

// Sighting is a revision that a cluster was seen to have.
type Sighting struct {
	Revision int64
	At       time.Time
}

// Upkeep is what was observed for maintenance beside what the members say. All but Since, Forecast and Newest is of use with an alarm only.
type Upkeep struct {
	// Since is from when on the operator remembers what it began, zero: from the beginning.
	Since time.Time
	// Elsewhere is how many other clusters are being defragmented.
	Elsewhere int
	// Compacted says that there is no history left to throw away, nil when that is unknown.
	Compacted *bool
	// LastCompaction that the operator asked for, zero when it remembers none.
	LastCompaction time.Time
	// Largest groups of keys.
	Largest  []KeyGroup
	Forecast anomaly.Forecast
	// Newest is what was last seen of a cluster with a leader, for a human to judge what is lost with a quorum.
	Newest Sighting
}

// Defragmentation is one that this operator began.
type Defragmentation struct {
	Begin time.Time
	// End is zero while it lasts.
	End           time.Time
	Before, After int64
	Err           error
}

// Defragment gives free space of the member in a pod back to the file system. It takes up to DefragmentationLimit, and is
// waited for in the background.
type Defragment struct {
	Pod string
	// Size of the database in bytes.
	Size int64
}

// DrainMember takes a pod out of the client Service.
type DrainMember struct{ Pod, UID string }

// ServeAgain takes a pod back into the client Service.
type ServeAgain struct{ Pod, UID string }

// Compact throws the history before a revision away, through the given pod.
type Compact struct {
	Pod      string
	Revision int64
}

// Disarm takes an alarm back, through the given pod.
type Disarm struct {
	Pod   string
	Alarm Alarm
}

func (s Defragment) String() string  { return "defragment " + s.Pod }
func (s DrainMember) String() string { return "take " + s.Pod + " out of the client Service" }
func (s ServeAgain) String() string  { return "take " + s.Pod + " back into the client Service" }
func (s Compact) String() string     { return fmt.Sprintf("compact to revision %d", s.Revision) }
func (s Disarm) String() string {
	return fmt.Sprintf("disarm %s of member %s", s.Alarm.Type, FormatID(s.Alarm.MemberID))
}

// DefragmentationLimit is how long the operator waits for the defragmentation of a database: half a minute, and a second for
// each 10 MiB. An ordinary disk does 200 MiB in that second. etcd goes on behind the limit.
func DefragmentationLimit(size int64) time.Duration {
	return 30*time.Second + time.Duration(size/(10<<20))*time.Second
}

// keepServing looks after what the other rules know nothing of. While the operator waits for a defragmentation, nothing else
// is done: the member does not answer, and that must not be taken for a fault. And a member that is not about to be
// defragmented, for whatever reason, belongs into the client Service, unless the cluster is being founded anew.
func keepServing(s State, p cluster.Plan) (_ cluster.Plan, replaced bool) {
	for _, pod := range s.Pods {
		if d := pod.Defragmentation; d != nil && d.End.IsZero() {
			wait, _ := cluster.Wait(ReasonDefragmenting, whileStarting, "%s is being defragmented: %s", pod.Name, bytes(d.Before))
			return wait, true
		}
	}
	for _, pod := range s.Pods {
		if !pod.Drained || pod.Terminating || s.beginsAnew() {
			continue
		}
		if next, ok := p.Step.(Defragment); ok && next.Pod == pod.Name {
			continue
		}
		again, _ := cluster.Do(ServeAgain{pod.Name, pod.UID}, "%s", pod.comeBack(s.Now))
		return again, true
	}
	return p, false
}

// Renewal is a plan whose step takes a pod back into the client Service, without one where none was left out. It is carried out while the cluster
// is paused, when no defragmentation begins.
func Renewal(s State) cluster.Plan {
	p, _ := keepServing(s, cluster.Plan{})
	return p
}

// comeBack says why a pod is taken back into the client Service.
func (p Pod) comeBack(now time.Time) string {
	d := p.Defragmentation
	switch {
	case d == nil || now.Sub(d.End) > time.Minute:
		return p.Name + " is not being defragmented, so clients may use it"
	case d.Err != nil:
		return fmt.Sprintf("the defragmentation of %s failed after %s: %v", p.Name, took(d), d.Err)
	}
	return fmt.Sprintf("defragmented %s in %s, during which it served nobody: %s to %s", p.Name, took(d), bytes(d.Before), bytes(d.After))
}

func took(d *Defragmentation) time.Duration { return d.End.Sub(d.Begin).Round(time.Millisecond) }

// defragmentWhereWorthIt defragments the member that gains most, when no change is due.
func defragmentWhereWorthIt(s State) (cluster.Plan, bool) {
	policy := s.Want.Maintenance
	if !policy.Defragment || (policy.Window == nil && len(s.Members) == 1) || (policy.Window != nil && !policy.Window.Open(s.Now)) {
		return cluster.Pass()
	}
	var due []Pod
	for _, p := range s.memberPods() {
		if policy.worthIt(*p.View) && s.rested(p, restBetween) {
			due = append(due, p)
		}
	}
	if len(due) == 0 || s.Upkeep.Elsewhere >= maxAtOnce || s.leadsAlone(due) {
		return cluster.Pass()
	}
	return s.defragment(due, true, "")
}

// leadsAlone reports whether only the leader is due and all others are on nodes that are being emptied: it could hand over to
// nobody who would not give leadership back.
func (s State) leadsAlone(due []Pod) bool {
	leader := s.leader()
	to := successor(s, leader.ID)
	return len(due) == 1 && due[0].Name == s.pod(*leader).Name && due[0].Cordoned == "" && to != nil && s.pod(*to).Cordoned != ""
}

// rested reports whether a member has been left alone for long enough since its last defragmentation.
func (s State) rested(p Pod, rest time.Duration) bool {
	d := p.Defragmentation
	return d == nil || s.Now.Sub(d.End) >= rest
}

// defragment takes the next of the given members: followers from the lowest ordinal, and the leader once it has handed over.
// drain keeps clients away before, unless there is no other member: where no member takes writes that would only cost time.
func (s State) defragment(due []Pod, drain bool, why string) (cluster.Plan, bool) {
	leader := s.leader()
	p := due[0]
	for _, other := range due {
		if s.pod(*leader).Name != other.Name {
			p = other
			break
		}
	}
	if to := successor(s, leader.ID); to != nil && s.pod(*leader).Name == p.Name {
		return cluster.Do(MoveLeader{From: p.Name, To: to.ID, Pod: s.pod(*to).Name},
			"%s, the leader, is to be defragmented%s: %s takes over first", p.Name, why, s.pod(*to).Name)
	}
	gain := fmt.Sprintf("%s of %s is free", bytes(p.View.DBSize-p.View.DBInUse), bytes(p.View.DBSize))
	if drain && len(s.Members) > 1 && !p.Drained {
		return cluster.Do(DrainMember{p.Name, p.UID}, "%s is to be defragmented%s: %s", p.Name, why, gain)
	}
	return cluster.Do(Defragment{p.Name, p.View.DBSize}, "%s is defragmented%s: %s", p.Name, why, gain)
}

// memberPods are the pods of the members that answer and have a vote: all of them, once the rules that wait for that have passed.
func (s State) memberPods() []Pod {
	var out []Pod
	for _, m := range s.voting() {
		if s.healthy(m) {
			out = append(out, *s.pod(m))
		}
	}
	return out
}

// raised returns an alarm of the given type, nil when there is none.
func (s State) raised(typ string) *Alarm {
	for _, a := range s.alarms() {
		if a.Type == typ {
			return &a
		}
	}
	return nil
}

// healSpace lets a cluster write again whose database was full. It comes after the rollout, which may bring a larger quota.
// A sweep that was interrupted is taken up where it ended: each step depends on the sizes alone.
func healSpace(s State) (cluster.Plan, bool) { return s.freeSpace() }

// freeSpace returns the next step, wait or refusal on the way to a database below its quota.
func (s State) freeSpace() (cluster.Plan, bool) {
	a := s.raised(AlarmNoSpace)
	if a == nil {
		return cluster.Pass()
	}
	full := s.full()
	if len(full) == 0 {
		return cluster.Do(Disarm{s.pod(*s.leader()).Name, *a}, "every database is below %d %% of its quota of %s again",
			int(fullShare*100), bytes(s.Want.Maintenance.Quota))
	}
	if !s.Want.Maintenance.Defragment {
		return s.refuseSpace(full[0], "spec.maintenance.defragmentation.mode is Disabled, so it is not cured")
	}
	var curable []Pod
	for _, p := range full {
		if s.curable(p) {
			curable = append(curable, p)
		}
	}
	switch {
	case len(curable) > 0 && s.Upkeep.Elsewhere >= maxAtOnce:
		return cluster.Wait(ReasonDefragmenting, whileWaiting, "%s is full and waits while other clusters are defragmented", curable[0].Name)
	case len(curable) > 0:
		return s.defragment(curable, false, ", because its quota is reached")
	}
	return s.makeRoom(full[0])
}

// healSpaceWhileUnhealthy heals those that answer while others are not there, which everything else waits for: no write gets through
// until it is done. That goes also where they are only just a quorum. A member that is defragmented keeps clients waiting, but it
// goes on to append and to vote (https://github.com/etcd-io/etcd/issues/15477), and the leader has handed over before. What
// has to be waited for or told is left to the other rules; and so is all of it while a member has outdated settings, since
// these may have a smaller quota than the specification, by which nothing can be judged.
func healSpaceWhileUnhealthy(s State) (cluster.Plan, bool) {
	if whole := s.allHealthy() && len(s.Members) == len(s.Record.Members); whole || !s.healthy(*s.leader()) {
		return cluster.Pass()
	}
	if slices.ContainsFunc(s.memberPods(), s.outdated) || s.maybeBusy() {
		return cluster.Pass()
	}
	p, _ := s.freeSpace()
	return p, p.Step != nil
}

// maybeBusy reports whether a member that does not answer may be one that is still being defragmented: that was begun by an operator before
// this one, or has been given up as too slow.
func (s State) maybeBusy() bool {
	largest := int64(0)
	for _, p := range s.memberPods() {
		largest = max(largest, p.View.DBSize)
	}
	return s.Now.Sub(s.Upkeep.Since) < DefragmentationLimit(largest) ||
		slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.View == nil && !s.rested(p, restInNeed) })
}

// curable reports whether a defragmentation makes a database small enough. After a compaction it is tried whatever the member
// says is in use: with 3.5 it may tell of the compaction after its next write only, and writes are refused.
func (s State) curable(p Pod) bool {
	up := s.Upkeep
	compacted := up.Compacted != nil && *up.Compacted && !up.LastCompaction.IsZero() && s.Now.Sub(up.LastCompaction) >= compactionTime
	if compacted && (p.Defragmentation == nil || p.Defragmentation.End.Before(up.LastCompaction)) {
		return true
	}
	return s.hasRoom(p) && s.rested(p, restInNeed)
}

// hasRoom reports whether enough of the quota is free inside the database.
func (s State) hasRoom(p Pod) bool {
	return float64(p.View.DBInUse) < curableShare*float64(s.Want.Maintenance.Quota)
}

// full are the pods whose database is too large for its quota, and would be as it is.
func (s State) full() []Pod {
	return slices.DeleteFunc(s.memberPods(), func(p Pod) bool { return !s.tooMuch(p.View.DBSize) })
}

func (s State) tooMuch(size int64) bool {
	return float64(size) >= fullShare*float64(s.Want.Maintenance.Quota)
}

// makeRoom throws the history of a database away that is full of data. Clients can still read what is there now; a watcher
// that has not seen all of the history yet has to start anew. While writes are refused there are few of those.
func (s State) makeRoom(p Pod) (cluster.Plan, bool) {
	up := s.Upkeep
	switch {
	case s.hasRoom(p) && p.Defragmentation.Err != nil:
		return s.refuseSpace(p, fmt.Sprintf("its defragmentation failed and is tried again after %s (%v)", restInNeed, p.Defragmentation.Err))
	case s.hasRoom(p):
		return s.refuseSpace(p, fmt.Sprintf("it was defragmented less than %s ago", restInNeed))
	case s.Want.Maintenance.KeepsHistory:
		return s.refuseSpace(p, `spec.config.autoCompactionRetention is "0", so its history is kept: compact by hand`)
	case up.Compacted == nil:
		return cluster.Wait(ReasonAlarm, whileWaiting, "the database of %s is full; waiting for etcd to tell whether history is left", p.Name)
	case *up.Compacted && s.Now.Sub(up.LastCompaction) < compactionTime:
		return cluster.Wait(ReasonAlarm, whileWaiting, "the database of %s is full; waiting for its history to be thrown away", p.Name)
	case *up.Compacted:
		return s.refuseSpace(p, "no history is left to throw away")
	case s.Now.Sub(up.LastCompaction) < restInNeed:
		return s.refuseSpace(p, fmt.Sprintf("its history was thrown away less than %s ago", restInNeed))
	}
	via := s.pod(*s.leader())
	return cluster.Do(Compact{via.Name, via.View.Revision}, "the database of %s has reached its quota of %s: its history is thrown away",
		p.Name, bytes(s.Want.Maintenance.Quota))
}

func (s State) refuseSpace(p Pod, why string) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonAlarm, "etcd refuses writes: the database of %s has %s, %s of it in use, and its quota is %s; %s. "+
		"Delete keys, or raise spec.config.quotaBackendBytes%s", p.Name, bytes(p.View.DBSize), bytes(p.View.DBInUse),
		bytes(s.Want.Maintenance.Quota), why, largest(s.Upkeep.Largest))
}

// maxNamed is how many groups of keys a message names.
const maxNamed = 3

func largest(groups []KeyGroup) string {
	var parts []string
	for _, g := range groups[:min(len(groups), maxNamed)] {
		parts = append(parts, fmt.Sprintf("%q with %d keys, about %s", g.Prefix, g.Keys, bytes(g.Bytes)))
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
func checkCorruption(s State) (cluster.Plan, bool) {
	a := s.corruption()
	if a == nil {
		return cluster.Pass()
	}
	differ := slices.IndexFunc(s.Pods, func(p Pod) bool { return p.Corrupt })
	switch {
	case differ >= 0:
		return cluster.Refuse(ReasonCorrupt, "the data of %s differs from that of the majority (%s): it has to be replaced",
			s.Pods[differ].Name, s.hashes())
	case s.agree() && s.learner(a.MemberID) != nil:
		m := *s.learner(a.MemberID)
		return cluster.Do(s.removal(m),
			"etcd has raised the alarm %s for %s, which has no vote yet: it is removed, and added again with an empty disk", a.Type, s.name(m.ID))
	case s.agree():
		return cluster.Do(Disarm{s.speaker(s.leader()).Name, *a}, "the data of all members with a vote is the same (%s), so the alarm %s is over", s.hashes(), a.Type)
	case s.compared():
		return cluster.Refuse(ReasonCorrupt, "etcd has raised the alarm %s, and no majority of the members has the same data (%s): "+
			"find out which of them is right and create the cluster again from it", a.Type, s.hashes())
	}
	return cluster.Refuse(ReasonAlarm, "etcd has raised the alarm %s for %s: its data may differ from the others (%s)",
		a.Type, s.name(a.MemberID), s.hashes())
}

// corruption is the alarm that members differ, nil when there is none.
func (s State) corruption() *Alarm {
	for _, a := range s.alarms() {
		if a.Type != AlarmNoSpace {
			return &a
		}
	}
	return nil
}

// Compare marks the pods whose data differs from that of a majority of the voters.
func Compare(s *State) {
	voters, _ := s.voters()
	votes := map[Hash]int{}
	for _, m := range s.Members {
		if p := s.pod(m); p != nil && p.Hash != nil && !m.Learner {
			votes[*p.Hash]++
		}
	}
	for right, n := range votes {
		if n < Quorum(voters) {
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
func (s State) voting() []Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.Learner })
}

// learner returns the learner of an id, nil when there is none.
func (s State) learner(id uint64) *Member {
	for i, m := range s.Members {
		if m.Learner && m.ID == id {
			return &s.Members[i]
		}
	}
	return nil
}

// compared reports whether the hash of every voter is known.
func (s State) compared() bool {
	return !slices.ContainsFunc(s.voting(), func(m Member) bool { p := s.pod(m); return p == nil || p.Hash == nil })
}

// agree reports whether all voters are known to have the same data.
func (s State) agree() bool {
	voters := s.voting()
	return s.compared() && !slices.ContainsFunc(voters, func(m Member) bool { return *s.pod(m).Hash != *s.pod(voters[0]).Hash })
}

func (s State) hashes() string {
	var parts []string
	for _, m := range s.voting() {
		text := "unknown"
		if p := s.pod(m); p != nil && p.Hash != nil {
			text = fmt.Sprintf("%08x at revision %d", p.Hash.Sum, p.Hash.Revision)
		}
		parts = append(parts, s.name(m.ID)+" "+text)
	}
	return "hashes: " + strings.Join(parts, ", ")
}

// bytes writes a size for people, in whole MiB or KiB.
func bytes(n int64) string {
	unit := int64(1 << 20)
	if n < unit {
		unit = 1 << 10
	}
	return resource.NewQuantity((n+unit-1)/unit*unit, resource.BinarySI).String()
}
