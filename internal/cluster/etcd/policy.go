package etcd

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

const (
	// tightShare of the quota makes even a small gain worth a defragmentation, as much as tightGain
	// (https://github.com/ahrtr/etcd-defrag recommends the rule).
	tightShare = 0.8
	tightGain  = 32 << 20
	// defaultMinFree is worth a defragmentation where it is also looseShare of the file: what a busy database frees at a
	// compaction it needs again until the next. OpenShift defragments from 45 %.
	defaultMinFree = 200 << 20
	looseShare     = 0.45
)

// Policy is what the specification says of maintenance.
type Policy struct {
	// Defragment allows defragmentations, in Window where there is one, from MinFree bytes on.
	Defragment bool
	Window     *Window
	MinFree    int64
	// Quota of the database in bytes.
	Quota int64
	// KeepsHistory says that the user switched compaction off.
	KeepsHistory bool
}

// Policy reads the specification, with the defaults applied.
func (b Blueprint) Policy() (Policy, error) {
	p := Policy{Defragment: true, MinFree: defaultMinFree, Quota: b.quota(), KeepsHistory: b.keepsHistory()}
	spec := b.Cluster.Spec.Maintenance
	if spec == nil {
		return p, nil
	}
	var err error
	if p.Window, err = ParseWindow(spec.Window); err != nil {
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
func (b Blueprint) quota() int64 { return b.QuotaOn(b.Layout().VolumeSize) }

// QuotaOn is the quota of the database on volumes of the given size in bytes, 0 without volumes.
func (b Blueprint) QuotaOn(volume int64) int64 {
	if quota, ok := withQuota(b.Common, volume)[quotaKey].(int64); ok {
		return quota
	}
	return etcdQuota
}

// keepsHistory reports whether compaction is switched off: with the number or the duration zero.
func (b Blueprint) keepsHistory() bool {
	retention, _ := b.Common["auto-compaction-retention"].(string)
	d, err := time.ParseDuration(retention)
	return retention == "0" || (err == nil && d == 0)
}

// worthIt reports whether a defragmentation gains enough for what it costs.
func (w Policy) worthIt(v View) bool {
	free := v.DBSize - v.DBInUse
	if float64(v.DBSize) > tightShare*float64(w.Quota) && free >= tightGain {
		return true
	}
	return free >= w.MinFree && float64(free) >= looseShare*float64(v.DBSize)
}
