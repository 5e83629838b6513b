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

func TestEveryStepHasAReason(t *testing.T) {
	phasetest.CheckSteps(
		t,
		Protect{}, Take{}, Resume{}, Check{}, DropJob{}, Remove{}, Release{}, CreateBackup{},
		CheckBackup{}, DeleteBackup{}, StopRecorder{}, SaveCurrent{}, FindBackup{}, DropRestoreJob{},
		NoteLoaded{},
	)
}

func TestNoRuleUsesAnotherOne(t *testing.T) { phasetest.CheckCalls(t) }
