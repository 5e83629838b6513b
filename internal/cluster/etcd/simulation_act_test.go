package etcd_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

// act carries out a step against the API server or etcd, and reports whether the operator survived it.
func (s *sim) act(step cluster.Step) bool {
	switch step := step.(type) {
	case etcd.WriteBootstrap:
		return s.writeBootstrap(step)
	case etcd.Resize:
		return s.change(func(r *etcd.Record) { r.Members = s.members(step.To, r.Secure()) })
	case etcd.SetTransport:
		return s.change(func(r *etcd.Record) {
			r.Transport = r.Reach().With(step, nil).Transport
			r.Members = s.members(len(r.Members), step.Secure)
		})
	case etcd.UpdatePeer:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.UpdatePeer(context.Background(), step.ID, step.URL) })
	case etcd.SetVersion:
		return s.setVersion(step)
	case etcd.TakeSnapshot, etcd.RecordSnapshot, etcd.DropBackup:
		return s.save(step)
	case etcd.Edit:
		return s.change(step.Edit)
	case etcd.Downgrade:
		return s.call(step.Via, func(c *etcdfake.Client) error { return c.Downgrade(context.Background(), step.To) })
	case etcd.CancelDowngrade:
		return s.call(step.Via, func(c *etcdfake.Client) error { return c.CancelDowngrade(context.Background()) })
	case etcd.AddLearner:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.AddLearner(context.Background(), step.URL) })
	case etcd.Promote:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.Promote(context.Background(), step.ID) })
	case etcd.RemoveMember:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.RemoveMember(context.Background(), step.ID) })
	case etcd.DeleteClaim:
		return s.deleteClaim(step)
	case etcd.RemakeSet:
		return s.remakeSet(step)
	case etcd.ExpandClaim:
		return s.expandClaim(step)
	case etcd.RecordClusterID:
		if s.record == nil || s.record.ClusterID != 0 {
			return true
		}
		r := *s.record
		r.ClusterID = step.ClusterID
		s.record = &r
		return !s.write()
	case etcd.LetClientsIn:
		s.open = true
		return !s.write()
	case etcd.EnableAuth:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.EnableAuth(context.Background(), s.password) })
	case etcd.SetRootPassword:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.SetRootPassword(context.Background(), s.password) })
	case etcd.MoveLeader:
		return s.call(step.From, func(c *etcdfake.Client) error { return c.MoveLeader(context.Background(), step.To) })
	case etcd.DeletePod:
		if p := s.pods[step.Name]; p != nil && s.version(p) == step.ResourceVersion {
			s.deletePod(p)
			return !s.write()
		}
		return true
	}
	return s.maintain(step)
}

func (s *sim) writeBootstrap(step etcd.WriteBootstrap) bool {
	b := step.Bootstrap
	if s.record != nil {
		if s.record.Bootstrap == b || s.record.ClusterID != 0 || b != etcd.BootstrapNew {
			return true
		}
		r := *s.record
		r.Bootstrap = b
		s.record = &r
		return !s.write()
	}
	if b == etcd.BootstrapNew && len(s.claims) > 0 {
		return true
	}
	reach := s.reach(nil)
	s.record = &etcd.Record{
		UID: fmt.Sprint(s.writes), Bootstrap: b, Members: s.members(step.Size, reach.Secure), Version: step.Version, MinAvailable: etcd.Quorum(step.Size),
		Transport: reach.Transport,
	}
	return !s.write()
}

// moved reports whether what a step was decided on is not so any more.
func (s *sim) moved() bool {
	return s.record == nil || s.seen.record == nil || !cmp.Equal(*s.seen.record, *s.record)
}

// change changes the record.
func (s *sim) change(edit func(*etcd.Record)) bool {
	if s.moved() {
		return true
	}
	r := *s.record
	edit(&r)
	if r.ClusterID == 0 && s.record.ClusterID != 0 { // It begins anew.
		s.forget()
		s.recorded, s.diskLost = 0, false
	}
	s.record = &r
	if s.anew != nil && r.BeganWith(s.anew.Restore.Token) {
		s.anew = nil // It is complete.
	}
	return !s.write()
}

func (s *sim) reconfigure(via string, change func(*etcdfake.Client) error) bool {
	if s.moved() {
		return true
	}
	return s.call(via, change)
}

func (s *sim) deleteClaim(step etcd.DeleteClaim) bool {
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
