package planner_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// user writes through the client Service.
func (s *sim) user() string {
	if !s.open || s.rng.IntN(3) > 0 {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		if p.process == nil || p.drained || !s.net.Voting(p.process) {
			continue
		}
		if s.maintenance.calm && p.disk.Size() >= s.net.Quota {
			return "" // It would be full again.
		}
		s.values++
		if s.auth && s.net.Put(p.process, "", fmt.Sprint("open-", s.values)) == nil {
			return "a client without a password was let in"
		}
		_ = s.net.Put(p.process, s.password, fmt.Sprint("value-", s.values))
		s.disturb(p)
		return ""
	}
	return ""
}

// fault breaks something at random.
func (s *sim) fault() {
	pods := slices.Sorted(maps.Keys(s.pods))
	pick := func() *simPod {
		if len(pods) == 0 {
			return nil
		}
		return s.pods[pods[s.rng.IntN(len(pods))]]
	}
	p := pick()
	switch kind := s.rng.IntN(24); {
	case kind == 23 && s.rng.IntN(3) > 0:
	case kind == 23:
		s.restore()
	case kind == 0:
		s.budget = 1 + s.rng.IntN(3)
	case kind == 1:
		s.changeTemplate()
	case kind == 2:
		s.stale = s.view()
	case kind == 3 && s.rng.IntN(6) == 0:
		s.recreate()
	case kind == 4 && s.record != nil && s.record.RestoresInPlace():
		// Without the record nobody knows any more that clients have to wait.
	case kind == 4 && s.record != nil && s.set == nil && s.reach(s.record).UsesTLS() != s.certs:
		// Nor how the members are reached, while neither the set nor the specification says it.
	case kind == 4 && s.rng.IntN(10) == 0 && s.record != nil:
		s.note("fault: the record is deleted")
		s.record = nil
		// A member that had not started yet cannot be told from one that lost its disk any more.
		s.diskLost = s.diskLost || s.started() < s.size
	case kind == 14:
		s.size = []int{1, 3, 5, 7}[s.rng.IntN(4)]
		s.note("spec.size changes to %d", s.size)
	case kind == 17:
		s.snapshots.required = s.rng.IntN(4) > 0
		s.snapshots.elsewhere = s.rng.IntN(3)
		s.note("upgrades need a snapshot: %t, at destination %d", s.snapshots.required, s.snapshots.elsewhere)
		s.changeStorage()
	case kind == 22 && s.certs && s.record == nil && s.set == nil && s.started() > 0:
		// Whoever brings old data back gives it the certificates that it needs: see recreate.
	case kind == 22:
		s.certs = !s.certs
		s.note("TLS is asked for: %t", s.certs)
	case kind >= 18 && s.disrupt(kind-18, p):
	case p == nil:
	case kind == 15 && s.rng.IntN(3) == 0:
		s.breakDisk(p)
	case kind == 15:
	case kind == 16 && s.recorded == 0 && s.record != nil:
		// Whoever brings old data back knows its version, and an older one may come too late for what is just being founded.
	case kind == 16:
		s.release = releases[s.rng.IntN(len(releases))]
		s.note("spec.version changes to %s", s.release)
	case kind == 5 && s.rng.IntN(4) == 0:
		s.loseDisk(p)
	case kind == 5 && p.process != nil && s.persistent:
		s.note("fault: pod %s is forgotten, its process lives on", p.name)
		s.orphans[p.name] = p
		delete(s.pods, p.name)
	case kind <= 7:
		s.note("fault: pod %s deleted", p.name)
		s.deletePod(p)
	case kind <= 9:
		s.note("fault: %s killed", p.name)
		s.propose(p)
		s.stop(p)
	case p.process == nil:
	case kind <= 11:
		p.process.Deaf = !p.process.Deaf
		s.note("fault: %s deaf to the operator: %t", p.name, p.process.Deaf)
	case s.weak[p.template]:
	default:
		s.propose(p)
		p.process.Cut = !p.process.Cut
		s.note("fault: %s cut off: %t", p.name, p.process.Cut)
		s.net.Settle()
	}
}

// propose has a leader that is about to end write what it does not commit, so that logs diverge.
func (s *sim) propose(p *simPod) {
	if p.process == nil || !s.net.Leads(p.process) || s.rng.IntN(2) == 0 {
		return
	}
	var reached []*etcdfake.Process
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if q := s.pods[name].process; q != nil && q != p.process && s.net.Voting(q) && s.rng.IntN(3) == 0 {
			reached = append(reached, q)
		}
	}
	var values []string
	for range 1 + s.rng.IntN(5) {
		s.tails++
		values = append(values, fmt.Sprint("tail-", s.tails))
	}
	if s.net.Propose(p.process, reached, values...) == nil {
		s.note("%s proposes %v to %d others", p.name, values, len(reached))
	}
}

// restore asks for what the cluster has to come back, or does not any more.
func (s *sim) restore() {
	if s.inPlace != nil || s.record == nil || s.record.ClusterID == 0 {
		s.note("what is to be restored is gone")
		s.inPlace = nil
		return
	}
	s.restores++
	token := fmt.Sprint("restore-", s.restores)
	s.backup[token] = slices.Clone(s.net.Acked[s.record.ClusterID])
	s.note("%s is confirmed: %d values", token, len(s.backup[token]))
	s.inPlace = &model.InPlaceRestore{Noun: token, Plan: token, Restore: model.Restore{Directory: token, Token: token}}
}

func (s *sim) changeTemplate() {
	s.template++
	switch s.rng.IntN(8) {
	case 0, 1:
		s.bad[s.template] = true
	case 2:
		s.weak[s.template] = true
	}
	s.note("the template changes to %d, bad: %t, weak: %t", s.template, s.bad[s.template], s.weak[s.template])
}

// breakDisk makes the data of a member unreadable, or takes its node away.
func (s *sim) breakDisk(p *simPod) {
	c := s.claims[p.ordinal]
	if !s.persistent || c == nil {
		return
	}
	switch s.rng.IntN(3) {
	case 0:
		s.note("fault: the node of %s is gone", p.name)
		s.deletePod(p)
		c.lost = true
	case 1:
		s.note("fault: the disk of %s is full", p.name)
		s.stop(p)
		c.full = true
		return
	default:
		s.breakData(p, c)
	}
	s.diskLost = s.diskLost || s.recorded == 0
}

// breakData makes the data on a disk unreadable.
func (s *sim) breakData(p *simPod, c *simClaim) {
	if c.disk.HasLog {
		s.note("fault: the data of %s is corrupt", p.name)
		s.stop(p)
		c.corrupt = true
	}
}

func (s *sim) loseDisk(p *simPod) {
	s.note("fault: %s loses pod and disk", p.name)
	lost := p.disk.HasLog
	s.deletePod(p)
	delete(s.claims, p.ordinal)
	s.diskLost = s.diskLost || lost
	// Volumes deleted by hand before the cluster has come back to life were not wanted: a new one may take its place.
	if s.record != nil && s.record.ClusterID == 0 && s.record.Bootstrap != model.BootstrapRecovered && s.started() == 0 {
		s.forget()
	}
}

// started counts the volumes with data.
func (s *sim) started() int {
	n := 0
	for _, c := range s.claims {
		if c.disk.HasLog {
			n++
		}
	}
	return n
}

// forget begins another life: with the data, all claims on it are gone.
func (s *sim) forget() {
	s.lineage, s.net.Acked = len(s.net.Led), map[uint64][]string{}
}

// recreate deletes the resource with all that belongs to it but the claims, and creates it again.
func (s *sim) recreate() {
	s.note("fault: the resource is deleted and created again")
	for _, name := range slices.Sorted(maps.Keys(s.orphans)) {
		s.stop(s.orphans[name])
	}
	clear(s.orphans)
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		s.deletePod(s.pods[name])
	}
	switch { // Whoever brings old data back knows its version.
	case s.record != nil:
		s.release = s.record.Version
	case s.set != nil:
		s.release = s.set.made.release
	}
	// Whoever brings old data back knows whether it was encrypted, too.
	s.certs = s.reach(s.record).UsesTLS()
	s.record, s.set, s.stale, s.recorded, s.open = nil, nil, nil, 0, false
	s.snapshots.backups = nil
	s.uid++
	if s.inPlace != nil { // For another cluster it is another plan, and makes another one.
		token := fmt.Sprintf("%s-%d", s.inPlace.Noun, s.uid)
		s.backup[token] = s.backup[s.inPlace.Restore.Token]
		s.inPlace = &model.InPlaceRestore{Noun: s.inPlace.Noun, Plan: token, Restore: model.Restore{Directory: s.inPlace.Noun, Token: token}}
	}
	if s.rng.IntN(3) == 0 {
		s.size = []int{1, 3, 5, 7}[s.rng.IntN(4)]
	}
	if s.rng.IntN(2) == 0 {
		s.password = fmt.Sprint("password-", s.uid)
	}
	// Members that were to found the cluster and did not get to it cannot be told from members without their disk.
	s.diskLost = s.diskLost || s.started() < s.size
	if s.started() == 0 {
		s.diskLost = false
		s.forget()
	}
}
