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
	return c.Docker(ctx, append([]string{"exec", node}, args...)...)
}

// Nodes are the names of the nodes, whether they run or not, the one of the API server first.
func (c *Cluster) Nodes(ctx context.Context) ([]string, error) {
	out, err := c.Docker(ctx, "ps", "--all", "--filter", "label=io.x-k8s.kind.cluster="+c.name, "--format", "{{.Names}}")
	if err != nil {
		return nil, err
	}
	nodes := strings.Fields(out)
	slices.Sort(nodes) // control-plane, worker, worker2
	return nodes, nil
}

// Docker runs a command of the engine that the nodes run in.
func (c *Cluster) Docker(ctx context.Context, args ...string) (string, error) {
	return output(c.command(ctx, "docker", args...))
}

// KillProcess kills the process of a pod's container with SIGKILL, from the node: the pod gets no chance to say goodbye.
func (c *Cluster) KillProcess(ctx context.Context, pod *corev1.Pod, container string) error {
	return c.Signal(ctx, pod, container, "SIGKILL")
}

// Signal sends a signal to the process of a pod's container, from the node.
func (c *Cluster) Signal(ctx context.Context, pod *corev1.Pod, container, signal string) error {
	id, err := ContainerID(pod, container)
	if err != nil {
		return err
	}
	_, err = c.OnNode(ctx, pod.Spec.NodeName, "ctr", "-n", "k8s.io", "tasks", "kill", "--signal", signal, id)
	return err
}

// ContainerID is what the container runtime calls a container of a pod.
func ContainerID(pod *corev1.Pod, container string) (string, error) {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 || pod.Status.ContainerStatuses[i].ContainerID == "" {
		return "", fmt.Errorf("pod %s has no running container %s", pod.Name, container)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	return id, nil
}
