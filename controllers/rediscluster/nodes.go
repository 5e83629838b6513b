package rediscluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// findLostNodes looks at the nodes of pods whose servers do not answer: nobody else can tell whether these may still run. What a kubelet that is
// gone said last, that they are ready, stands for the better part of a minute. An installation that may not read nodes is told by the deletion of the pod alone.
func (k *Reconciler) findLostNodes(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Node != nil {
			continue
		}
		var pod corev1.Pod
		if err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: p.Name}, &pod); err != nil {
			if apierrors.IsNotFound(err) {
				continue // It is gone since.
			}
			return fmt.Errorf("read pod %s: %w", p.Name, err)
		}
		var err error
		if p.NodeLost, err = k.nodeSilent(ctx, pod.Spec.NodeName); err != nil {
			return err
		}
	}
	return nil
}

// nodeSilent reports whether nothing is known to run on a node any more: it is gone for good, or its kubelet has stopped to report. A
// kubelet that reports trouble reports what its containers do, too.
func (k *Reconciler) nodeSilent(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	node := &corev1.Node{}
	switch err := k.Direct.Get(ctx, client.ObjectKey{Name: name}, node); {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	return owned.OutOfService(node) || slices.ContainsFunc(node.Status.Conditions, func(n corev1.NodeCondition) bool {
		return n.Type == corev1.NodeReady && n.Status == corev1.ConditionUnknown
	}), nil
}

// findLostDisks looks for the proof that nodes and volumes are gone for good, for the pods that do not run.
func (k *Reconciler) findLostDisks(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Ready && !p.Deleting {
			continue
		}
		var err error
		if p.Gone, err = k.NodeGone(ctx, p.NodeName); err != nil {
			return err
		}
		j := slices.IndexFunc(s.Claims, func(c model.Claim) bool { return c.Shard == p.Shard && c.Ordinal == p.Ordinal })
		if j < 0 {
			continue
		}
		if s.Claims[j].Lost, err = k.VolumeLostReason(ctx, o, s.Claims[j].Name); err != nil {
			return err
		}
	}
	return nil
}
