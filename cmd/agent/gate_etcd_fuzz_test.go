package main

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// FuzzPeerMembers decides a start on what a peer answers. An answer without a started voter of the
// peer's own name never lets a member with an empty disk start a second time.
func FuzzPeerMembers(f *testing.F) {
	f.Add(`[{"id":1,"name":"orders-1","peerURLs":["http://b"],"clientURLs":["http://b"]},{"name":"orders-0","peerURLs":["http://a"]}]`)
	f.Add(`[{"name":"orders-1","isLearner":true}]`)
	f.Add(`[null,{}]`)
	f.Add(`{"members":[]}`)
	f.Fuzz(func(_ *testing.T, text string) {
		members, err := readMembers(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, disk := range []gate.Disk{gate.DiskEmpty, gate.DiskPartial, gate.DiskReady} {
			gate.Decide(gate.Input{
				Self: model.Peer{Name: "orders-0", URL: "http://a"}, Disk: disk, Record: model.Record{ClusterID: 7},
				Answers: []gate.PeerAnswer{{From: "orders-1", ClusterID: 7, Members: members}},
			})
		}
	})
}
