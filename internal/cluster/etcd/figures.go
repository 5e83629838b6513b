package etcd

import (
	"github.com/quorate/quorate/internal/cluster"
)

// Figures are what metrics tell of a cluster beside its status: how many voters may still fail, and how many entries of the log each
// member has yet to apply. What could not be read is left out.
func Figures(s State) cluster.Figures {
	out := cluster.Figures{Anomalies: s.Anomalies}
	if s.Members == nil {
		return out
	}
	// A quorum has told the members: where fewer than that are healthy, the operator does not see all of them.
	if all, healthy := s.voters(); all > 0 && healthy >= Quorum(all) {
		margin := healthy - Quorum(all)
		out.Margin = &margin
	}
	var newest uint64
	for _, m := range s.Members {
		if s.healthy(m) {
			newest = max(newest, s.pod(m).View.Applied)
		}
	}
	for _, m := range s.Members {
		if s.healthy(m) {
			p := s.pod(m)
			out.Lags = append(out.Lags, cluster.Lag{Pod: p.Name, Behind: float64(newest - p.View.Applied)})
		}
	}
	return out
}
