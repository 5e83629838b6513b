package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Figures are what metrics tell of a cluster beside its status: how many voters may still fail, and how many entries of the log each
// member has yet to apply. What could not be read is left out.
func Figures(s model.State) cluster.Figures {
	out := cluster.Figures{Anomalies: s.Anomalies}
	if s.Members == nil {
		return out
	}
	// A quorum has told the members: where fewer than that are healthy, the operator does not see all of them.
	if all, healthy := s.Voters(); all > 0 && healthy >= model.Quorum(all) {
		margin := healthy - model.Quorum(all)
		out.Margin = &margin
	}
	var newest uint64
	for _, m := range s.Members {
		if s.Healthy(m) {
			newest = max(newest, s.Pod(m).Status.Applied)
		}
	}
	for _, m := range s.Members {
		if s.Healthy(m) {
			p := s.Pod(m)
			out.Lags = append(out.Lags, cluster.Lag{Pod: p.Name, Behind: float64(newest - p.Status.Applied)})
		}
	}
	return out
}
