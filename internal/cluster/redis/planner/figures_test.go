package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func TestFiguresTellHowFarReplicasAreBehind(t *testing.T) {
	f := formed()
	f.Pods[1].Node.Offset = 400  // The replica of the first shard.
	f.Pods[3].Node.Offset = 1100 // That of the second, asked after its primary.
	f.Pods[4].Node = nil         // The primary of the third does not answer.
	want := cluster.Figures{Lags: []cluster.Lag{{Pod: "c-0-1", Behind: 600}, {Pod: "c-1-1"}}}
	if diff := cmp.Diff(want, facts.Figures(f.State)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := facts.Figures(model.State{}); got.Lags != nil {
		t.Errorf("what was not observed has figures: %+v", got)
	}
}

func TestAHandOverIsOneWhateverItTakes(t *testing.T) {
	for name, tc := range map[string]struct {
		step cluster.Step
		want bool
	}{
		"a failover":                            {steps.Failover{Shard: 0, From: "c-0-0", To: "c-0-1"}, true},
		"a hand-over of the mode Replicated":    {steps.HandOver{From: "c-0-0", To: "c-0-1"}, true},
		"what primaries are let off before one": {guards(0, "c-0-0"), false},
		"a restart":                             {steps.Restart{}, false},
	} {
		if got := tc.step.Meta().HandsOver; got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
