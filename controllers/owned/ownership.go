package owned

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownsPod reports whether a pod belongs to the StatefulSet of the given name that owner controls.
// sets are the StatefulSets of owner in the cache. Labels prove nothing: whoever may create pods
// can copy them.
//
//   - A pod without a controller is adopted by the StatefulSet of its name, so it counts.
//   - A pod whose StatefulSet is not in the cache is resolved by the API server. After a
//     StatefulSet was deleted, its pods count until the garbage collector has deleted them: their
//     servers still run.
func (c *Client) ownsPod(ctx context.Context, owner Owner, pod *corev1.Pod, name string, sets []appsv1.StatefulSet) (bool, error) {
	ref := metav1.GetControllerOf(pod)
	switch {
	case ref == nil, slices.ContainsFunc(sets, func(s appsv1.StatefulSet) bool { return s.UID == ref.UID }):
		return true, nil
	case ref.Kind != "StatefulSet" || ref.Name != name:
		return false, nil
	}
	set := &appsv1.StatefulSet{}
	err := c.Direct.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, set)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read StatefulSet %s: %w", name, err)
	}
	return c.Owns(ctx, owner, set)
}

// PodsOfSets returns the pods that belong to StatefulSets of owner. setOf returns the name of the
// StatefulSet that a pod's name stands for, empty for none.
func (c *Client) PodsOfSets(
	ctx context.Context, owner Owner, pods []corev1.Pod, sets []appsv1.StatefulSet, setOf func(pod *corev1.Pod) string,
) ([]corev1.Pod, error) {
	var out []corev1.Pod
	for i := range pods {
		name := setOf(&pods[i])
		if name == "" {
			continue
		}
		own, err := c.ownsPod(ctx, owner, &pods[i], name, sets)
		if err != nil {
			return nil, err
		}
		if own {
			out = append(out, pods[i])
		}
	}
	return out, nil
}

// NotFoundUnlessControlled returns the error of reading an object, and NotFound if owner does not control it.
func NotFoundUnlessControlled(err error, live, owner client.Object) error {
	if err == nil && !metav1.IsControlledBy(live, owner) {
		return apierrors.NewNotFound(schema.GroupResource{}, live.GetName())
	}
	return err
}
