package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/connection"
)

// shards of both sides, each with one replica.
const shards = 3

// BenchmarkReadyRedis compares a RedisCluster of three shards with a replica each, from apply to Ready, with three bare
// StatefulSets and redis-cli --cluster create, from apply to cluster_state ok on every server. Ours is Ready only when
// the replicas are in sync as well, and the floor has neither TLS nor passwords.
func BenchmarkReadyRedis(b *testing.B) {
	v := version(b, "REDIS_8_0")
	var p probes
	ours := side{"quorate", func(ctx context.Context, ns string) error {
		err := ready(ctx, &v1alpha1.RedisCluster{
			ObjectMeta: meta(ns, "redis"),
			Spec:       v1alpha1.RedisClusterSpec{Version: v, Shards: shards, ReplicasPerShard: ptr.To[int32](1), Storage: storage()},
		})
		if err != nil || p.readiness != nil {
			return err
		}
		p, err = probesOf(ctx, ns, "redis-0", "redis") // In the warm-up only.
		p.onPort(6379)
		return err
	}}
	floor := side{"floor", func(ctx context.Context, ns string) error {
		var objects []client.Object
		for i := range shards {
			name := fmt.Sprintf("redis-%d", i)
			objects = append(objects, headless(ns, name, 6379), bareSet(ns, name, 2, bareRedis(v), p))
		}
		if err := apply(ctx, objects...); err != nil {
			return err
		}
		return createCluster(ctx, ns)
	}}
	compare(b, "RedisCluster of three shards with a replica each, from apply to Ready", floor, ours)
}

// onPort replaces the name of the port that the probes ask on.
func (p *probes) onPort(port int) {
	for _, probe := range []*corev1.Probe{p.startup, p.readiness, p.liveness} {
		if probe != nil && probe.TCPSocket != nil {
			probe.TCPSocket.Port = intstr.FromInt(port)
		}
	}
}

func bareRedis(version string) corev1.Container {
	return corev1.Container{
		Name: "redis", Image: "docker.io/library/redis:" + version, Command: []string{"redis-server"}, WorkingDir: "/data",
		Args: []string{"--cluster-enabled", "yes", "--appendonly", "yes", "--protected-mode", "no", "--dir", "/data"},
	}
}

// createCluster does what a person would do by hand, and waits until every server says that the cluster is fine.
func createCluster(ctx context.Context, ns string) error {
	var pods corev1.PodList
	if err := kind.List(ctx, &pods, client.InNamespace(ns)); err != nil {
		return err
	}
	args := []string{"exec", "-n", ns, "redis-0-0", "--", "redis-cli", "--cluster", "create"}
	for _, ordinal := range []string{"-0", "-1"} { // Primaries first.
		for _, p := range pods.Items {
			if strings.HasSuffix(p.Name, ordinal) {
				args = append(args, p.Status.PodIP+":6379")
			}
		}
	}
	if _, err := kind.Run(ctx, append(args, "--cluster-replicas", "1", "--cluster-yes")...); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if err := clusterOK(ctx, &p); err != nil {
			return err
		}
	}
	return nil
}

func clusterOK(ctx context.Context, p *corev1.Pod) error {
	c, err := kind.Redis(p.Namespace, p.Name, connection.Connection{Host: "floor", Port: "6379"})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return soon(ctx, "cluster_state of "+p.Name, func(ctx context.Context) error { return stateOK(ctx, c) })
}

func stateOK(ctx context.Context, c *redis.Client) error {
	info, err := c.ClusterInfo(ctx).Result()
	if err == nil && !strings.Contains(info, "cluster_state:ok") {
		err = errors.New("it is not ok yet")
	}
	return err
}
