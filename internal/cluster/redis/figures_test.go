package redis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
)

func TestFiguresTellHowFarReplicasAreBehind(t *testing.T) {
	f := formed()
	f.Pods[1].Node.Offset = 400  // The replica of the first shard.
	f.Pods[3].Node.Offset = 1100 // That of the second, asked after its primary.
	f.Pods[4].Node = nil         // The primary of the third does not answer.
	want := cluster.Figures{Lags: []cluster.Lag{{Pod: "c-0-1", Behind: 600}, {Pod: "c-1-1"}}}
	if diff := cmp.Diff(want, Figures(f.State)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := Figures(State{}); got.Lags != nil {
		t.Errorf("what was not observed has figures: %+v", got)
	}
}

// Where primaries wait for replicas every planned hand-over comes with their leave.
func TestAHandOverIsOneWhateverItTakes(t *testing.T) {
	for name, tc := range map[string]struct {
		step cluster.Step
		want bool
	}{
		"a failover": {Failover{0, "c-0-0", "c-0-1"}, true},
		"one for which the write guard is lifted": {Lifted{guards(0, "c-0-0"), Failover{0, "c-0-0", "c-0-1"}}, true},
		"a restart for which it is lifted":        {Lifted{guards(0, "c-0-0"), Restart{}}, false},
	} {
		if got := tc.step.Meta().HandsOver; got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
