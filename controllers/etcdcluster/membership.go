package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// A member that is replaced or removed leaves a disk that no other member may start from.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=delete
// Before members change, the specification is read anew.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdclusters,verbs=get
// Before a member is removed, so are its pod and its claim.
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get

// change carries out the steps that change the members or what they run.
func (k *Reconciler) change(ctx context.Context, o *v1alpha1.EtcdCluster, step cluster.Step) error {
	switch step := step.(type) {
	case steps.Resize:
		return k.resize(ctx, o, step)
	case steps.AddLearner:
		return k.reconfigure(ctx, o, step.Via, func(ctx context.Context, c model.Client) error { return c.AddLearner(ctx, step.URL) })
	case steps.Promote:
		return k.reconfigure(ctx, o, step.Via, func(ctx context.Context, c model.Client) error { return c.Promote(ctx, step.ID) })
	case steps.RemoveMember:
		return k.removeMember(ctx, o, step)
	case steps.SetTransport:
		return k.setTransport(ctx, o, step)
	case steps.UpdatePeer:
		return k.reconfigure(ctx, o, step.Via, func(ctx context.Context, c model.Client) error { return c.UpdatePeer(ctx, step.ID, step.URL) })
	case steps.SetVersion:
		return k.setVersion(ctx, o, step)
	case steps.Edit:
		return k.note(ctx, o, step.Edit)
	case steps.TakeSnapshot:
		return k.takeSnapshot(ctx, o, step)
	case steps.DropBackup:
		return k.DeleteBackup(ctx, o, step.Name, step.UID)
	case steps.Downgrade:
		return k.through(ctx, o, step.Via, func(ctx context.Context, c model.Client) error { return c.Downgrade(ctx, step.To) })
	case steps.CancelDowngrade:
		return k.through(ctx, o, step.Via, func(ctx context.Context, c model.Client) error { return c.CancelDowngrade(ctx) })
	case steps.RemakeSet:
		return k.remakeSet(ctx, o, step)
	case steps.ExpandClaim:
		return k.expandClaim(ctx, o, step)
	}
	return k.maintain(ctx, o, step)
}

// resize changes the members that the record has, if it still has those that were decided on.
func (k *Reconciler) resize(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.Resize) error {
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return err
	}
	if len(b.Record.Members) != step.From {
		return configMoved
	}
	return k.note(ctx, o, func(r *model.Record) { r.Members = b.Peers()[:step.To] })
}

// setVersion changes the version that pods are made with, if it still is the one that was decided on.
func (k *Reconciler) setVersion(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.SetVersion) error {
	seen, err := k.Record(ctx, o)
	if err != nil {
		return err
	}
	if seen.Version != step.From {
		return configMoved
	}
	return k.note(ctx, o, func(r *model.Record) { *r = r.With(step.To) })
}

// note changes the record, if it still is the one that was decided on.
func (k *Reconciler) note(ctx context.Context, o *v1alpha1.EtcdCluster, change func(*model.Record)) error {
	live, record, err := k.unmoved(ctx, o)
	if err != nil {
		return err
	}
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return err
	}
	change(&record)
	return k.patchRecord(ctx, o, live, b, record)
}

// unmoved reads what a change of the members was decided on past the cache, and holds when it has changed since: the record, and
// the specification, which may ask for the opposite by now.
func (k *Reconciler) unmoved(ctx context.Context, o *v1alpha1.EtcdCluster) (*corev1.ConfigMap, model.Record, error) {
	seen, err := k.Record(ctx, o)
	if err != nil {
		return nil, seen, err
	}
	if err := k.ConfirmSpec(ctx, o); err != nil {
		return nil, seen, err
	}
	live, err := k.configMap(ctx, k.Direct, o)
	if err != nil {
		return nil, seen, err
	}
	if live == nil {
		return nil, seen, configMoved
	}
	record, err := recordIn(live)
	if err != nil {
		return nil, record, fmt.Errorf("ConfigMap %s: %w", live.Name, err)
	}
	if !reflect.DeepEqual(record, seen) {
		return nil, record, configMoved
	}
	return live, record, nil
}

// removeMember takes a member out, if its pod and claim still are those that were decided on: what was known of others says nothing of them.
func (k *Reconciler) removeMember(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.RemoveMember) error {
	if err := k.sameObject(ctx, o, corev1.SchemeGroupVersion.WithKind("Pod"), step.Name, step.Pod); err != nil {
		return err
	}
	if err := k.sameObject(ctx, o, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), cluster.VolumeData+"-"+step.Name, step.Claim); err != nil {
		return err
	}
	return k.reconfigure(ctx, o, step.Via, func(ctx context.Context, c model.Client) error { return c.RemoveMember(ctx, step.ID) })
}

// sameObject reads past the cache whether an object is the one that was seen, if one was.
func (k *Reconciler) sameObject(ctx context.Context, o *v1alpha1.EtcdCluster, kind schema.GroupVersionKind, name, uid string) error {
	if uid == "" {
		return nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err := k.Direct.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %s %s again: %w", kind.Kind, name, err)
	}
	if string(live.UID) != uid {
		return cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: kind.Kind + " " + name + " is another one by now, and is looked at again"}
	}
	return nil
}

// reconfigure changes the members of the quorum. What etcd does not allow at the moment is waited for.
func (k *Reconciler) reconfigure(
	ctx context.Context, o *v1alpha1.EtcdCluster, via string, change func(context.Context, model.Client) error,
) error {
	if _, _, err := k.unmoved(ctx, o); err != nil {
		return err
	}
	err := k.through(ctx, o, via, change)
	switch {
	case errors.Is(err, model.ErrNotInSync):
		return cluster.Hold{Reason: planner.ReasonCatchingUp, Message: "a learner has not caught up with the leader yet"}
	case errors.Is(err, model.ErrNotNow):
		return cluster.Hold{Reason: planner.ReasonJoining, Message: "etcd changes its members only after all have been connected for five seconds"}
	}
	return err
}

func (k *Reconciler) deleteClaim(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.DeleteClaim) error {
	if _, _, err := k.unmoved(ctx, o); err != nil {
		return err
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: owned.ObjectMeta(o, step.Name)}
	uid := types.UID(step.UID)
	return owned.IgnoreDeleted(k.Delete(ctx, claim, client.Preconditions{UID: &uid, ResourceVersion: &step.ResourceVersion}), "claim "+step.Name)
}
