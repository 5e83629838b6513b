package planner_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextFreesSpaceWhenTheQuotaIsReached(t *testing.T) {
	nightly := &model.Window{Hour: 2, Zone: time.UTC, Duration: time.Hour}
	rows.Run(t, map[string]planRow{
		"a full database that has become small enough is let write": {
			state: settled(alarm("NOSPACE")), step: steps.Disarm{Pod: "orders-1", Alarm: model.Alarm{MemberID: 3, Type: "NOSPACE"}},
		},
		"a full database that can be defragmented is, outside of the window too": {
			state: full(1000, func(s *model.State) { s.Want.Maintenance.Window = nightly }),
			step:  steps.Defragment{Pod: "orders-0", Size: 2048 * mib}, says: "because its quota is reached",
		},
		"a sweep goes on where it ended": {
			state: full(1000, func(s *model.State) { sized(s, [2]int64{1000, 1000}, [2]int64{2048, 1000}, [2]int64{1000, 1000}) }),
			step:  steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"a database that is full of data loses its history": {
			state: full(2040, func(s *model.State) { s.Maintenance.Compacted = ptr.To(false) }),
			step:  steps.Compact{Pod: "orders-1", Revision: 900},
		},
		"what is thrown away is waited for": {
			state: full(2040, func(s *model.State) {
				s.Maintenance.Compacted, s.Maintenance.LastCompaction = ptr.To(true), simNow.Add(-time.Second)
			}),
			reason: planner.ReasonAlarm, says: "waiting for its history",
		},
		"a database that a defragmentation makes hardly smaller loses its history": {
			state: full(1800, func(s *model.State) { s.Maintenance.Compacted = ptr.To(false) }),
			step:  steps.Compact{Pod: "orders-1", Revision: 900},
		},
		"3.5 may not tell what a compaction freed before the next write, and there is none": {
			state: full(2040, func(s *model.State) {
				s.Maintenance.Compacted, s.Maintenance.LastCompaction = ptr.To(true), simNow.Add(-2*time.Minute)
			}),
			step: steps.Defragment{Pod: "orders-0", Size: 2048 * mib},
		},
		"a defragmentation that failed does not keep the other members from theirs": {
			state: full(1000, func(s *model.State) { s.Pods[0].Defragmentation = done(time.Minute, errors.New("disk full")) }),
			step:  steps.Defragment{Pod: "orders-2", Size: 2048 * mib},
		},
	})
}

func TestNextFreesSpaceWhileAMemberIsDown(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a member that is away does not keep the others from being cured": {
			state: full(1000, func(s *model.State) { down(s, 2) }), step: steps.Defragment{Pod: "orders-0", Size: 2048 * mib},
		},
		"a member that cannot join does not keep the others from being cured": {
			state: full(1000, func(s *model.State) {
				s.Members = s.Members[:2]
				p := down(s, 2)
				p.EverRan, p.Stuck, p.Problem = false, true, "cannot run: Unschedulable"
			}),
			step: steps.Defragment{Pod: "orders-0", Size: 2048 * mib},
		},
		"a learner, which is not asked for, does not keep the others from being cured": {
			state: full(1000, func(s *model.State) {
				s.Members[0].Learner = true
				down(s, 0)
			}),
			step: steps.Defragment{Pod: "orders-2", Size: 2048 * mib},
		},
		"the leader hands over before its defragmentation while a member is down": {
			state: full(1000, func(s *model.State) {
				sized(s, [2]int64{1000, 1000}, [2]int64{2048, 1000})
				down(s, 2)
			}),
			step: steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"the members are let write again while one is down": {
			state: settled(func(s *model.State) {
				alarm("NOSPACE")(s)
				down(s, 2)
			}),
			step: steps.Disarm{Pod: "orders-1", Alarm: model.Alarm{MemberID: 3, Type: "NOSPACE"}},
		},
		"an operator that has just begun does not know whether one that is away is being defragmented": {
			state: full(1000, func(s *model.State) {
				s.Maintenance.Since = simNow.Add(-3 * time.Minute)
				down(s, 2)
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"a defragmentation that was given up may still run on a member that does not answer": {
			state: full(1000, func(s *model.State) {
				down(s, 2).Defragmentation = done(time.Minute, errors.New("it did not end within 3m54s"))
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"what cannot be cured does not hide who is away": {
			state: full(2040, func(s *model.State) {
				s.Maintenance.Compacted = ptr.To(true)
				down(s, 2)
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"a quota that not all members have is not gone by": {
			state: settled(func(s *model.State) {
				alarm("NOSPACE")(s)
				s.Want.TemplateHash = "next"
				down(s, 2).TemplateHash = "next"
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
	})
}

func TestNextCannotFreeSpace(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"history is not thrown away again within ten minutes": {
			state: full(2040, func(s *model.State) {
				s.Maintenance.Compacted, s.Maintenance.LastCompaction = ptr.To(false), simNow.Add(-9*time.Minute)
			}),
			reason: planner.ReasonAlarm, stalled: true, says: "less than 10m0s ago",
		},
		"a defragmentation after a compaction that freed nothing is tried once": {
			state: full(2040, func(s *model.State) {
				s.Maintenance.Compacted, s.Maintenance.LastCompaction = ptr.To(true), simNow.Add(-2*time.Minute)
				for i := range s.Pods {
					s.Pods[i].Defragmentation = done(time.Minute, nil)
				}
			}),
			reason: planner.ReasonAlarm, stalled: true, says: "no history is left to throw away",
		},
		"unknown history is waited for": {
			state: full(2040, nil), reason: planner.ReasonAlarm, says: "whether history is left",
		},
		"without any history a human has to act": {
			state: full(2040, func(s *model.State) {
				s.Maintenance.Compacted = ptr.To(true)
				s.Maintenance.Largest = []model.KeyGroup{{Prefix: "/registry/events/", Keys: 9000, Bytes: 1900 * mib}}
			}),
			reason: planner.ReasonAlarm, stalled: true,
			says: `raise spec.config.quotaBackendBytes. Most space is taken by "/registry/events/" with 9000 keys, about 1900Mi`,
		},
		"history is kept where the retention says so": {
			state: full(2040, func(s *model.State) {
				s.Maintenance.Compacted, s.Want.Maintenance.KeepsHistory = ptr.To(false), true
			}),
			reason: planner.ReasonAlarm, stalled: true, says: "autoCompactionRetention",
		},
		"a full database is not defragmented where defragmentation is disabled": {
			state:  full(1000, func(s *model.State) { s.Want.Maintenance.Defragment = false }),
			reason: planner.ReasonAlarm, stalled: true, says: "mode is Disabled",
		},
		"the last defragmentation that failed is reported": {
			state: full(1000, func(s *model.State) {
				sized(s, [2]int64{2048, 1000}, [2]int64{1000, 1000}, [2]int64{1000, 1000})
				s.Pods[0].Defragmentation = done(time.Minute, errors.New("disk full"))
			}),
			reason: planner.ReasonAlarm, stalled: true, says: "tried again after 10m0s (disk full)",
		},
	})
}
