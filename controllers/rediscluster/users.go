package rediscluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Users lists the resources of the users of a cluster.
func (k *Reconciler) Users(ctx context.Context, namespace, name string) ([]v1alpha1.RedisUser, error) {
	var list v1alpha1.RedisUserList
	if err := k.List(ctx, &list, client.InNamespace(namespace), owned.OfCluster{Kind: v1alpha1.KindRedisCluster, Name: name}); err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	var out []v1alpha1.RedisUser
	for _, u := range list.Items {
		if u.Spec.ClusterName == name {
			out = append(out, u)
		}
	}
	return out, nil
}

// accounts are what the users of a cluster ask for.
func (k *Reconciler) accounts(ctx context.Context, o *v1alpha1.RedisCluster) (map[string]model.AccountClaim, error) {
	list, err := k.Users(ctx, o.Namespace, o.Name)
	if err != nil {
		return nil, err
	}
	out := map[string]model.AccountClaim{}
	for i := range list {
		out[list[i].Name] = model.AccountClaim{Username: list[i].Username(), Wanted: list[i].DeletionTimestamp == nil}
	}
	return out, nil
}
