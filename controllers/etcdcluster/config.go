package etcdcluster

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// current reads the specification and the record past the cache, and holds when either is another one by now. By old ones members that came
// since would lose their pods.
func (k *Reconciler) current(ctx context.Context, o *v1alpha1.EtcdCluster, r model.Record) error {
	if err := k.ConfirmSpec(ctx, o); err != nil {
		return err
	}
	live, err := k.configMap(ctx, k.Direct, o)
	if err == nil && !recordIs(live, r) {
		err = configMoved
	}
	return err
}

// ensureConfig brings the configuration in the record's ConfigMap up to date. The write depends on the version that
// was read: the record is in the same object, and an identity recorded meanwhile must not get lost.
func (k *Reconciler) ensureConfig(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder) error {
	data, err := b.ConfigData(b.Record)
	if err != nil {
		return err
	}
	cm, err := k.configMap(ctx, k.Client, o)
	if err != nil {
		return err
	}
	if cm == nil {
		return configMoved
	}
	if err := k.Adopt(ctx, o, cm); err != nil {
		return err
	}
	if err := k.label(ctx, cm, manifests.Labels(o.Name)); err != nil {
		return err
	}
	if maps.Equal(cm.Data, data) {
		return nil
	}
	if !recordIs(cm, b.Record) {
		return configMoved
	}
	return k.patchConfig(ctx, cm, data)
}

// recordIs reports whether a ConfigMap has a record, but for where its certificates come from, which follows the specification.
func recordIs(cm *corev1.ConfigMap, r model.Record) bool {
	if cm == nil {
		return false
	}
	live, err := recordIn(cm)
	live.TLSSwitch.TLS = r.TLSSwitch.TLS
	return err == nil && reflect.DeepEqual(live, r)
}

// configMoved says that the record changed since it was read. Nothing may be made from the old one: a pod with the new
// template and the old configuration would pass for current.
var configMoved = cluster.Hold{
	Reason: v1alpha1.ReasonReconcileError, Message: "the record of the cluster has changed meanwhile and is read again",
}

func (k *Reconciler) patchConfig(ctx context.Context, cm *corev1.ConfigMap, data map[string]string) error {
	next := cm.DeepCopy()
	next.Data = data
	patch := client.MergeFromWithOptions(cm, client.MergeFromWithOptimisticLock{})
	err := k.Patch(ctx, next, patch, client.FieldOwner(cluster.ManagedBy))
	if apierrors.IsConflict(err) {
		return configMoved
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", cm.Name, err)
	}
	return nil
}

// configMap reads the ConfigMap with the record, nil when there is none, and refuses one of somebody else.
func (k *Reconciler) configMap(ctx context.Context, r client.Reader, o *v1alpha1.EtcdCluster) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	name := cluster.ConfigName(o.Name)
	err := r.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	return cm, k.CheckUsable(ctx, o, cm, "ConfigMap "+o.Namespace+"/"+name)
}

// Record reads the record of a cluster, empty while there is none.
func (k *Reconciler) Record(ctx context.Context, o *v1alpha1.EtcdCluster) (model.Record, error) {
	cm, err := k.configMap(ctx, k.Client, o)
	if cm == nil || err != nil {
		return model.Record{}, err
	}
	r, err := recordIn(cm)
	if err != nil {
		return r, owned.InvalidSpec("ConfigMap %s is damaged (%v): delete it, and it is written anew from what the members say", cm.Name, err)
	}
	return r, nil
}

// recordIn reads the record that a ConfigMap holds.
func recordIn(cm *corev1.ConfigMap) (model.Record, error) {
	r, err := model.ParseRecord(cm.Data)
	r.UID = string(cm.UID)
	return r, err
}
