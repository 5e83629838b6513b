package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	etcdmanifests "github.com/quorate/quorate/internal/cluster/etcd/manifests"
	redismanifests "github.com/quorate/quorate/internal/cluster/redis/manifests"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/skew"
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

// ProcessOf is a script for a node that finds the process of the container that is its first argument, empty when it does not run.
const ProcessOf = `pid=$(ctr -n k8s.io tasks ls | awk -v id="$1" '$1 == id { print $2 }')
`

// corruptions are scripts that overwrite a part of the log of a server while it stands still, and kill it: of etcd the beginning of the last
// file, of Redis and Valkey the middle.
var corruptions = map[string]string{
	etcdmanifests.ContainerEtcd: `log=$(ls -1 /proc/"$pid"/root/var/lib/etcd/*/wal/*.wal /proc/"$pid"/root/var/lib/etcd/*/*/wal/*.wal 2>/dev/null | grep -v before- | sort | tail -n 1)
at=512
`,
	redismanifests.ContainerServer: `log=$(ls -1 /proc/"$pid"/root/data/` + redismodel.AppendDir + `/*.incr.aof 2>/dev/null | sort -V | tail -n 1)
at=$(($(stat -c %s "$log" || echo 0) / 2))
`,
}

// ErrTooShort says that the log of a server is too short to be spoilt, as it is for a moment after it was written anew.
var ErrTooShort = errors.New("no log is found that is long enough")

// Corrupt spoils what the server in a pod has on its disk, so that it cannot start from it.
func (c *Cluster) Corrupt(ctx context.Context, pod *corev1.Pod, container string) error {
	id, err := ContainerID(pod, container)
	if err != nil {
		return err
	}
	_, err = c.OnNode(ctx, pod.Spec.NodeName, "sh", "-c", ProcessOf+`[ -n "$pid" ] || exit 1
kill -STOP "$pid"
`+corruptions[container]+`if [ -z "$log" ] || [ "$at" -lt 512 ]; then kill -CONT "$pid"; echo "`+ErrTooShort.Error()+`" >&2; exit 1; fi
dd if=/dev/urandom of="$log" bs=1 seek="$at" count=4096 conv=notrunc status=none
kill -KILL "$pid"`, "sh", id)
	if err != nil && strings.Contains(err.Error(), ErrTooShort.Error()) {
		return ErrTooShort
	}
	return err
}

// CorruptNodes has a server of Redis Cluster end, and whatever comes after it in its volume not know who it is.
func (c *Cluster) CorruptNodes(ctx context.Context, pod *corev1.Pod) error {
	id, err := ContainerID(pod, redismanifests.ContainerServer)
	if err != nil {
		return err
	}
	_, err = c.OnNode(ctx, pod.Spec.NodeName, "sh", "-c", ProcessOf+`[ -n "$pid" ] || exit 1
kill -STOP "$pid"
echo nonsense >/proc/"$pid"/root/data/`+redismodel.NodesFile+`
kill -KILL "$pid"`, "sh", id)
	return err
}

// Skew gives the process of a pod's container another time of day, see skew.Process, until end is called. It ends with the process as well.
func (c *Cluster) Skew(ctx context.Context, pod *corev1.Pod, container string, by time.Duration) (end func(context.Context) error, err error) {
	id, err := ContainerID(pod, container)
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context, script string, args ...string) (string, error) {
		return c.OnNode(ctx, pod.Spec.NodeName, append([]string{"sh", "-c", script, "sh"}, args...)...)
	}
	pid, err := run(ctx, ProcessOf+`echo "$pid"`, id)
	if err != nil {
		return nil, err
	}
	pid = strings.TrimSpace(pid)
	return func(ctx context.Context) error {
		_, err := run(ctx, skew.End, pid)
		return err
	}, skew.Process(ctx, run, pid, by)
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
