package planner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
)

func TestFiguresTellHowManyVotersMayFail(t *testing.T) {
	applied := func(s *model.State) {
		for i := range s.Pods {
			s.Pods[i].Status.Applied = 100 + uint64(i)
		}
	}
	tests := map[string]struct {
		change func(*model.State)
		margin *int
		lags   []cluster.Lag
	}{
		"all are well": {
			applied, ptr.To(1),
			[]cluster.Lag{{Pod: settled(nil).Pods[0].Name, Behind: 2}, {Pod: settled(nil).Pods[1].Name, Behind: 1}, {Pod: settled(nil).Pods[2].Name}},
		},
		"one does not answer": {
			func(s *model.State) { applied(s); s.Pods[2].Status = nil },
			ptr.To(0),
			[]cluster.Lag{{Pod: settled(nil).Pods[0].Name, Behind: 1}, {Pod: settled(nil).Pods[1].Name}},
		},
		"two do not answer the operator, and each other they do": {
			func(s *model.State) { applied(s); s.Pods[1].Status, s.Pods[2].Status = nil, nil },
			nil,
			[]cluster.Lag{{Pod: settled(nil).Pods[0].Name}},
		},
		"the quorum is lost, so the members are not known": {func(s *model.State) { s.Members = nil }, nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(cluster.Figures{Margin: tt.margin, Lags: tt.lags}, planner.Figures(settled(tt.change))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
