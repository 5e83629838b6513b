package manifests

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Policy reads the specification, with the defaults applied.
func (b Builder) Policy() (model.Policy, error) {
	p := model.Policy{Defragment: true, MinFree: model.DefaultMinFree, Quota: b.quota(), KeepsHistory: b.keepsHistory()}
	spec := b.Cluster.Spec.Maintenance
	if spec == nil {
		return p, nil
	}
	var err error
	if p.Window, err = model.ParseWindow(spec.Window); err != nil {
		return p, cluster.Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("spec.maintenance.window: %v", err)}
	}
	if d := spec.Defragmentation; d != nil {
		p.Defragment = d.Mode == nil || *d.Mode == v1alpha1.DefragmentationAuto
		if d.MinFree != nil {
			p.MinFree = d.MinFree.Value()
		}
	}
	return p, nil
}

// quota is what the configuration of the members says, or what etcd takes where it says nothing.
func (b Builder) quota() int64 { return b.QuotaOn(b.Layout().VolumeSize) }

// QuotaOn is the quota of the database on volumes of the given size in bytes, 0 without volumes.
func (b Builder) QuotaOn(volume int64) int64 {
	if quota, ok := config.WithQuota(b.Common, volume)[config.QuotaKey].(int64); ok {
		return quota
	}
	return config.EtcdQuota
}

// keepsHistory reports whether compaction is switched off: with the number or the duration zero.
func (b Builder) keepsHistory() bool {
	retention, _ := b.Common["auto-compaction-retention"].(string)
	d, err := time.ParseDuration(retention)
	return retention == "0" || (err == nil && d == 0)
}
