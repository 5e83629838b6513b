package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestNextBootstrapsACluster(t *testing.T) {
	runRows(t, map[string]planRow{
		"a new cluster gets its record first": {
			state: fresh(nil), step: etcd.WriteBootstrap{Bootstrap: etcd.BootstrapNew, Size: 3, Version: v36},
		},
		"claims of an earlier cluster forbid founding": {
			state: fresh(func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-2", Ordinal: 2}} }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRetained, Size: 3, Version: v36},
		},
		"claims of an earlier cluster forbid founding one without volumes, which could not see what is in them": {
			state: fresh(func(s *etcd.State) {
				s.Want.Persistent, s.Claims = false, []etcd.Claim{{Name: "data-orders-2", Ordinal: 2}}
			}),
			reason: etcd.ReasonStorage, stalled: true, says: "the claims data-orders-2 of an earlier cluster of this name may hold its data, and spec.storage is not set",
		},
		"claims that are on their way out are waited for": {
			state:  fresh(func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-0", Leaving: true}} }),
			reason: etcd.ReasonClaimsLeaving, says: "data-orders-0",
		},
		"claims of a larger cluster bring all its members back": {
			state: fresh(func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-4", Ordinal: 4}} }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRetained, Size: 5, Version: v36},
		},
		"a record deleted under a living cluster never founds, and keeps all its pods": {
			state: fresh(func(s *etcd.State) { s.Set, s.Want.Persistent = &etcd.Set{Replicas: 5}, false }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRecovered, Size: 5, Version: v36},
		},
		"members without a quorum are waited for": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Members, s.Auth, s.Open = 0, nil, nil, false
				for i := range s.Pods {
					s.Pods[i].View = nil
				}
			}),
			reason: etcd.ReasonStarting, says: "orders-0 does not answer",
		},
		"pods that have just been asked for are waited for": {
			state: unfounded(false), reason: etcd.ReasonStarting,
			ends: "the first quorum of 3 members: orders-0 has no pod yet; orders-1 does not answer; orders-2 has no pod yet",
		},
		"pods that Kubernetes does not make are named, with the command that says why": {
			state: unfounded(true), reason: etcd.ReasonStarting,
			ends: "orders-0 has no pod yet: Kubernetes has not made it: if that lasts, `kubectl -n default describe statefulset orders` says why " +
				"(a quota, a limit range, an admission policy); orders-1 does not answer; orders-2 has no pod yet",
		},
	})
}

func TestNextFoundsNoClusterBesideData(t *testing.T) {
	runRows(t, map[string]planRow{
		"retained volumes that are all empty found a cluster": {
			state: retainedEmpty(nil),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapNew, Size: 3, Version: v36},
		},
		"retained volumes with data that was set aside found no cluster": {
			state: retainedEmpty(func(s *etcd.State) {
				s.Pods[1].Gate = &etcd.GateReport{Reason: etcd.GateAside, Message: "orders-1 has it in before-abc"}
			}),
			reason: etcd.ReasonAside, stalled: true, says: "no member founds a new one: orders-1 has it in before-abc. Go back to that",
		},
		"empty disks found no cluster beside the claim of a member that was not started": {
			state: retainedEmpty(func(s *etcd.State) {
				s.Claims = append(s.Claims, etcd.Claim{Name: "data-orders-3", UID: "claim-3", Ordinal: 3})
			}),
			reason: etcd.ReasonQuorumLost, stalled: true,
		},
		"empty disks found no cluster while a pod is missing": {
			state: retainedEmpty(func(s *etcd.State) { s.Pods = s.Pods[:2] }), reason: etcd.ReasonQuorumLost,
		},
		"empty disks found no cluster while a pod is ending": {
			state: retainedEmpty(func(s *etcd.State) { s.Pods[1].Terminating = true }), reason: etcd.ReasonQuorumLost,
		},
		"empty disks found no cluster beside one whose id is recorded": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Members = etcd.BootstrapRetained, nil
				emptyDisks(s)
			}),
			reason: etcd.ReasonQuorumLost, stalled: true,
		},
		"empty disks found no cluster where the record was deleted under a living one": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRecovered, 0, nil
				emptyDisks(s)
			}),
			reason: etcd.ReasonQuorumLost, stalled: true,
		},
		"retained volumes of which one may have data found no cluster": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRetained, 0, nil
				for i := range s.Pods[:2] {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
				}
				s.Pods[2].View = nil
			}),
			reason: etcd.ReasonQuorumLost, says: "What orders-2 has is not known, because it does not answer; if",
		},
	})
}

func TestNextRecordsTheIdentityOfACluster(t *testing.T) {
	runRows(t, map[string]planRow{
		"the identity is recorded before anything is written": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Auth, s.Open = 0, &etcd.Auth{}, false
			}),
			step: etcd.RecordClusterID{ClusterID: clusterID},
		},
		"a quorum is enough to record the identity": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Open, s.Pods[0].View = 0, false, nil
			}),
			step: etcd.RecordClusterID{ClusterID: clusterID},
		},
		"less than a quorum is not enough to record the identity": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Open, s.Pods[0].View, s.Pods[2].View = 0, false, nil, nil
			}),
			reason: etcd.ReasonStarting,
		},
		"members of two clusters are refused": {
			state:  settled(func(s *etcd.State) { s.Pods[2].View.ClusterID = 7 }),
			reason: etcd.ReasonIdentity, stalled: true, says: "orders-2 to 7",
		},
		"members of another cluster than the recorded one are refused": {
			state:  settled(func(s *etcd.State) { s.Record.ClusterID = 7 }),
			reason: etcd.ReasonIdentity, stalled: true,
		},
	})
}
