package users

import (
	"os"
	"testing"

	"github.com/quorate/quorate/test/phasetest"
)

func TestMain(m *testing.M) { os.Exit(phasetest.Watch(deletion, creation).Main(m)) }

func TestEveryStepHasAReason(t *testing.T) {
	phasetest.CheckSteps(t, Protect{}, Publish{}, Release{})
}

func TestNoRuleUsesAnotherOne(t *testing.T) { phasetest.CheckCalls(t) }
