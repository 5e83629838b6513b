package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextRecreatesTheStatefulSetForItsStorage(t *testing.T) {
	remake := func(s *model.State) { s.Set.Storage = slow(1) }
	rows.Run(t, map[string]planRow{
		"storage as specified is left alone": {state: stored(slow(1), nil)},
		"the set comes first, whatever is asked for": {
			state: stored(fast(2), remake), step: steps.RemakeSet{UID: "set-1"}, says: "2Gi of StorageClass fast",
		},
		"the set needs no quorum: the volumes may be why there is none": {
			state: stored(slow(2), func(s *model.State) { remake(s); s.Members = nil }), step: steps.RemakeSet{UID: "set-1"},
		},
		"a set that would take its claims along is waited for": {
			state:  stored(slow(2), func(s *model.State) { remake(s); s.Set.KeepsClaims = false }),
			reason: steps.ReasonVolumes, says: "no claim goes with the StatefulSet",
		},
		"a set that still owns a claim is waited for": {
			state:  stored(slow(2), func(s *model.State) { remake(s); s.Claims[1].Owned = true }),
			reason: steps.ReasonVolumes, says: "no claim goes with the StatefulSet",
		},
		"a smaller quota waits for all databases to be known": {
			state:  stored(slow(1), func(s *model.State) { s.Set.Storage, s.Pods[0].Status = slow(2), nil }),
			reason: planner.ReasonMembersNotReady,
		},
		"a smaller quota is taken when all databases are known": {
			state: stored(slow(1), func(s *model.State) { s.Set.Storage = slow(2) }), step: steps.RemakeSet{UID: "set-1"},
		},
		"a set that is being made anew is waited for": {
			state: stored(slow(1), func(s *model.State) { s.Set = nil }), reason: steps.ReasonVolumes, says: "made anew",
		},
		"a record that is lost while the set is away founds nothing": {
			state: stored(slow(2), func(s *model.State) { s.Set, s.Record, s.Members = nil, nil, nil }),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapRetained, Size: 3, Version: v36},
		},
		"storage that was taken away is refused": {
			state:  stored(model.Storage{}, func(s *model.State) { s.Want.StorageChanged, s.Set.Storage = true, slow(1) }),
			reason: planner.ReasonStorage, stalled: true, says: "spec.storage was added or removed",
		},
	})
}

func TestNextExpandsVolumes(t *testing.T) {
	expand0 := steps.ExpandClaim{Name: "data-orders-0", UID: "claim-0", ResourceVersion: "3", Size: 2 * gi}
	single := func(s *model.State) {
		s.Want.Size, s.Record.Members, s.Members, s.Pods, s.Claims = 1, s.Record.Members[:1], s.Members[:1], s.Pods[:1], s.Claims[:1]
		s.Pods[0].Status.Leader = 1
	}
	rows.Run(t, map[string]planRow{
		"claims grow, one after the other": {state: stored(slow(2), nil), step: expand0, says: "data-orders-0 has 1Gi"},
		"claims grow without a quorum: a full disk may be why there is none": {
			state: stored(slow(2), func(s *model.State) {
				s.Members = nil
				for i := range s.Pods {
					s.Pods[i].Status, s.Pods[i].Ready = nil, false
				}
			}),
			step: expand0,
		},
		"claims of members that are to go do not grow": {
			state: stored(slow(2), func(s *model.State) {
				s.Want.Size = 1
				s.Claims[0].Request, s.Claims[0].Capacity = 2*gi, 2*gi
			}),
			step: steps.Resize{From: 3, To: 2},
		},
		"a growing volume is waited for, in its own words": {
			state: stored(slow(2), func(s *model.State) {
				for i := range s.Claims {
					s.Claims[i].Request = 2 * gi
				}
				s.Claims[0].Capacity, s.Claims[1].Resizing = 2*gi, "the volume is being expanded"
			}),
			reason: steps.ReasonVolumes,
			says:   "1 of 3 volumes are as specified: data-orders-1 has 1Gi of 2Gi, the volume is being expanded; data-orders-2 has 1Gi of 2Gi",
		},
		"a growing volume holds up nothing else": {
			state: stored(slow(2), func(s *model.State) {
				s.Want.Size = 5
				for i := range s.Claims {
					s.Claims[i].Request = 2 * gi
				}
			}),
			step: steps.Resize{From: 3, To: 4},
		},
		"what the API server does not let grow is told": {
			state: stored(slow(2), func(s *model.State) {
				for i := range s.Claims {
					s.Claims[i].Refused = "exceeded quota"
				}
			}),
			reason: planner.ReasonStorage, stalled: true, says: "data-orders-0 cannot be expanded from 1Gi to 2Gi: exceeded quota",
		},
		"an expansion that was taken back needs nothing": {
			state: stored(slow(1), func(s *model.State) { s.Claims[0].Request = 2 * gi }),
		},
		"a volume that came out larger than asked for needs nothing": {
			state: stored(slow(2), func(s *model.State) {
				for i := range s.Claims {
					s.Claims[i].Capacity = 2 * gi
				}
			}),
		},
		"without a class any will do":    {state: stored(model.Storage{Size: gi}, func(s *model.State) { s.Set.Storage = slow(1) })},
		"the only member grows in place": {state: stored(slow(2), single), step: expand0},
	})
}
