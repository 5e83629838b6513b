package etcdcluster

import (
	"context"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
)

// ensureMonitoring brings the PodMonitor of the members into place, once there is the Secret that it names.
func (k *Reconciler) ensureMonitoring(ctx context.Context, o *v1alpha1.EtcdCluster) error {
	wanted := o.Spec.Monitoring != nil && o.Spec.Monitoring.PodMonitor.Wanted()
	owner, err := k.OwnerReference(o)
	if err != nil {
		return err
	}
	record, err := k.Record(ctx, o)
	if err != nil {
		return err
	}
	reach, err := k.Transport(ctx, o, record)
	if err != nil {
		return err
	}
	if wanted {
		if open, err := k.ServesClients(ctx, o); err != nil {
			return err
		} else if !open {
			return cluster.Hold{Reason: v1alpha1.ReasonMonitoringPending, Message: "the PodMonitor is made when clients are let in"}
		}
	}
	return k.EnsurePodMonitor(ctx, o, manifests.PodMonitor(o, owner, reach), wanted)
}
