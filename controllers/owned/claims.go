package owned

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
)

// Claims returns the claims with the labels of a cluster, and those of the given names whatever
// their labels are: a StatefulSet mounts a claim by its name alone. The API server is asked only
// for names that the cache does not hold, so a settled cluster costs no call.
func (c *Client) Claims(
	ctx context.Context, namespace string, selector map[string]string, names []string,
) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels(selector)); err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	for _, name := range names {
		if slices.ContainsFunc(list.Items, func(claim corev1.PersistentVolumeClaim) bool { return claim.Name == name }) {
			continue
		}
		claim, err := c.claimNamed(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		if claim != nil {
			list.Items = append(list.Items, *claim)
		}
	}
	return list.Items, nil
}

// claimNamed returns the claim of a name, nil if there is none. The cache holds only claims with the
// label managed-by of Quorate.
func (c *Client) claimNamed(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	key, claim := client.ObjectKey{Namespace: namespace, Name: name}, &corev1.PersistentVolumeClaim{}
	for _, from := range []client.Reader{c.Client, c.Direct} {
		err := from.Get(ctx, key, claim)
		if err == nil {
			return claim, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read claim %s: %w", name, err)
		}
	}
	return nil, nil
}

// Unlabelled reports whether an object lacks a label of a selector.
func Unlabelled(o metav1.Object, selector map[string]string) bool {
	for key, value := range selector {
		if o.GetLabels()[key] != value {
			return true
		}
	}
	return false
}

// ClaimNames returns the names of the claims of the first n ordinals of a StatefulSet.
func ClaimNames(set string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = cluster.Claim(set, i)
	}
	return names
}
