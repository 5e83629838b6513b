package planner

import (
	"os"
	"slices"
	"testing"

	"github.com/quorate/quorate/test/phasetest"
)

func TestMain(m *testing.M) {
	watched := slices.Concat(phasetest.Watch(deletion, backup), phasetest.Watch(restore), phasetest.Watch(schedule))
	os.Exit(watched.Main(m))
}
