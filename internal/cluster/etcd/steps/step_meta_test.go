package steps

import (
	"testing"

	"github.com/quorate/quorate/test/phasetest"
)

func TestEveryStepHasAReason(t *testing.T) {
	phasetest.CheckSteps(
		t,
		WriteBootstrap{}, RecordClusterID{}, Resize{}, AddLearner{}, Promote{}, RemoveMember{},
		MoveLeader{}, SetRecovery{}, StartRestore{}, TakeSnapshot{}, RecordSnapshot{}, DropBackup{},
		EnableAuth{}, SetRootPassword{}, RecordPassword{}, LetClientsIn{}, SetVersion{}, Downgrade{},
		CancelDowngrade{}, NoteFlushed{}, Prove{}, Reject{}, SetTransport{}, UpdatePeer{}, DeletePod{},
		DeleteClaim{}, ExpandClaim{}, RemakeSet{}, SetBudget{}, Hibernate{}, Wake{}, Compact{},
		DrainMember{}, Defragment{}, ServeAgain{}, Disarm{},
	)
}
