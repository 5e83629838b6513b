package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestNextReplacesAMemberWithOtherData(t *testing.T) {
	runRows(t, map[string]planRow{
		"a member that differs from the majority is replaced": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s) // It blames orders-2.
				hashed(s, 1, 7, 7)
			}),
			step: etcd.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0", Claim: "claim-0"}, says: "orders-0 has other data than the majority",
		},
		"the alarm of a member that is gone is over": {
			state: settled(func(s *etcd.State) {
				s.Pods[1].View.Alarms = []etcd.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 7, 7)
			}),
			step: etcd.Disarm{Pod: "orders-1", Alarm: etcd.Alarm{MemberID: 99, Type: "CORRUPT"}},
		},
		"a learner, which tells no hash, does not keep the alarm": {
			state: joining(func(s *etcd.State) {
				s.Pods[1].View.Alarms = []etcd.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 7)
			}),
			step: etcd.Disarm{Pod: "orders-1", Alarm: etcd.Alarm{MemberID: 99, Type: "CORRUPT"}},
		},
		"a learner that the alarm is about is removed": {
			state: joining(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 7, 7)
			}),
			step: etcd.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"a learner does not make a majority of what is none": {
			state: joining(func(s *etcd.State) {
				s.Pods[1].View.Alarms = []etcd.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 8)
			}),
			reason: etcd.ReasonCorrupt, stalled: true, says: "no majority",
		},
		"without a majority a human has to act": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 1, 2, 3)
			}),
			reason: etcd.ReasonCorrupt, stalled: true, says: "no majority",
		},
		"a majority that is not complete disarms nothing": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 7, 7)
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "orders-2 unknown",
		},
		"hashes of different revisions say nothing": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 1, 7, 7)
				s.Pods[0].Hash.CompactRevision, s.Pods[0].Corrupt = 40, false
				etcd.Compare(s)
			}),
			reason: etcd.ReasonCorrupt, stalled: true, says: "no majority of the members has the same data",
		},
	})
}
