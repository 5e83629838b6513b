package etcdcluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

var _ restore.Target = (*Reconciler)(nil)

// etcdBootstrap is what a new cluster begins with.
func etcdBootstrap(o *v1alpha1.EtcdCluster) restore.Lookup {
	return restore.Bootstrap(o, v1alpha1.KindEtcdCluster, o.Spec.Bootstrap, o.Spec.Template)
}

// anew is the backup that a cluster is to begin anew with, nil for none. None is begun while the one that was begun last has yet to be
// complete and say so: it would be taken for another one. Whoever wants another backup instead deletes that.
func (k *Reconciler) anew(ctx context.Context, o *v1alpha1.EtcdCluster, record model.Record) (*model.InPlaceRestore, error) {
	r, err := restore.Approved(ctx, k.Client, o, v1alpha1.KindEtcdCluster)
	if r == nil || err != nil {
		return nil, err
	}
	open, err := restore.Unfinished(ctx, k, o.Namespace, v1alpha1.KindEtcdCluster, o.Name)
	if err != nil || slices.ContainsFunc(open, func(r v1alpha1.Restore) bool { return record.RestoresFrom(restoreToken(&r, o)) }) {
		return nil, err
	}
	f := r.Status.Found
	return &model.InPlaceRestore{
		Noun: "Restore " + r.Name, Plan: r.Status.Plan,
		Restore: model.Restore{
			Destination: r.Destination, Directory: f.Directory, Timeline: f.Timeline, Revision: f.Target,
			Exact: r.Spec.From.Revision != nil || r.Spec.From.Time != nil, AtLeast: max(f.Revision, f.Target), Bump: model.RestoreBump, Token: restoreToken(r.Restore, o),
		},
	}, nil
}

// Target says of a cluster whether a backup can be put into it.
func (k *Reconciler) Target(ctx context.Context, r *v1alpha1.Restore, found *planner.Found) (*planner.Target, restore.Lookup, error) {
	o := &v1alpha1.EtcdCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.Cluster.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, restore.Lookup{}, nil
	}
	if err != nil {
		return nil, restore.Lookup{}, fmt.Errorf("read EtcdCluster %s: %w", r.Spec.Cluster.Name, err)
	}
	record, err := k.Record(ctx, o)
	if err != nil {
		return nil, restore.Lookup{}, err
	}
	t := &planner.Target{Noun: "EtcdCluster " + o.Name, Scope: string(o.UID), Leaving: o.DeletionTimestamp != nil, Doing: o.Status.Activity}
	switch {
	case record.RestoredFrom(restoreToken(r, o)):
		t.Restored = &job.Restored{Revision: max(record.Restore.Revision, revisionOf(found)) + record.Restore.Bump}
	case record.RestoresFrom(restoreToken(r, o)):
		t.Begun = true
	case len(record.Members) == 0 || (record.ClusterID == 0 && record.Recovery.Restore == nil):
		t.Missing = "it has not been founded; name the backup in spec.bootstrap.restore of a new cluster instead"
	case record.Hibernated || o.IsHibernated():
		t.Missing = "it is hibernated: set spec.hibernated to false first"
	case o.IsPaused():
		t.Missing = "it is paused: set spec.paused to false first"
	}
	if found != nil {
		t.Refused = model.Unsuited(found.Version, record.Version)
		name := planner.RestoreState{UID: string(r.UID), Found: found, Target: t}.Plan()
		t.Replaces = model.Replaces(len(record.Members), o.Spec.Storage != nil, name)
		if t.Refused == "" {
			t.Refused, err = k.unmountable(ctx, r, len(record.Members))
		}
	}
	return t, restore.Lookup{Template: o.Spec.Template}, err
}

// unmountable says why not all members can read the backup, empty when they can: one on a claim of one node would leave the others waiting for it.
func (k *Reconciler) unmountable(ctx context.Context, r *v1alpha1.Restore, members int) (string, error) {
	source, _, missing, err := restore.Resolve(ctx, k.Client, r.Namespace, r.Spec.From)
	if missing != "" || err != nil {
		return "", err
	}
	if err := k.CheckDestination(ctx, r, "spec.from.destination", *source.Destination); err != nil {
		return "", err
	}
	name, _ := job.Claim(source.Destination.URL)
	switch {
	case name == "":
		return "", nil
	case members < 2:
		return k.apart(ctx, r, name)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := k.Direct.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, claim); err != nil {
		return "", fmt.Errorf("read claim %s: %w", name, err)
	}
	if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany) {
		return "", nil
	}
	return fmt.Sprintf("it is on claim %s, which one node can mount at a time, and there are %d members: set spec.size of the cluster to 1, restore it, and scale out afterwards",
		name, members), nil
}

// apart says that the only member cannot read the backup, because that is on a disk of another node; empty when it can.
func (k *Reconciler) apart(ctx context.Context, r *v1alpha1.Restore, name string) (string, error) {
	data := cluster.Claim(r.Spec.Cluster.Name, 0)
	here, err := k.VolumeHosts(ctx, r.Namespace, data)
	if err != nil {
		return "", err
	}
	there, err := k.VolumeHosts(ctx, r.Namespace, name)
	if err != nil || len(here) == 0 || len(there) == 0 || slices.ContainsFunc(here, func(host string) bool { return slices.Contains(there, host) }) {
		return "", err
	}
	return fmt.Sprintf("it is on claim %s, a disk of node %s, and claim %s is one of node %s, so that no pod can have both: begin a new cluster with it (spec.bootstrap.restore), or restore one that is in a bucket",
		name, there[0], data, here[0]), nil
}

// restoreToken tells apart what a Restore makes of a cluster.
func restoreToken(r *v1alpha1.Restore, o *v1alpha1.EtcdCluster) string {
	return string(r.UID) + "-" + string(o.UID)
}

func revisionOf(f *planner.Found) int64 {
	if f == nil {
		return 0
	}
	return f.Revision
}

// setRecovery writes down how far a recovery has got. That a cluster begins anew is looked at once more, past the cache.
func (k *Reconciler) setRecovery(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.SetRecovery) error {
	if step.To.Restore != nil && step.To.Phase == model.RecoveryHeld {
		is := func(r *v1alpha1.Restore) bool { return restoreToken(r, o) == step.To.Restore.Token }
		if err := restore.CheckApproved(ctx, k.Client, o, v1alpha1.KindEtcdCluster, is); err != nil {
			return err
		}
	}
	return k.note(ctx, o, step.Edit)
}
