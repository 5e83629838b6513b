package config

import (
	"strconv"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// With spec.config.minReplicasToWrite a primary takes writes only while so many replicas acknowledge them, which bounds what is lost when
// it is cut off. Replicas are held to it as well, so that it is in force for whoever is elected.
//
// A replica that starts or ends is not cut off, and it is mostly Quorate that lets it. So a primary is let off, as far as it has to be,
// before a step takes replicas away, and while some are known to be on their way. It is held to it again by the number of those that are
// in sync. In the mode Replicated one is always asked for, see setMinReplicasOfPrimary.

// MinReplicas is how many replicas have to acknowledge what a primary of the mode Sharded writes. Clusters from before there was a field
// for it may say so in extra.
func MinReplicas(spec *v1alpha1.RedisClusterSpec) int {
	switch {
	case spec.IsReplicated() || spec.Config == nil:
		return 0
	case spec.Config.MinReplicasToWrite != nil:
		return int(*spec.Config.MinReplicasToWrite)
	}
	return min(int(model.ParseNumber(string(spec.Config.Extra[model.WriteGuard]))), spec.Replicas())
}

// writeGuards are the parameters of servers of the mode Sharded.
func writeGuards(spec *v1alpha1.RedisClusterSpec) []directive {
	n := MinReplicas(spec)
	if n == 0 {
		return nil
	}
	return append([]directive{{model.WriteGuard, []string{strconv.Itoa(n)}}}, fencing(spec.Config)...)
}
