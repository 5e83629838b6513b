package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextBootstrapsACluster(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a new cluster gets its record first": {
			state: fresh(nil), step: steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: 3, Version: v36},
		},
		"claims of an earlier cluster forbid founding": {
			state: fresh(func(s *model.State) { s.Claims = []model.Claim{{Name: "data-orders-2", Ordinal: 2}} }),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapRetained, Size: 3, Version: v36},
		},
		"claims of an earlier cluster forbid founding one without volumes, which could not see what is in them": {
			state: fresh(func(s *model.State) {
				s.Want.Persistent, s.Claims = false, []model.Claim{{Name: "data-orders-2", Ordinal: 2}}
			}),
			reason: planner.ReasonStorage, stalled: true, says: "the claims data-orders-2 of an earlier cluster of this name may hold its data, and spec.storage is not set",
		},
		"claims that are on their way out are waited for": {
			state:  fresh(func(s *model.State) { s.Claims = []model.Claim{{Name: "data-orders-0", Leaving: true}} }),
			reason: planner.ReasonClaimsLeaving, says: "data-orders-0",
		},
		"claims of a larger cluster bring all its members back": {
			state: fresh(func(s *model.State) { s.Claims = []model.Claim{{Name: "data-orders-4", Ordinal: 4}} }),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapRetained, Size: 5, Version: v36},
		},
		"a record deleted under a living cluster never founds, and keeps all its pods": {
			state: fresh(func(s *model.State) { s.Set, s.Want.Persistent = &model.Set{Replicas: 5}, false }),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapRecovered, Size: 5, Version: v36},
		},
		"members without a quorum are waited for": {
			state: settled(func(s *model.State) {
				s.Record.ClusterID, s.Members, s.Auth, s.Open = 0, nil, nil, false
				for i := range s.Pods {
					s.Pods[i].Status = nil
				}
			}),
			reason: steps.ReasonStarting, says: "orders-0 does not answer",
		},
		"pods that have just been asked for are waited for": {
			state: unfounded(false), reason: steps.ReasonStarting,
			ends: "the first quorum of 3 members: orders-0 has no pod yet; orders-1 does not answer; orders-2 has no pod yet",
		},
		"pods that Kubernetes does not make are named, with the command that says why": {
			state: unfounded(true), reason: steps.ReasonStarting,
			ends: "orders-0 has no pod yet: Kubernetes has not made it: if that lasts, `kubectl -n default describe statefulset orders` says why " +
				"(a quota, a limit range, an admission policy); orders-1 does not answer; orders-2 has no pod yet",
		},
	})
}

func TestNextFoundsNoClusterBesideData(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"retained volumes that are all empty found a cluster": {
			state: retainedEmpty(nil),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: 3, Version: v36},
		},
		"retained volumes with data that was set aside found no cluster": {
			state: retainedEmpty(func(s *model.State) {
				s.Pods[1].Gate = &model.GateReport{Reason: model.GateAside, Message: "orders-1 has it in before-abc"}
			}),
			reason: planner.ReasonAside, stalled: true, says: "no member founds a new one: orders-1 has it in before-abc. Go back to that",
		},
		"empty disks found no cluster beside the claim of a member that was not started": {
			state: retainedEmpty(func(s *model.State) {
				s.Claims = append(s.Claims, model.Claim{Name: "data-orders-3", UID: "claim-3", Ordinal: 3})
			}),
			reason: steps.ReasonQuorumLost, stalled: true,
		},
		"empty disks found no cluster while a pod is missing": {
			state: retainedEmpty(func(s *model.State) { s.Pods = s.Pods[:2] }), reason: steps.ReasonQuorumLost,
		},
		"empty disks found no cluster while a pod is ending": {
			state: retainedEmpty(func(s *model.State) { s.Pods[1].Terminating = true }), reason: steps.ReasonQuorumLost,
		},
		"empty disks found no cluster beside one whose id is recorded": {
			state: settled(func(s *model.State) {
				s.Record.Bootstrap, s.Members = model.BootstrapRetained, nil
				emptyDisks(s)
			}),
			reason: steps.ReasonQuorumLost, stalled: true,
		},
		"empty disks found no cluster where the record was deleted under a living one": {
			state: settled(func(s *model.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = model.BootstrapRecovered, 0, nil
				emptyDisks(s)
			}),
			reason: steps.ReasonQuorumLost, stalled: true,
		},
		"retained volumes of which one may have data found no cluster": {
			state: settled(func(s *model.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = model.BootstrapRetained, 0, nil
				for i := range s.Pods[:2] {
					s.Pods[i].Status, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(model.GateNoPeers)
				}
				s.Pods[2].Status = nil
			}),
			reason: steps.ReasonQuorumLost, says: "What orders-2 has is not known, because it does not answer; if",
		},
	})
}

func TestNextRecordsTheIdentityOfACluster(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"the identity is recorded before anything is written": {
			state: settled(func(s *model.State) {
				s.Record.ClusterID, s.Auth, s.Open = 0, &model.Auth{}, false
			}),
			step: steps.RecordClusterID{ClusterID: clusterID},
		},
		"a quorum is enough to record the identity": {
			state: settled(func(s *model.State) {
				s.Record.ClusterID, s.Open, s.Pods[0].Status = 0, false, nil
			}),
			step: steps.RecordClusterID{ClusterID: clusterID},
		},
		"less than a quorum is not enough to record the identity": {
			state: settled(func(s *model.State) {
				s.Record.ClusterID, s.Open, s.Pods[0].Status, s.Pods[2].Status = 0, false, nil, nil
			}),
			reason: steps.ReasonStarting,
		},
		"members of two clusters are refused": {
			state:  settled(func(s *model.State) { s.Pods[2].Status.ClusterID = 7 }),
			reason: planner.ReasonIdentity, stalled: true, says: "orders-2 to 7",
		},
		"members of another cluster than the recorded one are refused": {
			state:  settled(func(s *model.State) { s.Record.ClusterID = 7 }),
			reason: planner.ReasonIdentity, stalled: true,
		},
	})
}
