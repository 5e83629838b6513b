package autoscale

import (
	"os"
	"testing"

	"github.com/quorate/quorate/test/phasetest"
)

func TestMain(m *testing.M) { os.Exit(phasetest.Watch(phases).Main(m)) }

func TestEveryStepHasAReason(t *testing.T) {
	phasetest.CheckSteps(t, SetShards{}, SetMemory{}, SetStorage{})
}

func TestNoRuleUsesAnotherOne(t *testing.T) { phasetest.CheckCalls(t) }
