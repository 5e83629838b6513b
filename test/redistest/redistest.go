// Package redistest holds values of Redis clusters that tests of several packages share.
package redistest

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
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
			{Pattern: "app:*", Access: v1alpha1.RedisReadWrite}, {Pattern: "in:*", Access: v1alpha1.RedisRead},
			{Pattern: "out:*", Access: v1alpha1.RedisWrite},
		},
		Channels: []v1alpha1.RedisPattern{"app:*"}, Categories: []v1alpha1.RedisCategory{"read", "write", "read"},
		Commands: []v1alpha1.RedisCommand{"keys", "command"},
	}}
}
