package etcdfake

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// trio is a cluster of three members, and starts one of them.
func trio(t *testing.T) (n *Network, disks []*Disk, start func(i int) *Process) {
	t.Helper()
	n, peers := New(), model.Peers("orders", "default", "cluster.local", 3, false)
	for range peers {
		disks = append(disks, &Disk{})
	}
	return n, disks, func(i int) *Process {
		p, err := n.Start(Config{Self: peers[i], Token: "t", State: "new", Members: peers, Version: "3.6.16", Plain: true}, disks[i])
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestALaterTermOutvotesALongerLog(t *testing.T) {
	n, disks, start := trio(t)
	all := []*Process{start(0), start(1), start(2)}
	lead := slices.IndexFunc(all, n.Leads)
	others := []int{(lead + 1) % 3, (lead + 2) % 3}
	if err := n.Put(all[lead], "", "committed"); err != nil {
		t.Fatal(err)
	}
	if err := n.Propose(all[lead], nil, "tail 1", "tail 2", "tail 3", "tail 4"); err != nil {
		t.Fatal(err)
	}
	all[lead].Cut = true
	n.Stop(all[lead])
	if err := n.Put(all[others[0]], "", "of the next term"); err != nil {
		t.Fatal(err)
	}
	if !disks[lead].Behind(disks[others[0]]) || disks[others[0]].Behind(disks[lead]) {
		t.Errorf("%+v is not behind %+v", disks[lead].End(), disks[others[0]].End())
	}
	n.Stop(all[others[0]])
	all[lead] = start(lead)
	if n.Leads(all[lead]) || !n.Leads(all[others[1]]) {
		t.Error("a log of an earlier term leads")
	}
	if diff := cmp.Diff([]string{"committed", "of the next term"}, disks[lead].Writes()); diff != "" {
		t.Errorf("the former leader has (-want +got):\n%s", diff)
	}
}

func TestAProposalThatReachesAQuorumIsRefused(t *testing.T) {
	n, _, start := trio(t)
	all := []*Process{start(0), start(1), start(2)}
	lead := slices.IndexFunc(all, n.Leads)
	if err := n.Propose(all[lead], all[(lead+1)%3:(lead+1)%3+1], "x"); err == nil {
		t.Error("two of three are a quorum")
	}
	if err := n.Propose(all[(lead+1)%3], nil, "x"); err == nil {
		t.Error("a follower proposes by itself")
	}
}
