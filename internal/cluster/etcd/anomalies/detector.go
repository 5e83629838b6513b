package anomalies

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
)

// freshFor is for how long all that a process has counted since its start is as good as what it has counted lately.
const freshFor = 10 * time.Minute

// Detector remembers how the members of one cluster have been lately. With the operator it begins anew. The zero value remembers nothing.
type Detector struct {
	watch   anomaly.Watch
	disks   map[string]disk
	members anomaly.Tally
	leaders anomaly.Changes
}

// disk is what a process has told last.
type disk struct {
	process string
	model.MemberMetrics
}

// Next takes a state, and says what is unusual about the members.
func (v *Detector) Next(s model.State) *anomaly.Report {
	if v.members == nil {
		v.members, v.disks = anomaly.Tally{}, map[string]disk{}
	}
	names := []string{}
	var expected []anomaly.Key
	for _, m := range s.Record.Members {
		names = append(names, m.Name)
		for _, measure := range []*anomaly.Measure{anomaly.AnswerTime, anomaly.FsyncTime, anomaly.CommitTime} {
			expected = append(expected, anomaly.Key{Measure: measure, Subject: m.Name})
		}
	}
	readings := append(v.changes(s, names), answers(s)...)
	var clocks []anomaly.Clock
	for _, p := range s.Pods {
		if p.Metrics != nil {
			readings = append(readings, v.disk(s, p)...)
			clocks = append(clocks, p.Clock)
		}
		readings = append(readings, freePages(s.Want.Maintenance, p)...)
	}
	readings = append(append(readings, anomaly.Apart(clocks)...), behind(s)...)
	for name := range v.disks {
		if s.PodNamed(name) == nil {
			delete(v.disks, name)
		}
	}
	report := v.watch.Next(s.Now, readings, expected)
	return &report
}

// changes reads how often members were lost and leadership moved. What a rollout or the emptying of a node does is no surprise.
func (v *Detector) changes(s model.State, names []string) []anomaly.Reading {
	var out []anomaly.Reading
	planned := s.Want.Hibernated
	for _, p := range s.Pods {
		planned = planned || s.Outdated(p) || p.Cordoned != ""
	}
	for _, name := range names {
		process, excused := "", s.Want.Hibernated
		if p := s.PodNamed(name); p != nil {
			excused = excused || s.Outdated(*p) || p.Cordoned != ""
			if p.Ready && !p.Terminating {
				process = processOf(*p)
			}
		}
		n := float64(v.members.Next(s.Now, name, process, excused))
		out = append(out, anomaly.MemberChanges.Of(name, n, anomaly.ChangesLimit))
	}
	v.members.Keep(names)
	if leader := s.Leader(); leader != nil {
		n := float64(v.leaders.Next(s.Now, model.FormatID(leader.ID), planned))
		out = append(out, anomaly.LeaderChanges.Of("", n, anomaly.ChangesLimit))
	}
	return out
}

// processOf tells one start of etcd from the next.
func processOf(p model.Pod) string { return fmt.Sprint(p.UID, " ", p.Started.Unix()) }

// answers reads how long members take to answer. One that is ready and has not done so in time took at least that long; one that is being
// defragmented answers nobody.
func answers(s model.State) []anomaly.Reading {
	took := map[string]time.Duration{}
	for _, p := range s.Pods {
		if p.Ready && !p.Terminating && !p.Drained && (p.Status != nil || p.Took > 0) {
			took[p.Name] = p.Took
		}
	}
	return anomaly.Answers(took)
}

// disk reads how fast the disk of a member has been since its metrics were read the last time.
func (v *Detector) disk(s model.State, p model.Pod) []anomaly.Reading {
	former, process := v.disks[p.Name], processOf(p)
	v.disks[p.Name] = disk{process, *p.Metrics}
	var out []anomaly.Reading
	for _, f := range []struct {
		measure  *anomaly.Measure
		limit    time.Duration
		now, was anomaly.Histogram
	}{
		{anomaly.FsyncTime, anomaly.FsyncLimit, p.Metrics.Fsync, former.Fsync},
		{anomaly.CommitTime, anomaly.CommitLimit, p.Metrics.Commit, former.Commit},
	} {
		added, known := f.now.Since(f.was)
		switch {
		case known && former.process == process:
		case s.Now.Sub(p.Started) < freshFor:
			added = f.now
		default:
			continue // What it has counted for days says nothing about now.
		}
		r := f.measure.Of(p.Name, 0, f.limit.Seconds())
		if added.Total() >= anomaly.LeastSyncs {
			r = f.measure.Of(p.Name, added.Slow(), f.limit.Seconds())
		}
		out = append(out, r)
	}
	return out
}

// behind reads how many entries voters have yet to apply. A learner has joined to catch up.
func behind(s model.State) []anomaly.Reading {
	learners := map[string]bool{}
	for _, m := range s.Members {
		if p := s.Pod(m); p != nil {
			learners[p.Name] = m.Learner
		}
	}
	var out []anomaly.Reading
	for _, l := range planner.Figures(s).Lags {
		if !learners[l.Pod] {
			out = append(out, anomaly.EntriesBehind.Of(l.Pod, l.Behind, anomaly.EntriesLimit))
		}
	}
	return out
}

// freePages reads how much of a database is free, where nobody defragments it.
func freePages(w model.Policy, p model.Pod) []anomaly.Reading {
	if w.Defragment || p.Status == nil || p.Status.DBSize == 0 || w.MinFree == 0 {
		return nil
	}
	free := float64(p.Status.DBSize - p.Status.DBInUse)
	return []anomaly.Reading{{
		Measure: anomaly.FreePages, Subject: p.Name, Figure: free,
		Score: anomaly.Both(free, float64(w.MinFree), free/float64(p.Status.DBSize), model.LooseShare),
	}}
}
