package anomalies

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Detector remembers how the servers of one cluster have been lately. With the operator it begins anew. The zero value remembers nothing.
type Detector struct {
	watch     anomaly.Watch
	servers   anomaly.Tally
	primaries anomaly.Tally
	// trends of the memory, and what was counted last, by shard.
	trends map[string]*anomaly.Trend
	counts history.Rates
}

// Next takes a state, and says what is unusual about the servers.
func (g *Detector) Next(s model.State) *anomaly.Report {
	if g.servers == nil {
		g.servers, g.primaries = anomaly.Tally{}, anomaly.Tally{}
		g.trends, g.counts = map[string]*anomaly.Trend{}, history.Rates{}
	}
	v := model.NewView(s)
	took := map[string]time.Duration{}
	var (
		readings []anomaly.Reading
		expected []anomaly.Key
		clocks   []anomaly.Clock
		names    []string
	)
	for _, pods := range v.Shards {
		for _, p := range pods {
			names = append(names, p.Name)
			expected = append(expected, anomaly.Key{Measure: anomaly.AnswerTime, Subject: p.Name})
			readings = append(readings, g.losses(s.Now, p))
			if p.Ready && !p.Deleting && (p.Node != nil || p.Took > 0) {
				took[p.Name] = p.Took
			}
			if p.Node != nil && !p.Node.Clock.IsZero() && !p.Deleting {
				clocks = append(clocks, p.Clock)
				readings = append(readings, wasted(p)...)
			}
		}
	}
	g.servers.Keep(names)
	readings = append(append(readings, anomaly.Answers(took)...), anomaly.Apart(clocks)...)
	readings = append(append(readings, behind(v, s)...), g.ofShards(v)...)
	report := g.watch.Next(s.Now, readings, expected)
	return &report
}

// losses reads how often a server was lost. What a rollout or the emptying of a node does is no surprise.
func (g *Detector) losses(now time.Time, p *model.Pod) anomaly.Reading {
	process := ""
	if p.Ready && !p.Deleting {
		process = fmt.Sprint(p.UID, " ", p.Started.Unix())
	}
	n := g.servers.Next(now, p.Name, process, p.Outdated || p.Cordoned != "")
	return anomaly.MemberChanges.Of(p.Name, float64(n), anomaly.ChangesLimit)
}

// wasted reads how much memory a server takes beyond what it uses.
func wasted(p *model.Pod) []anomaly.Reading {
	m := p.Node.Memory
	if m.Used == 0 || m.Resident == 0 {
		return nil
	}
	waste := float64(max(0, m.Resident-m.Used))
	return []anomaly.Reading{{
		Measure: anomaly.MemoryWaste, Subject: p.Name, Figure: waste,
		Score: anomaly.Both(float64(m.Resident)/float64(m.Used), anomaly.WasteRatio, waste, anomaly.WasteLimit),
	}}
}

// behind reads how many bytes replicas have yet to apply. One that is not connected is told to be out of sync instead.
func behind(v *model.View, s model.State) []anomaly.Reading {
	linked := map[string]bool{}
	for _, p := range v.Readable {
		linked[p.Name] = p.Node.LinkUp
	}
	var out []anomaly.Reading
	for _, l := range facts.Figures(s).Lags {
		if linked[l.Pod] {
			out = append(out, anomaly.BytesBehind.Of(l.Pod, l.Behind, anomaly.BytesLimit))
		}
	}
	return out
}

// ofShards reads what is asked of primaries: how often they change, how full they are, and how they compare with each other.
func (g *Detector) ofShards(v *model.View) []anomaly.Reading {
	var (
		out    []anomaly.Reading
		names  []string
		rates  = map[string]float64{}
		memory = map[string]float64{}
	)
	for shard, pods := range v.Shards {
		p, name := v.DesignatedPrimary(shard), cluster.ShardSet(v.Spec.Name, shard)
		names = append(names, name)
		if p == nil || p.Node == nil {
			continue
		}
		planned := false
		for _, other := range pods {
			planned = planned || other.Outdated || other.Cordoned != ""
		}
		n := g.primaries.Next(v.Now, name, p.Name, planned)
		out = append(out, anomaly.LeaderChanges.Of(name, float64(n), anomaly.ChangesLimit))
		out = append(out, g.filling(v.Now, name, p.Node.Memory)...)
		if rate := g.counts.Next(v.Now, name, p.Node); rate >= 0 {
			rates[name] = rate
		}
		memory[name] = float64(p.Node.Memory.Used)
	}
	g.keep(names)
	if !v.Spec.Replicated && !v.Spec.Rebalance.On() && divided(v) {
		out = append(out, anomaly.Shards(anomaly.ShardLoad, rates, anomaly.LoadRatio, anomaly.LoadLimit)...)
		out = append(out, anomaly.Shards(anomaly.ShardMemory, memory, anomaly.HoldRatio, anomaly.HoldLimit)...)
	}
	return out
}

// divided tells whether every shard has the slots that it is to have: one that is new or leaves is no measure for the others.
func divided(v *model.View) bool {
	return v.Complete && v.HasOwners && facts.SettledShards(v) && len(facts.Balance(v)) == 0
}

// filling reads how full a primary is, and will be. One that evicts any key is meant to be full.
func (g *Detector) filling(now time.Time, shard string, m model.Memory) []anomaly.Reading {
	if m.Max == 0 || m.Evicts {
		delete(g.trends, shard)
		return nil
	}
	if g.trends[shard] == nil {
		g.trends[shard] = &anomaly.Trend{}
	}
	used, most := m.Used-m.Uncounted, fmt.Sprintf("%d MiB", m.Max>>20)
	forecast := g.trends[shard].Next(now, used, m.Max)
	full := anomaly.MemoryShare.Of(shard, float64(used)/float64(m.Max), anomaly.ShareLimit)
	trend := anomaly.Reading{Measure: anomaly.MemoryTrend, Subject: shard, Detail: most}
	full.Detail = most
	if forecast.RunsOut {
		trend.Score, trend.Figure = 1, forecast.Left.Hours()
	}
	return []anomaly.Reading{full, trend}
}

// keep forgets shards that are gone.
func (g *Detector) keep(shards []string) {
	g.primaries.Keep(shards)
	g.counts.Keep(shards)
	left := map[string]bool{}
	for _, name := range shards {
		left[name] = true
	}
	for name := range g.trends {
		if !left[name] {
			delete(g.trends, name)
		}
	}
}

// Remembers returns how many series of figures the detector keeps.
func (g *Detector) Remembers() int {
	return len(g.trends) + len(g.counts) + len(g.primaries) + len(g.servers)
}
