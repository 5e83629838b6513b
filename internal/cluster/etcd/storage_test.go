package etcd_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

const gi = 1 << 30

// stored is a settled cluster of three members with volumes of 1Gi in the class slow; orders-1 leads. Its specification asks for
// what is given, and its StatefulSet has been made anew for that already.
func stored(want etcd.Storage, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		s.Want.Storage, s.Want.StorageQuota = want, want.Size/2
		s.Set.UID, s.Set.Age, s.Set.Storage = "set-1", time.Minute, want
		for i := range s.Claims {
			c := &s.Claims[i]
			c.ResourceVersion, c.Request, c.Capacity, c.Class = "3", gi, gi, "slow"
		}
		if change != nil {
			change(s)
		}
	})
}

func slow(gigabytes int64) etcd.Storage { return etcd.Storage{Size: gigabytes * gi, Class: "slow"} }

func fast(gigabytes int64) etcd.Storage { return etcd.Storage{Size: gigabytes * gi, Class: "fast"} }

func TestStorageIsChanged(t *testing.T) {
	expand0 := etcd.ExpandClaim{Name: "data-orders-0", UID: "claim-0", ResourceVersion: "3", Size: 2 * gi}
	remove := func(ordinal int, via string) etcd.RemoveMember {
		return etcd.RemoveMember{ID: uint64(ordinal + 1), Name: fmt.Sprintf("orders-%d", ordinal), Via: via, Pod: fmt.Sprintf("uid-orders-%d", ordinal), Claim: fmt.Sprintf("claim-%d", ordinal)}
	}
	remake := func(s *etcd.State) { s.Set.Storage = slow(1) }
	rigid := func(s *etcd.State) {
		for i := range s.Claims {
			s.Claims[i].Rigid = true
		}
	}
	have := func(s *etcd.State, ordinal int, st etcd.Storage) {
		s.Claims[ordinal].Request, s.Claims[ordinal].Capacity, s.Claims[ordinal].Class = st.Size, st.Size, st.Class
	}
	single := func(s *etcd.State) {
		s.Want.Size, s.Record.Members, s.Members, s.Pods, s.Claims = 1, s.Record.Members[:1], s.Members[:1], s.Pods[:1], s.Claims[:1]
		s.Pods[0].View.Leader = 1
	}
	for name, tc := range map[string]planRow{
		"as specified": {state: stored(slow(1), nil)},
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
		"and a claim that it has not let go of": {
			state:  stored(slow(2), func(s *etcd.State) { remake(s); s.Claims[1].Owned = true }),
			reason: etcd.ReasonVolumes, says: "no claim goes with the StatefulSet",
		},
		"a smaller quota waits for all databases to be known": {
			state:  stored(slow(1), func(s *etcd.State) { s.Set.Storage, s.Pods[0].View = slow(2), nil }),
			reason: etcd.ReasonMembersNotReady,
		},
		"then it is taken": {
			state: stored(slow(1), func(s *etcd.State) { s.Set.Storage = slow(2) }), step: etcd.RemakeSet{UID: "set-1"},
		},
		"a set that is being made anew is waited for": {
			state: stored(slow(1), func(s *etcd.State) { s.Set = nil }), reason: etcd.ReasonVolumes, says: "made anew",
		},
		"a record that is lost while the set is away founds nothing": {
			state: stored(slow(2), func(s *etcd.State) { s.Set, s.Record, s.Members = nil, nil, nil }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRetained, Size: 3, Version: v36},
		},
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
		"without a class any will do": {state: stored(etcd.Storage{Size: gi}, func(s *etcd.State) { s.Set.Storage = slow(1) })},
		"volumes that cannot grow are replaced, the highest ordinal first": {
			state: stored(slow(2), rigid), step: remove(2, "orders-1"), says: "data-orders-2 has 1Gi and cannot be expanded, and spec.storage asks for 2Gi",
		},
		"so are volumes of another class": {
			state: stored(fast(1), nil), step: remove(2, "orders-1"), says: "leaves and joins again with another volume (3 to go)",
		},
		"and larger ones": {
			state: stored(etcd.Storage{Size: gi / 2, Class: "slow"}, nil), step: remove(2, "orders-1"), says: "has 1Gi",
		},
		"the leader hands over when its turn has come": {
			state: stored(fast(1), func(s *etcd.State) { have(s, 0, fast(1)); have(s, 2, fast(1)) }),
			step:  etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"and followers go before it": {
			state: stored(fast(1), func(s *etcd.State) { have(s, 2, fast(1)) }), step: remove(0, "orders-1"),
		},
		"the next one waits until the last one has joined": {
			state: stored(fast(1), func(s *etcd.State) {
				s.Members, s.Pods[2].EverRan, s.Pods[2].View, s.Pods[2].Ready = s.Members[:2], false, nil, false
				s.Pods[2].Gate = held(etcd.GateNotMember)
				have(s, 2, fast(1))
			}),
			step: etcd.AddLearner{Name: "orders-2", URL: stored(fast(1), nil).Want.Peers[2].URL, Via: "orders-1"},
		},
		"the next one waits until the last one votes": {
			state: stored(fast(1), func(s *etcd.State) {
				s.Members[2].Learner = true
				s.Pods[2].View.Applied, s.Pods[1].View.Applied = 1, 1000
				have(s, 2, fast(1))
			}),
			reason: etcd.ReasonCatchingUp,
		},
		"the next one waits until all are well": {
			state: stored(fast(1), func(s *etcd.State) { s.Pods[0].Ready = false; have(s, 2, fast(1)) }), reason: etcd.ReasonMembersNotReady,
		},
		"outdated members come first": {
			state: stored(fast(1), func(s *etcd.State) { s.Pods[0].TemplateHash = "old" }),
			step:  etcd.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7"},
		},
		"so does an upgrade": {
			state: stored(fast(1), func(s *etcd.State) { s.Want.Version, s.ClusterVersion = v37, etcd.Version{Major: 3, Minor: 6} }),
			step:  etcd.Downgrade{To: etcd.Version{Major: 3, Minor: 5}, Via: "orders-1"},
		},
		"members that are to go, go first": {
			state: stored(fast(1), func(s *etcd.State) { s.Want.Size = 1; have(s, 0, fast(1)) }), step: etcd.Resize{From: 3, To: 2},
		},
		"a volume that was made as asked for and is not so is not replaced again and again": {
			state: stored(fast(1), func(s *etcd.State) {
				for i := range s.Claims {
					s.Claims[i].Age = time.Second
				}
			}),
			reason: etcd.ReasonVolumes, says: "although it was made for 1Gi of StorageClass fast",
		},
		"a full database does not hold up larger volumes": {
			state: stored(slow(2), func(s *etcd.State) {
				rigid(s)
				s.Pods[0].View.Alarms = []etcd.Alarm{{Type: etcd.AlarmNoSpace, MemberID: 1}}
			}),
			step: remove(2, "orders-1"),
		},
		"the only member grows in place": {state: stored(slow(2), single), step: expand0},
		"the only member is not replaced": {
			state:  stored(fast(1), func(s *etcd.State) { single(s); s.Set.Storage = slow(1) }),
			reason: etcd.ReasonStorage, stalled: true,
			says: "data-orders-0 is of StorageClass slow, spec.storage asks for 1Gi of StorageClass fast, and the data of the only member " +
				"has nowhere to stay meanwhile: set spec.size to 3, and back when the volumes are as specified",
		},
		"that is no reason to stay alone": {
			state: stored(fast(1), func(s *etcd.State) { single(s); s.Want.Size = 3 }), step: etcd.Resize{From: 1, To: 2},
		},
		"a database that does not fit is refused before its quota falls": {
			state: stored(slow(1), func(s *etcd.State) {
				s.Set.Storage, s.Pods[1].View.DBSize, s.Pods[1].View.DBInUse = slow(4), gi, gi
				for i := range s.Claims {
					have(s, i, slow(4))
				}
			}),
			reason: etcd.ReasonStorage, stalled: true, says: "spec.storage.size is 1Gi, which leaves 512Mi to the database, and that has 1Gi",
		},
		"a class that does not exist is refused before anybody leaves": {
			state:  stored(fast(1), func(s *etcd.State) { s.Want.NoClass = true }),
			reason: etcd.ReasonStorage, stalled: true, says: "StorageClass fast does not exist",
		},
		"a claim without a volume, of another class than is wanted by now, goes": {
			state: stored(fast(1), func(s *etcd.State) {
				c := &s.Claims[2]
				c.Pending, c.Capacity, s.Pods[2].View, s.Pods[2].Ready, s.Members = true, 0, nil, false, s.Members[:2]
			}),
			step: etcd.DeleteClaim{Name: "data-orders-2", UID: "claim-2", ResourceVersion: "3"},
		},
		"not if it was made since": {
			state: stored(fast(1), func(s *etcd.State) {
				c := &s.Claims[2]
				c.Pending, c.Capacity, c.Age, s.Members = true, 0, time.Second, s.Members[:2]
				s.Pods[2].EverRan, s.Pods[2].View, s.Pods[2].Ready = false, nil, false
				s.Pods[2].Stuck, s.Pods[2].Problem = true, "cannot be scheduled"
			}),
			reason: etcd.ReasonJoining, says: "cannot be scheduled",
		},
		"storage that was taken away": {
			state:  stored(etcd.Storage{}, func(s *etcd.State) { s.Want.StorageChanged, s.Set.Storage = true, slow(1) }),
			reason: etcd.ReasonStorage, stalled: true, says: "spec.storage was added or removed",
		},
	} {
		t.Run(name, tc.check)
	}
}

func TestResizeWords(t *testing.T) {
	c := func(typ corev1.PersistentVolumeClaimConditionType, status corev1.ConditionStatus, message string) corev1.PersistentVolumeClaimCondition {
		return corev1.PersistentVolumeClaimCondition{Type: typ, Status: status, Message: message}
	}
	for want, conditions := range map[string][]corev1.PersistentVolumeClaimCondition{
		"":                             {c(corev1.PersistentVolumeClaimResizing, corev1.ConditionFalse, "")},
		"the volume is being expanded": {c(corev1.PersistentVolumeClaimResizing, corev1.ConditionTrue, "")},
		"the volume has grown, and its node is to expand the file system: waiting for the node": {
			c(corev1.PersistentVolumeClaimFileSystemResizePending, corev1.ConditionTrue, "waiting for the node"),
		},
		"the volume cannot be expanded: out of disks": {
			c(corev1.PersistentVolumeClaimResizing, corev1.ConditionTrue, ""),
			c(corev1.PersistentVolumeClaimControllerResizeError, corev1.ConditionTrue, "out of disks"),
		},
	} {
		if got := etcd.ResizeWords(conditions); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
