package rediscluster

import (
	"context"
	"slices"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Outlook is what Observe would see of a specification that is not applied yet: StatefulSets are made as soon as it is, before the planner
// decides anything. It writes nothing.
func (k *Reconciler) Outlook(ctx context.Context, o *v1alpha1.RedisCluster) (model.State, error) {
	s, err := k.Observe(ctx, o)
	if err != nil || (s.Restore != nil && s.Restore.Wish != nil) { // See ensureServers.
		return s, err
	}
	shards, err := k.shards(ctx, o)
	if err != nil {
		return s, err
	}
	for _, shard := range shards {
		if !slices.ContainsFunc(s.Sets, func(set model.Set) bool { return set.Shard == shard }) {
			s.Sets = append(s.Sets, model.Set{Shard: shard, Replicas: 1 + o.Spec.Replicas()})
		}
	}
	return s, nil
}
