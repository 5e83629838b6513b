package planner

import (
	"os"
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/phasetest"
)

func TestMain(m *testing.M) { os.Exit(phasetest.Watch(phases()).Main(m)) }

func TestEveryRuleSaysWhyItStandsWhereItDoes(t *testing.T) { phasetest.Check(t, Outline()) }

func TestNoRuleUsesAnotherOne(t *testing.T) { phasetest.CheckCalls(t) }

func TestExplainNamesTheRuleOfThePlan(t *testing.T) {
	if e := Explain(model.State{Want: model.Want{Size: 3}}); e.Rule != "writeRecord" || e.Phase != "begin" || e.Why == "" {
		t.Errorf("a cluster without a record: %+v", e)
	}
}
