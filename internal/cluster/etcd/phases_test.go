package etcd

import (
	"os"
	"testing"

	"github.com/quorate/quorate/test/phasetest"
)

func TestMain(m *testing.M) { os.Exit(phasetest.Watch(phases()).Main(m)) }

func TestEveryRuleSaysWhyItStandsWhereItDoes(t *testing.T) { phasetest.Check(t, Outline()) }

func TestEveryStepHasAReason(t *testing.T) {
	phasetest.CheckSteps(
		t,
		WriteBootstrap{}, RecordClusterID{}, Resize{}, AddLearner{}, Promote{}, RemoveMember{},
		MoveLeader{}, SetRecovery{}, StartAnew{}, TakeSnapshot{}, RecordSnapshot{}, DropBackup{},
		EnableAuth{}, SetRootPassword{}, RecordPassword{}, LetClientsIn{}, SetVersion{}, Downgrade{},
		CancelDowngrade{}, NoteFlushed{}, Prove{}, Reject{}, SetTransport{}, UpdatePeer{}, DeletePod{},
		DeleteClaim{}, ExpandClaim{}, RemakeSet{}, SetBudget{}, Hibernate{}, Wake{}, Compact{},
		DrainMember{}, Defragment{}, ServeAgain{}, Disarm{},
	)
}

func TestNoRuleUsesAnotherOne(t *testing.T) { phasetest.CheckCalls(t) }

func TestExplainNamesTheRuleOfThePlan(t *testing.T) {
	if e := Explain(State{Want: Want{Size: 3}}); e.Rule != "writeRecord" || e.Phase != "begin" || e.Why == "" {
		t.Errorf("a cluster without a record: %+v", e)
	}
}
