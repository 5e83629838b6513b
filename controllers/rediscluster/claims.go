package rediscluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// observeClaims lists the claims of all data volumes, those of an earlier cluster of this name included.
func (k *Reconciler) observeClaims(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	claims, err := k.claims(ctx, o)
	s.Claims = claims
	return err
}

// claims returns the claims with the labels of the cluster, and those that servers mount by their
// names, whatever their labels are.
func (k *Reconciler) claims(ctx context.Context, o *v1alpha1.RedisCluster) ([]model.Claim, error) {
	if o.Spec.Storage == nil {
		return nil, nil // What there is belongs to an earlier cluster, and is nothing to this one.
	}
	live, mounted, err := k.claimants(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := k.Claims(ctx, o.Namespace, manifests.Selector(o), mounted)
	if err != nil {
		return nil, err
	}
	var out []model.Claim
	for i := range list {
		if c, ok := redisClaimOf(o, &list[i], live); ok {
			out = append(out, c)
		}
	}
	return out, nil
}

// claimants returns the StatefulSets that are not being deleted, and the names of the claims that
// the pods of the cluster's own ones mount.
func (k *Reconciler) claimants(ctx context.Context, o *v1alpha1.RedisCluster) (live map[types.UID]bool, mounted []string, err error) {
	var sets appsv1.StatefulSetList
	if err := k.List(ctx, &sets, client.InNamespace(o.Namespace), client.MatchingLabels(manifests.Selector(o))); err != nil {
		return nil, nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	live = map[types.UID]bool{}
	for i := range sets.Items {
		set := &sets.Items[i]
		live[set.UID] = set.DeletionTimestamp == nil
		if _, ok := cluster.ShardOf(o.Name, set.Name); ok && live[set.UID] && metav1.IsControlledBy(set, o) {
			mounted = append(mounted, owned.ClaimNames(set.Name, min(int(ptr.Deref(set.Spec.Replicas, 1)), cluster.MaxServers))...)
		}
	}
	return live, mounted, nil
}

// redisClaimOf returns what the planner needs of a claim; false if it is none of a server.
func redisClaimOf(o *v1alpha1.RedisCluster, c metav1.Object, live map[types.UID]bool) (model.Claim, bool) {
	shard, ordinal, ok := model.ParseClaim(o.Name, c.GetName())
	orphan := slices.ContainsFunc(c.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "StatefulSet" && !live[r.UID] })
	return model.Claim{
		Name: c.GetName(), UID: string(c.GetUID()), ResourceVersion: c.GetResourceVersion(),
		Shard: shard, Ordinal: ordinal, Leaving: c.GetDeletionTimestamp() != nil || orphan, Made: c.GetCreationTimestamp().Time,
	}, ok
}

// findRetained adds the claims without our labels that an earlier cluster of this name may have
// left. They decide how a cluster begins, and matter no more once slots have owners.
func (k *Reconciler) findRetained(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	if o.Spec.Storage == nil || s.Formed() {
		return nil
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := k.Direct.List(ctx, &list, client.InNamespace(o.Namespace)); err != nil {
		return fmt.Errorf("list claims past the cache: %w", err)
	}
	live, _, err := k.claimants(ctx, o)
	if err != nil {
		return err
	}
	for i := range list.Items {
		c, ok := redisClaimOf(o, &list.Items[i], live)
		if ok && !slices.ContainsFunc(s.Claims, func(have model.Claim) bool { return have.Name == c.Name }) {
			s.Claims = append(s.Claims, c)
		}
	}
	return nil
}
