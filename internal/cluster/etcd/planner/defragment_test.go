package planner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextDefragmentsAMember(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a fragmented follower gets no clients first": {
			state: settled(func(s *model.State) { sized(s, [2]int64{300, 20}, [2]int64{300, 20}, [2]int64{300, 20}) }),
			step:  drain("orders-0"), says: "280Mi of 300Mi is free",
		},
		"a follower without clients is defragmented": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20}, [2]int64{300, 20})
				s.Pods[0].Drained = true
			}),
			step: steps.Defragment{Pod: "orders-0", Size: 300 * mib},
		},
		"while a member is defragmented, nothing else is done": {
			state: settled(func(s *model.State) {
				s.Pods[0].Status, s.Pods[0].Drained, s.Pods[0].Defragmentation = nil, true, &model.Defragmentation{Begin: simNow, Before: 300 * mib}
				s.Want.TemplateHash = "next"
			}),
			reason: steps.ReasonDefragmenting, says: "orders-0 is being defragmented: 300Mi",
		},
		"a defragmented member gets clients again, and the event says how long it took": {
			state: settled(func(s *model.State) { s.Pods[0].Drained, s.Pods[0].Defragmentation = true, done(0, nil) }),
			step:  again("orders-0"), says: "defragmented orders-0 in 1.2s, during which it served nobody: 300Mi to 20Mi",
		},
		"a failed defragmentation is reported and not repeated": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[0].Drained, s.Pods[0].Defragmentation = true, done(0, errors.New("disk full"))
			}),
			step: again("orders-0"), says: "failed after 1.2s: disk full",
		},
		"a member that an operator left out when it crashed gets clients again": {
			state: settled(func(s *model.State) { s.Pods[2].Drained = true }),
			step:  again("orders-2"), says: "is not being defragmented",
		},
		"a member that was left out gets clients again while something else is pending": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{20, 20}, [2]int64{20, 20}, [2]int64{300, 20})
				s.Pods[2].Drained, s.Pods[0].Status, s.Pods[0].Ready = true, nil, false
			}),
			step: again("orders-2"),
		},
		"a member that was left out gets clients again where no member answers": {
			state: settled(func(s *model.State) {
				s.Members = nil
				for i := range s.Pods {
					s.Pods[i].Status = nil
				}
				s.Pods[2].Drained = true
			}),
			step: again("orders-2"),
		},
		"the leader hands over before it is defragmented": {
			state: settled(func(s *model.State) { sized(s, [2]int64{20, 20}, [2]int64{300, 20}) }),
			step:  steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
	})
}

func TestNextDefragmentsOnlyWhenItIsWorthIt(t *testing.T) {
	nightly := &model.Window{Hour: 2, Zone: time.UTC, Duration: time.Hour}
	noon := &model.Window{Zone: time.UTC, Duration: time.Hour} // simNow is midnight.
	rows.Run(t, map[string]planRow{
		"a member just defragmented is left alone": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[0].Defragmentation = done(59*time.Minute, nil)
			}),
		},
		"a member defragmented an hour ago is defragmented again": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[0].Defragmentation = done(time.Hour, nil)
			}),
			step: drain("orders-0"),
		},
		"little free space is not worth it": {
			state: settled(func(s *model.State) { sized(s, [2]int64{250, 60}) }),
		},
		"what a large database needs again immediately is not worth a defragmentation": {
			state: settled(func(s *model.State) { sized(s, [2]int64{1500, 900}) }),
		},
		"little is worth it near the quota": {
			state: settled(func(s *model.State) { sized(s, [2]int64{1700, 1660}) }),
			step:  drain("orders-0"),
		},
		"a member that lags is waited for": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[1].Status.Applied = 5000
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-0 is 4991 log entries behind",
		},
		"a rollout comes first": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Want.TemplateHash = "next"
			}),
			step: deletion("orders-2"),
		},
		"outside of the window nothing is done": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Window = nightly
			}),
		},
		"a window that closes in the middle gives the clients back": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Window, s.Pods[0].Drained = nightly, true
			}),
			step: again("orders-0"),
		},
		"too many clusters at once wait, settled": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Maintenance.Elsewhere = 4
			}),
		},
		"the only member is left alone without a window": {
			state: settled(func(s *model.State) {
				single(s)
				sized(s, [2]int64{300, 20})
			}),
		},
		"the only member is defragmented inside a window, with its clients": {
			state: settled(func(s *model.State) {
				single(s)
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Window = noon
			}),
			step: steps.Defragment{Pod: "orders-0", Size: 300 * mib},
		},
		"defragmentation can be switched off": {
			state: settled(func(s *model.State) {
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Defragment = false
			}),
		},
	})
}
