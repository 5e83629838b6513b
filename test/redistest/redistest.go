// Package redistest holds values of Redis clusters that tests of several packages share.
package redistest

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// Cluster is a cluster of three shards with a replica each.
func Cluster(engine v1alpha1.RedisEngine, version string) *v1alpha1.RedisCluster {
	return &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "carts", Namespace: "shop", UID: "u"},
		Spec: v1alpha1.RedisClusterSpec{
			Engine: &engine, Version: version, Shards: 3, ReplicasPerShard: ptr.To(int32(1)),
			Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
		},
	}
}

// User may read and write some keys of the cluster c.
func User() *v1alpha1.RedisUser {
	return &v1alpha1.RedisUser{ObjectMeta: metav1.ObjectMeta{Name: "carts-app"}, Spec: v1alpha1.RedisUserSpec{
		ClusterName: "c", Username: ptr.To("app"),
		Keys: []v1alpha1.RedisKeys{
			{Pattern: "app:*", Access: v1alpha1.RedisReadWrite},
			{Pattern: "in:*", Access: v1alpha1.RedisRead},
			{Pattern: "out:*", Access: v1alpha1.RedisWrite},
		},
		Channels: []v1alpha1.RedisPattern{"app:*"}, Categories: []v1alpha1.RedisCategory{"read", "write", "read"},
		Commands: []v1alpha1.RedisCommand{"keys", "command"},
	}}
}

// Redis80 is a release without commands of its own for slots.
var Redis80 = software.Release{Engine: v1alpha1.EngineRedis, Version: "8.0.2"}

// Passwords are those of all internal users.
func Passwords() map[string]string {
	return map[string]string{"password": "a", "operator": "b", "replication": "c", "migration": "d"}
}

// NodesText is an answer to CLUSTER NODES with a node of each kind.
const NodesText = `07c37dfeb235213a872192d90877d0cd55635b91 10.0.0.1:6379@16379,carts-0-0.carts-peers.shop.svc.cluster.local,shard-id=ab,tls-port=6379 myself,master - 0 1426238317239 4 connected 0-5460 10923 [93-<-292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f]
67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 fd00::2:6379@16379 slave,fail 07c37dfeb235213a872192d90877d0cd55635b91 1426238316232 0 2 disconnected
292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f :0@0 master,fail?,noaddr - 1426238318243 1426238317000 3 disconnected 10924-16383
e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 10.0.0.4:6379@16379 handshake - 0 0 0 connected
vars currentEpoch 6 lastVoteEpoch 0
`

// Now is the time of tests.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// NodeID returns the id of a node of Nodes.
func NodeID(shard, ordinal int) string { return fmt.Sprintf("%032x%08x", shard*0x9e3779b9, ordinal+1) }

// NodeIP returns the address of a node of Nodes.
func NodeIP(shard, ordinal int) string {
	return fmt.Sprintf("10.%d.%d.%d", shard/256, shard%256, ordinal)
}

// Nodes is the answer of one server to CLUSTER NODES, in an order and with times of its own.
func Nodes(shards, copies, ofShard, ofOrdinal int) string {
	var b strings.Builder
	for i := range shards * copies {
		i = (i + 7*ofShard + ofOrdinal) % (shards * copies)
		shard, ordinal := i/copies, i%copies
		flags, primary, slots := "master", "-", slots.Share(shard, shards).String()
		if ordinal > 0 {
			flags, primary, slots = "slave", NodeID(shard, 0), ""
		}
		if shard == ofShard && ordinal == ofOrdinal {
			flags = "myself," + flags
		}
		fmt.Fprintf(&b, "%s %s@16379,c-%d-%d.c-peers.ns.svc.cluster.local %s %s 0 %d %d connected %s\n", NodeID(shard, ordinal),
			NodeIP(shard, ordinal)+":6379", shard, ordinal, flags, primary, Now.UnixMilli()-int64((i*31+ofShard*17)%900), shard+1, slots)
	}
	return b.String()
}

// Nasty are values that a file could make something else of.
var Nasty = []string{
	"", " ", "10", "yes", "no", "a b", `"`, `"a`, `a"b`, `'`, `\`, `\n`, `\x0a`, "a\nport 1", "a\r\nport 1", "a\rport 1", "a\x00b", "#", "a #b", "\t", "ü", "\xff", "\x7f",
	"a\u0085b", "a\u2028b", `a" "b`, "64mb", "normal 0 0 0 pubsub 64mb 16mb 90", "50 99.9", "KEA", strings.Repeat("x", 256), "$1", "${x}", "@x", "*", "%",
}
