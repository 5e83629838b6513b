package rediscluster

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// Builds before the first release signed certificates of clients with the authority of the servers.
func TestAnAuthorityThatSignedForRedisClientsIsReplaced(t *testing.T) {
	s := newTimedRedis(t)
	s.Settle()
	former, err := clustertls.NewCA("default/carts", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, ok := clustertls.LeafOf(clustertls.Pair{Cert: s.Content("carts-server-tls")[corev1.TLSCertKey], Key: s.Content("carts-server-tls")[corev1.TLSPrivateKeyKey]})
	if !ok {
		t.Fatal("no leaf")
	}
	server, err := clustertls.Issue(former, leaf, s.Now)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clustertls.Issue(former, clustertls.Leaf{CommonName: "carts-client"}, s.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.Put("carts-ca", owned.AuthorityData(clustertls.Authority{Signing: former}))
	s.Put("carts-server-tls", owned.LeafData(former.Cert, server))
	s.Put("carts-connection", owned.LeafData(former.Cert, client))
	s.Mounted = nil
	for name := range s.Running {
		s.Running[name] = s.Content("carts-server-tls")
	}
	before := s.Uids()
	s.Pass()
	s.Settle()
	if own := s.Content("carts-server-tls")[owned.CAKey]; bytes.Contains(own, former.Cert) {
		t.Error("servers still trust the authority that signed for clients")
	}
	connection := s.Content("carts-connection")
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if _, found := connection[key]; found {
			t.Errorf("the connection Secret has %s", key)
		}
	}
	if diff := cmp.Diff(before, s.Uids()); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
	phases := len(s.Phases)
	s.Now = s.Now.Add(24 * time.Hour)
	s.Settle()
	if len(s.Phases) != phases {
		t.Errorf("the authority is replaced again: %v", s.Phases)
	}
}

func TestRedisServersTakeARenewedCertificateWithoutARestart(t *testing.T) {
	s := newTimedRedis(t)
	s.Settle()
	before, old := s.Content("carts-server-tls")[corev1.TLSCertKey], s.Uids()
	s.Now = s.Now.Add(clustertls.LeafValidity / 100 * 67)
	s.Pass()
	if text := s.Cluster().Status.Activity; !strings.Contains(text, "kubelet") {
		t.Errorf("it does not say what it waits for: %s", text)
	}
	s.Settle()
	now := s.Content("carts-server-tls")[corev1.TLSCertKey]
	if bytes.Equal(before, now) {
		t.Error("the certificate was not renewed")
	}
	for pod, uid := range s.Uids() {
		if old[pod] != uid {
			t.Errorf("pod %s was restarted", pod)
		}
		if !bytes.Equal(s.Running[pod][corev1.TLSCertKey], now) {
			t.Errorf("%s runs with the old certificate", pod)
		}
	}
}

func TestRedisServersTakeARenewedCertificateWhateverElseMayNotBe(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.RedisClusterSpec){
		"paused":               func(spec *v1alpha1.RedisClusterSpec) { spec.Paused = new(true) },
		"without its password": func(spec *v1alpha1.RedisClusterSpec) { spec.Auth = &v1alpha1.AuthSpec{SecretName: new("gone")} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTimedRedis(t)
			s.Settle()
			before := s.Content("carts-server-tls")[corev1.TLSCertKey]
			o := s.Cluster()
			change(&o.Spec)
			if err := s.API.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			s.Pass()
			s.Now = s.Now.Add(clustertls.LeafValidity / 100 * 67)
			for range 15 {
				s.Pass()
			}
			now := s.Content("carts-server-tls")[corev1.TLSCertKey]
			if bytes.Equal(before, now) {
				t.Errorf("the certificate was not renewed: %s", s.Cluster().Status.Activity)
			}
			for pod, own := range s.Running {
				if !bytes.Equal(own[corev1.TLSCertKey], now) {
					t.Errorf("%s runs with the old certificate: %s", pod, s.Cluster().Status.Activity)
				}
			}
		})
	}
}

func TestTheAuthorityOfARedisClusterIsReplacedWhileAllUnderstandEachOther(t *testing.T) {
	t.Parallel()
	s := newTimedRedis(t)
	s.Settle()
	before, old := s.Content("carts-ca")[corev1.TLSCertKey], s.Uids()
	o := s.Cluster()
	o.Spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{
		After: &metav1.Time{Time: s.Now}, Hold: &metav1.Duration{Duration: 2 * time.Minute},
	}}
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.Pass()
	s.Settle()
	ca := s.Content("carts-ca")
	if bytes.Equal(before, ca[corev1.TLSCertKey]) || len(ca) != 2 {
		t.Errorf("the Secret of the authority holds %d keys, or the old one", len(ca))
	}
	want := []string{v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued}
	if diff := cmp.Diff(want, s.Phases[max(0, len(s.Phases)-3):]); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	for pod, uid := range s.Uids() {
		if !slices.Equal(s.Running[pod][owned.CAKey], ca[corev1.TLSCertKey]) {
			t.Errorf("pod %s trusts another authority", pod)
		}
		if old[pod] != uid {
			t.Errorf("pod %s was restarted", pod)
		}
	}
	writes := s.API.Writes.Load()
	for range 10 {
		s.Pass()
	}
	if n := s.API.Writes.Load() - writes; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
}
