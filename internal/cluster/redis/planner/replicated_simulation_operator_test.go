package planner_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func (s *repSimulation) observe() model.State {
	st := model.State{Now: s.now, Spec: s.spec, Appointed: s.record, Candidate: s.candidate, FailedHandOvers: s.failed, Sets: []model.Set{{Replicas: s.size}}}
	for _, p := range s.servers {
		if p.uid == "" || (!p.up && p.newPod && s.chance(2)) {
			continue // Not made yet, or already gone.
		}
		pod := model.Pod{
			Name: p.name, UID: p.uid, Ordinal: p.ordinal, Addr: p.addr, Ready: p.up, Deleting: p.deleting, Outdated: p.template != s.template, HasRun: true, Role: p.role,
			Ended: p.ended,
		}
		if p.homeless {
			st.Claims = append(st.Claims, model.Claim{Name: "data-" + p.name, UID: p.uid, Ordinal: p.ordinal, Lost: "its node is gone"})
			pod.Gone, pod.NodeLost = s.now.Before(p.on), s.now.Before(p.on)
			pod.HasRun = pod.Gone
		}
		if p.up || pod.Gone {
			pod.Started = p.started
		}
		if !p.up {
			pod.Unready = p.ended
		}
		if p.reachable() {
			pod.Node = p.node()
		}
		pod.TimedOut = p.up && !p.reachable()
		pod.Hangs = pod.TimedOut && s.now.Before(p.hangs) && !s.now.Before(p.alone)
		st.Pods = append(st.Pods, pod)
	}
	s.processes.Watch(&st)
	return st
}

// pass is one pass of the operator.
func (s *repSimulation) pass() cluster.Plan {
	s.ensure()
	plan := planner.Next(s.observe())
	if plan.Step == nil {
		return plan
	}
	s.log("%s: %s", plan.Step, plan.Message)
	err := s.act(plan.Step)
	if history.Note(&s.failed, plan.Step, err, s.now); errors.Is(err, errCrash) {
		s.failed = model.FailedHandOvers{}
	}
	if err != nil {
		s.log("%v", err)
	}
	return plan
}

func (s *repSimulation) dies() error {
	if s.faults && s.chance(20) {
		return errCrash
	}
	return nil
}

func (s *repSimulation) act(step cluster.Step) error {
	switch st := step.(type) {
	case steps.Guard:
	case steps.Appoint:
		return s.appoint(st)
	case steps.AssignRoles:
		return s.assign(st)
	case steps.End:
		for _, p := range s.servers {
			if slices.Contains(st.Pods, steps.PodRef{Name: p.name, UID: p.uid}) {
				s.ended++
				p.end()
			}
		}
		return s.dies()
	case steps.ReplaceDisk:
		for _, p := range s.servers {
			if p.name == st.Pod.Name && p.name == s.record.Pod {
				s.fail("the appointed pod %s gets a new disk", p.name)
			}
			if st.Pod == (steps.PodRef{Name: p.name, UID: p.uid}) {
				s.replaced++
				p.newDisk()
			}
		}
	case steps.Restart:
		for _, p := range s.servers {
			if slices.Contains(st.Pods, steps.PodRef{Name: p.name, UID: p.uid}) && !p.newPod {
				p.delete()
			}
		}
	case steps.ScaleShards:
		s.size = st.Sets[0].To
		for _, p := range s.servers[min(s.size, len(s.servers)):] {
			p.deleting = true
			p.stop(s.now)
		}
		s.servers = s.servers[:min(s.size, len(s.servers))]
	case steps.HandOver:
		s.checkHandOver(st)
		return s.command(st)
	case steps.ServerStep:
		return s.command(st)
	default:
		s.fail("unexpected step %T", step)
	}
	return nil
}

// appoint changes the Service of the primary.
func (s *repSimulation) appoint(st steps.Appoint) error {
	if s.record.Pod != st.Appointment.Pod {
		s.succeeds(st.Appointment.Pod)
	}
	s.record, s.candidate = st.Appointment, st.Candidate
	return s.dies()
}

// checkHandOver looks at where clients are sent, and what the new primary will need of replicas, before a hand-over.
func (s *repSimulation) checkHandOver(st steps.HandOver) {
	for _, p := range s.servers {
		if leads := s.leadsTo(p); leads != (p.name == st.To) {
			s.fail("%s: clients are sent to %s: %t", st, p.name, leads)
		}
		if p.name == st.To && p.guard == "0" {
			s.fail("%s: it takes writes that no replica acknowledges", st)
		}
	}
	if s.now.Sub(s.candidate.Since) < time.Second {
		s.fail("%s: nodes may still send clients to %s", st, st.From)
	}
}

// assign changes labels one after the other, as the controller does, that of the primary last.
func (s *repSimulation) assign(st steps.AssignRoles) error {
	for _, primary := range []bool{false, true} {
		for _, l := range st.Pods {
			if (l.Role == model.RolePrimary) != primary {
				continue
			}
			for _, p := range s.servers {
				if p.name == l.Pod.Name && p.uid == l.Pod.UID {
					p.role = l.Role
				}
			}
			if err := s.dies(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *repSimulation) command(st steps.ServerStep) error {
	for _, call := range st.Calls() {
		i := slices.IndexFunc(s.servers, func(p *repServer) bool { return p.name == call.Pod })
		if i < 0 || !s.servers[i].reachable() {
			return errRefused
		}
		if err := errors.Join(call.Do(context.Background(), s.servers[i]), s.dies()); err != nil {
			return err
		}
	}
	return nil
}

// succeeds checks that nobody who could be asked has more of what clients were told is written than the one that is named.
func (s *repSimulation) succeeds(name string) {
	p := s.servers[slices.IndexFunc(s.servers, func(o *repServer) bool { return o.name == name })]
	if p.primary {
		s.last = p
	}
	has := map[int]bool{}
	for _, w := range p.data {
		has[w] = true
	}
	for _, w := range s.acked {
		if has[w] || s.excused[w] {
			continue
		}
		if !s.faulty {
			s.fail("%s is made primary without write %d", p.name, w)
		}
		for _, o := range s.servers {
			if o != p && o.reachable() && !o.deleting && slices.Contains(o.data, w) && o.history == s.record.History {
				s.fail("%s is made primary without write %d, which %s has", p.name, w, o.name)
			}
			// What was written until the two could notice that they had lost touch was on its way.
			returns := o.name == s.record.Pod && !o.homeless && (o.reachable() || (!o.works() && !o.loses && (s.spec.Persistent || !o.newPod)))
			if o != p && returns && (s.record.Guard == 0 || s.times[w].Sub(p.synced) > nodeTime+6*time.Second) && slices.Contains(o.data, w) {
				s.fail("%s is made primary without write %d, which %s comes back with", p.name, w, o.name)
			}
		}
		s.excused[w] = true
	}
}
