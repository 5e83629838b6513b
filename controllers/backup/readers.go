package backup

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

// Reader is a cluster or a Restore that has yet to be restored, and from what.
type Reader struct {
	Name string
	From *v1alpha1.RestoreSource
}

// reads reports whether that may be a backup: one that is named, or one at the place that is named.
func (r Reader) reads(b *v1alpha1.Backup) bool {
	if r.From.Backup != nil {
		return *r.From.Backup == b.Name
	}
	return r.From.Destination.URL == b.Spec.Destination.URL && (r.From.Directory == nil || *r.From.Directory == Directory(b))
}

// readers are the clusters and restores of a namespace that are not done, by the Backup that they may begin with.
func (k *Reconciler) readers(ctx context.Context, namespace string) (map[string][]string, error) {
	all, err := k.allReaders(ctx, namespace)
	if len(all) == 0 || err != nil {
		return nil, err
	}
	var list v1alpha1.BackupList
	if err := k.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	out := map[string][]string{}
	for i := range list.Items {
		for _, r := range all {
			if b := &list.Items[i]; r.reads(b) {
				out[b.Name] = append(out[b.Name], r.Name)
			}
		}
	}
	return out, nil
}

func (k *Reconciler) allReaders(ctx context.Context, namespace string) (out []Reader, err error) {
	add := func(noun string, o client.Object, from *v1alpha1.RestoreSource, done bool) {
		if from != nil && !done && o.GetDeletionTimestamp() == nil {
			out = append(out, Reader{noun + " " + o.GetName(), from})
		}
	}
	var etcds v1alpha1.EtcdClusterList
	if err := k.List(ctx, &etcds, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list etcd clusters: %w", err)
	}
	for i := range etcds.Items {
		c := &etcds.Items[i]
		add("EtcdCluster", c, c.Spec.Bootstrap.RestoreSource(), c.Status.ClusterID != "")
	}
	var servers v1alpha1.RedisClusterList
	if err := k.List(ctx, &servers, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Redis clusters: %w", err)
	}
	for i := range servers.Items {
		c := &servers.Items[i]
		add("RedisCluster", c, c.Spec.Bootstrap.RestoreSource(), meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionAvailable))
	}
	var restores v1alpha1.RestoreList
	if err := k.List(ctx, &restores, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list restores: %w", err)
	}
	for i := range restores.Items {
		r := &restores.Items[i]
		add("Restore", r, &r.Spec.From, meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete))
	}
	for _, kind := range slices.Sorted(maps.Keys(k.sources)) {
		reading, err := k.sources[kind].Readers(ctx, namespace)
		if err != nil {
			return nil, err
		}
		out = append(out, reading...)
	}
	return out, nil
}
