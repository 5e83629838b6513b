package planner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextReplacesVolumesThatCannotBeExpanded(t *testing.T) {
	remove := func(ordinal int, via string) steps.RemoveMember {
		return steps.RemoveMember{ID: uint64(ordinal + 1), Name: fmt.Sprintf("orders-%d", ordinal), Via: via, Pod: fmt.Sprintf("uid-orders-%d", ordinal), Claim: fmt.Sprintf("claim-%d", ordinal)}
	}
	rigid := func(s *model.State) {
		for i := range s.Claims {
			s.Claims[i].Rigid = true
		}
	}
	have := func(s *model.State, ordinal int, st model.Storage) {
		s.Claims[ordinal].Request, s.Claims[ordinal].Capacity, s.Claims[ordinal].Class = st.Size, st.Size, st.Class
	}
	single := func(s *model.State) {
		s.Want.Size, s.Record.Members, s.Members, s.Pods, s.Claims = 1, s.Record.Members[:1], s.Members[:1], s.Pods[:1], s.Claims[:1]
		s.Pods[0].Status.Leader = 1
	}
	rows.Run(t, map[string]planRow{
		"volumes that cannot grow are replaced, the highest ordinal first": {
			state: stored(slow(2), rigid), step: remove(2, "orders-1"), says: "data-orders-2 has 1Gi and cannot be expanded, and spec.storage asks for 2Gi",
		},
		"volumes of another class are replaced": {
			state: stored(fast(1), nil), step: remove(2, "orders-1"), says: "leaves and joins again with another volume (3 to go)",
		},
		"larger volumes are replaced by smaller ones": {
			state: stored(model.Storage{Size: gi / 2, Class: "slow"}, nil), step: remove(2, "orders-1"), says: "has 1Gi",
		},
		"a volume that was made as asked for and is not so is not replaced again and again": {
			state: stored(fast(1), func(s *model.State) {
				for i := range s.Claims {
					s.Claims[i].Age = time.Second
				}
			}),
			reason: steps.ReasonVolumes, says: "although it was made for 1Gi of StorageClass fast",
		},
		"a full database does not hold up larger volumes": {
			state: stored(slow(2), func(s *model.State) {
				rigid(s)
				s.Pods[0].Status.Alarms = []model.Alarm{{Type: model.AlarmNoSpace, MemberID: 1}}
			}),
			step: remove(2, "orders-1"),
		},
		"the only member is not replaced": {
			state:  stored(fast(1), func(s *model.State) { single(s); s.Set.Storage = slow(1) }),
			reason: planner.ReasonStorage, stalled: true,
			says: "data-orders-0 is of StorageClass slow, spec.storage asks for 1Gi of StorageClass fast, and the data of the only member " +
				"has nowhere to stay meanwhile: set spec.size to 3, and back when the volumes are as specified",
		},
		"a volume of another class does not keep the only member alone": {
			state: stored(fast(1), func(s *model.State) { single(s); s.Want.Size = 3 }), step: steps.Resize{From: 1, To: 2},
		},
		"a database that does not fit is refused before its quota falls": {
			state: stored(slow(1), func(s *model.State) {
				s.Set.Storage, s.Pods[1].Status.DBSize, s.Pods[1].Status.DBInUse = slow(4), gi, gi
				for i := range s.Claims {
					have(s, i, slow(4))
				}
			}),
			reason: planner.ReasonStorage, stalled: true, says: "spec.storage.size is 1Gi, which leaves 512Mi to the database, and that has 1Gi",
		},
		"a class that does not exist is refused before anybody leaves": {
			state:  stored(fast(1), func(s *model.State) { s.Want.NoClass = true }),
			reason: planner.ReasonStorage, stalled: true, says: "StorageClass fast does not exist",
		},
		"a claim without a volume, of another class than is wanted by now, goes": {
			state: stored(fast(1), func(s *model.State) {
				c := &s.Claims[2]
				c.Pending, c.Capacity, s.Pods[2].Status, s.Pods[2].Ready, s.Members = true, 0, nil, false, s.Members[:2]
			}),
			step: steps.DeleteClaim{Name: "data-orders-2", UID: "claim-2", ResourceVersion: "3"},
		},
		"a claim without a volume that was created since is kept": {
			state: stored(fast(1), func(s *model.State) {
				c := &s.Claims[2]
				c.Pending, c.Capacity, c.Age, s.Members = true, 0, time.Second, s.Members[:2]
				s.Pods[2].EverRan, s.Pods[2].Status, s.Pods[2].Ready = false, nil, false
				s.Pods[2].Stuck, s.Pods[2].Problem = true, "cannot be scheduled"
			}),
			reason: planner.ReasonJoining, says: "cannot be scheduled",
		},
	})
}

func TestNextReplacesOneVolumeAtATime(t *testing.T) {
	remove := func(ordinal int, via string) steps.RemoveMember {
		return steps.RemoveMember{ID: uint64(ordinal + 1), Name: fmt.Sprintf("orders-%d", ordinal), Via: via, Pod: fmt.Sprintf("uid-orders-%d", ordinal), Claim: fmt.Sprintf("claim-%d", ordinal)}
	}
	have := func(s *model.State, ordinal int, st model.Storage) {
		s.Claims[ordinal].Request, s.Claims[ordinal].Capacity, s.Claims[ordinal].Class = st.Size, st.Size, st.Class
	}
	rows.Run(t, map[string]planRow{
		"the leader hands over when its turn has come": {
			state: stored(fast(1), func(s *model.State) { have(s, 0, fast(1)); have(s, 2, fast(1)) }),
			step:  steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"followers get another volume before the leader": {
			state: stored(fast(1), func(s *model.State) { have(s, 2, fast(1)) }), step: remove(0, "orders-1"),
		},
		"the next one waits until the last one has joined": {
			state: stored(fast(1), func(s *model.State) {
				s.Members, s.Pods[2].EverRan, s.Pods[2].Status, s.Pods[2].Ready = s.Members[:2], false, nil, false
				s.Pods[2].Gate = held(model.GateNotMember)
				have(s, 2, fast(1))
			}),
			step: steps.AddLearner{Name: "orders-2", URL: stored(fast(1), nil).Want.Peers[2].URL, Via: "orders-1"},
		},
		"the next one waits until the last one votes": {
			state: stored(fast(1), func(s *model.State) {
				s.Members[2].Learner = true
				s.Pods[2].Status.Applied, s.Pods[1].Status.Applied = 1, 1000
				have(s, 2, fast(1))
			}),
			reason: planner.ReasonCatchingUp,
		},
		"the next one waits until all are well": {
			state: stored(fast(1), func(s *model.State) { s.Pods[0].Ready = false; have(s, 2, fast(1)) }), reason: planner.ReasonMembersNotReady,
		},
		"outdated members come first": {
			state: stored(fast(1), func(s *model.State) { s.Pods[0].TemplateHash = "old" }),
			step:  steps.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7"},
		},
		"an upgrade comes before volumes of another class": {
			state: stored(fast(1), func(s *model.State) { s.Want.Version, s.ClusterVersion = v37, model.Version{Major: 3, Minor: 6} }),
			step:  steps.Downgrade{To: model.Version{Major: 3, Minor: 5}, Via: "orders-1"},
		},
		"members that are to go, go first": {
			state: stored(fast(1), func(s *model.State) { s.Want.Size = 1; have(s, 0, fast(1)) }), step: steps.Resize{From: 3, To: 2},
		},
	})
}
