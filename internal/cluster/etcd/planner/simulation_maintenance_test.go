package planner_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// simUnit is what a write takes of a database in a simulation.
const simUnit = 64 << 20

// simMaintenance is what a simulation knows of maintenance.
type simMaintenance struct {
	policy model.Policy
	// begun is what the operator remembers of the defragmentations that it began, by the UID of the pod.
	begun map[string]*model.Defragmentation
	// calm users neither delete nor fill what is there.
	calm bool
}

func (s *sim) newMaintenance() simMaintenance {
	s.net.Unit, s.net.Quota = simUnit, int64(5+s.rng.IntN(12))
	p := model.Policy{Defragment: s.rng.IntN(6) > 0, MinFree: 2 * simUnit, Quota: s.net.Quota * simUnit, KeepsHistory: s.rng.IntN(6) == 0}
	s.note("quota %d writes, defragment %t, keeps history %t", s.net.Quota, p.Defragment, p.KeepsHistory)
	return simMaintenance{policy: p, begun: map[string]*model.Defragmentation{}}
}

// examine asks what is asked for with an alarm. An operator that does not know of a defragmentation has not been there for as long as it takes.
func (s *sim) examine(st *model.State, v *simView, c *etcdfake.Client) {
	for _, p := range s.pods {
		if p.process != nil && p.process.Busy && s.maintenance.begun[p.uid] == nil {
			st.Maintenance.Since = simNow
		}
	}
	if compacted, err := c.Compacted(context.Background()); err == nil {
		st.Maintenance.Compacted = &compacted
	}
	revision := int64(0)
	for _, p := range st.Pods {
		if p.Status != nil && !p.Status.Learner && (revision == 0 || p.Status.Revision < revision) {
			revision = p.Status.Revision
		}
	}
	for i := range st.Pods {
		if p := v.pods[i].process; p != nil {
			if h, err := s.client(p).HashKV(context.Background(), revision); err == nil {
				st.Pods[i].Hash = &h
			}
		}
	}
	planner.Compare(st)
}

// maintain carries out a step of maintenance, and reports whether the operator survived it.
func (s *sim) maintain(step cluster.Step) bool {
	switch step := step.(type) {
	case steps.DrainMember:
		return s.setDrained(step.Pod, step.UID, true)
	case steps.ServeAgain:
		return s.setDrained(step.Pod, step.UID, false)
	case steps.Defragment:
		if p := s.pods[step.Pod]; p != nil && p.process != nil {
			p.process.Busy = true
			s.maintenance.begun[p.uid] = &model.Defragmentation{Begin: simNow}
		}
		return !s.write()
	case steps.Compact:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.Compact(context.Background(), step.Revision) })
	case steps.Disarm:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.Disarm(context.Background(), step.Alarm) })
	}
	panic(fmt.Sprintf("the simulation knows no step %T", step))
}

func (s *sim) setDrained(pod, uid string, drained bool) bool {
	p := s.pods[pod]
	if p == nil || p.uid != uid {
		return true
	}
	p.drained = drained
	return !s.write()
}

// finishDefragmentations ends some of those that go on. A member whose pod went away has ended its own, without success.
func (s *sim) finishDefragmentations() {
	for _, p := range s.pods {
		if p.process != nil && p.process.Busy && s.rng.IntN(2) == 0 {
			p.process.FinishDefragmentation()
			s.note("%s is defragmented", p.name)
		}
		if d := s.maintenance.begun[p.uid]; d != nil && (p.process == nil || !p.process.Busy) {
			d.End = simNow.Add(-2 * time.Hour) // Time stands still here, and must not keep the next one from beginning.
		}
	}
}

// judgeMaintenance checks a defragmentation against the true state of the world.
func (s *sim) judgeMaintenance(step cluster.Step) {
	d, ok := step.(steps.Defragment)
	if !ok {
		return
	}
	victim := s.pods[d.Pod]
	if victim == nil || victim.process == nil || s.stale != nil {
		return
	}
	full := len(victim.process.Alarms()) > 0
	if len(victim.disk.Voters()) > 1 && (s.net.Leads(victim.process) || (!full && !victim.drained)) {
		s.badPolicy = fmt.Sprintf("%s is defragmented with its clients, or as leader", d.Pod)
	}
	for _, p := range s.pods {
		if _, listed, _ := s.net.Members(p.disk); !p.disk.HasLog || !listed {
			continue // It has left.
		}
		away := p.process == nil || !s.net.Voting(p.process)
		if (away && !full) || (p.process != nil && p.process.Busy) {
			s.badPolicy = fmt.Sprintf("%s is defragmented while %s is not well", d.Pod, p.name)
		}
	}
	if !s.net.Voting(victim.process) {
		s.badPolicy = fmt.Sprintf("%s is defragmented without a quorum", d.Pod)
	}
}

// disturb makes history out of data, or raises an alarm for nothing.
func (s *sim) disturb(p *simPod) {
	if s.maintenance.calm {
		return
	}
	switch s.rng.IntN(20) {
	case 0, 1, 2, 3, 4:
		if s.net.Delete(p.process, s.password) == nil {
			s.note("a user deletes everything")
		}
	case 5, 6, 7, 8:
		c := s.client(p.process)
		if v, err := c.Status(context.Background()); err == nil && c.Compact(context.Background(), v.Revision) == nil {
			s.note("etcd compacts by itself")
		}
	case 9:
		s.note("etcd raises CORRUPT for nothing")
		_ = s.net.RaiseCorrupt(p.process, false)
	}
}

// curable reports whether an alarm can be cured by the operator: no member is out of reach, and no database full of data.
func (s *sim) curable() bool {
	if !s.maintenance.policy.Defragment || len(s.pods) < s.size {
		return false
	}
	for _, p := range s.pods {
		if p.process == nil || p.process.Cut {
			return false
		}
		left := p.disk.Live()
		if s.maintenance.policy.KeepsHistory {
			left = p.disk.InUse()
		}
		if 100*left >= 85*s.net.Quota {
			return false
		}
	}
	return true
}
