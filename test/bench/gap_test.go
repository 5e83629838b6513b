package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// BenchmarkKillEtcd measures how long no write is acknowledged when the leader of three members is killed.
func BenchmarkKillEtcd(b *testing.B) {
	p, t := newEtcd(b, "1Gi"), newTable(b)
	p.leaderless(t, "the leader of etcd is killed", p.kill, sides...)
	p.report(t, true)
}

// BenchmarkKillRedis measures the same for a primary of three shards with a replica each, and a node timeout of two seconds: also where a
// replica takes over while Kubernetes is about to start the primary again.
func BenchmarkKillRedis(b *testing.B) {
	p, t := newRedis(b, "1Gi"), newTable(b)
	p.leaderless(t, "a primary of Redis is killed, node timeout 2 s", p.kill, append(sides, replacing)...)
	p.report(t, false)
}

// BenchmarkStopEtcd measures how long no write is acknowledged when the leader hangs.
func BenchmarkStopEtcd(b *testing.B) {
	p, t := newEtcd(b, "1Gi"), newTable(b)
	p.leaderless(t, "the leader of etcd stands still for 10 s", p.stop, sides...)
	p.report(t, true)
}

// BenchmarkStopRedis measures the same for a primary.
func BenchmarkStopRedis(b *testing.B) {
	p, t := newRedis(b, "1Gi"), newTable(b)
	p.leaderless(t, "a primary of Redis stands still for 10 s, node timeout 2 s", p.stop, sides...)
	p.report(t, false)
}

// BenchmarkSwitchEtcd measures how long no write is acknowledged when another member is made the leader.
func BenchmarkSwitchEtcd(b *testing.B) {
	program := plugin(b)
	p, t := newEtcd(b, "1Gi"), newTable(b)
	p.switches(t, "another member of etcd is made the leader", program)
	p.report(t, true)
}

// BenchmarkSwitchRedis measures the same for a replica that is made the primary.
func BenchmarkSwitchRedis(b *testing.B) {
	program := plugin(b)
	p, t := newRedis(b, "1Gi"), newTable(b)
	p.switches(t, "a replica of Redis is made the primary", program)
	p.report(t, true)
}

// BenchmarkRestartEtcd measures how long no write is acknowledged while all members are restarted, as for another version.
func BenchmarkRestartEtcd(b *testing.B) {
	p, t := newEtcd(b, "1Gi"), newTable(b)
	p.restarts(t, "three members of etcd are restarted one after the other")
	p.report(t, true)
}

// BenchmarkRestartRedis measures the same for three shards with a replica each.
func BenchmarkRestartRedis(b *testing.B) {
	p, t := newRedis(b, "1Gi"), newTable(b)
	p.restarts(t, "six servers of Redis are restarted one after the other")
	p.report(t, true)
}

// BenchmarkReturnEtcd measures how long the pod of the leader is missed when it is deleted.
func BenchmarkReturnEtcd(b *testing.B) {
	p, t := newEtcd(b, "1Gi"), newTable(b)
	p.comesBack(t, "the pod that leads etcd is deleted")
	p.report(t, true)
}

// BenchmarkReturnRedis measures the same for the pod of a primary.
func BenchmarkReturnRedis(b *testing.B) {
	p, t := newRedis(b, "1Gi"), newTable(b)
	p.comesBack(t, "the pod of a primary of Redis is deleted")
	p.report(t, false)
}

// BenchmarkLossEtcd measures how long a node that is stopped for good is missed, with all volumes on it, by three members.
func BenchmarkLossEtcd(b *testing.B) {
	p, t := newEtcd(b, "1Gi"), newTable(b)
	p.loses(t, "a node with a member of etcd is lost")
	p.report(t, true)
}

// BenchmarkLossRedis measures the same for three shards with a replica each.
func BenchmarkLossRedis(b *testing.B) {
	p, t := newRedis(b, "1Gi"), newTable(b)
	p.loses(t, "a node with two servers of Redis is lost")
	p.report(t, false)
}

// BenchmarkReplaceEtcd measures how long a member is missed that has lost a disk with 1 GiB, against one that has its disk.
func BenchmarkReplaceEtcd(b *testing.B) {
	p, t := newEtcd(b, "8Gi"), newTable(b)
	p.fillEtcd()
	p.replaces(t, "a member of etcd with 1 GiB is deleted")
	p.report(t, true)
}

// BenchmarkReplaceRedis measures the same for a replica of one of three shards that hold 1 GiB in all.
func BenchmarkReplaceRedis(b *testing.B) {
	p, t := newRedis(b, "8Gi"), newTable(b)
	p.fillRedis()
	p.replaces(t, "a replica of Redis with a third of 1 GiB is deleted")
	p.report(t, true)
}

// newEtcd makes a cluster of three members.
func newEtcd(b *testing.B, volume string) *patient {
	b.Helper()
	o := &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "etcd"},
		Spec:       v1alpha1.EtcdClusterSpec{Size: 3, Version: version(b, "ETCD_3_6"), Storage: &v1alpha1.StorageSpec{Size: resource.MustParse(volume)}},
	}
	p := &patient{
		object: o, component: v1alpha1.ComponentEtcd, container: "etcd", size: 3,
		condition: func(ctx context.Context, name string, status metav1.ConditionStatus) error {
			return harness.WaitCondition(ctx, kind, o, metav1.Condition{Type: name, Status: status}, readyTimeout)
		},
		leads: func() []lead {
			i := slices.IndexFunc(o.Status.Members, func(m v1alpha1.EtcdMemberStatus) bool { return m.Role == v1alpha1.EtcdFollower })
			return []lead{{o.Status.Leader, o.Status.Members[i].Name}}
		},
		restamp: func(value string) { o.Spec.Template = stamped(value) },
	}
	p.handOver = p.moveLeader
	return newPatient(b, p, "etcd")
}

// newRedis makes a cluster of three shards with a replica each.
func newRedis(b *testing.B, volume string) *patient {
	b.Helper()
	o := &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "redis"},
		Spec: v1alpha1.RedisClusterSpec{
			Version: version(b, "REDIS_8_0"), Shards: shards, ReplicasPerShard: ptr.To[int32](1), Storage: &v1alpha1.StorageSpec{Size: resource.MustParse(volume)},
			Config: &v1alpha1.RedisConfig{NodeTimeout: &metav1.Duration{Duration: 2 * time.Second}},
		},
	}
	p := &patient{
		object: o, component: v1alpha1.ComponentRedis, container: "redis", size: 2 * shards,
		condition: func(ctx context.Context, name string, status metav1.ConditionStatus) error {
			return harness.WaitCondition(ctx, kind, o, metav1.Condition{Type: name, Status: status}, readyTimeout)
		},
		leads: func() (out []lead) {
			for _, s := range o.Status.Shards {
				i := slices.IndexFunc(s.Nodes, func(n v1alpha1.RedisNodeStatus) bool { return n.Role == v1alpha1.RedisReplica })
				out = append(out, lead{s.Primary, s.Nodes[i].Name})
			}
			return out
		},
		restamp:  func(value string) { o.Spec.Template = stamped(value) },
		handOver: func(ctx context.Context, _, to string) error { return kind.FailOver(ctx, o, to) },
		choose: func(side string) {
			o.Spec.Recovery = nil
			if side == replacing {
				o.Spec.Recovery = &v1alpha1.RedisRecoverySpec{DeadPrimary: ptr.To(v1alpha1.DeadPrimaryReplace)}
			}
		},
	}
	return newPatient(b, p, "redis")
}

func stamped(value string) *v1alpha1.PodTemplate {
	return &v1alpha1.PodTemplate{Annotations: map[string]v1alpha1.TemplateValue{stamp: v1alpha1.TemplateValue(value)}}
}
