package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// What members are told when they start.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;patch
// A member starts anew, and with what its template says by now, when its pod is deleted.
// +kubebuilder:rbac:groups="",resources=pods,verbs=delete

// ActTimeout bounds a step that goes to etcd. Switching authentication on hashes a password and goes through the
// quorum several times.
const ActTimeout = 5 * time.Second

// Act carries out one step of the planner.
func (k *Reconciler) Act(ctx context.Context, o *v1alpha1.EtcdCluster, step cluster.Step) error {
	switch step := step.(type) {
	case steps.WriteBootstrap:
		return k.writeBootstrap(ctx, o, step)
	case steps.DeleteClaim:
		return k.deleteClaim(ctx, o, step)
	case steps.RecordClusterID:
		return k.recordClusterID(ctx, o, step.ClusterID)
	case steps.LetClientsIn:
		b, err := k.Blueprint(ctx, o)
		if err != nil {
			return err
		}
		return k.applyClientService(ctx, o, b)
	case steps.EnableAuth:
		return k.withPassword(ctx, o, step.Pod, model.Client.EnableAuth)
	case steps.SetRootPassword:
		return k.withPassword(ctx, o, step.Pod, model.Client.SetRootPassword)
	case steps.RecordPassword:
		return k.recordPassword(ctx, o)
	case steps.MoveLeader:
		return k.through(ctx, o, step.From, func(ctx context.Context, c model.Client) error { return c.MoveLeader(ctx, step.To) })
	case steps.DeletePod:
		return k.deletePod(ctx, o, step)
	case steps.SetRecovery:
		return k.setRecovery(ctx, o, step)
	case steps.StartRestore:
		k.distrust(o.UID) // What is restored may ask for another password, or for none.
		return k.note(ctx, o, step.Edit)
	case planner.FindBackup:
		return restore.FindBackup(ctx, k.Client, o, etcdBootstrap(o))
	case planner.DropRestoreJob:
		return k.DeleteJob(ctx, o, step.Name, step.UID)
	}
	return k.change(ctx, o, step)
}

// writeBootstrap writes the record, or turns one that waits for data into one of a new cluster. What decides over
// founding a cluster is read past the cache.
func (k *Reconciler) writeBootstrap(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.WriteBootstrap) error {
	live, err := k.configMap(ctx, k.Direct, o)
	if err != nil {
		return err
	}
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return err
	}
	if live != nil {
		if err := k.label(ctx, live, manifests.Labels(o.Name)); err != nil {
			return err
		}
		return k.foundAfterAll(ctx, o, live, b, step.Bootstrap)
	}
	b.Record = model.Record{
		Bootstrap: step.Bootstrap, Members: b.Peers()[:step.Size], Version: step.Version, MinAvailable: model.Quorum(step.Size),
		TLSSwitch: b.Reach().TLSSwitch, Restore: step.Restore,
	}
	if step.Bootstrap == model.BootstrapNew {
		found, err := k.anyClaim(ctx, o)
		if err != nil {
			return err
		}
		if found && o.Spec.Storage == nil {
			return errors.New("a claim of an earlier cluster of this name exists, and spec.storage is not set")
		}
		if found {
			b.Record.Bootstrap = model.BootstrapRetained
		}
	}
	return k.createConfig(ctx, o, b)
}

// label puts the labels back without which an object is not seen: the cache holds only what carries them.
func (k *Reconciler) label(ctx context.Context, live *corev1.ConfigMap, labels map[string]string) error {
	next := live.DeepCopy()
	next.Labels = map[string]string{}
	maps.Copy(next.Labels, live.Labels)
	maps.Copy(next.Labels, labels)
	if maps.Equal(next.Labels, live.Labels) {
		return nil
	}
	if err := k.Patch(ctx, next, client.MergeFrom(live), client.FieldOwner(cluster.ManagedBy)); err != nil {
		return fmt.Errorf("label ConfigMap %s: %w", live.Name, err)
	}
	*live = *next
	return nil
}

// anyClaim reports whether there is a claim of any ordinal. The cache shows only those with our labels, and one that was restored by
// hand may have none.
func (k *Reconciler) anyClaim(ctx context.Context, o *v1alpha1.EtcdCluster) (bool, error) {
	for i := range model.MaxSize {
		name := cluster.Claim(o.Name, i)
		err := k.Direct.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("read claim %s: %w", name, err)
		}
	}
	return false, nil
}

func (k *Reconciler) foundAfterAll(
	ctx context.Context, o *v1alpha1.EtcdCluster, live *corev1.ConfigMap, b manifests.Builder, bootstrap model.Bootstrap,
) error {
	record, err := recordIn(live)
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", live.Name, err)
	}
	if record.Bootstrap == bootstrap || record.ClusterID != 0 || bootstrap != model.BootstrapNew {
		return nil // Already done; the cache has yet to show it.
	}
	record.Bootstrap = bootstrap
	return k.patchRecord(ctx, o, live, b, record)
}

func (k *Reconciler) patchRecord(ctx context.Context, o *v1alpha1.EtcdCluster, live *corev1.ConfigMap, b manifests.Builder, record model.Record) error {
	b.Record = record
	b = k.secured(o, b)
	data, err := b.ConfigData(b.Record)
	if err != nil {
		return err
	}
	return k.patchConfig(ctx, live, data)
}

func (k *Reconciler) createConfig(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder) error {
	data, err := b.ConfigData(b.Record)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: owned.ObjectMeta(o, cluster.ConfigName(o.Name)), Data: data}
	cm.Labels = manifests.Labels(o.Name)
	if err := controllerutil.SetControllerReference(o, cm, k.Scheme()); err != nil {
		return fmt.Errorf("own ConfigMap %s: %w", cm.Name, err)
	}
	err = k.Create(ctx, cm, client.FieldOwner(cluster.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ConfigMap %s: %w", cm.Name, err)
	}
	return nil
}

// recordClusterID writes the id of the cluster into the record, once.
func (k *Reconciler) recordClusterID(ctx context.Context, o *v1alpha1.EtcdCluster, id uint64) error {
	live, err := k.configMap(ctx, k.Direct, o)
	if err != nil {
		return err
	}
	if live == nil {
		return errors.New("the record is gone")
	}
	record, err := recordIn(live)
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", live.Name, err)
	}
	if record.ClusterID == id {
		return nil
	}
	if record.ClusterID != 0 {
		return fmt.Errorf("this is cluster %s already, not %s", model.FormatID(record.ClusterID), model.FormatID(id))
	}
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return err
	}
	record.ClusterID = id
	return k.patchRecord(ctx, o, live, b, record)
}

func (k *Reconciler) withPassword(
	ctx context.Context, o *v1alpha1.EtcdCluster, pod string, call func(model.Client, context.Context, string) error,
) error {
	login, err := k.rootLogin(ctx, o)
	if err != nil {
		return err
	}
	k.distrust(o.UID)
	return k.through(ctx, o, pod, func(ctx context.Context, c model.Client) error { return call(c, ctx, login.password) })
}

// through runs a call against the member in a pod.
func (k *Reconciler) through(
	ctx context.Context, o *v1alpha1.EtcdCluster, name string, call func(context.Context, model.Client) error,
) error {
	_, c, err := k.member(ctx, o, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, ActTimeout, fmt.Errorf("%s did not answer within %s", name, ActTimeout))
	defer cancel()
	return call(ctx, c)
}

// member returns a pod and the client of the member in it.
func (k *Reconciler) member(ctx context.Context, o *v1alpha1.EtcdCluster, name string) (*corev1.Pod, model.Client, error) {
	pod := &corev1.Pod{}
	if err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, pod); err != nil {
		return nil, nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	access, err := k.Credentials(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return pod, k.MemberClientOf(ctx, o, access, pod), nil
}

// deletePod deletes a pod, if the record and the specification still are those that it was decided on: members that have begun anew run in
// it by now, say.
func (k *Reconciler) deletePod(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.DeletePod) error {
	if _, _, err := k.unmoved(ctx, o); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: owned.ObjectMeta(o, step.Name)}
	uid := types.UID(step.UID)
	opts := []client.DeleteOption{client.Preconditions{UID: &uid, ResourceVersion: &step.ResourceVersion}}
	if step.Gone {
		opts = append(opts, client.GracePeriodSeconds(0))
	}
	return owned.IgnoreDeleted(k.Delete(ctx, pod, opts...), "pod "+step.Name)
}
