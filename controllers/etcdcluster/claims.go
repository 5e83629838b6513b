package etcdcluster

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// observeClaims returns the claims that matter to a cluster. Before the record is written they are
// those of every ordinal that there can be: the data of an earlier cluster decides how this one begins.
func (k *Reconciler) observeClaims(
	ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet, record *model.Record, now time.Time,
) ([]model.Claim, error) {
	switch {
	case record == nil:
		return k.claims(ctx, o, set, model.MaxSize, now)
	case o.Spec.Storage == nil:
		return nil, nil // Those that there are belong to an earlier cluster.
	}
	return k.claims(ctx, o, set, claimable(o, *record), now)
}

// claimable returns the number of ordinals whose members mount a claim, or are to mount one.
func claimable(o *v1alpha1.EtcdCluster, record model.Record) int {
	if o.Spec.Storage == nil {
		return 0
	}
	return max(len(record.Members), int(o.Spec.Size))
}

// claims returns the data volume claims of all ordinals, those of an earlier cluster of this name
// included. Those of the first n ordinals are found whatever their labels are.
func (k *Reconciler) claims(ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet, n int, now time.Time) ([]model.Claim, error) {
	list, err := k.Claims(ctx, o.Namespace, manifests.Selector(o.Name), owned.ClaimNames(o.Name, n))
	if err != nil {
		return nil, err
	}
	var out []model.Claim
	for i := range list {
		c := &list[i]
		n, ok := ordinal(c.Name, cluster.VolumeData+"-"+o.Name)
		if !ok {
			continue
		}
		state := claimState(c)
		state.Ordinal, state.Leaving = n, c.DeletionTimestamp != nil || condemned(c, set)
		state.Owned = slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool { return set != nil && r.UID == set.UID })
		state.Age, state.Unlabelled = now.Sub(c.CreationTimestamp.Time), owned.Unlabelled(c, manifests.Selector(o.Name))
		out = append(out, state)
	}
	return out, nil
}

// claimRefs refer to the claims of a cluster that its StatefulSet does not take along when it goes.
func (k *Reconciler) claimRefs(ctx context.Context, o *v1alpha1.EtcdCluster) ([]*metav1ac.OwnerReferenceApplyConfiguration, error) {
	record, err := k.Record(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := k.Claims(ctx, o.Namespace, manifests.Selector(o.Name), owned.ClaimNames(o.Name, claimable(o, record)))
	if err != nil {
		return nil, err
	}
	var out []*metav1ac.OwnerReferenceApplyConfiguration
	for _, c := range list {
		if c.DeletionTimestamp == nil {
			out = append(out, metav1ac.OwnerReference().
				WithAPIVersion("v1").WithKind("PersistentVolumeClaim").WithName(c.Name).WithUID(c.UID))
		}
	}
	return out, nil
}

// keepsClaims reports whether the StatefulSet controller knows that the claims do not go with the set. It takes its references to
// it off them then.
func keepsClaims(set *appsv1.StatefulSet) bool {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	kept := p == nil || p.WhenDeleted != appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return kept && set.Status.ObservedGeneration >= set.Generation
}

// condemned reports whether a claim goes with a StatefulSet that is gone or going.
func condemned(c *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) bool {
	return slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "StatefulSet" && (set == nil || set.UID != r.UID)
	})
}
