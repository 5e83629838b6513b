package main

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
)

func TestAClusterIsNamedByKindAndName(t *testing.T) {
	etcd := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	redis := v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	for arg, want := range map[string]v1alpha1.ClusterReference{
		"etcdcluster/orders": etcd, "EtcdCluster/orders": etcd, "ec/orders": etcd, "etcdclusters.quorate.dev/orders": etcd,
		"rediscluster/carts": redis, "rdc/carts": redis, "valkey/carts": redis,
	} {
		if got, err := parseName(arg); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", arg, got, err, want)
		}
	}
	for _, arg := range []string{"orders", "/orders", "etcdcluster/", "pod/orders", "etcdcluster/orders/x", ""} {
		if got, err := parseName(arg); err == nil || !strings.Contains(err.Error(), "kind/name") {
			t.Errorf("%q is %+v, %v; want an error that says how to name a cluster", arg, got, err)
		}
	}
}
