package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestNextRecreatesTheStatefulSetForItsStorage(t *testing.T) {
	remake := func(s *etcd.State) { s.Set.Storage = slow(1) }
	runRows(t, map[string]planRow{
		"storage as specified is left alone": {state: stored(slow(1), nil)},
		"the set comes first, whatever is asked for": {
			state: stored(fast(2), remake), step: etcd.RemakeSet{UID: "set-1"}, says: "2Gi of StorageClass fast",
		},
		"the set needs no quorum: the volumes may be why there is none": {
			state: stored(slow(2), func(s *etcd.State) { remake(s); s.Members = nil }), step: etcd.RemakeSet{UID: "set-1"},
		},
		"a set that would take its claims along is waited for": {
			state:  stored(slow(2), func(s *etcd.State) { remake(s); s.Set.KeepsClaims = false }),
			reason: etcd.ReasonVolumes, says: "no claim goes with the StatefulSet",
		},
		"a set that still owns a claim is waited for": {
			state:  stored(slow(2), func(s *etcd.State) { remake(s); s.Claims[1].Owned = true }),
			reason: etcd.ReasonVolumes, says: "no claim goes with the StatefulSet",
		},
		"a smaller quota waits for all databases to be known": {
			state:  stored(slow(1), func(s *etcd.State) { s.Set.Storage, s.Pods[0].View = slow(2), nil }),
			reason: etcd.ReasonMembersNotReady,
		},
		"a smaller quota is taken when all databases are known": {
			state: stored(slow(1), func(s *etcd.State) { s.Set.Storage = slow(2) }), step: etcd.RemakeSet{UID: "set-1"},
		},
		"a set that is being made anew is waited for": {
			state: stored(slow(1), func(s *etcd.State) { s.Set = nil }), reason: etcd.ReasonVolumes, says: "made anew",
		},
		"a record that is lost while the set is away founds nothing": {
			state: stored(slow(2), func(s *etcd.State) { s.Set, s.Record, s.Members = nil, nil, nil }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRetained, Size: 3, Version: v36},
		},
		"storage that was taken away is refused": {
			state:  stored(etcd.Storage{}, func(s *etcd.State) { s.Want.StorageChanged, s.Set.Storage = true, slow(1) }),
			reason: etcd.ReasonStorage, stalled: true, says: "spec.storage was added or removed",
		},
	})
}

func TestNextExpandsVolumes(t *testing.T) {
	expand0 := etcd.ExpandClaim{Name: "data-orders-0", UID: "claim-0", ResourceVersion: "3", Size: 2 * gi}
	single := func(s *etcd.State) {
		s.Want.Size, s.Record.Members, s.Members, s.Pods, s.Claims = 1, s.Record.Members[:1], s.Members[:1], s.Pods[:1], s.Claims[:1]
		s.Pods[0].View.Leader = 1
	}
	runRows(t, map[string]planRow{
		"claims grow, one after the other": {state: stored(slow(2), nil), step: expand0, says: "data-orders-0 has 1Gi"},
		"claims grow without a quorum: a full disk may be why there is none": {
			state: stored(slow(2), func(s *etcd.State) {
				s.Members = nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready = nil, false
				}
			}),
			step: expand0,
		},
		"claims of members that are to go do not grow": {
			state: stored(slow(2), func(s *etcd.State) {
				s.Want.Size = 1
				s.Claims[0].Request, s.Claims[0].Capacity = 2*gi, 2*gi
			}),
			step: etcd.Resize{From: 3, To: 2},
		},
		"a growing volume is waited for, in its own words": {
			state: stored(slow(2), func(s *etcd.State) {
				for i := range s.Claims {
					s.Claims[i].Request = 2 * gi
				}
				s.Claims[0].Capacity, s.Claims[1].Resizing = 2*gi, "the volume is being expanded"
			}),
			reason: etcd.ReasonVolumes,
			says:   "1 of 3 volumes are as specified: data-orders-1 has 1Gi of 2Gi, the volume is being expanded; data-orders-2 has 1Gi of 2Gi",
		},
		"a growing volume holds up nothing else": {
			state: stored(slow(2), func(s *etcd.State) {
				s.Want.Size = 5
				for i := range s.Claims {
					s.Claims[i].Request = 2 * gi
				}
			}),
			step: etcd.Resize{From: 3, To: 4},
		},
		"what the API server does not let grow is told": {
			state: stored(slow(2), func(s *etcd.State) {
				for i := range s.Claims {
					s.Claims[i].Refused = "exceeded quota"
				}
			}),
			reason: etcd.ReasonStorage, stalled: true, says: "data-orders-0 cannot be expanded from 1Gi to 2Gi: exceeded quota",
		},
		"an expansion that was taken back needs nothing": {
			state: stored(slow(1), func(s *etcd.State) { s.Claims[0].Request = 2 * gi }),
		},
		"a volume that came out larger than asked for needs nothing": {
			state: stored(slow(2), func(s *etcd.State) {
				for i := range s.Claims {
					s.Claims[i].Capacity = 2 * gi
				}
			}),
		},
		"without a class any will do":    {state: stored(etcd.Storage{Size: gi}, func(s *etcd.State) { s.Set.Storage = slow(1) })},
		"the only member grows in place": {state: stored(slow(2), single), step: expand0},
	})
}
