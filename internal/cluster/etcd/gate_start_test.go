package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestDecideStartFoundsACluster(t *testing.T) {
	runRows(t, map[string]startRow{
		"a log decides by itself": {
			bootstrap: etcd.BootstrapNew, id: 7, disk: etcd.DiskReady, state: "existing",
		},
		"a log decides by itself in a retained cluster": {
			bootstrap: etcd.BootstrapRetained, disk: etcd.DiskReady, state: "existing",
		},
		"an empty disk founds a new cluster": {
			bootstrap: etcd.BootstrapNew, state: "new",
		},
		"an empty disk founds a new cluster together with gatePeers": {
			bootstrap: etcd.BootstrapNew, state: "new", answers: []etcd.PeerAnswer{answer(1, 7, 0, 1, 2)},
		},
		"an interrupted first start is set aside": {
			bootstrap: etcd.BootstrapNew, disk: etcd.DiskPartial, state: "new", discard: true,
		},
		"a disk lost before the id was recorded": {
			bootstrap: etcd.BootstrapNew, answers: []etcd.PeerAnswer{answer(1, 7), answer(2, 7, 0)}, waits: etcd.GateLostDisk,
		},
		"a disk lost afterwards": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7)}, waits: etcd.GateLostDisk,
		},
		"an empty disk with nobody to ask": {
			bootstrap: etcd.BootstrapNew, id: 7, waits: etcd.GateNoPeers,
		},
		"an empty disk in a retained cluster": {
			bootstrap: etcd.BootstrapRetained, waits: etcd.GateNoPeers,
		},
		"gatePeers of another cluster": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 8, 0)}, waits: etcd.GateForeignPeers,
		},
		"gatePeers of different clusters": {
			bootstrap: etcd.BootstrapNew, answers: []etcd.PeerAnswer{answer(1, 8, 0), answer(2, 9, 0)}, waits: etcd.GateForeignPeers,
		},
	})
}

func TestDecideStartJoinsACluster(t *testing.T) {
	runRows(t, map[string]startRow{
		"an empty disk in a recovered cluster": {
			bootstrap: etcd.BootstrapRecovered, waits: etcd.GateNoPeers,
		},
		"a late member that all expect": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7, 0), answer(2, 7, 0)},
			state: "existing", members: gatePeers,
		},
		"a member that was added and has no name yet": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{added(answer(1, 7, 0)), added(answer(2, 7, 0))},
			state: "existing", members: gatePeers,
		},
		"a disk lost while TLS is being switched": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{toldOtherwise(answer(1, 7)), toldOtherwise(answer(2, 7))},
			waits: etcd.GateLostDisk,
		},
		"a member that was added while TLS is being switched takes its gatePeers at their word": {
			bootstrap: etcd.BootstrapNew, id: 7,
			answers: []etcd.PeerAnswer{toldOtherwise(added(answer(1, 7, 0))), toldOtherwise(added(answer(2, 7, 0)))},
			state:   "existing", members: []etcd.Peer{plainPeers[0], gatePeers[1], plainPeers[2]},
		},
		"a single peer may be behind": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7, 0)}, waits: etcd.GateNoPeers,
		},
		"a learner may be behind and does not say who has started": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{learner(answer(1, 7, 0))}, waits: etcd.GateNoPeers,
		},
		"a learner does not say who is a member": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{without(learner(answer(1, 7)))}, waits: etcd.GateNoPeers,
		},
		"a member that has not joined does not say who has started": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7, 0, 1), answer(2, 7, 0, 2)}, waits: etcd.GateNoPeers,
		},
		"a member that the cluster does not list": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{without(answer(1, 7))}, waits: etcd.GateNotMember,
		},
	})
}

func TestDecideStartKeepsWhatWasSetAside(t *testing.T) {
	runRows(t, map[string]startRow{
		"what was set aside is not taken for nothing": {
			bootstrap: etcd.BootstrapRetained, aside: []string{"before-abc"}, waits: etcd.GateAside,
		},
		"what was set aside is not taken for nothing where claims were not known of": {
			bootstrap: etcd.BootstrapNew, aside: []string{"before-abc"}, waits: etcd.GateAside,
		},
		"what was set aside does not matter when the cluster begins with a backup": {
			bootstrap: etcd.BootstrapNew, aside: []string{"before-abc"}, restores: true, state: "new",
		},
		"what was set aside does not matter when the peers expect the member": {
			bootstrap: etcd.BootstrapRetained, aside: []string{"before-abc"}, answers: []etcd.PeerAnswer{answer(1, 7, 0), answer(2, 7, 0)},
			state: "existing", members: gatePeers,
		},
		"what was set aside does not matter when a cluster is there": {
			bootstrap: etcd.BootstrapNew, id: 7, aside: []string{"before-abc"}, waits: etcd.GateNoPeers,
		},
	})
}
