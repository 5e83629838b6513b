package planner_test

import (
	"fmt"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// Volumes of the class "elastic" can be expanded, those of the default class "rigid" cannot.
const (
	elastic = "elastic"
	rigid   = "rigid"
)

// changeStorage asks for other volumes.
func (s *sim) changeStorage() {
	if !s.persistent {
		return
	}
	class := s.storage.Class
	s.storage = s.anyStorage()
	if s.rng.IntN(2) == 0 {
		s.storage.Class = class
	}
	s.note("spec.storage changes to %s", s.storage)
}

func (s *sim) anyStorage() model.Storage {
	return model.Storage{Size: int64(1+s.rng.IntN(3)) << 30, Class: []string{"", elastic, rigid}[s.rng.IntN(3)]}
}

// newClaim makes a claim from the template of the set.
func (s *sim) newClaim(uid int) *simClaim {
	t := s.set.storage
	if t.Class == "" {
		t.Class = rigid
	}
	return &simClaim{uid: uid, born: s.turns, request: t.Size, capacity: t.Size, class: t.Class}
}

// growVolumes is what a CSI driver does, in its own time.
func (s *sim) growVolumes() {
	for _, c := range s.claims {
		if c.request > c.capacity && s.rng.IntN(3) == 0 {
			c.capacity, c.full = c.request, false
		}
	}
}

// version stands in for the resource version of a claim.
func (c *simClaim) version() string { return fmt.Sprint(c.uid, c.request, c.capacity, c.leaving) }

func (c *simClaim) fill(o *model.Claim) {
	o.ResourceVersion, o.Request, o.Capacity, o.Class, o.Rigid = c.version(), c.request, c.capacity, c.class, c.class == rigid
}

// quota is what the volumes leave to the database: the set decides, unless one of them is still smaller.
func (v *simView) quota(t model.Storage, members int) int64 {
	quota := t.Size
	for _, c := range v.claims {
		if c.Ordinal < members {
			quota = min(quota, c.Capacity)
		}
	}
	return quota
}

func (s *sim) remakeSet(step steps.RemakeSet) bool {
	if s.moved() || s.set == nil || fmt.Sprint(s.set.uid) != step.UID {
		return true
	}
	s.set = nil
	return !s.write()
}

func (s *sim) expandClaim(step steps.ExpandClaim) bool {
	for _, c := range s.claims {
		if c.version() != step.ResourceVersion || s.moved() {
			continue
		}
		if c.class != elastic || step.Size <= c.request {
			s.badPolicy = fmt.Sprintf("%s is expanded from %d to %d", step.Name, c.request, step.Size)
		}
		c.request = step.Size
		return !s.write()
	}
	return true
}

// misfits reports whether the volume of an ordinal, as the operator saw it, has to be replaced by another one.
func (s *sim) misfits(ordinal int) bool {
	for _, c := range s.seen.claims {
		if c.Ordinal == ordinal {
			return (s.storage.Class != "" && c.Class != s.storage.Class) || min(c.Request, c.Capacity) > s.storage.Size ||
				(c.Capacity < s.storage.Size && c.Rigid)
		}
	}
	return false
}

// otherVolume names a volume that is not as specified, empty when all are.
func (s *sim) otherVolume() string {
	s.seen = s.view()
	for i, c := range s.claims {
		if s.misfits(i) || c.capacity < s.storage.Size {
			return fmt.Sprintf("settled with a volume of %d of class %s at ordinal %d", c.capacity, c.class, i)
		}
	}
	return ""
}
