package owned

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/fakeapi"
)

// An authority that users still go by is not given up.
func TestARotationWaitsForWhatUsersConnectWith(t *testing.T) {
	o := fakeapi.EtcdCluster()
	c := newChildren(fakeapi.New(t, o))
	want := Certificates{
		Leafs:     map[string]clustertls.Leaf{cluster.ClientTLSSecret(o.Name): {CommonName: "client"}},
		Clients:   cluster.ClientTLSSecret(o.Name),
		Followers: func(context.Context) ([]string, error) { return []string{"app-etcd-user"}, nil },
		Servers:   func(context.Context, string) (Servers, error) { return Servers{}, nil },
	}
	if err := c.EnsureCertificates(t.Context(), o, want); err != nil {
		t.Fatal(err)
	}
	ca, err := c.OwnSecret(t.Context(), o, cluster.CASecret(o.Name))
	if err != nil {
		t.Fatal(err)
	}
	a, err := AuthorityOf(ca)
	if err != nil {
		t.Fatal(err)
	}
	_, pair, err := c.Keypair(t.Context(), o, nil, cluster.ClientTLSSecret(o.Name))
	if err != nil {
		t.Fatal(err)
	}
	user := &v1alpha1.EtcdUser{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "app", UID: "user-1"}}
	for _, tc := range []struct {
		name string
		data map[string][]byte
		want bool
	}{
		{"there is none yet", nil, true},
		{"an earlier authority", map[string][]byte{CAKey: []byte("former"), corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key}, false},
		{"an earlier certificate", map[string][]byte{CAKey: a.Bundle(), corev1.TLSCertKey: []byte("former"), corev1.TLSPrivateKeyKey: pair.Key}, false},
		{"what it is to have", LeafData(a.Bundle(), pair), true},
	} {
		if tc.data != nil {
			want := Secret{Name: "app-etcd-user", Type: corev1.SecretTypeOpaque, Labels: manifests.Labels(o.Name), Data: tc.data}
			if err := c.EnsureSecret(t.Context(), user, want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.handedOut(t.Context(), o, want, a); err != nil || got != tc.want {
			t.Errorf("%s: %t, %v", tc.name, got, err)
		}
		if got, err := c.trustFacts(t.Context(), o, want, clustertls.Trust{Next: a.Bundle()}, nil); err != nil || got.HandedOut != tc.want {
			t.Errorf("%s: with an issuer %t, %v", tc.name, got.HandedOut, err)
		}
	}
}

func TestAnUnreadableAuthorityIsRefused(t *testing.T) {
	good := fakeapi.NewCA(t, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	whole := AuthorityData(clustertls.Authority{Signing: good, Next: good, HandedOut: time.Unix(100, 0)})
	tests := map[string]struct {
		key, value string
		refused    bool
	}{
		"whole":                          {},
		"no certificate":                 {corev1.TLSCertKey, "x", true},
		"no key":                         {corev1.TLSPrivateKeyKey, "", true},
		"no key of the next one":         {nextKeyKey, "x", true},
		"a time that cannot be read":     {handedOutKey, "tomorrow", false},
		"no time":                        {handedOutKey, "", false},
		"a next one that is not there":   {nextCertKey, "", false},
		"a retired one of no importance": {retiredKey, "x", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "orders-ca"}, Data: map[string][]byte{}}
			for k, v := range whole {
				s.Data[k] = v
			}
			if tc.key != "" {
				s.Data[tc.key] = []byte(tc.value)
			}
			a, err := AuthorityOf(s)
			var refusal cluster.Refusal
			if errors.As(err, &refusal) != tc.refused {
				t.Fatalf("%v", err)
			}
			if name == "whole" && !cmp.Equal(AuthorityData(a), whole) {
				t.Error("it is not written as it was read")
			}
		})
	}
}
