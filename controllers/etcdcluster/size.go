package etcdcluster

import (
	"context"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/goroutine"
)

// Largest is the size of the largest database of the members that answer, in bytes; 0: none does. It asks them and nobody else, and
// touches nothing that is remembered of the cluster, so that other kinds may call it at any time.
func (k *Reconciler) Largest(ctx context.Context, o *v1alpha1.EtcdCluster) (int64, error) {
	set, err := k.StatefulSet(ctx, o)
	if err != nil {
		return 0, err
	}
	pods, err := k.Pods(ctx, o, set)
	if err != nil {
		return 0, err
	}
	a, err := k.Credentials(ctx, o)
	if err != nil {
		return 0, err
	}
	views := make([]model.Pod, len(pods))
	_ = goroutine.Each(len(pods), func(i int) error { // The size of a member that does not answer is unknown.
		if !Running(&pods[i]) {
			return nil
		}
		return k.askStatus(ctx, k.MemberClientOf(ctx, o, a, &pods[i]), &views[i], false, statusTimeout)
	})
	size := int64(0)
	for _, p := range views {
		if p.Status != nil {
			size = max(size, p.Status.DBSize)
		}
	}
	return size, nil
}
