package redis

import (
	"github.com/quorate/quorate/internal/cluster"
)

// Figures are what metrics tell of a cluster beside its status: how many bytes of its primary's replication stream each replica has
// yet to apply. The servers are asked one after another within a moment, so that a busy primary is told to be ahead by what it wrote
// meanwhile. What could not be read is left out.
func Figures(s State) cluster.Figures {
	out := cluster.Figures{Anomalies: s.Anomalies}
	if s.Spec.Name == "" {
		return out
	}
	v := look(s)
	for shard, pods := range v.shards {
		primary := v.primary(shard)
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

// HandsOver marks the step as one after which another server takes the writes.
func (Failover) HandsOver() bool { return true }

// HandsOver marks the step as one after which another server takes the writes.
func (Elect) HandsOver() bool { return true }

// HandsOver marks the step as one after which another server takes the writes.
func (TakeOver) HandsOver() bool { return true }

// HandsOver marks the step as one after which another server takes the writes.
func (HandOver) HandsOver() bool { return true }

// HandsOver marks the step as one after which another server takes the writes.
func (Promote) HandsOver() bool { return true }
