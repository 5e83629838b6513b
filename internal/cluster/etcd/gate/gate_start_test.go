package gate_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/rows"
)

func TestDecideStartFoundsACluster(t *testing.T) {
	rows.Run(t, map[string]startRow{
		"a log decides by itself": {
			bootstrap: model.BootstrapNew, id: 7, disk: gate.DiskReady, state: "existing",
		},
		"a log decides by itself in a retained cluster": {
			bootstrap: model.BootstrapRetained, disk: gate.DiskReady, state: "existing",
		},
		"an empty disk founds a new cluster": {
			bootstrap: model.BootstrapNew, state: "new",
		},
		"an empty disk founds a new cluster together with gatePeers": {
			bootstrap: model.BootstrapNew, state: "new", answers: []gate.PeerAnswer{answer(1, 7, 0, 1, 2)},
		},
		"an interrupted first start is set aside": {
			bootstrap: model.BootstrapNew, disk: gate.DiskPartial, state: "new", discard: true,
		},
		"a disk lost before the id was recorded": {
			bootstrap: model.BootstrapNew, answers: []gate.PeerAnswer{answer(1, 7), answer(2, 7, 0)}, waits: model.GateLostDisk,
		},
		"a disk lost afterwards": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{answer(1, 7)}, waits: model.GateLostDisk,
		},
		"an empty disk with nobody to ask": {
			bootstrap: model.BootstrapNew, id: 7, waits: model.GateNoPeers,
		},
		"an empty disk in a retained cluster": {
			bootstrap: model.BootstrapRetained, waits: model.GateNoPeers,
		},
		"gatePeers of another cluster": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{answer(1, 8, 0)}, waits: model.GateForeignPeers,
		},
		"gatePeers of different clusters": {
			bootstrap: model.BootstrapNew, answers: []gate.PeerAnswer{answer(1, 8, 0), answer(2, 9, 0)}, waits: model.GateForeignPeers,
		},
	})
}

func TestDecideStartJoinsACluster(t *testing.T) {
	rows.Run(t, map[string]startRow{
		"an empty disk in a recovered cluster": {
			bootstrap: model.BootstrapRecovered, waits: model.GateNoPeers,
		},
		"a late member that all expect": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{answer(1, 7, 0), answer(2, 7, 0)},
			state: "existing", members: gatePeers,
		},
		"a member that was added and has no name yet": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{added(answer(1, 7, 0)), added(answer(2, 7, 0))},
			state: "existing", members: gatePeers,
		},
		"a disk lost while TLS is being switched": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{toldOtherwise(answer(1, 7)), toldOtherwise(answer(2, 7))},
			waits: model.GateLostDisk,
		},
		"a member that was added while TLS is being switched takes its gatePeers at their word": {
			bootstrap: model.BootstrapNew, id: 7,
			answers: []gate.PeerAnswer{toldOtherwise(added(answer(1, 7, 0))), toldOtherwise(added(answer(2, 7, 0)))},
			state:   "existing", members: []model.Peer{plainPeers[0], gatePeers[1], plainPeers[2]},
		},
		"a single peer may be behind": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{answer(1, 7, 0)}, waits: model.GateNoPeers,
		},
		"a learner may be behind and does not say who has started": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{learner(answer(1, 7, 0))}, waits: model.GateNoPeers,
		},
		"a learner does not say who is a member": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{without(learner(answer(1, 7)))}, waits: model.GateNoPeers,
		},
		"a member that has not joined does not say who has started": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{answer(1, 7, 0, 1), answer(2, 7, 0, 2)}, waits: model.GateNoPeers,
		},
		"a member that the cluster does not list": {
			bootstrap: model.BootstrapNew, id: 7, answers: []gate.PeerAnswer{without(answer(1, 7))}, waits: model.GateNotMember,
		},
	})
}

func TestDecideStartKeepsWhatWasSetAside(t *testing.T) {
	rows.Run(t, map[string]startRow{
		"what was set aside is not taken for nothing": {
			bootstrap: model.BootstrapRetained, aside: []string{"before-abc"}, waits: model.GateAside,
		},
		"what was set aside is not taken for nothing where claims were not known of": {
			bootstrap: model.BootstrapNew, aside: []string{"before-abc"}, waits: model.GateAside,
		},
		"what was set aside does not matter when the cluster begins with a backup": {
			bootstrap: model.BootstrapNew, aside: []string{"before-abc"}, restores: true, state: "new",
		},
		"what was set aside does not matter when the peers expect the member": {
			bootstrap: model.BootstrapRetained, aside: []string{"before-abc"}, answers: []gate.PeerAnswer{answer(1, 7, 0), answer(2, 7, 0)},
			state: "existing", members: gatePeers,
		},
		"what was set aside does not matter when a cluster is there": {
			bootstrap: model.BootstrapNew, id: 7, aside: []string{"before-abc"}, waits: model.GateNoPeers,
		},
	})
}
