package harness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OutOfService is the taint by which an administrator says that a node is shut down for good
// (https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown).
const OutOfService = "node.kubernetes.io/out-of-service"

// StopNode stops a node like a power cut, and says that it will not come back.
func (c *Cluster) StopNode(ctx context.Context, name string) error {
	if _, err := c.Docker(ctx, "kill", name); err != nil {
		return err
	}
	return c.taint(ctx, name, func(t []corev1.Taint) []corev1.Taint {
		return append(t, corev1.Taint{Key: OutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	})
}

// StartNode starts a node again and waits until it is ready.
func (c *Cluster) StartNode(ctx context.Context, name string) error {
	if _, err := c.Docker(ctx, "start", name); err != nil {
		return err
	}
	if _, err := output(c.command(ctx, "hack/kind/kind.sh", "up")); err != nil { // It mends the routes that the node has lost.
		return err
	}
	if err := c.BackInService(ctx, name); err != nil {
		return err
	}
	return c.waitNode(ctx, name)
}

// BackInService takes back what StopNode said of a node.
func (c *Cluster) BackInService(ctx context.Context, name string) error {
	return c.taint(ctx, name, func(t []corev1.Taint) []corev1.Taint {
		var out []corev1.Taint
		for _, taint := range t {
			if taint.Key != OutOfService {
				out = append(out, taint)
			}
		}
		return out
	})
}

func (c *Cluster) waitNode(ctx context.Context, name string) error {
	return Eventually(ctx, "node "+name+" to be ready", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return false, "it cannot be read", err
		}
		for _, cond := range node.Status.Conditions {
			if cond.Type == corev1.NodeReady {
				return cond.Status == corev1.ConditionTrue, cond.Message, nil
			}
		}
		return false, "it has no condition Ready", nil
	})
}

// Vacate keeps pods from coming to a node, moves what Kubernetes and the tests depend on to others, and waits until it runs there.
func (c *Cluster) Vacate(ctx context.Context, node string) error {
	if _, err := c.Run(ctx, "cordon", node); err != nil {
		return err
	}
	for _, ns := range []string{"kube-system", "local-path-storage", SystemNamespace} {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(ns)); err != nil {
			return fmt.Errorf("list the pods of %s: %w", ns, err)
		}
		for i := range pods.Items {
			owner := metav1.GetControllerOf(&pods.Items[i])
			if owner == nil || owner.Kind != "ReplicaSet" || pods.Items[i].Spec.NodeName != node {
				continue
			}
			if err := client.IgnoreNotFound(c.Delete(ctx, &pods.Items[i])); err != nil {
				return fmt.Errorf("move pod %s: %w", pods.Items[i].Name, err)
			}
		}
		if _, err := c.Run(ctx, "--namespace", ns, "wait", "deployment", "--all", "--for=condition=Available", "--timeout=2m"); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) taint(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) error {
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	before := node.DeepCopy()
	node.Spec.Taints = change(node.Spec.Taints)
	if err := c.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("taint node %s: %w", name, err)
	}
	return nil
}
