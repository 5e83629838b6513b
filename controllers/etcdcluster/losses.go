package etcdcluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// findLosses looks for the proof that a node or a volume is gone for good, for the members whose pods do not run.
func (k *Reconciler) findLosses(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State, pods []corev1.Pod) error {
	for i := range pods {
		if owned.PodReady(&pods[i]) && pods[i].DeletionTimestamp == nil {
			continue
		}
		gone, err := k.NodeGone(ctx, pods[i].Spec.NodeName)
		if err != nil {
			return err
		}
		s.Pods[i].Gone = gone
		j := slices.IndexFunc(s.Claims, func(c model.Claim) bool { return c.Ordinal == s.Pods[i].Ordinal })
		if j < 0 {
			continue
		}
		if s.Claims[j].Lost, err = k.VolumeLostReason(ctx, o, s.Claims[j].Name); err != nil {
			return err
		}
		if s.Claims[j].Stranded, err = k.StrandedReason(ctx, &pods[i], s.Claims[j].Name, pods); err != nil {
			return err
		}
		if why := s.Claims[j].Stranded; why != "" {
			s.Pods[i].Problem = owned.AddStranded(s.Pods[i].Problem, why)
		}
	}
	return nil
}
