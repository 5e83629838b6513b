package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// sizes are those of the benchmarks, in shards of three servers. 333 shards are as many as the API allows.
var sizes = []int{3, 30, 100, 333}

// settledOf is a settled cluster of so many shards, as redisclient reads it.
func settledOf(tb testing.TB, shards, copies int) State {
	tb.Helper()
	s := State{Now: now, Spec: Spec{Name: "c", Shards: shards, Replicas: copies - 1, Version: "8.0.2", NodeTimeout: 5 * time.Second, Persistent: true}}
	topology := NewTopology()
	for shard := range shards {
		s.Sets = append(s.Sets, Set{Shard: shard, Replicas: copies})
		for ordinal := range copies {
			name := cluster.Pod(cluster.ShardSet("c", shard), ordinal)
			s.Pods = append(s.Pods, Pod{
				Name: name, UID: "uid-" + name, Shard: shard, Ordinal: ordinal, Addr: addressOf(shard, ordinal), Ready: true, HasRun: true,
				Started: now.Add(-time.Hour),
			})
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		n, err := topology.ParseNode(longID(p.Shard, p.Ordinal), nodesOf(shards, copies, p.Shard, p.Ordinal), "cluster_state:ok", "")
		if err != nil {
			tb.Fatal(err)
		}
		n.Version, n.Clock, n.LinkUp, n.EverLinked = "8.0.2", now, p.Ordinal > 0, p.Ordinal > 0
		n.Keys, n.Offset, n.Admits, n.OnDisk = 10, 1000, AdmitsForGood, true
		p.Node = n
	}
	return s
}

func addressOf(shard, ordinal int) Address {
	return Address{IP: fmt.Sprintf("10.%d.%d.%d", shard/256, shard%256, ordinal), Port: ClientPort}
}

func longID(shard, ordinal int) string { return fmt.Sprintf("%032x%08x", shard*0x9e3779b9, ordinal+1) }

// nodesOf is the answer of one server to CLUSTER NODES, in an order and with times of its own.
func nodesOf(shards, copies, ofShard, ofOrdinal int) string {
	var b strings.Builder
	for i := range shards * copies {
		i = (i + 7*ofShard + ofOrdinal) % (shards * copies)
		shard, ordinal := i/copies, i%copies
		flags, primary, slots := "master", "-", Share(shard, shards).String()
		if ordinal > 0 {
			flags, primary, slots = "slave", longID(shard, 0), ""
		}
		if shard == ofShard && ordinal == ofOrdinal {
			flags = "myself," + flags
		}
		fmt.Fprintf(&b, "%s %s@16379,c-%d-%d.c-peers.ns.svc.cluster.local %s %s 0 %d %d connected %s\n", longID(shard, ordinal),
			addressOf(shard, ordinal), shard, ordinal, flags, primary, now.UnixMilli()-int64((i*31+ofShard*17)%900), shard+1, slots)
	}
	return b.String()
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
			var vigil Vigil
			for b.Loop() {
				Status(s, &v1alpha1.RedisClusterStatus{})
				Conditions(s, cluster.Plan{}, nil)
				vigil.Next(s)
			}
		})
	}
}

// BenchmarkReadNodes measures the parsing of all answers to CLUSTER NODES of one observation.
func BenchmarkReadNodes(b *testing.B) {
	for _, shards := range sizes {
		texts, size := make([]string, 3*shards), 0
		for i := range texts {
			texts[i] = nodesOf(shards, 3, i/3, i%3)
			size += len(texts[i])
		}
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				topology := NewTopology()
				for i, text := range texts {
					if _, err := topology.ParseNode(longID(i/3, i%3), text, "", ""); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
