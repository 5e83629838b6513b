package redis

import (
	"testing"
)

func TestFormed(t *testing.T) {
	t.Parallel()
	owner := &Node{ID: "a", Peers: []Peer{{ID: "a", Myself: true, Slots: Slots{{From: 0, To: 99}}}}}
	for name, tc := range map[string]struct {
		state State
		want  bool
	}{
		"no server answers":                       {State{Pods: []Pod{{}}}, false},
		"no slot has an owner":                    {State{Pods: []Pod{{Node: &Node{ID: "a", Peers: []Peer{{ID: "a", Myself: true}}}}}}, false},
		"a slot has an owner":                     {State{Pods: []Pod{{}, {Node: owner}}}, true},
		"the only owner is being deleted":         {State{Pods: []Pod{{Node: owner, Deleting: true}}}, false},
		"Replicated without an appointed primary": {State{Spec: Spec{Replicated: true}, Pods: []Pod{{Node: owner}}}, false},
		"Replicated with an appointed primary":    {State{Spec: Spec{Replicated: true}, Appointed: Appointment{Pod: "carts-0-0"}}, true},
	} {
		if got := tc.state.Formed(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
