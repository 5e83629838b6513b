package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// readyTimeout is how long a cluster may take to become Ready, also again after a fault. Several are made at a time.
const readyTimeout = 4 * time.Minute

// target is a cluster of either kind under test.
type target interface {
	harness.Conditioned
	*v1alpha1.EtcdCluster | *v1alpha1.RedisCluster
}

// etcdOf is an EtcdCluster with volumes that go with it.
func (s *scope) etcdOf(t *testing.T, name string, size int32, change ...func(*v1alpha1.EtcdClusterSpec)) *v1alpha1.EtcdCluster {
	t.Helper()
	c := &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec: v1alpha1.EtcdClusterSpec{
			Size: size, Version: s.version(t, "ETCD_3_6"), Storage: volume(v1alpha1.DeletionDelete),
		},
	}
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

// redisOf is a RedisCluster of three shards with volumes that go with it.
func (s *scope) redisOf(t *testing.T, name string, replicas int32, change ...func(*v1alpha1.RedisClusterSpec)) *v1alpha1.RedisCluster {
	t.Helper()
	c := &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec: v1alpha1.RedisClusterSpec{
			Version: s.version(t, "REDIS_8_0"), Shards: 3, ReplicasPerShard: ptr.To(replicas),
			Storage: volume(v1alpha1.DeletionDelete),
		},
	}
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

func volume(policy v1alpha1.DeletionPolicy) *v1alpha1.StorageSpec {
	return &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi"), DeletionPolicy: ptr.To(policy)}
}

func (s *scope) version(t *testing.T, key string) string {
	t.Helper()
	v, err := s.Version(key)
	must(t, err)
	return v
}

// create makes an object.
func (s *scope) create(ctx context.Context, t *testing.T, o client.Object) {
	t.Helper()
	if err := s.Create(ctx, o); err != nil {
		t.Fatalf("create %s: %v", o.GetName(), err)
	}
}

// createReady makes a cluster and waits until it is Ready.
func createReady[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	began := time.Now()
	s.create(ctx, t, o)
	waitReady(ctx, t, s, o)
	t.Logf("%s is Ready after %s", o.GetName(), time.Since(began).Round(100*time.Millisecond))
}

func waitReady[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	must(t, harness.WaitReady(ctx, s.Cluster, o, readyTimeout))
}

// refresh reads an object again.
func refresh[O client.Object](ctx context.Context, t *testing.T, s *scope, o O) O {
	t.Helper()
	must(t, s.Get(ctx, client.ObjectKeyFromObject(o), o))
	return o
}

func (s *scope) pod(ctx context.Context, t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return refresh(ctx, t, s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}})
}

func (s *scope) pods(ctx context.Context, t *testing.T, o client.Object) []corev1.Pod {
	t.Helper()
	component := v1alpha1.ComponentEtcd
	if _, ok := o.(*v1alpha1.RedisCluster); ok {
		component = v1alpha1.ComponentRedis
	}
	pods, err := s.Pods(ctx, s.ns, o.GetName(), component)
	must(t, err)
	return pods
}

// endpoints are the addresses of all members of an etcd cluster.
func endpoints(c *v1alpha1.EtcdCluster) []string {
	var out []string
	for i := range int(c.Spec.Size) {
		out = append(out, cluster.PodHost(cluster.Pod(c.Name, i), c.Name, c.Namespace, "cluster.local")+":2379")
	}
	return out
}

// primaryOf is the pod of the primary of a shard, in the words of the servers themselves.
func primaryOf(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int) *corev1.Pod {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	for _, p := range s.pods(ctx, t, c) {
		if !strings.HasPrefix(p.Name, cluster.ShardSet(c.Name, shard)+"-") {
			continue
		}
		node, err := s.Redis(s.ns, p.Name, conn)
		must(t, err)
		info, err := node.Info(ctx, "replication").Result()
		must(t, errors.Join(err, node.Close()))
		if strings.Contains(info, "role:master") {
			return &p
		}
	}
	t.Fatalf("no server of shard %d is a primary", shard)
	return nil
}

// leaderOf is the pod of the leader, in the words of the members themselves.
func leaderOf(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) *corev1.Pod {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	for _, p := range s.pods(ctx, t, c) {
		member, err := s.Etcd(ctx, s.ns, p.Name, conn)
		must(t, err)
		status, err := member.Status(ctx, conn.Scheme("https")+"://"+conn.Addr())
		must(t, errors.Join(err, member.Close()))
		if status.Leader == status.Header.MemberId {
			return &p
		}
	}
	t.Fatal("no member is the leader")
	return nil
}

// conditionText is the message of a condition, for messages of tests.
func conditionText(o harness.Conditioned, typ string) string {
	for _, c := range o.GetConditions() {
		if c.Type == typ {
			return fmt.Sprintf("%s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return "no condition " + typ
}
