package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
)

// TestEachRuleDecidesInItsOwnPlace has rules that share facts with rules of other places.
func TestEachRuleDecidesInItsOwnPlace(t *testing.T) {
	unfounded := func(s *model.State) { s.Record.ClusterID, s.Open = 0, false }
	unknown := func(s *model.State) {
		s.Members = append(s.Members, model.Member{ID: 9, PeerURL: "https://elsewhere:2380", Published: true})
	}
	away := func(s *model.State) { // etcd lists two members, and the pod of the third is ending.
		s.Members = s.Members[:2]
		s.Pods[2].Terminating, s.Claims = true, s.Claims[:2]
		down(s, 2)
	}
	for want, state := range map[string]model.State{
		"refuseUnknownFounders":   settled(func(s *model.State) { unfounded(s); unknown(s) }),
		"recordIdentity":          settled(unfounded),
		"refuseUnknownMembers":    settled(unknown),
		"rejoin":                  full(1000, func(s *model.State) { s.Members = s.Members[:2]; down(s, 2) }),
		"healSpaceWhileUnhealthy": full(1000, away),
		"waitForRejoin":           settled(away),
		"healSpace":               full(1000, nil),
		"recordRemoval":           of(3, func(s *model.State) { s.Want.Size, s.Members = 2, s.Members[:2]; down(s, 2) }),
		"shrink":                  of(5, func(s *model.State) { s.Want.Size = 3 }),
		"snapshotForUnhealthy": running(v36, model.Version{Major: 3, Minor: 6, Patch: 17}, func(s *model.State) {
			s.Want.Snapshot, s.Want.SnapshotPlace = true, true
			down(s, 2)
		}),
		"waitForHealth": settled(func(s *model.State) { down(s, 2) }),
	} {
		if got := planner.Explain(state); got.Rule != want {
			t.Errorf("%s decides, want %s: %s", got.Rule, want, planner.Next(state).Message)
		}
	}
}
