package owned

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// Owns reports whether an object is the owner's: the owner controls it, or it is an orphan of an
// earlier resource of the owner's name.
func (c *Client) Owns(ctx context.Context, owner Owner, live client.Object) (bool, error) {
	if metav1.IsControlledBy(live, owner) {
		return true, nil
	}
	return c.orphaned(ctx, owner, live)
}

// CheckUsable refuses an object that the owner does not control and may not adopt.
func (c *Client) CheckUsable(ctx context.Context, owner Owner, live client.Object, what string) error {
	refusal := CheckOwned(owner, live, what)
	if refusal == nil {
		return nil
	}
	orphaned, err := c.orphaned(ctx, owner, live)
	if orphaned || err != nil {
		return err
	}
	return refusal
}

// orphaned reports whether an object was left by `kubectl delete --cascade=orphan` of an earlier
// cluster of this name, so that it is adopted. Such an object has no controller, carries the labels
// of the cluster, is older than the cluster, and was written by our field manager.
//
// Secrets and ConfigMaps decide who is trusted and which data is whose, and the name of a field
// manager is chosen by the writer. They are adopted only if our field manager owns all of their
// data and a StatefulSet of the earlier cluster exists: who could plant that could read every
// Secret of the namespace anyway. A Secret that is planted in a running cluster is younger than the
// cluster.
func (c *Client) orphaned(ctx context.Context, owner Owner, live client.Object) (bool, error) {
	if !left(owner, live) {
		return false, nil
	}
	live, err := c.withManagers(ctx, live)
	if err != nil || live == nil {
		return false, err
	}
	if metav1.IsControlledBy(live, owner) {
		return true, nil // It was adopted, and the cache is behind.
	}
	if !left(owner, live) || !written(live) {
		return false, nil
	}
	switch live.(type) {
	case *corev1.Secret, *corev1.ConfigMap:
		return c.survived(ctx, owner)
	}
	return true, nil
}

// left reports whether an object looks like one that an earlier cluster of the owner's name has
// left.
func left(owner Owner, live client.Object) bool {
	l := live.GetLabels()
	born, since := live.GetCreationTimestamp(), owner.GetCreationTimestamp()
	return componentOf(owner) != "" && live.GetDeletionTimestamp() == nil && metav1.GetControllerOf(live) == nil &&
		l[cluster.LabelManagedBy] == cluster.ManagedBy && l[cluster.LabelPartOf] == owner.GetName() && born.Before(&since)
}

// componentOf returns the component in the labels of a cluster's StatefulSets, empty for what is no
// cluster.
func componentOf(owner Owner) string {
	switch owner.(type) {
	case *v1alpha1.EtcdCluster:
		return v1alpha1.ComponentEtcd
	case *v1alpha1.RedisCluster:
		return v1alpha1.ComponentRedis
	}
	return ""
}

// withManagers returns an object with its managed fields, which the cache does not hold; nil when
// it is gone.
func (c *Client) withManagers(ctx context.Context, live client.Object) (client.Object, error) {
	if len(live.GetManagedFields()) > 0 {
		return live, nil
	}
	gvk, err := apiutil.GVKForObject(live, c.Scheme())
	if err != nil {
		return nil, fmt.Errorf("read %T: %w", live, err)
	}
	now := reflect.New(reflect.TypeOf(live).Elem()).Interface().(client.Object) //nolint:forcetypeassert // It is of the type of one.
	now.GetObjectKind().SetGroupVersionKind(gvk)
	err = c.Direct.Get(ctx, client.ObjectKeyFromObject(live), now)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, live.GetName(), err)
	}
	return now, nil
}

// written reports whether our field manager has written an object, and all of its data if it is a
// Secret or a ConfigMap.
func written(live client.Object) bool {
	var data []string
	switch o := live.(type) {
	case *corev1.Secret:
		for key := range o.Data {
			data = append(data, key)
		}
	case *corev1.ConfigMap:
		for key := range o.Data {
			data = append(data, key)
		}
	}
	ours, wrote := dataOf(live)
	return wrote && !slices.ContainsFunc(data, func(key string) bool { return !slices.Contains(ours, key) })
}

// dataOf returns the keys of the data of an object that our field manager owns, and whether it owns
// any field.
func dataOf(live client.Object) (keys []string, wrote bool) {
	for _, m := range live.GetManagedFields() {
		if m.Manager != cluster.ManagedBy || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		wrote = true
		keys = append(keys, dataKeys(m)...)
	}
	return keys, wrote
}

// dataKeys returns the keys of the data in an entry of the managed fields.
func dataKeys(m metav1.ManagedFieldsEntry) (keys []string) {
	var fields struct {
		Data map[string]json.RawMessage `json:"f:data"`
	}
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil // The API server wrote it.
	}
	for field := range fields.Data {
		if key, is := strings.CutPrefix(field, "f:"); is {
			keys = append(keys, key)
		}
	}
	return keys
}

// survived reports whether a StatefulSet of an earlier cluster of this name exists: an orphan, or
// one that was adopted.
func (c *Client) survived(ctx context.Context, owner Owner) (bool, error) {
	var list appsv1.StatefulSetList
	selector := client.MatchingLabels(cluster.Selector(owner.GetName(), componentOf(owner)))
	if err := c.List(ctx, &list, client.InNamespace(owner.GetNamespace()), selector); err != nil {
		return false, fmt.Errorf("list StatefulSets: %w", err)
	}
	since := owner.GetCreationTimestamp()
	return slices.ContainsFunc(list.Items, func(s appsv1.StatefulSet) bool {
		return s.CreationTimestamp.Before(&since) && (metav1.IsControlledBy(&s, owner) || left(owner, &s))
	}), nil
}

// Adopt makes owner the controller of an object that it may use, as a ReplicaSet adopts pods: by a
// patch with the UID and the resourceVersion as preconditions. References to an earlier resource of
// the owner's kind and name are replaced: it does not exist, and the garbage collector would delete
// the object. Apply would do as well, but takes away what it does not name, and some objects are
// not applied again.
func (c *Client) Adopt(ctx context.Context, owner Owner, live client.Object) error {
	if live.GetUID() == "" || metav1.IsControlledBy(live, owner) {
		return nil
	}
	gvk, err := apiutil.GVKForObject(owner, c.Scheme())
	if err != nil {
		return fmt.Errorf("adopt %T %s: %w", live, live.GetName(), err)
	}
	refs := slices.DeleteFunc(slices.Clone(live.GetOwnerReferences()), func(r metav1.OwnerReference) bool {
		return r.Kind == gvk.Kind && r.Name == owner.GetName() && r.UID != owner.GetUID()
	})
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "ownerReferences": append(refs, *metav1.NewControllerRef(owner, gvk)),
	}})
	if err != nil {
		return fmt.Errorf("adopt %T %s: %w", live, live.GetName(), err)
	}
	if err := c.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(cluster.ManagedBy)); err != nil {
		return ApplyError(fmt.Sprintf("%T %s", live, live.GetName()), err)
	}
	return nil
}

// AdoptNamed adopts those of the named objects that are orphans. It is for objects that are not
// applied at each reconcile.
func (c *Client) AdoptNamed(ctx context.Context, owner Owner, objects ...client.Object) error {
	for _, live := range objects {
		err := c.Get(ctx, client.ObjectKeyFromObject(live), live)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %T %s: %w", live, live.GetName(), err)
		}
		own, err := c.Owns(ctx, owner, live)
		if err == nil && own {
			err = c.Adopt(ctx, owner, live)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
