package facts

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Figures are what metrics tell of a cluster beside its status: how many bytes of its primary's replication stream each replica has
// yet to apply. The servers are asked one after another within a moment, so that a busy primary is told to be ahead by what it wrote
// meanwhile. What could not be read is left out.
func Figures(s model.State) cluster.Figures {
	out := cluster.Figures{Anomalies: s.Anomalies}
	if s.Spec.Name == "" {
		return out
	}
	v := model.NewView(s)
	for shard, pods := range v.Shards {
		primary := v.Primary(shard)
		if primary == nil || primary.Node == nil {
			continue
		}
		for _, p := range pods {
			if p.Node == nil || p == primary || p.Node.Self().PrimaryID != primary.Node.ID {
				continue
			}
			out.Lags = append(out.Lags, cluster.Lag{Pod: p.Name, Behind: float64(max(0, primary.Node.Offset-p.Node.Offset))})
		}
	}
	return out
}
