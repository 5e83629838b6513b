package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/connection"
)

func TestEtcdClusterBecomesReady(t *testing.T) {
	t.Parallel()
	c := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
	feature := features.New("the sample of etcd").
		Setup(step(func(_ context.Context, _ *testing.T, s *scope) { c.Namespace = s.ns })).
		Assess("kubectl wait returns", step(func(ctx context.Context, t *testing.T, s *scope) {
			applySample(ctx, t, s, "etcdcluster.yaml")
		})).
		Assess("kubectl get shows it in columns", step(func(ctx context.Context, t *testing.T, s *scope) {
			refresh(ctx, t, s, c)
			wantRow(ctx, t, s, "etcdclusters", map[string]string{
				"NAME": "orders", "SIZE": "3", "VERSION": c.Spec.Version, "READY": "True", "MEMBERS": "3/3", "LEADER": c.Status.Leader,
			})
		})).
		Assess("kubectl explain reads well", step(func(ctx context.Context, t *testing.T, s *scope) {
			wantExplained(ctx, t, s, "etcdcluster.spec", "etcdcluster.status")
		})).
		Assess("the status names every member", step(func(_ context.Context, t *testing.T, _ *scope) { wantMembers(t, c) })).
		Assess("the members are on different nodes", step(func(ctx context.Context, t *testing.T, s *scope) {
			if nodes := nodesOf(s.pods(ctx, t, c)); len(nodes) != 3 {
				t.Errorf("three members are on the nodes %v", nodes)
			}
		})).
		Assess("the connection Secret is all that a client needs", step(func(ctx context.Context, t *testing.T, s *scope) {
			wantBinding(ctx, t, s, c.Name, "etcd")
			writeMarks(ctx, t, s, c)
			checkMarks(ctx, t, s, c)
		})).
		Assess("strangers are refused", step(func(ctx context.Context, t *testing.T, s *scope) { etcdStrangers(ctx, t, s, c) }))
	suite.Test(t, feature.Feature())
}

func TestRedisClusterBecomesReady(t *testing.T) {
	t.Parallel()
	c := &v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "carts"}}
	feature := features.New("the sample of Redis").
		Setup(step(func(_ context.Context, _ *testing.T, s *scope) { c.Namespace = s.ns })).
		Assess("kubectl wait returns", step(func(ctx context.Context, t *testing.T, s *scope) {
			applySample(ctx, t, s, "rediscluster.yaml")
		})).
		Assess("kubectl get shows it in columns", step(func(ctx context.Context, t *testing.T, s *scope) {
			refresh(ctx, t, s, c)
			wantRow(ctx, t, s, "redisclusters", map[string]string{
				"NAME": "carts", "ENGINE": "redis", "VERSION": c.Spec.Version, "SHARDS": "3", "REPLICAS": "1", "READY": "True",
				"NODES": "6/6", "SLOTS": "16384/16384",
			})
		})).
		Assess("kubectl explain reads well", step(func(ctx context.Context, t *testing.T, s *scope) {
			wantExplained(ctx, t, s, "rediscluster.spec", "rediscluster.status")
		})).
		Assess("the status names every shard", step(func(_ context.Context, t *testing.T, _ *scope) { wantShards(t, c) })).
		Assess("primary and replica of a shard are on different nodes", step(func(ctx context.Context, t *testing.T, s *scope) {
			for _, shard := range c.Status.Shards {
				pods := slices.DeleteFunc(s.pods(ctx, t, c), func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, shard.Name+"-") })
				if nodes := nodesOf(pods); len(pods) != 2 || len(nodes) != 2 {
					t.Errorf("%d pods of shard %s are on the nodes %v", len(pods), shard.Name, nodes)
				}
			}
		})).
		Assess("the connection Secret is all that a client needs", step(func(ctx context.Context, t *testing.T, s *scope) {
			wantBinding(ctx, t, s, c.Name, "redis")
			writeMarks(ctx, t, s, c)
			checkMarks(ctx, t, s, c)
		})).
		Assess("strangers are refused", step(func(ctx context.Context, t *testing.T, s *scope) { redisStrangers(ctx, t, s, c) }))
	suite.Test(t, feature.Feature())
}

// applySample does what the README tells users to do.
func applySample(ctx context.Context, t *testing.T, s *scope, file string) {
	t.Helper()
	path := "config/samples/" + file
	began := time.Now()
	_, err := s.Run(ctx, "apply", "--server-side", "-n", s.ns, "-f", path)
	must(t, err)
	_, err = s.Run(ctx, "wait", "--for=condition=Ready", "-n", s.ns, "-f", path, "--timeout="+readyTimeout.String())
	must(t, err)
	figure(t, "kubectl wait returned after %.1f s", time.Since(began).Seconds())
}

// wantRow checks columns of the one row that kubectl get -A prints for the namespace.
func wantRow(ctx context.Context, t *testing.T, s *scope, resource string, want map[string]string) {
	t.Helper()
	out, err := s.Run(ctx, "get", resource, "-A")
	must(t, err)
	lines := strings.Split(out, "\n")
	header := strings.Fields(lines[0])
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, s.ns+" ") })
	if i < 0 {
		t.Fatalf("kubectl get %s -A has no row of %s:\n%s", resource, s.ns, out)
	}
	row := strings.Fields(lines[i])
	fmt.Printf("%s\n%s\n", lines[0], lines[i])
	if len(row) != len(header) || !slices.Contains(header, "AGE") {
		t.Fatalf("columns are empty or missing:\n%s\n%s", lines[0], lines[i])
	}
	for column, value := range want {
		at := slices.Index(header, column)
		if at < 0 || row[at] != value {
			t.Errorf("column %s does not hold %q:\n%s\n%s", column, value, lines[0], lines[i])
		}
	}
}

// wantExplained checks that kubectl explain has words for every field.
func wantExplained(ctx context.Context, t *testing.T, s *scope, paths ...string) {
	t.Helper()
	for _, path := range paths {
		out, err := s.Run(ctx, "explain", path)
		must(t, err)
		if !strings.Contains(out, "FIELDS:") || strings.Contains(out, "<no description>") {
			t.Errorf("kubectl explain %s leaves fields without words:\n%s", path, out)
		}
	}
}

// wantBinding checks the layout of the connection Secret, https://servicebinding.io/spec/core/1.1.0/#well-known-secret-entries.
func wantBinding(ctx context.Context, t *testing.T, s *scope, name, typ string) {
	t.Helper()
	_, secret, err := s.Connection(ctx, s.ns, name)
	must(t, err)
	if string(secret.Data["type"]) != typ || !strings.HasPrefix(string(secret.Type), "servicebinding.io/") {
		t.Errorf("type %q, Secret type %q", secret.Data["type"], secret.Type)
	}
	for _, key := range []string{"provider", "host", "port", "username", "password", "uri", "ca.crt"} {
		if len(secret.Data[key]) == 0 {
			t.Errorf("the connection Secret has no %s", key)
		}
	}
	// Any certificate of the authority of Redis opens the cluster bus; etcd knows clients by theirs.
	for _, key := range []string{"tls.crt", "tls.key"} {
		if has := len(secret.Data[key]) > 0; has != (typ == "etcd") {
			t.Errorf("the connection Secret has %s: %t", key, has)
		}
	}
}

func wantMembers(t *testing.T, c *v1alpha1.EtcdCluster) {
	t.Helper()
	leaders := 0
	for _, m := range c.Status.Members {
		if m.ID == "" || !m.Ready || m.Version != c.Spec.Version || m.Message != "" {
			t.Errorf("member %+v", m)
		}
		if m.Role == v1alpha1.EtcdLeader {
			leaders++
		}
	}
	if len(c.Status.Members) != 3 || leaders != 1 || c.Status.ClusterID == "" || c.Status.Size != 3 {
		t.Errorf("status %+v", c.Status)
	}
}

func wantShards(t *testing.T, c *v1alpha1.RedisCluster) {
	t.Helper()
	for _, shard := range c.Status.Shards {
		roles := map[v1alpha1.RedisRole]int{}
		for _, n := range shard.Nodes {
			roles[n.Role]++
			if n.ID == "" || !n.Ready || n.Version != c.Spec.Version || n.Message != "" {
				t.Errorf("node %+v", n)
			}
		}
		if roles[v1alpha1.RedisPrimary] != 1 || roles[v1alpha1.RedisReplica] != 1 || shard.Slots == "" || shard.Primary == "" {
			t.Errorf("shard %+v", shard)
		}
	}
	if len(c.Status.Shards) != 3 || c.Status.ShardCount != 3 {
		t.Errorf("status %+v", c.Status)
	}
}

func nodesOf(pods []corev1.Pod) []string {
	var nodes []string
	for _, p := range pods {
		if !slices.Contains(nodes, p.Spec.NodeName) {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	return nodes
}

// etcdStrangers checks that etcd talks to nobody without certificate, and answers neither without password nor with a wrong
// one.
func etcdStrangers(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	good, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	nobody, wrong := good, good
	nobody.Username, nobody.Password = "", ""
	wrong.Password = "wrong"
	for who, conn := range map[string]connection.Connection{"without password": nobody, "with a wrong password": wrong} {
		if err := etcdGet(ctx, s, c, conn); err == nil {
			t.Errorf("a client %s is let in", who)
		} else {
			t.Logf("a client %s is refused: %v", who, err)
		}
	}
	must(t, etcdGet(ctx, s, c, good))
	if err := handshake(ctx, s, c.Name+"-0", good, nil); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a client without certificate is not told so: %v", err)
	}
	must(t, handshake(ctx, s, c.Name+"-0", good, good.TLS.Certificates))
}

// handshake opens a TLS connection and says something that the server answers with bytes of whatever kind: a server asks
// for a certificate only after the client thinks that all is well.
func handshake(ctx context.Context, s *scope, pod string, conn connection.Connection, certificates []tls.Certificate) error {
	plain, err := s.Dial(ctx, types.NamespacedName{Namespace: s.ns, Name: pod}, "", 2379)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	if err := plain.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	cfg := conn.TLS.Clone()
	cfg.ServerName, cfg.Certificates = conn.Host, certificates
	secure := tls.Client(plain, cfg)
	if _, err := fmt.Fprintf(secure, "GET /version HTTP/1.1\r\nHost: %s\r\n\r\n", conn.Host); err != nil {
		return err
	}
	_, err = secure.Read(make([]byte, 1))
	return err
}

func etcdGet(ctx context.Context, s *scope, c *v1alpha1.EtcdCluster, conn connection.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := s.Etcd(ctx, s.ns, c.Name+"-0", conn)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = client.Get(ctx, markKey(0))
	return err
}

// redisStrangers checks that Redis answers neither without password, nor with a wrong one, nor in plain text.
func redisStrangers(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	good, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	nobody, wrong, plain := good, good, good
	nobody.Username, nobody.Password = "", ""
	wrong.Password = "wrong"
	plain.TLS = nil
	for who, conn := range map[string]connection.Connection{
		"without password": nobody, "with a wrong password": wrong, "without TLS": plain,
	} {
		if err := redisPing(ctx, s, c, conn); err == nil {
			t.Errorf("a client %s is let in", who)
		} else {
			t.Logf("a client %s is refused: %v", who, err)
		}
	}
	must(t, redisPing(ctx, s, c, good))
}

func redisPing(ctx context.Context, s *scope, c *v1alpha1.RedisCluster, conn connection.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := s.Redis(s.ns, c.Name+"-0-0", conn)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return client.Ping(ctx).Err()
}
