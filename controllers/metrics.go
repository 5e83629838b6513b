package controllers

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/metrics"
)

// measure registers the metrics of the manager, nil when nobody is to read them: what is remembered of clusters is forgotten when
// somebody scrapes and they are gone.
func measure(mgr ctrl.Manager, o Options) (*metrics.Metrics, error) {
	if o.Registerer == nil {
		return nil, nil
	}
	elected := mgr.Elected()
	m := metrics.New(metrics.Options{
		Version: o.Version,
		List:    func(ctx context.Context) (metrics.Objects, error) { return objects(ctx, mgr.GetCache()) },
		Leads: func() bool {
			select {
			case <-elected:
				return true
			default:
				return false
			}
		},
		Now: o.Clock.Now, Ahead: o.Clock.Ahead,
	})
	if err := o.Registerer.Register(m); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// objects reads everything that metrics tell about from a cache, whose own objects it returns: nobody may change them.
func objects(ctx context.Context, cache client.Reader) (metrics.Objects, error) {
	var (
		etcds      v1alpha1.EtcdClusterList
		etcdUsers  v1alpha1.EtcdUserList
		redises    v1alpha1.RedisClusterList
		redisUsers v1alpha1.RedisUserList
		backups    v1alpha1.BackupList
		schedules  v1alpha1.BackupScheduleList
		restores   v1alpha1.RestoreList
		scalers    v1alpha1.AutoscalerList
	)
	var err error
	for _, list := range []client.ObjectList{&etcds, &etcdUsers, &redises, &redisUsers, &backups, &schedules, &restores, &scalers} {
		err = errors.Join(err, cache.List(ctx, list, client.UnsafeDisableDeepCopy))
	}
	if err != nil {
		return metrics.Objects{}, fmt.Errorf("read objects for metrics: %w", err)
	}
	return metrics.Objects{
		Etcd: etcds.Items, EtcdUsers: etcdUsers.Items, Redis: redises.Items, RedisUsers: redisUsers.Items,
		Backups: backups.Items, Schedules: schedules.Items, Restores: restores.Items, Autoscalers: scalers.Items,
	}, nil
}
