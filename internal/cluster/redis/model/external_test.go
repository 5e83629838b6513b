package model

import (
	"testing"
)

func TestAServerIsKnownByTheNameOfItsPod(t *testing.T) {
	n := Node{Peers: []Peer{{Myself: true, Host: "outside.example.com"}}, Announces: map[string]string{announceName: "c-0-1.c-peers.ns.svc.cluster.local"}}
	if !n.RunsIn("c-0-1", "c", "ns") || n.RunsIn("c-0-0", "c", "ns") {
		t.Error("the name of the pod does not tell who answers")
	}
}
