package autoscaler

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/autoscale"
)

// Report fills in the status.
func (k *Reconciler) Report(o *v1alpha1.Autoscaler, s autoscale.State, p cluster.Plan, err error) {
	st := &o.Status
	st.ObservedGeneration = o.Generation
	st.Activity = cluster.Activity(p, err)
	st.Shards = reportShards(st.Shards, s.Shards)
	st.Memory = reportMemory(s.Memory)
	st.Storage = reportStorage(st.Storage, s.Storage)
	past := k.past(o.UID)
	if p.Step != nil && err == nil {
		past.changed = &v1alpha1.AutoscalerChange{Time: metav1.NewTime(s.Now.Truncate(time.Second)), Change: p.Step.String(), Reason: p.Message}
	}
	if past.changed != nil && (st.LastChange == nil || st.LastChange.Time.Before(&past.changed.Time)) {
		st.LastChange = past.changed
	}
	conditions.Set(&st.Conditions, k.Now(), o.Generation, autoscale.Conditions(s, p, err)...)
}

// steady is a figure for the status: the one that was told, as long as the new one is near it, so that an idle cluster costs no write.
func steady[N int32 | int64](told *N, now float64) *N {
	if told != nil && max(now-float64(*told), float64(*told)-now) <= max(2, float64(*told)/20) {
		return told
	}
	return ptr.To(N(now + 0.5))
}

func reportShards(told *v1alpha1.AutoscalerShardsStatus, n *autoscale.Shards) *v1alpha1.AutoscalerShardsStatus {
	if n == nil || n.Unfit != "" {
		return nil
	}
	if told == nil {
		told = &v1alpha1.AutoscalerShardsStatus{}
	}
	out := &v1alpha1.AutoscalerShardsStatus{Current: int32(n.Current), Wanted: int32(n.Wanted())} //nolint:gosec // admission bounds them
	if share, ok := n.MemoryShare(); ok {
		out.MemoryPercent = steady(told.MemoryPercent, share*100)
	}
	if rate, ok := n.Rate(); ok {
		out.OperationsPerSecond = steady(told.OperationsPerSecond, rate)
	}
	return out
}

func reportMemory(m *autoscale.Memory) *v1alpha1.AutoscalerMemoryStatus {
	if m == nil || m.Wanted() == 0 {
		return nil
	}
	out := &v1alpha1.AutoscalerMemoryStatus{Recommended: *resource.NewQuantity(m.Wanted(), resource.BinarySI)}
	if m.Limit > 0 {
		out.Current = resource.NewQuantity(m.Limit, resource.BinarySI)
	}
	return out
}

func reportStorage(told *v1alpha1.AutoscalerStorageStatus, v *autoscale.Storage) *v1alpha1.AutoscalerStorageStatus {
	if v == nil || v.Unfit != "" || v.Used == 0 {
		return nil
	}
	out := &v1alpha1.AutoscalerStorageStatus{Current: *resource.NewQuantity(v.Size, resource.BinarySI)}
	var last *int32
	if told != nil && told.Current.Equal(out.Current) {
		last = &told.UsedPercent
	}
	out.UsedPercent = *steady(last, float64(v.UsedPercent()))
	return out
}
