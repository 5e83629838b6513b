package etcd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestFiguresTellHowManyVotersMayFail(t *testing.T) {
	applied := func(s *etcd.State) {
		for i := range s.Pods {
			s.Pods[i].View.Applied = 100 + uint64(i)
		}
	}
	tests := map[string]struct {
		change func(*etcd.State)
		margin *int
		lags   []cluster.Lag
	}{
		"all are well": {
			applied, ptr.To(1),
			[]cluster.Lag{{Pod: settled(nil).Pods[0].Name, Behind: 2}, {Pod: settled(nil).Pods[1].Name, Behind: 1}, {Pod: settled(nil).Pods[2].Name}},
		},
		"one does not answer": {
			func(s *etcd.State) { applied(s); s.Pods[2].View = nil },
			ptr.To(0),
			[]cluster.Lag{{Pod: settled(nil).Pods[0].Name, Behind: 1}, {Pod: settled(nil).Pods[1].Name}},
		},
		"two do not answer the operator, and each other they do": {
			func(s *etcd.State) { applied(s); s.Pods[1].View, s.Pods[2].View = nil, nil },
			nil,
			[]cluster.Lag{{Pod: settled(nil).Pods[0].Name}},
		},
		"the quorum is lost, so the members are not known": {func(s *etcd.State) { s.Members = nil }, nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(cluster.Figures{Margin: tt.margin, Lags: tt.lags}, etcd.Figures(settled(tt.change))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
