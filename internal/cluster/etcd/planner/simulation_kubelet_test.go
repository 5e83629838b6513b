package planner_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

type simClaim struct {
	disk *etcdfake.Disk
	uid  int
	born int

	request, capacity int64
	class             string
	// leaving: it goes when no pod uses it any more; lost: its node is gone; corrupt: etcd cannot start from it;
	// full: it has no room, which only another volume or a larger one has.
	leaving, lost, corrupt, full bool
	// epoch is the incident that the volume bears.
	epoch string
}

type simPod struct {
	name, uid string
	// starts counts the processes it has had; version is what a copy of it was, see sim.version.
	starts  int
	version string
	ordinal int
	simSettings
	quota int64
	// plain and tls say what it was made to listen for.
	plain, tls bool
	born       int
	disk       *etcdfake.Disk
	process    *etcdfake.Process
	everRan    bool
	drained    bool
	fatal      string
	full       bool
	gate       *model.GateReport
	// agreed is what the gate has told of the disk; refused says that etcd ended over its version.
	agreed  int
	refused bool
	// epoch is the incident that its own volume bears, where no claim outlives it.
	epoch string
}

// kubelet is one pass of Kubernetes: claims and pods are made, gates decide, processes start.
func (s *sim) kubelet() {
	for _, i := range slices.Sorted(maps.Keys(s.claims)) {
		if s.claims[i].leaving && s.pods[cluster.Pod("orders", i)] == nil {
			delete(s.claims, i)
		}
	}
	s.growVolumes()
	if s.set == nil {
		s.net.Settle()
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		if p.ordinal >= s.set.members {
			s.deletePod(p)
		} else if p.process != nil && !s.net.Running(p.process) {
			p.process = nil // It ended by itself.
		}
	}
	for i := range s.set.members {
		name := cluster.Pod("orders", i)
		p := s.pods[name]
		if o := s.orphans[name]; o != nil {
			if s.rng.IntN(3) > 0 {
				continue // Nothing else may have its disk.
			}
			s.stop(o)
			delete(s.orphans, name)
		}
		if p == nil {
			p = s.createPod(name, i)
		}
		if p.process == nil && !s.bad[p.template] && !s.lostClaim(p) && s.rng.IntN(3) > 0 {
			s.runGate(p)
		}
	}
	s.net.Settle()
}

func (s *sim) createPod(name string, ordinal int) *simPod {
	s.pods0++
	p := &simPod{name: name, uid: fmt.Sprint(s.pods0), ordinal: ordinal, simSettings: s.set.made, quota: s.set.quota, born: s.turns}
	p.drained = s.set.closed
	p.plain, p.tls = !s.set.reach.Secure || s.set.reach.Both, s.set.reach.UsesTLS()
	if s.persistent {
		if s.claims[ordinal] == nil {
			s.claims[ordinal] = s.newClaim(s.pods0)
			s.claims[ordinal].disk = &etcdfake.Disk{}
		}
		p.disk = s.claims[ordinal].disk
	} else {
		p.disk = &etcdfake.Disk{}
	}
	s.pods[name] = p
	return p
}

func (s *sim) lostClaim(p *simPod) bool {
	c := s.claims[p.ordinal]
	return s.persistent && c != nil && c.lost
}

func (s *sim) runGate(p *simPod) {
	if s.record == nil || p.ordinal >= len(s.record.Members) {
		return // The kubelet waits for the ConfigMap that it is to mount, and the gate for its name in it.
	}
	record := *s.record
	in := gate.Input{Self: record.Members[p.ordinal], Record: record}
	s.inspectVolume(p, &in)
	if p.disk.HasLog {
		in.Disk = gate.DiskReady
	} else if s.rng.IntN(8) == 0 {
		in.Disk = gate.DiskPartial
	}
	in.Answers = s.net.Answers(in.Self, record.Members)
	d := gate.Decide(in)
	if d.SetAside {
		s.note("%s has its data set aside", p.name)
		p.disk = &etcdfake.Disk{}
		s.claims[p.ordinal].disk, s.claims[p.ordinal].corrupt = p.disk, false
		return
	}
	if !d.Start {
		if p.gate == nil || *p.gate != d.Report {
			s.note("gate holds %s: %s", p.name, d.Report.Reason)
		}
		p.gate = &d.Report
		return
	}
	if !s.prepare(p, d, record.Recovery) {
		p.everRan, p.gate, p.fatal = true, nil, "wal: crc mismatch"
		return
	}
	if p.full = s.persistent && s.claims[p.ordinal].full; p.full {
		p.everRan, p.gate, p.fatal = true, nil, ""
		return
	}
	if p.agreed = p.disk.Agreed().Minor; slices.Contains(absent, p.release) {
		p.gate = nil
		return
	}
	members := record.Members
	if d.Members != nil {
		members = d.Members
	}
	token, restored := s.begins(&record, d)
	process, err := s.net.Start(etcdfake.Config{
		Self: in.Self, Token: token, Restored: restored, State: d.State, Members: members, Version: p.release.String(), Plain: p.plain, TLS: p.tls,
		Behind: s.rng.IntN(4),
	}, p.disk)
	if errors.Is(err, etcdfake.ErrRemoved) {
		p.fatal = err.Error()
	}
	if err != nil {
		p.everRan, p.refused = true, errors.Is(err, etcdfake.ErrVersion)
		return // It ends and is started again.
	}
	p.process, p.everRan, p.refused, p.gate, p.fatal = process, true, false, nil, ""
	if _, known := s.net.Acked[p.disk.ClusterID]; d.Restore && !known {
		s.net.Acked[p.disk.ClusterID] = slices.Clone(restored)
	}
	p.starts++
	process.Cut = s.weak[p.template]
	s.note("%s runs (%s)", p.name, d.State)
}

// begins is the token of the cluster that a member founds, and what it finds on its disk.
func (s *sim) begins(r *model.Record, d gate.Decision) (token string, restored []string) {
	if r.Restore == nil {
		return fmt.Sprint(s.uid), nil
	}
	if d.Restore {
		restored = s.backup[r.Restore.Token]
	}
	return r.Restore.Token, restored
}

// inspectVolume is what the gate learns from the volume beside the disk.
func (s *sim) inspectVolume(p *simPod, in *gate.Input) {
	if !s.persistent {
		in.Epoch = p.epoch
		return
	}
	c := s.claims[p.ordinal]
	in.Epoch = c.epoch
	end := p.disk.End()
	in.Log = &end
	if c.corrupt {
		in.LogError = errors.New("wal: crc mismatch")
	}
}

// prepare does with a volume what the gate decided, and reports whether etcd can start from it.
func (s *sim) prepare(p *simPod, d gate.Decision, r model.Recovery) bool {
	if !s.persistent {
		if d.Epoch != "" {
			p.epoch = d.Epoch
		}
		return true
	}
	c := s.claims[p.ordinal]
	if d.Alone {
		s.judgeSurvivor(p, r)
		s.note("%s goes on alone", p.name)
		p.disk.GoOnAlone()
		s.net.Acked[p.disk.ClusterID] = p.disk.Writes()
		delete(s.authSeen, p.disk.ClusterID) // Its data may be from before.
	}
	if d.Epoch != "" {
		c.epoch = d.Epoch
	}
	return !c.corrupt
}

// judgeSurvivor wants what any candidate has to be in the log that goes on.
func (s *sim) judgeSurvivor(p *simPod, r model.Recovery) {
	kept := p.disk.Writes()
	for i, c := range s.claims {
		if !slices.Contains(r.Candidates, cluster.Pod("orders", i)) || c.lost || c.corrupt || c.disk.ClusterID != p.disk.ClusterID {
			continue
		}
		for _, v := range c.disk.Writes() {
			if !slices.Contains(kept, v) && slices.Contains(s.net.Acked[p.disk.ClusterID], v) {
				s.badPolicy = fmt.Sprintf("%s goes on without %s, which member %d has", p.name, v, i)
			}
		}
	}
}

// version stands in for the resource version of a pod: whatever the kubelet reports changes it.
func (s *sim) version(p *simPod) string {
	return fmt.Sprint(p.uid, p.starts, p.process != nil, p.process != nil && s.net.Voting(p.process))
}

// stopPod ends the process of a pod.
func (s *sim) stop(p *simPod) {
	if p.process != nil {
		p.process.Busy = false
		s.net.Stop(p.process)
		p.process = nil
	}
}

func (s *sim) deletePod(p *simPod) {
	s.stop(p)
	if !s.persistent && p.disk.HasLog && !s.ending() {
		s.diskLost = true
	}
	delete(s.pods, p.name)
}
