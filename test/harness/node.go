package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ControlPlane is the node that the API server runs on. Nodes are containers of the same name.
const ControlPlane = "quorate-control-plane"

// OnNode runs a command inside a node and returns what it prints.
func (c *Cluster) OnNode(ctx context.Context, node string, args ...string) (string, error) {
	return output(c.command(ctx, "docker", append([]string{"exec", node}, args...)...))
}

// KillProcess kills the process of a pod's container with SIGKILL, from the node: the pod gets no chance to say goodbye.
func (c *Cluster) KillProcess(ctx context.Context, pod *corev1.Pod, container string) error {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return fmt.Errorf("pod %s has no running container %s", pod.Name, container)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	_, err := c.OnNode(ctx, pod.Spec.NodeName, "ctr", "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id)
	return err
}
