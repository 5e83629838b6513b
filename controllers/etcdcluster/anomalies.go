package etcdcluster

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

const (
	// vitalsEvery is how often the metrics of a member are read: they are some 100 KiB, of which two histograms are of use.
	vitalsEvery = time.Minute
	// vitalsTimeout bounds that. A pass waits for it.
	vitalsTimeout = time.Second
)

// vitalsDue are the pods, by UID, whose metrics are to be read now. Whether that works or not, it is not tried again for vitalsEvery.
func (k *Reconciler) vitalsDue(o *v1alpha1.EtcdCluster, s *model.State) map[string]bool {
	due := map[string]bool{}
	k.maintenance.with(o.UID, s.Now, func(u *clusterMaintenance) {
		asked := map[string]time.Time{}
		for _, p := range s.Pods {
			last, known := u.metrics[p.UID]
			if due[p.UID] = p.Ready && (!known || s.Now.Sub(last) >= vitalsEvery); due[p.UID] {
				last, known = s.Now, true
			}
			if known {
				asked[p.UID] = last
			}
		}
		u.metrics = asked
	})
	return due
}

// askVitals reads the metrics of a member that answers.
func (k *Reconciler) askVitals(ctx context.Context, c model.Client, p *model.Pod) {
	ctx, cancel := context.WithTimeoutCause(ctx, vitalsTimeout, errors.New("it did not answer in time"))
	defer cancel()
	asked := k.Now()
	v, err := c.Vitals(ctx)
	if err != nil {
		return // Unknown, and nothing worse: the condition PerformanceHealthy says so after a while.
	}
	p.Metrics, p.Clock = &v, anomaly.ClockOf(p.Name, v.Time, time.Second, asked, k.Now())
}

// watch adds to a state what is unusual about its members.
func (k *Reconciler) watch(o *v1alpha1.EtcdCluster, s *model.State) {
	k.maintenance.with(o.UID, s.Now, func(u *clusterMaintenance) { s.Anomalies = u.vigil.Next(*s) })
	said := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionPerformanceHealthy)
	if s.Anomalies != nil && said != nil && said.Reason == cluster.ReasonHibernated {
		s.Anomalies.Begins = false // What was said of members that slept holds no longer.
	}
}
