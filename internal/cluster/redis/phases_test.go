package redis

import (
	"os"
	"testing"

	"github.com/quorate/quorate/test/phasetest"
)

func TestMain(m *testing.M) {
	os.Exit(phasetest.Watch(shardedPhases(), replicatedPhases()).Main(m))
}

func TestEveryRuleSaysWhyItStandsWhereItDoes(t *testing.T) {
	phasetest.Check(t, Outline(false))
	phasetest.Check(t, Outline(true))
}
