package controllers

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

func issuedBy(name, kind string) *v1alpha1.TLSSpec {
	return &v1alpha1.TLSSpec{Mode: new(v1alpha1.TLSCertManager), IssuerRef: &v1alpha1.IssuerReference{Name: name, Kind: &kind}}
}

func TestARedisClusterDoesNotShareItsSigner(t *testing.T) {
	t.Parallel()
	mine := &v1alpha1.TLSSpec{Mode: new(v1alpha1.TLSProvided), SecretName: new("mine")}
	for name, tc := range map[string]struct {
		own, redis, etcd *v1alpha1.TLSSpec
		mode             v1alpha1.RedisMode
		want             string
	}{
		"an authority of the operator is never shared": {},
		"an Issuer of its own is accepted":             {own: issuedBy("ours", "Issuer"), redis: issuedBy("theirs", "Issuer"), etcd: mine},
		"a ClusterIssuer is refused":                   {own: issuedBy("all", "ClusterIssuer"), want: "spec.tls.issuerRef: ClusterIssuer all signs for all namespaces"},
		"an Issuer of another RedisCluster is refused": {own: issuedBy("ours", "Issuer"), redis: issuedBy("ours", "Issuer"), want: "is also used by RedisCluster other"},
		"an Issuer of an EtcdCluster is refused":       {own: issuedBy("ours", "Issuer"), etcd: issuedBy("ours", "Issuer"), want: "is also used by EtcdCluster orders"},
		"a Secret of an EtcdCluster is refused":        {own: mine, etcd: mine, want: "spec.tls.secretName: Secret default/mine is also used by EtcdCluster orders"},
		"a cluster without a bus may share":            {own: issuedBy("all", "ClusterIssuer"), mode: v1alpha1.RedisReplicated},
	} {
		t.Run(name, func(t *testing.T) {
			o, other, orders := redisCluster(), redisCluster(), etcdCluster()
			other.Name, other.UID = "other", "u-other"
			o.Spec.TLS, other.Spec.TLS, orders.Spec.TLS = tc.own, tc.redis, tc.etcd
			if tc.mode != "" {
				o.Spec.Mode = &tc.mode
			}
			s := newRedisStage(t, o)
			k := s.loop.Kind.(*RedisKind)
			for _, extra := range []Object{other, orders} {
				if err := s.api.Create(t.Context(), extra); err != nil {
					t.Fatal(err)
				}
			}
			got, err := k.exposed(t.Context(), o)
			if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Fatalf("%q, %v, want %q", got, err, tc.want)
			}
			s.pass()
			ready := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionTLSReady)
			started, err := k.started(t.Context(), o)
			if tc.want != "" && (started || err != nil || ready == nil || !strings.Contains(ready.Message, tc.want)) {
				t.Errorf("before there are servers: %+v, started %t, %v", ready, started, err)
			}
			if err := k.refuseExposed(t.Context(), o, true); err != nil {
				t.Errorf("a cluster with servers is refused: %v", err)
			}
		})
	}
}

func TestAnEtcdClusterOfAVersionThatCannotRestrictPeersIsNotCreated(t *testing.T) {
	t.Parallel()
	for version, refused := range map[string]bool{"3.5.13": true, "3.5.14": false} {
		for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSManaged, v1alpha1.TLSDisabled} {
			o := etcdCluster()
			o.Spec.Version, o.Spec.TLS = version, &v1alpha1.TLSSpec{Mode: &mode}
			_, err := (&EtcdKind{Children: &Children{}}).planned(o, etcd.Record{}, etcd.Reach{})
			if got := err != nil && strings.Contains(err.Error(), "use 3.5.14 or later"); got != (refused && mode != v1alpha1.TLSDisabled) {
				t.Errorf("etcd %s, TLS %s, new: %v", version, mode, err)
			}
			running := etcd.Record{Version: etcd.Version{Major: 3, Minor: 5, Patch: 13}, Members: etcd.Peers("orders", "default", "cluster.local", 3, true)}
			if _, err := (&EtcdKind{Children: &Children{}}).planned(o, running, etcd.Reach{}); err != nil {
				t.Errorf("etcd %s, TLS %s, with members: %v", version, mode, err)
			}
		}
	}
}
