package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/anomalies"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/redistest"
)

// sizes are those of the benchmarks, in shards of three servers. 333 shards are as many as the API allows.
var sizes = []int{3, 30, 100, 333}

// settledOf is a settled cluster of so many shards, as redisclient reads it.
func settledOf(tb testing.TB, shards, copies int) model.State {
	tb.Helper()
	s := model.State{Now: now, Spec: model.Spec{Name: "c", Shards: shards, Replicas: copies - 1, Version: "8.0.2", NodeTimeout: 5 * time.Second, Persistent: true}}
	topology := model.NewTopology()
	for shard := range shards {
		s.Sets = append(s.Sets, model.Set{Shard: shard, Replicas: copies})
		for ordinal := range copies {
			name := cluster.Pod(cluster.ShardSet("c", shard), ordinal)
			s.Pods = append(s.Pods, model.Pod{
				Name: name, UID: "uid-" + name, Shard: shard, Ordinal: ordinal, Addr: addressOf(shard, ordinal), Ready: true, HasRun: true,
				Started: now.Add(-time.Hour),
			})
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		n, err := topology.ParseNode(redistest.NodeID(p.Shard, p.Ordinal), redistest.Nodes(shards, copies, p.Shard, p.Ordinal), "cluster_state:ok", "")
		if err != nil {
			tb.Fatal(err)
		}
		n.Version, n.Clock, n.LinkUp, n.EverLinked = "8.0.2", now, p.Ordinal > 0, p.Ordinal > 0
		n.Keys, n.Offset, n.Admits, n.OnDisk = 10, 1000, model.AdmitsForGood, true
		p.Node = n
	}
	return s
}

func addressOf(shard, ordinal int) model.Address {
	return model.Address{IP: redistest.NodeIP(shard, ordinal), Port: model.ClientPort}
}

// BenchmarkNext measures one decision about a settled cluster.
func BenchmarkNext(b *testing.B) {
	for _, shards := range sizes {
		s := settledOf(b, shards, 3)
		if p := Next(s); p.Step != nil || p.Reason != "" {
			b.Fatalf("a settled cluster of %d shards has a plan: %+v", shards, p)
		}
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Next(s)
			}
		})
	}
}

// BenchmarkStatus measures what else is made of a state at each reconcile.
func BenchmarkStatus(b *testing.B) {
	for _, shards := range sizes {
		s := settledOf(b, shards, 3)
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			var detector anomalies.Detector
			for b.Loop() {
				Status(s, &v1alpha1.RedisClusterStatus{})
				Conditions(s, cluster.Plan{}, nil)
				detector.Next(s)
			}
		})
	}
}

// BenchmarkReadNodes measures the parsing of all answers to CLUSTER NODES of one observation.
func BenchmarkReadNodes(b *testing.B) {
	for _, shards := range sizes {
		texts, size := make([]string, 3*shards), 0
		for i := range texts {
			texts[i] = redistest.Nodes(shards, 3, i/3, i%3)
			size += len(texts[i])
		}
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				topology := model.NewTopology()
				for i, text := range texts {
					if _, err := topology.ParseNode(redistest.NodeID(i/3, i%3), text, "", ""); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
