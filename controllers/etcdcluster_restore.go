package controllers

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

var _ RestoreTarget = (*EtcdKind)(nil)

// etcdBootstrap is what a new cluster begins with.
func etcdBootstrap(o *v1alpha1.EtcdCluster) Lookup {
	return bootstrap(o, v1alpha1.KindEtcdCluster, o.Spec.Bootstrap, o.Spec.Template)
}

// anew is the backup that a cluster is to begin anew with, nil for none. None is begun while the one that was carried out last has yet to say
// so: it would be taken for another one.
func (k *EtcdKind) anew(ctx context.Context, o *v1alpha1.EtcdCluster, record etcd.Record) (*etcd.Anew, error) {
	r, err := k.confirmedRestore(ctx, o, v1alpha1.KindEtcdCluster)
	if r == nil || err != nil {
		return nil, err
	}
	open, err := restoresInto(ctx, k, o.Namespace, v1alpha1.KindEtcdCluster, o.Name)
	if err != nil || slices.ContainsFunc(open, func(r v1alpha1.Restore) bool { return record.BeganWith(restoreToken(&r, o)) }) {
		return nil, err
	}
	f := r.Status.Found
	return &etcd.Anew{
		Noun: "Restore " + r.Name, Plan: r.Status.Plan, AtLeast: max(f.Revision, f.Target),
		Restore: etcd.Restore{
			Destination: r.destination, Directory: f.Directory, Timeline: f.Timeline, Revision: f.Target,
			Exact: r.Spec.From.Revision != nil || r.Spec.From.Time != nil, Bump: etcd.RestoreBump, Token: restoreToken(r.Restore, o),
		},
	}, nil
}

// Target says of a cluster whether a backup can be put into it.
func (k *EtcdKind) Target(ctx context.Context, r *v1alpha1.Restore, found *plan.Found) (*plan.Target, Lookup, error) {
	o := &v1alpha1.EtcdCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.Cluster.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, Lookup{}, nil
	}
	if err != nil {
		return nil, Lookup{}, fmt.Errorf("read EtcdCluster %s: %w", r.Spec.Cluster.Name, err)
	}
	record, err := k.record(ctx, o)
	if err != nil {
		return nil, Lookup{}, err
	}
	t := &plan.Target{Noun: "EtcdCluster " + o.Name, Leaving: o.DeletionTimestamp != nil, Doing: o.Status.Activity}
	switch {
	case record.BeganWith(restoreToken(r, o)):
		t.Restored = &plan.Restored{Revision: max(record.Restore.Revision, revisionOf(found)) + record.Restore.Bump}
	case record.BeginsWith(restoreToken(r, o)):
		t.Begun = true
	case len(record.Members) == 0 || (record.ClusterID == 0 && record.Recovery.Anew == nil):
		t.Missing = "it has not been founded; name the backup in spec.bootstrap.restore of a new cluster instead"
	case record.Hibernated || o.IsHibernated():
		t.Missing = "it is hibernated: set spec.hibernated to false first"
	case o.IsPaused():
		t.Missing = "it is paused: set spec.paused to false first"
	}
	if found != nil {
		t.Refused = etcd.Unsuited(found.Version, record.Version)
		name := plan.Restoration{UID: string(r.UID), Found: found}.Plan()
		t.Replaces = etcd.Replaces(len(record.Members), o.Spec.Storage != nil, name)
	}
	return t, Lookup{template: o.Spec.Template}, nil
}

// restoreToken tells apart what a Restore makes of a cluster.
func restoreToken(r *v1alpha1.Restore, o *v1alpha1.EtcdCluster) string {
	return string(r.UID) + "-" + string(o.UID)
}

func revisionOf(f *plan.Found) int64 {
	if f == nil {
		return 0
	}
	return f.Revision
}
