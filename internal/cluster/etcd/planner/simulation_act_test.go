package planner_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// act carries out a step against the API server or etcd, and reports whether the operator survived it.
func (s *sim) act(step cluster.Step) bool {
	switch step := step.(type) {
	case steps.WriteBootstrap:
		return s.writeBootstrap(step)
	case steps.Resize:
		return s.change(func(r *model.Record) { r.Members = s.members(step.To, r.Secure()) })
	case steps.SetTransport:
		return s.change(func(r *model.Record) {
			r.TLSSwitch = steps.With(r.Transport(), step, nil).TLSSwitch
			r.Members = s.members(len(r.Members), step.Secure)
		})
	case steps.UpdatePeer:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.UpdatePeer(context.Background(), step.ID, step.URL) })
	case steps.SetVersion:
		return s.setVersion(step)
	case steps.TakeSnapshot, steps.RecordSnapshot, steps.DropBackup:
		return s.save(step)
	case steps.Edit:
		return s.change(step.Edit)
	case steps.Downgrade:
		return s.call(step.Via, func(c *etcdfake.Client) error { return c.Downgrade(context.Background(), step.To) })
	case steps.CancelDowngrade:
		return s.call(step.Via, func(c *etcdfake.Client) error { return c.CancelDowngrade(context.Background()) })
	case steps.AddLearner:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.AddLearner(context.Background(), step.URL) })
	case steps.Promote:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.Promote(context.Background(), step.ID) })
	case steps.RemoveMember:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.RemoveMember(context.Background(), step.ID) })
	case steps.DeleteClaim:
		return s.deleteClaim(step)
	case steps.RemakeSet:
		return s.remakeSet(step)
	case steps.ExpandClaim:
		return s.expandClaim(step)
	case steps.RecordClusterID:
		if s.record == nil || s.record.ClusterID != 0 {
			return true
		}
		r := *s.record
		r.ClusterID = step.ClusterID
		s.record = &r
		return !s.write()
	case steps.LetClientsIn:
		s.open = true
		return !s.write()
	case steps.EnableAuth:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.EnableAuth(context.Background(), s.password) })
	case steps.SetRootPassword:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.SetRootPassword(context.Background(), s.password) })
	case steps.MoveLeader:
		return s.call(step.From, func(c *etcdfake.Client) error { return c.MoveLeader(context.Background(), step.To) })
	case steps.DeletePod:
		if p := s.pods[step.Name]; p != nil && s.version(p) == step.ResourceVersion {
			s.deletePod(p)
			return !s.write()
		}
		return true
	}
	return s.maintain(step)
}

func (s *sim) writeBootstrap(step steps.WriteBootstrap) bool {
	b := step.Bootstrap
	if s.record != nil {
		if s.record.Bootstrap == b || s.record.ClusterID != 0 || b != model.BootstrapNew {
			return true
		}
		r := *s.record
		r.Bootstrap = b
		s.record = &r
		return !s.write()
	}
	if b == model.BootstrapNew && len(s.claims) > 0 {
		return true
	}
	reach := s.reach(nil)
	s.record = &model.Record{
		UID: fmt.Sprint(s.writes), Bootstrap: b, Members: s.members(step.Size, reach.Secure), Version: step.Version, MinAvailable: model.Quorum(step.Size),
		TLSSwitch: reach.TLSSwitch,
	}
	return !s.write()
}

// moved reports whether what a step was decided on is not so any more.
func (s *sim) moved() bool {
	return s.record == nil || s.seen.record == nil || !cmp.Equal(*s.seen.record, *s.record)
}

// change changes the record.
func (s *sim) change(edit func(*model.Record)) bool {
	if s.moved() {
		return true
	}
	r := *s.record
	edit(&r)
	if r.ClusterID == 0 && s.record.ClusterID != 0 { // A restore in place starts.
		s.forget()
		s.recorded, s.diskLost = 0, false
	}
	s.record = &r
	if s.inPlace != nil && r.RestoredFrom(s.inPlace.Restore.Token) {
		s.inPlace = nil // It is complete.
	}
	return !s.write()
}

func (s *sim) reconfigure(via string, change func(*etcdfake.Client) error) bool {
	if s.moved() {
		return true
	}
	return s.call(via, change)
}

func (s *sim) deleteClaim(step steps.DeleteClaim) bool {
	if s.moved() {
		return true
	}
	for i, c := range s.claims {
		if cluster.Claim("orders", i) != step.Name || c.version() != step.ResourceVersion {
			continue
		}
		c.leaving = true
	}
	return !s.write()
}

func (s *sim) call(pod string, do func(*etcdfake.Client) error) bool {
	if p := s.pods[pod]; p != nil && p.process != nil {
		if err := do(s.client(p.process)); errors.Is(err, context.Canceled) {
			return false
		}
	}
	return !s.write()
}
