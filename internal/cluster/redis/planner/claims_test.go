package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

func TestFormed(t *testing.T) {
	t.Parallel()
	owner := &model.Node{ID: "a", Peers: []model.Peer{{ID: "a", Myself: true, Slots: slots.Set{{From: 0, To: 99}}}}}
	for name, tc := range map[string]struct {
		state model.State
		want  bool
	}{
		"no server answers":                       {model.State{Pods: []model.Pod{{}}}, false},
		"no slot has an owner":                    {model.State{Pods: []model.Pod{{Node: &model.Node{ID: "a", Peers: []model.Peer{{ID: "a", Myself: true}}}}}}, false},
		"a slot has an owner":                     {model.State{Pods: []model.Pod{{}, {Node: owner}}}, true},
		"the only owner is being deleted":         {model.State{Pods: []model.Pod{{Node: owner, Deleting: true}}}, false},
		"Replicated without an appointed primary": {model.State{Spec: model.Spec{Replicated: true}, Pods: []model.Pod{{Node: owner}}}, false},
		"Replicated with an appointed primary":    {model.State{Spec: model.Spec{Replicated: true}, Appointed: model.Appointment{Pod: "carts-0-0"}}, true},
	} {
		if got := tc.state.Formed(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
