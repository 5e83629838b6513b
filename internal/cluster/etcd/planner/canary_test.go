package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestUpgradeProvesSettingsOnTheFirstMember(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a member that is far behind holds up the next restart": {
			state: settled(func(s *model.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].Status.Applied = 100_000
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-1 is 99991 log entries behind",
		},
		"settings that all are well with are remembered": {
			state: settled(func(s *model.State) { s.Want.Settings = "new settings" }), step: steps.Prove{Settings: "new settings"},
		},
		"a first member that cannot run is set back": {
			state: canary(2*time.Minute, nil),
			step: steps.Reject{Asked: "what is asked for", Verdict: "orders-2, the first member that got the new settings, " +
				"cannot run: ImagePullBackOff after 1m30s"},
		},
		"a first member that cannot run is given a minute": {
			state: canary(time.Minute, nil), reason: planner.ReasonMembersNotReady,
		},
		"a first member that runs gets more time": {
			state:  canary(2*time.Minute, func(s *model.State) { s.Pods[2].Stuck = false }),
			reason: planner.ReasonMembersNotReady,
		},
		"what is no change of settings is not set back": {
			state:  canary(2*time.Minute, func(s *model.State) { s.Record.Proven = s.Want.Settings }),
			reason: planner.ReasonMembersNotReady,
		},
		"a learner that lacks data is no canary": {
			state: canary(time.Hour, func(s *model.State) {
				s.Pods[2].Stuck, s.Pods[2].Status = false, &model.Status{MemberID: 3, ClusterID: clusterID, Leader: 2, Learner: true, Version: "3.6.16"}
			}),
			reason: planner.ReasonMembersNotReady,
		},
		"a second member is no canary": {
			state:  canary(2*time.Minute, func(s *model.State) { s.Pods[0].TemplateHash = "next" }),
			reason: planner.ReasonMembersNotReady,
		},
		"nothing is set back while another member is not well": {
			state:  canary(2*time.Minute, func(s *model.State) { s.Pods[0].Ready = false }),
			reason: planner.ReasonMembersNotReady,
		},
		"a member without its data says nothing about the settings": {
			state:  canary(2*time.Minute, func(s *model.State) { s.Pods[2].Gate = held(model.GateNoPeers) }),
			reason: planner.ReasonMembersNotReady,
		},
		"what was rejected is told": {
			state: settled(func(s *model.State) {
				s.Want.Asked, s.Record.Rejected, s.Record.Verdict = "what is asked for", "what is asked for", "orders-2 cannot run"
			}),
			reason: steps.ReasonCanary, stalled: true, says: "set back: orders-2 cannot run",
		},
		"a rejection lasts until something else is asked for": {
			state: settled(func(s *model.State) { s.Record.Rejected = "something else" }), step: steps.Prove{Settings: "settings", Forget: true},
		},
	})
}
