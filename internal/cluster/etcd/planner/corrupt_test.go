package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextReplacesAMemberWithOtherData(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a member that differs from the majority is replaced": {
			state: settled(func(s *model.State) {
				alarm("CORRUPT")(s) // It blames orders-2.
				hashed(s, 1, 7, 7)
			}),
			step: steps.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0", Claim: "claim-0"}, says: "orders-0 has other data than the majority",
		},
		"the alarm of a member that is gone is over": {
			state: settled(func(s *model.State) {
				s.Pods[1].Status.Alarms = []model.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 7, 7)
			}),
			step: steps.Disarm{Pod: "orders-1", Alarm: model.Alarm{MemberID: 99, Type: "CORRUPT"}},
		},
		"a learner, which tells no hash, does not keep the alarm": {
			state: joining(func(s *model.State) {
				s.Pods[1].Status.Alarms = []model.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 7)
			}),
			step: steps.Disarm{Pod: "orders-1", Alarm: model.Alarm{MemberID: 99, Type: "CORRUPT"}},
		},
		"a learner that the alarm is about is removed": {
			state: joining(func(s *model.State) {
				alarm("CORRUPT")(s)
				hashed(s, 7, 7)
			}),
			step: steps.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"a learner does not make a majority of what is none": {
			state: joining(func(s *model.State) {
				s.Pods[1].Status.Alarms = []model.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 8)
			}),
			reason: planner.ReasonCorrupt, stalled: true, says: "no majority",
		},
		"without a majority a human has to act": {
			state: settled(func(s *model.State) {
				alarm("CORRUPT")(s)
				hashed(s, 1, 2, 3)
			}),
			reason: planner.ReasonCorrupt, stalled: true, says: "no majority",
		},
		"a majority that is not complete disarms nothing": {
			state: settled(func(s *model.State) {
				alarm("CORRUPT")(s)
				hashed(s, 7, 7)
			}),
			reason: planner.ReasonAlarm, stalled: true, says: "orders-2 unknown",
		},
		"hashes of different revisions say nothing": {
			state: settled(func(s *model.State) {
				alarm("CORRUPT")(s)
				hashed(s, 1, 7, 7)
				s.Pods[0].Hash.CompactRevision, s.Pods[0].Corrupt = 40, false
				planner.Compare(s)
			}),
			reason: planner.ReasonCorrupt, stalled: true, says: "no majority of the members has the same data",
		},
	})
}
