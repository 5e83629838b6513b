package e2e

import (
	"context"
	"crypto/tls"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/internal/connection"
)

// Names of the clusters of these tests, one for each way to be secured. Managed with a password is what all other
// tests use.
const (
	plainText   = "plain"
	noPassword  = "open"
	ownTLS      = "byo-tls"
	nothingOn   = "bare"
	ownPassword = "byo-auth"
)

// mode is one way to be secured.
type mode struct {
	tls  *v1alpha1.TLSSpec
	auth *v1alpha1.AuthSpec
}

// modes are the combinations under test, by the name of the cluster.
func modes() map[string]mode {
	tlsOff := &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
	authOff := &v1alpha1.AuthSpec{Mode: ptr.To(v1alpha1.AuthDisabled)}
	return map[string]mode{
		plainText:   {tls: tlsOff},
		noPassword:  {auth: authOff},
		nothingOn:   {tls: tlsOff, auth: authOff},
		ownTLS:      {tls: &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSProvided), SecretName: ptr.To("my-certificate")}},
		ownPassword: {auth: &v1alpha1.AuthSpec{SecretName: ptr.To("my-password")}},
	}
}

const myPassword = "correct horse battery staple"

func TestEtcdTLSAndAuthModes(t *testing.T) {
	t.Parallel()
	var client clustertls.Pair
	clusters := map[string]*v1alpha1.EtcdCluster{}
	feature := features.New("etcd").Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
		client = makeSecrets(ctx, t, s)
		for name, mode := range modes() {
			clusters[name] = s.etcdOf(t, name, 1, func(e *v1alpha1.EtcdClusterSpec) { e.TLS, e.Auth, e.Storage = mode.tls, mode.auth, nil })
			s.create(ctx, t, clusters[name])
		}
	}))
	for _, name := range slices.Sorted(maps.Keys(modes())) {
		feature.Assess(name, step(func(ctx context.Context, t *testing.T, s *scope) {
			c := clusters[name]
			waitReady(ctx, t, s, c)
			conn, _, err := s.Connection(ctx, s.ns, name)
			must(t, err)
			wantMode(t, name, conn)
			if name == ownTLS && len(conn.TLS.Certificates) == 0 {
				pair, err := tls.X509KeyPair(client.Cert, client.Key)
				must(t, err)
				conn.TLS.Certificates = []tls.Certificate{pair}
			}
			roundTrip(ctx, t, s, c, conn)
		}))
	}
	suite.Test(t, feature.Feature())
}

func TestRedisTLSAndAuthModes(t *testing.T) {
	t.Parallel()
	feature := features.New("redis").Setup(step(func(ctx context.Context, t *testing.T, s *scope) { makeSecrets(ctx, t, s) }))
	// One at a time: each has three servers.
	for _, name := range slices.Sorted(maps.Keys(modes())) {
		feature.Assess(name, step(func(ctx context.Context, t *testing.T, s *scope) {
			mode := modes()[name]
			c := s.redisOf(t, name, 0, func(r *v1alpha1.RedisClusterSpec) { r.TLS, r.Auth, r.Storage = mode.tls, mode.auth, nil })
			createReady(ctx, t, s, c)
			conn, _, err := s.Connection(ctx, s.ns, name)
			must(t, err)
			wantMode(t, name, conn)
			roundTrip(ctx, t, s, c, conn)
			must(t, s.Delete(ctx, c))
		}))
	}
	suite.Test(t, feature.Feature())
}

// wantMode checks that the connection Secret says what the mode means.
func wantMode(t *testing.T, name string, conn connection.Connection) {
	t.Helper()
	if want := name != plainText && name != nothingOn; (conn.TLS != nil) != want {
		t.Errorf("%s: the connection Secret has a certificate authority: %v, want %v", name, conn.TLS != nil, want)
	}
	if want := name != noPassword && name != nothingOn; (conn.Password != "") != want {
		t.Errorf("%s: the connection Secret has a password: %v, want %v", name, conn.Password != "", want)
	}
	if name == ownPassword && conn.Password != myPassword {
		t.Errorf("the password is %q, not that of the user", conn.Password)
	}
}

// roundTrip writes and reads with a given connection.
func roundTrip[O target](ctx context.Context, t *testing.T, s *scope, o O, conn connection.Connection) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	store := openMarks(ctx, t, s, o, conn)
	defer store.close()
	must(t, store.put(ctx, markKey(0), markValue(0)))
	got, err := store.get(ctx, markKey(0))
	must(t, err)
	if got != markValue(0) {
		t.Errorf("read %q", got)
	}
}

// makeSecrets makes the Secrets that a user would bring along, and returns a certificate for clients.
func makeSecrets(ctx context.Context, t *testing.T, s *scope) clustertls.Pair {
	t.Helper()
	ca, err := clustertls.NewCA("a user's authority", time.Now())
	must(t, err)
	server, err := clustertls.Issue(ca, clustertls.Leaf{
		CommonName: "my servers", DNSNames: namesOf(ownTLS, s.ns), IPs: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
	}, time.Now())
	must(t, err)
	client, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "my client"}, time.Now())
	must(t, err)
	s.create(ctx, t, secret(s.ns, "my-certificate", map[string][]byte{
		connection.KeyCA: ca.Cert, corev1.TLSCertKey: server.Cert, corev1.TLSPrivateKeyKey: server.Key,
	}))
	s.create(ctx, t, secret(s.ns, "my-password", map[string][]byte{"password": []byte(myPassword)}))
	return client
}

func secret(ns, name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: data}
}

// namesOf are the names under which a cluster is reached.
func namesOf(name, ns string) []string {
	client, peers := cluster.ClientService(name), cluster.PeersService(name)
	return []string{
		"localhost", client, client + "." + ns, client + "." + ns + ".svc", cluster.ServiceHost(client, ns, "cluster.local"),
		peers + "." + ns + ".svc", cluster.ServiceHost(peers, ns, "cluster.local"),
		"*." + peers + "." + ns + ".svc", "*." + cluster.ServiceHost(peers, ns, "cluster.local"),
	}
}
