package planner_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// judge checks what a step is about to do against the true state of the world.
func (s *sim) judge(step cluster.Step) {
	if _, opens := step.(steps.LetClientsIn); opens && s.recorded == 0 {
		s.badPolicy = "clients are let in before the identity of the cluster is recorded"
	}
	s.judgeMaintenance(step)
	switch step := step.(type) {
	case steps.SetRecovery:
		if step.To.Phase == model.RecoveryHeld && step.To.Restore == nil && !s.hopeless() {
			s.badPolicy = "a quorum is given up although its disks are there"
		}
	case steps.StartRestore:
		s.judgeRestoreInPlace()
	case steps.Hibernate:
		if !s.persistent {
			s.badPolicy = "the pods are to end, and the data with them"
		}
	case steps.DeletePod:
		s.judgePod(step)
	case steps.DeleteClaim:
		s.judgeClaim(step)
	case steps.RemoveMember:
		s.judgeRemoval(step)
	case steps.SetVersion:
		s.judgeUpgrade(step)
	}
}

// judgeRestoreInPlace wants no member to run when the cluster gives its identity up.
func (s *sim) judgeRestoreInPlace() {
	for _, p := range slices.Concat(slices.Collect(maps.Values(s.pods)), slices.Collect(maps.Values(s.orphans))) {
		if p.process != nil && !s.moved() {
			s.badPolicy = fmt.Sprintf("the cluster begins anew while %s runs", p.name)
		}
	}
}

// ending reports whether all members are to end, because of a restore in place.
func (s *sim) ending() bool {
	return s.record != nil && s.record.Recovery.Restore != nil && s.record.Recovery.Phase == model.RecoveryHeld
}

func (s *sim) judgePod(step steps.DeletePod) {
	victim := s.pods[step.Name]
	if victim == nil || s.version(victim) != step.ResourceVersion || s.ending() {
		return
	}
	known, listed, _ := s.net.Members(victim.disk)
	if !s.persistent && victim.disk.HasLog && s.recorded != 0 && (!known || listed) {
		s.badPolicy = fmt.Sprintf("deleting %s loses its data", step.Name)
	}
	if victim.process == nil || !s.net.Voting(victim.process) {
		return
	}
	if voters := len(victim.disk.Voters()); voters > 1 && s.voting(victim)-1 < model.Quorum(voters) {
		s.badPolicy = fmt.Sprintf("deleting %s leaves %d of %d voters", step.Name, s.voting(victim)-1, voters)
	}
}

// voting counts the voters of a pod's cluster that follow its leader.
func (s *sim) voting(of *simPod) int {
	n := 0
	for _, p := range slices.Concat(slices.Collect(maps.Values(s.pods)), slices.Collect(maps.Values(s.orphans))) {
		if p.process != nil && s.net.Voting(p.process) && p.disk.ClusterID == of.disk.ClusterID {
			n++
		}
	}
	return n
}

// judgeClaim wants no data to be deleted that a member of the quorum still has.
func (s *sim) judgeClaim(step steps.DeleteClaim) {
	for i, c := range s.claims {
		former := slices.Contains(s.net.Led[:s.lineage], c.disk.ClusterID) // It was restored in place since.
		if cluster.Claim("orders", i) != step.Name || fmt.Sprint(c.uid) != step.UID || s.moved() || !c.disk.HasLog || former || (c.lost && s.ending()) {
			continue
		}
		if known, listed, _ := s.net.Members(c.disk); !known || listed {
			s.badPolicy = fmt.Sprintf("deleting %s loses the data of a member", step.Name)
		}
	}
}

// judgeRemoval wants the members that stay to be a quorum, and one with its data to leave only because of the size.
func (s *sim) judgeRemoval(step steps.RemoveMember) {
	p := s.pods[step.Name]
	if p == nil || p.process == nil || !s.net.Voting(p.process) || s.moved() {
		return
	}
	if c := s.claims[p.ordinal]; p.ordinal < s.size && s.persistent && !s.misfits(p.ordinal) && !c.leaving {
		s.badPolicy = fmt.Sprintf("%s is removed although it is well and wanted", step.Name)
	}
	if voters := len(p.disk.Voters()); s.voting(p)-1 < model.Quorum(voters-1) {
		s.badPolicy = fmt.Sprintf("removing %s leaves %d of %d voters", step.Name, s.voting(p)-1, voters-1)
	}
}

// broken names the invariant that does not hold, empty when all do.
func (s *sim) broken() string {
	if s.badPolicy != "" {
		return s.badPolicy
	}
	if led := s.net.Led[s.lineage:]; len(led) > 1 {
		return fmt.Sprintf("two clusters have led: %x", led)
	}
	if v := s.net.Lost(); v != "" {
		return "an acknowledged write is lost: " + v
	}
	if s.record != nil && s.recorded != 0 && s.record.ClusterID != 0 && s.record.ClusterID != s.recorded {
		return fmt.Sprintf("the cluster id changed from %x to %x", s.recorded, s.record.ClusterID)
	}
	if s.record != nil && s.record.ClusterID != 0 {
		s.recorded = s.record.ClusterID
	}
	if bad := s.deafToClients(); bad != "" {
		return bad
	}
	return s.authOff()
}

// deafToClients notices a member that does not listen for what the record tells peers and clients to use.
func (s *sim) deafToClients() string {
	if s.record == nil {
		return ""
	}
	for _, p := range s.pods {
		if p.process == nil {
			continue
		}
		_, listed, _ := s.net.Members(p.disk)
		if tls := s.record.Secure(); listed && ((tls && !p.tls) || (!tls && !p.plain)) {
			return fmt.Sprintf("TLS is told: %t, and %s does not listen for that", tls, p.name)
		}
	}
	return ""
}

// authOff notices a member that lets in everybody after it did not.
func (s *sim) authOff() string {
	for _, p := range s.pods {
		if p.process == nil || !s.net.Voting(p.process) {
			continue
		}
		id := p.disk.ClusterID
		if s.authSeen[id] && !p.process.AuthOn() {
			return "authentication was switched off"
		}
		// Before the id is recorded nobody is let in, and a lost disk may still found the cluster again.
		s.authSeen[id] = s.authSeen[id] || (s.recorded != 0 && p.process.AuthOn())
	}
	return ""
}

// hopeless reports whether fewer than a quorum of the voters, by the longest log, have their data.
func (s *sim) hopeless() bool {
	disks := s.disks()
	var best *etcdfake.Disk
	for _, d := range disks {
		if d.HasLog && (best == nil || best.Behind(d)) {
			best = d
		}
	}
	if best == nil {
		return true
	}
	have := 0
	for _, id := range best.Voters() {
		if slices.ContainsFunc(disks, func(d *etcdfake.Disk) bool { return d.HasLog && d.MemberID == id }) {
			have++
		}
	}
	return have < model.Quorum(len(best.Voters()))
}

// rescuable reports whether a member with a vote has its data.
func (s *sim) rescuable() bool {
	for i, c := range s.claims {
		if s.persistent && i < len(s.record.Members) && !c.lost && !c.corrupt && c.disk.HasLog && slices.Contains(c.disk.Voters(), c.disk.MemberID) {
			return true
		}
	}
	return false
}

// unfit says how a world that the planner calls settled is not as specified.
func (s *sim) unfit() string {
	if s.record.ClusterID == 0 || !s.open {
		return "settled without a recorded cluster id, or closed"
	}
	if p := s.record.Recovery.Phase; p != "" && p != model.RecoveryOver {
		return "settled within a recovery"
	}
	if len(s.pods) != s.size {
		return "settled with missing pods"
	}
	if s.record.MinAvailable != model.Quorum(s.size) || s.set.budget != s.record.MinAvailable {
		return fmt.Sprintf("settled with a disruption budget of %d", s.set.budget)
	}
	for _, p := range s.pods {
		if s.net.Leads(p.process) && s.cordoned[p.ordinal] && !s.cordoned[s.bestPlace()] {
			return "settled with a leader on a cordoned node"
		}
		switch {
		case p.process == nil || !s.net.Voting(p.process):
			return "settled with a member that does not vote"
		case p.simSettings != s.asked() || p.tls != s.certs || p.plain == s.certs:
			return "settled with an outdated pod"
		case s.auth != p.process.AuthOn():
			return "settled with the wrong authentication"
		case p.drained:
			return "settled with a member that gets no clients"
		case len(p.process.Alarms()) > 0:
			return "settled with an alarm"
		case s.persistent && p.quota != s.storage.Size:
			return "settled with another quota than that of the volumes"
		}
	}
	return s.otherVolume()
}

// hasQuorum reports whether a quorum of the recorded members votes.
func (s *sim) hasQuorum() bool {
	if s.record == nil {
		return false
	}
	n := 0
	for _, p := range s.pods {
		if p.process != nil && s.net.Voting(p.process) {
			n++
		}
	}
	return n >= model.Quorum(len(s.record.Members))
}

// moves reports whether the world goes on by itself: a process that the API server has forgotten is in the way of a pod, or a volume
// grows.
func (s *sim) moves() bool {
	for _, c := range s.claims {
		if c.capacity > 0 && c.capacity < c.request {
			return true
		}
	}
	for _, o := range s.orphans {
		if s.set != nil && o.ordinal < s.set.members {
			return true
		}
	}
	return false
}

// disks are those that members can start from.
func (s *sim) disks() []*etcdfake.Disk {
	var out []*etcdfake.Disk
	for _, c := range s.claims {
		if !c.lost && !c.corrupt {
			out = append(out, c.disk)
		}
	}
	for _, p := range s.pods {
		if !s.persistent {
			out = append(out, p.disk)
		}
	}
	return out
}
