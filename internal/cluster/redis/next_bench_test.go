package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// BenchmarkNextOfASettledCluster plans for clusters of three servers a shard up to the largest that the API
// allows. ns/shard tells how the time grows.
func BenchmarkNextOfASettledCluster(b *testing.B) {
	for _, shards := range []int{3, 30, 100, 333} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			s := settledCluster(shards, 3)
			for b.Loop() {
				if p := Next(s); !p.Settled() {
					b.Fatalf("not settled: %s", p.Message)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*shards), "ns/shard")
		})
	}
}

// settledCluster returns the state of a cluster in which nothing is to do.
func settledCluster(shards, copies int) State {
	s := State{Now: now, Spec: Spec{Name: "c", Shards: shards, Replicas: copies - 1, Version: "8.0.2", NodeTimeout: 5 * time.Second, Persistent: true}}
	var peers []Peer
	for shard := range shards {
		s.Sets = append(s.Sets, Set{Shard: shard, Replicas: copies})
		for ordinal := range copies {
			name := cluster.Pod(cluster.ShardSet("c", shard), ordinal)
			p := Pod{
				Name: name, UID: "uid-" + name, Shard: shard, Ordinal: ordinal, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
				Addr: Address{IP: fmt.Sprintf("10.%d.%d.%d", shard/256, shard%256, ordinal), Port: ClientPort},
				Node: &Node{
					ID: id(name), Version: "8.0.2", Clock: now, StateOK: true, LinkUp: ordinal > 0, EverLinked: ordinal > 0,
					Keys: 10, Offset: 1000, Admits: AdmitsForGood, OnDisk: true,
				},
			}
			peer := Peer{ID: p.Node.ID, Addr: p.Addr, Host: name + ".c-peers", Epoch: bootstrapEpoch(&p), Answered: now}
			if ordinal == 0 {
				peer.Slots = Share(shard, shards)
			} else {
				peer.Replica, peer.PrimaryID = true, id(fmt.Sprintf("c-%d-0", shard))
			}
			s.Pods, peers = append(s.Pods, p), append(peers, peer)
		}
	}
	for i := range s.Pods {
		table := slices.Clone(peers)
		table[i].Myself = true
		s.Pods[i].Node.Peers = table
	}
	return s
}
