package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextRestartsOutdatedMembers(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"outdated members without storage are kept when their quorum is lost": {
			state: settled(func(s *model.State) {
				s.Want.Persistent, s.Claims, s.Members, s.Want.TemplateHash = false, nil, nil, "next"
				unready(s)
			}),
			reason: planner.ReasonNoQuorum,
		},
		"outdated members without storage are kept when the record was deleted": {
			state: settled(func(s *model.State) {
				s.Record.Bootstrap, s.Record.ClusterID = model.BootstrapRecovered, 0
				s.Want.Persistent, s.Claims, s.Members, s.Want.TemplateHash = false, nil, nil, "next"
				unready(s)
			}),
			reason: steps.ReasonStarting,
		},
		"followers are restarted first, from the highest ordinal": {
			state: settled(func(s *model.State) { s.Want.TemplateHash = "next" }),
			step:  deletion("orders-2"),
		},
		"members are restarted one at a time": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash = "next"
				s.Pods[2].TemplateHash, s.Pods[2].Ready = "next", false
			}),
			reason: planner.ReasonMembersNotReady,
		},
		"an image of another minor version stops with the first member": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash = "next"
				s.Pods[2].TemplateHash, s.Pods[2].Status.Version, s.Want.ImageOverridden = "next", "3.7.3", true
				s.ClusterVersion = v36
			}),
			reason: planner.ReasonVersion, stalled: true, says: "orders-2 runs etcd 3.7.3, and spec.version is 3.6.16",
		},
		"an image of another minor version is undone": {
			state: settled(func(s *model.State) {
				s.Pods[2].TemplateHash, s.Pods[2].Status.Version, s.ClusterVersion = "bad", "3.7.3", v36
			}),
			step: deletion("orders-2"),
		},
		"a leader hands over before it is restarted": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].TemplateHash, s.Pods[2].TemplateHash = "next", "next"
				s.Pods[2].Status.Applied = 12
			}),
			step: steps.MoveLeader{From: "orders-1", To: 3, Pod: "orders-2"},
		},
		"without a claim a member is replaced instead of restarted": {
			state: settled(func(s *model.State) { s.Want.TemplateHash, s.Want.Persistent = "next", false }),
			step:  steps.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"without a claim the only member cannot be restarted": {
			state: settled(func(s *model.State) {
				single(s)
				s.Want.TemplateHash, s.Want.Persistent = "next", false
			}),
			reason: planner.ReasonRollout, stalled: true,
		},
	})
}

func TestNextUndoesAChangeOfTheTemplate(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a change is undone on the member that it made unhealthy": {
			state: settled(func(s *model.State) {
				s.Pods[2].TemplateHash, s.Pods[2].Ready, s.Pods[2].Status = "bad", false, nil
			}),
			step: deletion("orders-2"),
		},
		"a change that took the quorum away is undone one member at a time": {
			state: settled(quorumless),
			step:  deletion("orders-1"),
		},
		"members that the kubelet finds ready are not restarted, even if none answers": {
			state: settled(func(s *model.State) {
				quorumless(s)
				s.Pods[0].Ready, s.Pods[2].Ready = true, true
			}),
			reason: planner.ReasonNoQuorum,
		},
		"a member that was just restarted gets its time": {
			state: settled(func(s *model.State) {
				quorumless(s)
				s.Pods[2].Started = simNow.Add(-time.Second)
			}),
			reason: planner.ReasonNoQuorum,
		},
		"an unhealthy member is left alone while the new settings are not proved": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].Ready, s.Pods[0].Status = false, nil
				s.Pods[2].TemplateHash, s.Pods[2].Ready, s.Pods[2].Status = "next", false, nil
			}),
			reason: planner.ReasonNoQuorum,
		},
		"an unhealthy member is left alone where the others are no quorum": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].Ready, s.Pods[2].Ready = false, false
			}),
			reason: planner.ReasonMembersNotReady,
		},
	})
}

func TestNextReplacesStuckPods(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"an outdated pod that is stuck is deleted whatever else is known": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash, s.Members = "next", nil
				for i := range s.Pods {
					s.Pods[i].Status, s.Pods[i].Ready, s.Pods[i].Stuck = nil, false, true
				}
			}),
			step: deletion("orders-0"),
		},
		"a stuck pod with the current settings is left alone": {
			state: settled(func(s *model.State) {
				s.Pods[0].Status, s.Pods[0].Ready, s.Pods[0].Stuck, s.Pods[0].Problem = nil, false, true, "cannot be scheduled"
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-0 cannot be scheduled",
		},
		"a stuck pod whose gate runs from an outdated image is deleted": {
			state: settled(func(s *model.State) {
				s.Pods[0].Status, s.Pods[0].Ready, s.Pods[0].Stuck, s.Pods[0].OldRevision = nil, false, true, true
			}),
			step: deletion("orders-0"),
		},
		"a stuck pod of a cluster that never formed has nothing to lose": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash, s.Want.Persistent, s.Members, s.Record.ClusterID, s.Open = "next", false, nil, 0, false
				for i := range s.Pods {
					s.Pods[i].Status, s.Pods[i].Ready, s.Pods[i].Stuck = nil, false, true
				}
			}),
			step: deletion("orders-0"),
		},
		"a stuck pod whose data would go with it is left to its owner": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash, s.Want.Persistent, s.Members = "next", false, nil
				for i := range s.Pods {
					s.Pods[i].Status, s.Pods[i].Ready, s.Pods[i].Stuck, s.Pods[i].Problem = nil, false, true, "cannot run: OOMKilled"
				}
			}),
			reason: planner.ReasonRollout, stalled: true, says: "orders-0 cannot run: OOMKilled, and the change that may cure it",
		},
	})
}
