package config

import (
	"strconv"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

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
