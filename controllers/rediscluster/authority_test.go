package rediscluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/test/fakeapi"
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
			o, other, orders := fakeapi.RedisCluster(), fakeapi.RedisCluster(), fakeapi.EtcdCluster()
			other.Name, other.UID = "other", "u-other"
			o.Spec.TLS, other.Spec.TLS, orders.Spec.TLS = tc.own, tc.redis, tc.etcd
			if tc.mode != "" {
				o.Spec.Mode = &tc.mode
			}
			s := newRedisStage(t, o)
			k := s.Loop.Kind.(*Reconciler)
			for _, extra := range []owned.Owner{other, orders} {
				if err := s.API.Create(t.Context(), extra); err != nil {
					t.Fatal(err)
				}
			}
			got, err := k.exposed(t.Context(), o)
			if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Fatalf("%q, %v, want %q", got, err, tc.want)
			}
			s.Pass()
			ready := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionTLSReady)
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
