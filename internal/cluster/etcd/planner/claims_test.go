package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// deleted marks claims as being deleted.
func deleted(s *model.State, ordinals ...int) {
	for _, i := range ordinals {
		s.Claims[i].Leaving = true
	}
}

func TestAClaimWithoutLabelsIsNeitherMountedNorDeleted(t *testing.T) {
	smaller := func(s *model.State) {
		s.Record.Members, s.Members, s.Pods = s.Record.Members[:1], s.Members[:1], s.Pods[:1]
		s.Pods[0].Status.Leader, s.Claims = 1, []model.Claim{s.Claims[0], s.Claims[2]}
		s.Claims[1].Unlabelled = true
	}
	for name, tc := range map[string]planRow{
		"grows up to the member that would mount it": {
			state: settled(smaller), step: steps.Resize{From: 1, To: 2},
		},
		"does not grow to the member that would mount it, and says how to delete it": {
			state:  settled(func(s *model.State) { smaller(s); s.Claims[1].Name, s.Claims[1].Ordinal = "data-orders-1", 1 }),
			reason: planner.ReasonUnlabelledClaim, stalled: true, says: "delete pvc data-orders-1",
		},
		"keeps one that no member is to mount": {
			state: settled(func(s *model.State) { smaller(s); s.Want.Size = 1 }),
		},
	} {
		t.Run(name, func(t *testing.T) { tc.Check(t) })
	}
}

func TestAMemberWhoseVolumeIsOutOfReachMovesToAnotherNode(t *testing.T) {
	const why = "volume v is on node a, where orders-1 runs, and the topology spread asks for another node"
	strand := func(s *model.State) {
		s.Pods[2].Status, s.Pods[2].Ready, s.Pods[2].EverRan, s.Pods[2].Stuck = nil, false, false, true
		s.Pods[2].Problem, s.Claims[2].Stranded = "cannot run: Unschedulable: 0/3 nodes; "+why, why
	}
	left := func(s *model.State) { strand(s); s.Members = s.Members[:2] }
	remove := steps.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"}
	for name, tc := range map[string]planRow{
		"removes the member, which joins again with another volume": {
			state: settled(strand), step: remove, says: "orders-2 cannot be scheduled: " + why,
		},
		"deletes the claim of the member that was removed": {
			state: settled(left), step: steps.DeleteClaim{Name: "data-orders-2", UID: "claim-2"},
		},
		"leaves a pod to the scheduler that has just been made": {
			state:  settled(func(s *model.State) { strand(s); s.Pods[2].Age = 59 * time.Second }),
			reason: planner.ReasonMembersNotReady, says: why,
		},
		"keeps the volume while no quorum is healthy without it": {
			state:  settled(func(s *model.State) { strand(s); s.Pods[0].Status, s.Pods[0].Ready = nil, false }),
			reason: planner.ReasonNoQuorum, says: why,
		},
		"keeps a volume that has just been replaced": {
			state:  settled(func(s *model.State) { strand(s); s.Claims[2].Age, s.Set.Age = 4*time.Minute, time.Hour }),
			reason: planner.ReasonMemberLost, says: "only 4m0s old",
		},
	} {
		t.Run(name, func(t *testing.T) { tc.Check(t) })
	}
}

func TestDataGoesWithNoPlannedStep(t *testing.T) {
	remove := func(ordinal int) steps.RemoveMember {
		return steps.RemoveMember{
			ID: uint64(ordinal + 1), Name: settled(nil).Pods[ordinal].Name, Via: "orders-1",
			Pod: settled(nil).Pods[ordinal].UID, Claim: settled(nil).Claims[ordinal].UID,
		}
	}
	single := func(s *model.State) {
		s.Want.Size, s.Record.Members, s.Members, s.Pods, s.Claims = 1, s.Record.Members[:1], s.Members[:1], s.Pods[:1], s.Claims[:1]
		s.Pods[0].Status.Leader = 1
		deleted(s, 0)
	}
	for name, tc := range map[string]planRow{
		"replaces one follower at a time": {
			state: settled(func(s *model.State) { deleted(s, 0, 1, 2) }), step: remove(2), says: "data-orders-2 is being deleted",
		},
		"replaces the member before a rollout restarts it": {
			state: settled(func(s *model.State) { deleted(s, 2); s.Want.TemplateHash = "next" }), step: remove(2),
		},
		"replaces members before the cluster hibernates": {
			state: settled(func(s *model.State) { deleted(s, 0, 2); s.Want.Hibernated = true }), step: remove(2), says: "(2 to go)",
		},
		"replaces nobody while another member is down": {
			state:  settled(func(s *model.State) { deleted(s, 2); s.Pods[0].Status, s.Pods[0].Ready = nil, false }),
			reason: planner.ReasonMembersNotReady, says: "Claims data-orders-2 are being deleted",
		},
		"names the claim of the only member and how to save its data": {
			state: settled(single), reason: steps.ReasonTerminatingClaims, stalled: true, says: "kubectl scale etcdcluster orders --replicas=3",
		},
		"does not restart the only member": {
			state:  settled(func(s *model.State) { single(s); s.Want.TemplateHash = "next" }),
			reason: steps.ReasonTerminatingClaims, stalled: true, says: "data-orders-0",
		},
		"does not hibernate the only member": {
			state:  settled(func(s *model.State) { single(s); s.Want.Hibernated = true }),
			reason: steps.ReasonTerminatingClaims, stalled: true, says: "create a Backup",
		},
		"does not hibernate members that cannot be asked": {
			state:  settled(func(s *model.State) { deleted(s, 2); s.Want.Hibernated = true; s.Members = nil }),
			reason: steps.ReasonTerminatingClaims, stalled: true, says: "or delete pods orders-2 to go on without their data",
		},
		"grows from the only member": {
			state: settled(func(s *model.State) { single(s); s.Want.Size = 3 }), step: steps.Resize{From: 1, To: 2},
		},
		"restarts no member without a quorum whose data would go": {
			state: settled(func(s *model.State) {
				deleted(s, 2)
				s.Members, s.Want.TemplateHash = nil, "next"
				for i := range s.Pods {
					s.Pods[i].Status, s.Pods[i].Ready = nil, false
				}
				s.Pods[2].Stuck, s.Pods[2].Problem = true, "cannot start"
				s.Pods[0].TemplateHash, s.Pods[1].TemplateHash = "next", "next"
			}),
			reason: steps.ReasonTerminatingClaims, stalled: true, says: "data-orders-2",
		},
	} {
		t.Run(name, tc.Check)
	}
}
