package etcdclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

var asExisting = gate.Decision{Start: true, State: "existing"}

// handOut writes what Secrets hold to where members read it, as the kubelet does.
func (c *testCluster) handOut(a clustertls.Authority) {
	c.t.Helper()
	leafs := manifests.Leafs(testName, testNamespace, testDomain)
	for dir, secret := range map[string]string{
		"server": cluster.ServerTLSSecret(testName), "peer": cluster.PeerTLSSecret(testName),
		"client": cluster.ClientTLSSecret(testName), "operator": cluster.OperatorTLSSecret(testName),
	} {
		leaf := leafs[secret]
		if dir == "peer" {
			leaf.IPs = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		pair, err := clustertls.Issue(a.Signing, leaf, time.Now())
		if err != nil {
			c.t.Fatal(err)
		}
		for name, raw := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": a.Bundle()} {
			c.write(filepath.Join(c.dir, dir, name), raw)
		}
	}
	c.ca = clustertls.Pair{Cert: a.Bundle()}
}

// shown is the leaf that a port shows to somebody.
func (c *testCluster) shown(who string, port int) *x509.Certificate {
	c.t.Helper()
	cfg := c.tls(who)
	cfg.ServerName = ""
	cfg.InsecureSkipVerify = true // What it is signed by is what the test asks.
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(c.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

// signedBy fails when a member shows a leaf of another authority to clients or to its peers.
func (c *testCluster) signedBy(ca clustertls.Pair, members ...*testMember) {
	c.t.Helper()
	cert, _, err := clustertls.Parse(ca)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range members {
		for who, port := range map[string]int{"operator": m.client, "peer": m.peer} {
			if err := c.shown(who, port).CheckSignatureFrom(cert); err != nil {
				c.t.Errorf("%s on the port for the %s: %v", m.Name, who, err)
			}
		}
	}
}

// restart makes a member crash, starts it again, and waits until all are well.
func (c *testCluster) restart(m *testMember) {
	c.t.Helper()
	c.kill(m)
	c.start(asExisting, m)
	c.well()
}

// well waits until all members follow one leader and write.
func (c *testCluster) well() {
	c.t.Helper()
	lead := leader(c.t, c, "operator", "", c.members...)
	eventually(c.t, "a write through every member", func(ctx context.Context) error {
		var errs []error
		for _, m := range c.members {
			_, err := c.as("operator", "", m).Members(ctx)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if lead == nil {
		c.t.Fatal("nobody leads")
	}
}

func TestARenewedLeafIsShownWithoutARestart(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			c.start(asNew, c.members...)
			c.well()
			before := map[string][]byte{}
			for _, m := range c.members {
				before[m.Name] = c.shown("operator", m.client).Raw
			}
			c.handOut(clustertls.Authority{Signing: c.ca})
			for _, m := range c.members {
				server, peer := c.shown("operator", m.client), c.shown("peer", m.peer)
				if slices.Equal(server.Raw, before[m.Name]) || peer.Subject.CommonName != model.PeerCommonName {
					t.Errorf("%s shows its old leaf, or %s to its peers", m.Name, peer.Subject)
				}
			}
			c.well()
			// A member that comes back meets its peers, who have not been restarted, with the new leafs.
			c.restart(c.members[0])
		})
	}
}

// The three phases with real members: at no time is one of them alone.
func TestAnAuthorityIsReplacedUnderRealMembers(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			old := c.ca
			c.start(asNew, c.members...)
			c.well()
			next, err := clustertls.NewCA("test", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			c.handOut(clustertls.Authority{Signing: old, Next: next})
			for _, m := range c.members {
				c.restart(m)
			}
			c.signedBy(old, c.members...)
			c.handOut(clustertls.Authority{Signing: next, Retired: old.Cert})
			c.signedBy(next, c.members...)
			c.well()
			c.kill(c.members[1]) // Its peers have to let it in with a leaf of the new authority.
			c.start(asExisting, c.members[1])
			c.well()
			c.handOut(clustertls.Authority{Signing: next})
			for _, m := range c.members {
				c.restart(m)
			}
			c.signedBy(next, c.members...)
			strangers(t, c, old)
		})
	}
}

// strangers shows that the old authority opens nothing any more.
func strangers(t *testing.T, c *testCluster, old clustertls.Pair) {
	t.Helper()
	pair, err := clustertls.Issue(old, clustertls.Leaf{CommonName: model.RootUser}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.members {
		cfg := c.tls("operator")
		cfg.Certificates = []tls.Certificate{cert}
		client := etcdclient.New(etcdclient.Config{
			Host: cluster.PodHost(m.Name, testName, testNamespace, testDomain), TLS: cfg,
			Dial: func(ctx context.Context) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", m.client))
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, err := client.Status(ctx); err == nil {
			t.Errorf("%s lets in a leaf of the old authority", m.Name)
		}
		cancel()
		_ = client.Close()
	}
}

// Without the first phase a member that comes back would be alone: what the phases are for.
func TestALeafOfAnUnknownAuthorityIsRejectedByMembersThatRun(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 1, v1alpha1.TLSManaged)
			old := c.ca
			c.start(asNew, c.members...)
			c.well()
			next, err := clustertls.NewCA("test", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			c.handOut(clustertls.Authority{Signing: next, Retired: old.Cert})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if _, err := c.as("operator", "", c.members[0]).Status(ctx); err == nil {
				t.Error("a member that was started without the new authority trusts it")
			}
		})
	}
}

// The password from before opens the way to the next one, with a client from before as well.
func TestTheFormerPasswordGivesRootTheNextOne(t *testing.T) {
	t.Parallel()
	inPlainText(t, nil, func(ctx context.Context, t *testing.T, c *testCluster, only *testMember) {
		t.Helper()
		if err := c.as("", "first", only).EnableAuth(ctx, "first"); err != nil {
			t.Fatal(err)
		}
		before := c.as("", "first", only)
		if _, err := before.Status(ctx); err != nil {
			t.Fatal(err)
		}
		changing := c.changing(only, "second", "first")
		if a, err := changing.Auth(ctx, "second"); err != nil || a.PasswordWorks || !a.Root || !a.Enabled {
			t.Fatalf("before: %+v, %v", a, err)
		}
		if err := changing.SetRootPassword(ctx, "second"); err != nil {
			t.Fatal(err)
		}
		for name, client := range map[string]*etcdclient.Client{
			"the same client": changing, "one that knows both": c.changing(only, "second", "first"), "one that knows the new one": c.as("", "second", only),
		} {
			if a, err := client.Auth(ctx, "second"); err != nil || !a.PasswordWorks || a.Root {
				t.Errorf("%s: %+v, %v", name, a, err)
			}
			if _, err := client.Status(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if a, err := before.Auth(ctx, "first"); err != nil || a.PasswordWorks || a.Root {
			t.Errorf("the old password: %+v, %v", a, err)
		}
	})
}

// changing is a client that knows two passwords of root.
func (c *testCluster) changing(m *testMember, password, former string) *etcdclient.Client {
	client := etcdclient.New(etcdclient.Config{
		Host: "127.0.0.1", TLS: c.tls(""), Password: password, Former: former,
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", m.client))
		},
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}
