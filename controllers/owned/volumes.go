package owned

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// That a node or a volume is gone is asked of the API server itself, and only while a pod is in trouble. An installation that
// may not read them at all has to be told of a lost disk by deleting its claim.
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get

// TaintOutOfService is how an administrator says that a node is shut down for good
// (https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown).
const TaintOutOfService = "node.kubernetes.io/out-of-service"

// NodeGone reports whether nothing can run on a node any more: it was deleted, or an administrator vouches for it.
func (c *Client) NodeGone(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	node := &corev1.Node{}
	err := c.Direct.Get(ctx, client.ObjectKey{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	return OutOfService(node), nil
}

// OutOfService reports whether an administrator has declared a node shut down for good.
func OutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == TaintOutOfService })
}

// VolumeLostReason says why the volume behind a claim cannot come back, empty while it can.
func (c *Client) VolumeLostReason(ctx context.Context, owner Owner, name string) (string, error) {
	claim, err := c.claimNamed(ctx, owner.GetNamespace(), name)
	if claim == nil {
		return "", err
	}
	if claim.Status.Phase == corev1.ClaimLost {
		return "claim " + name + " is lost", nil
	}
	if claim.Spec.VolumeName == "" {
		return "", nil
	}
	volume, err := c.volumeOf(ctx, claim)
	switch {
	case apierrors.IsNotFound(err):
		return "volume " + claim.Spec.VolumeName + " does not exist any more", nil
	case apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return c.hostsLost(ctx, volume)
}

func (c *Client) volumeOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	volume := &corev1.PersistentVolume{}
	if err := c.Direct.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return nil, fmt.Errorf("read volume %s: %w", claim.Spec.VolumeName, err)
	}
	return volume, nil
}

// VolumeHosts are the host names that the volume of a claim is bound to: none where it has no volume, where that can be reached from elsewhere, and
// where the operator may not know.
func (c *Client) VolumeHosts(ctx context.Context, namespace, name string) ([]string, error) {
	volume, err := c.VolumeOfClaim(ctx, namespace, name)
	if volume == nil {
		return nil, err
	}
	return localTo(volume), nil
}

// VolumeOfClaim is the volume of a claim; nil where there is none, and where the operator may not know.
func (c *Client) VolumeOfClaim(ctx context.Context, namespace, name string) (*corev1.PersistentVolume, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if claim.Spec.VolumeName == "" {
		return nil, nil
	}
	volume, err := c.volumeOf(ctx, claim)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return volume, nil
}

// hostsLost says why a volume that is local to certain nodes is lost with them.
func (c *Client) hostsLost(ctx context.Context, volume *corev1.PersistentVolume) (string, error) {
	hosts := localTo(volume)
	for _, host := range hosts {
		var nodes corev1.NodeList
		err := c.Direct.List(ctx, &nodes, client.MatchingLabels{corev1.LabelHostname: host})
		if apierrors.IsForbidden(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("look for node %s: %w", host, err)
		}
		if slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return !OutOfService(&n) }) {
			return "", nil
		}
	}
	if len(hosts) == 0 {
		return "", nil
	}
	return fmt.Sprintf("volume %s is on node %s, which is gone", volume.Name, hosts[0]), nil
}

// localTo returns the host names that a volume is bound to, none for one that can be reached from elsewhere.
func localTo(volume *corev1.PersistentVolume) []string {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil
	}
	var hosts []string
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == corev1.LabelHostname && r.Operator == corev1.NodeSelectorOpIn
		})
		if i < 0 {
			return nil // The terms are alternatives, and this one names no host.
		}
		hosts = append(hosts, term.MatchExpressions[i].Values...)
	}
	return hosts
}
