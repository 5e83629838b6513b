package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis/anomalies"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// watch plays a settled cluster for some minutes, and returns what is found at the end.
func watch(g *anomalies.Detector, minutes int, spoil func(minute float64, f *fixture)) (last *anomaly.Report) {
	for i := range minutes * 4 {
		f, minute := formed(), float64(i)/4
		f.Now = now.Add(time.Duration(minute * float64(time.Minute)))
		for n := range f.Pods {
			p := &f.Pods[n]
			p.Ready, p.Took, p.Started = true, time.Millisecond, now.Add(-24*time.Hour)
			p.Clock = anomaly.Clock{Server: p.Name, Least: -time.Millisecond, Most: time.Millisecond}
			p.Node.Clock, p.Node.Process = f.Now, "first"
			p.Node.Memory = model.Memory{Used: 100 << 20, Resident: 110 << 20, Max: 1 << 30}
			p.Node.Commands = int64(600 * minute)
		}
		if spoil != nil {
			spoil(minute, f)
		}
		last = g.Next(f.State)
	}
	return last
}

func TestWhatIsUnusualAboutServers(t *testing.T) {
	for name, tc := range map[string]struct {
		minutes int
		spoil   func(minute float64, f *fixture)
		want    string
	}{
		"nothing": {minutes: 60},
		"a server that answers slowly": {
			minutes: 6, want: "SlowMember: c-1-1 takes about 600ms to answer",
			spoil: func(_ float64, f *fixture) { f.pod("c-1-1").Took = 600 * time.Millisecond },
		},
		"a replica that is behind": {
			minutes: 6, want: "ReplicationLag: c-1-1 is about 100 MiB behind",
			spoil: func(_ float64, f *fixture) { f.pod("c-1-0").Node.Offset = 1000 + 100<<20 },
		},
		"a replica that is not connected": {
			minutes: 6,
			spoil:   func(_ float64, f *fixture) { f.pod("c-1-0").Node.Offset = 1 << 40; f.unlink("c-1-1") },
		},
		"a primary that is full": {
			minutes: 3, want: "MemoryForecast: c-1 uses more than 90 % of its maxmemory of 1024 MiB",
			spoil: func(_ float64, f *fixture) { f.pod("c-1-0").Node.Memory.Used = 950 << 20 },
		},
		"buffers of replicas": {
			minutes: 3,
			spoil: func(_ float64, f *fixture) {
				m := &f.pod("c-1-0").Node.Memory
				m.Used, m.Uncounted = 950<<20, 800<<20
			},
		},
		"a cache that is full": {
			minutes: 3,
			spoil: func(_ float64, f *fixture) {
				m := &f.pod("c-1-0").Node.Memory
				m.Used, m.Evicts = 1000<<20, true
			},
		},
		"a primary that fills": {
			minutes: 60, want: "MemoryForecast: at the rate of the last hours c-2 reaches its maxmemory of 1024 MiB in less than 2h",
			spoil: func(minute float64, f *fixture) {
				f.pod("c-2-0").Node.Memory.Used = 500<<20 + int64(minute*4)<<20
			},
		},
		"a primary that fills within days": {
			minutes: 60,
			spoil: func(minute float64, f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Node.Memory.Used, f.Pods[i].Node.Memory.Resident = 600<<20+int64(minute*0.1*(1<<20)), 700<<20
				}
			},
		},
		"a shard with most of the load": {
			minutes: 15, want: "HotShard: c-0 has about 150 times as many commands as the other shards",
			spoil: func(minute float64, f *fixture) { f.pod("c-0-0").Node.Commands = int64(90000 * minute) },
		},
		"a shard with most of the data": {
			minutes: 15, want: "HotShard: c-0 holds about 8 times as much as the other shards",
			spoil: func(_ float64, f *fixture) { f.pod("c-0-0").Node.Memory.Used = 800 << 20 },
		},
		"a shard that is rebalanced": {
			minutes: 15,
			spoil: func(_ float64, f *fixture) {
				f.pod("c-0-0").Node.Memory.Used = 800 << 20
				f.Spec.Rebalance.By = v1alpha1.RebalanceByMemory
			},
		},
		"memory that is not given back": {
			minutes: 35, want: "Fragmented: about 700 MiB of the memory of c-2-1 is taken and not in use",
			spoil: func(_ float64, f *fixture) { f.pod("c-2-1").Node.Memory.Resident = 800 << 20 },
		},
		"a clock that is off": {
			minutes: 4, want: "ClockSkew: the clocks of c-0-0 and c-1-0 are about 3",
			spoil: func(_ float64, f *fixture) {
				c := &f.pod("c-1-0").Clock
				c.Least, c.Most = -3100*time.Millisecond, -3099*time.Millisecond
			},
		},
		"a server that is lost again and again": {
			minutes: 30, want: "FlappingMember: c-0-1 was lost about 5 times within an hour",
			spoil: func(minute float64, f *fixture) {
				f.pod("c-0-1").Started = now.Add(time.Duration(int(minute)/5) * time.Minute)
			},
		},
		"a server that is rolled out again and again": {
			minutes: 30,
			spoil: func(minute float64, f *fixture) {
				f.pod("c-0-1").Started = now.Add(time.Duration(int(minute)/5) * time.Minute)
				f.pod("c-0-1").Outdated = int(minute)%5 == 4
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var g anomalies.Detector
			r := watch(&g, tc.minutes, tc.spoil)
			if got := r.String(); !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("%q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestServersThatDoNotAnswerAreUnknown(t *testing.T) {
	var g anomalies.Detector
	r := watch(&g, 10, func(minute float64, f *fixture) {
		if minute > 1 {
			f.pod("c-0-1").Node, f.pod("c-0-1").Took = nil, 0
		}
	})
	if diff := cmp.Diff([]string{"c-0-1"}, r.Unknown); diff != "" || len(r.Open) > 0 {
		t.Errorf("%+v", r)
	}
}

// What is remembered is that of the servers that there are.
func TestADetectorForgetsShardsThatAreGone(t *testing.T) {
	var g anomalies.Detector
	watch(&g, 2, nil)
	for i := range 50 {
		f := formed()
		f.Now, f.Spec.Name = now.Add(time.Duration(i)*time.Hour), fmt.Sprint("c", i)
		g.Next(f.State)
	}
	if n := g.Remembers(); n == 0 || n > 3*3+6 {
		t.Errorf("%d series of 3 shards with 6 servers", n)
	}
}
