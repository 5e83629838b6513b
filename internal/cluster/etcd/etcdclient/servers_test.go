package etcdclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/api/v1alpha1"
	etcdconfig "github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

const (
	testNamespace = "default"
	testName      = "orders"
	testDomain    = "cluster.local"
	// testSigningKey is what all members sign tokens with.
	testSigningKey = "a key that all members share"
)

// etcds returns the newest etcd of each supported minor version, by version; in short runs of one of them, another one from test to test, unless
// QUORATE_ALL_ENGINES is set, as `make test-all` does.
func etcds(t *testing.T) map[string]string {
	t.Helper()
	minors := stores.Etcds
	if testing.Short() && os.Getenv("QUORATE_ALL_ENGINES") == "" {
		one := crc32.ChecksumIEEE([]byte(t.Name())) % uint32(len(minors))
		minors = minors[one : one+1]
	}
	out := map[string]string{}
	for _, minor := range minors {
		s := stores.Newest(t, minor)
		out[s.Version] = s.Program()
	}
	return out
}

// testCluster is a cluster of real etcd processes on loopback, with the configuration that the operator renders.
type testCluster struct {
	t       *testing.T
	binary  string
	dir     string
	tlsMode v1alpha1.TLSMode
	members []*testMember
	ca      clustertls.Pair
	// drained is the member that a planner keeps clients away from.
	drained string
	// told says whether clients are to use TLS, guarded by secret.
	secret sync.Mutex
	told   bool
	// later is how far the clock of clients is ahead.
	later time.Duration
}

type testMember struct {
	model.Peer
	client, peer, plain, metrics int
	cmd                          *exec.Cmd
	config                       string
}

func newTestCluster(t *testing.T, version, binary string, size int, mode v1alpha1.TLSMode, config ...*v1alpha1.EtcdConfig) *testCluster {
	t.Helper()
	c := &testCluster{t: t, binary: binary, dir: t.TempDir(), tlsMode: mode}
	if mode != v1alpha1.TLSDisabled {
		c.issue()
	}
	for i := range size {
		m := &testMember{client: loopback.Port(t), peer: loopback.Port(t), plain: loopback.Port(t), metrics: loopback.Port(t)}
		m.Name = fmt.Sprintf("%s-%d", testName, i)
		m.URL = m.url(mode != v1alpha1.TLSDisabled)
		c.members = append(c.members, m)
	}
	c.configure(version, mode == v1alpha1.TLSDisabled, config...)
	return c
}

// url is where a member listens for its peers.
func (m *testMember) url(tls bool) string {
	if tls {
		return fmt.Sprintf("https://127.0.0.1:%d", m.peer)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", m.plain)
}

// configure renders the configuration of the members for their URLs.
func (c *testCluster) configure(version string, plain bool, config ...*v1alpha1.EtcdConfig) {
	c.t.Helper()
	t, peers := c.t, peersOf(c.members...)
	v, err := model.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	common, err := etcdconfig.Common(append(config, nil)[0], v, v)
	if err != nil {
		t.Fatal(err)
	}
	layout := etcdconfig.Layout{
		Name: testName, Namespace: testNamespace, UID: "u-1", Domain: testDomain, TLS: c.tlsMode, Plain: plain, Auth: true, Version: v,
		Members: peers,
	}
	for i, m := range c.members {
		text, err := etcdconfig.MemberConfig(common, layout, peers[i])
		if err != nil {
			t.Fatal(err)
		}
		m.config = c.localize(m, text)
	}
	c.write(filepath.Join(c.dir, "token", etcdconfig.SigningKey), []byte(testSigningKey))
}

// localize puts the addresses and directories of a test in the place of those in a pod.
func (c *testCluster) localize(m *testMember, text string) string {
	return strings.NewReplacer(
		etcdconfig.DataDir, filepath.Join(c.dir, m.Name),
		etcdconfig.ServerTLSDir, filepath.Join(c.dir, "server"), etcdconfig.PeerTLSDir, filepath.Join(c.dir, "peer"),
		etcdconfig.SigningDir, filepath.Join(c.dir, "token"),
		"0.0.0.0:2379", fmt.Sprintf("127.0.0.1:%d", m.client),
		"0.0.0.0:2380", fmt.Sprintf("127.0.0.1:%d", m.peer),
		"0.0.0.0:2381", fmt.Sprintf("127.0.0.1:%d", m.metrics),
		"0.0.0.0:2382", fmt.Sprintf("127.0.0.1:%d", m.plain),
	).Replace(text)
}

func (c *testCluster) issue() {
	c.t.Helper()
	var err error
	if c.ca, err = clustertls.NewCA("test", time.Now()); err != nil {
		c.t.Fatal(err)
	}
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	leafs := manifests.Leafs(testName, testNamespace, testDomain)
	for dir, secret := range map[string]string{
		"server": testName + "-server-tls", "peer": testName + "-peer-tls", "client": testName + "-client-tls",
		"operator": testName + "-operator-tls",
	} {
		leaf := leafs[secret]
		if dir == "peer" {
			leaf.IPs = loopback
		}
		pair, err := clustertls.Issue(c.ca, leaf, time.Now())
		if err != nil {
			c.t.Fatal(err)
		}
		path := filepath.Join(c.dir, dir)
		for name, raw := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": c.ca.Cert} {
			c.write(filepath.Join(path, name), raw)
		}
	}
}

func (c *testCluster) write(path string, raw []byte) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// start runs members as the gate would have let them.
func (c *testCluster) start(d gate.Decision, members ...*testMember) {
	c.t.Helper()
	for _, m := range members {
		path := filepath.Join(c.dir, m.Name+".yaml")
		c.write(path, []byte(gate.FinishConfig(m.config, d, false)))
		log, err := os.Create(filepath.Join(c.dir, m.Name+".log"))
		if err != nil {
			c.t.Fatal(err)
		}
		m.cmd = exec.Command(c.binary, "--config-file="+path) //nolint:noctx // It ends with the test, see below.
		m.cmd.Stderr, m.cmd.Stdout = log, log
		if err := m.cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		cmd := m.cmd
		c.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = log.Close()
			if c.t.Failed() {
				raw, _ := os.ReadFile(log.Name())
				c.t.Logf("%s: ...%s", m.Name, raw[max(0, len(raw)-3000):])
			}
		})
	}
}

func (c *testCluster) kill(m *testMember) {
	c.t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = m.cmd.Wait()
}

// end ends a member the way its pod does: it hands leadership over.
func (c *testCluster) end(m *testMember) {
	c.t.Helper()
	if err := m.cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	_ = m.cmd.Wait()
}

// dialAs connects a client to a member, with the certificate of users or without TLS.
func (c *testCluster) dialAs(m *testMember, secure bool, password string) *clientv3.Client {
	c.t.Helper()
	cfg := clientv3.Config{
		Endpoints: []string{fmt.Sprintf("http://127.0.0.1:%d", m.client)}, DialTimeout: 2 * time.Second, Logger: zap.NewNop(),
	}
	if secure {
		cfg.Endpoints, cfg.TLS = []string{fmt.Sprintf("https://127.0.0.1:%d", m.client)}, c.tlsOf("client")
	}
	if password != "" {
		cfg.Username, cfg.Password = model.RootUser, password
	}
	w, err := clientv3.New(cfg)
	if err != nil {
		cfg.Username = "" // Only the first authentication can fail; without it, calls do.
		cfg.Password = ""
		if w, err = clientv3.New(cfg); err != nil {
			c.t.Error(err)
		}
	}
	return w
}

// tls returns the configuration of a client that shows the named certificate.
func (c *testCluster) tls(who string) *tls.Config {
	c.t.Helper()
	if c.tlsMode == v1alpha1.TLSDisabled {
		return nil
	}
	return c.tlsOf(who)
}

func (c *testCluster) tlsOf(who string) *tls.Config {
	c.t.Helper()
	cert, err := tls.LoadX509KeyPair(filepath.Join(c.dir, who, "tls.crt"), filepath.Join(c.dir, who, "tls.key"))
	if err != nil {
		c.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca.Cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}
}

// as returns a client of a member that shows the named certificate and uses the given password.
func (c *testCluster) as(who, password string, m *testMember) *etcdclient.Client {
	c.t.Helper()
	client := etcdclient.New(etcdclient.Config{
		Host: fmt.Sprintf("%s.%s-peers.%s.svc.%s", m.Name, testName, testNamespace, testDomain),
		TLS:  c.tls(who), Password: password, SigningKey: testSigningKey,
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", m.client))
		},
		Now: func() time.Time { return time.Now().Add(c.later) },
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, ok func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err := ok(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
