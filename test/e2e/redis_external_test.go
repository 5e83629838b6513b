package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// balancers are the addresses that the test gives to load balancers: they are for documentation, and lead nowhere by themselves
// (RFC 5737).
const balancers = "198.51.100."

// outsider is a cluster client that runs outside of Kubernetes, in the process of the test. It writes one key after another, each
// once, and remembers what was acknowledged.
type outsider struct {
	c    *goredis.ClusterClient
	name string
	stop context.CancelFunc
	done sync.WaitGroup
	// mu guards what follows.
	mu     sync.Mutex
	acked  int
	failed int
	last   string
	stall  time.Duration
}

// goOutside connects with what is in the connection Secret, and begins to write. Only addresses of documentation and of nodes count
// as outside: one of a pod or a Service would be reached from nowhere else.
func goOutside(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, name string) *outsider {
	t.Helper()
	data := s.secretOf(ctx, t, cluster.ConnectionSecret(c.Name))
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data["ca.crt"]) {
		t.Fatal("the connection Secret has no authority")
	}
	ctx, stop := context.WithCancel(ctx)
	o := &outsider{name: name, stop: stop, c: goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs:    strings.Split(string(data["external-nodes"]), ","),
		Username: string(data["username"]), Password: string(data["password"]),
		TLSConfig:    &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		MaxRedirects: 20, MinRetryBackoff: 50 * time.Millisecond,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	o.done.Go(func() { o.write(ctx) })
	t.Cleanup(func() { o.stop(); o.done.Wait(); _ = o.c.Close() })
	return o
}

func (o *outsider) key(i int) string { return fmt.Sprintf("%s-%d", o.name, i) }

func (o *outsider) write(ctx context.Context) {
	last := time.Now()
	for ctx.Err() == nil {
		err := o.c.Set(ctx, o.key(o.acked), "x", 0).Err()
		o.mu.Lock()
		switch {
		case err == nil:
			o.acked++
			o.stall = max(o.stall, time.Since(last))
			last = time.Now()
		case ctx.Err() == nil:
			o.failed++
			o.last = err.Error()
		}
		o.mu.Unlock()
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (o *outsider) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.acked
}

// goesOn waits until the client has written more.
func (o *outsider) goesOn(ctx context.Context, t *testing.T) {
	t.Helper()
	want := o.count() + 200
	must(t, harness.Eventually(ctx, "the client outside to go on", time.Minute, func(context.Context) (bool, string, error) {
		return o.count() >= want, o.last, nil
	}))
}

// end stops the client, looks for everything that was acknowledged to it, and prints what came of it.
func (o *outsider) end(ctx context.Context, t *testing.T, what string) {
	t.Helper()
	o.goesOn(ctx, t)
	o.stop()
	o.done.Wait()
	lost := 0
	for i := range o.acked {
		if n, err := o.c.Exists(ctx, o.key(i)).Result(); err != nil || n != 1 {
			lost++
		}
	}
	_ = o.c.Close()
	figure(t, "outside, %s: %d acknowledged, %d failed, %d lost, longest stall %.2f s", what, o.acked, o.failed, lost, o.stall.Seconds())
	if lost > 0 {
		t.Errorf("%d acknowledged writes are lost", lost)
	}
	if o.failed > 0 {
		t.Logf("the last that failed: %s", o.last)
	}
}

// TestRedisIsReachedByNodePorts has a client outside write while external access is on, a primary is lost and shards come and go.
func TestRedisIsReachedByNodePorts(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.RedisCluster
	feature := features.New("node ports").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, c)
		})).
		Assess("they are opened under load", step(func(ctx context.Context, t *testing.T, s *scope) {
			l := startLoad(ctx, t, s, c)
			before := s.pods(ctx, t, c)
			began := time.Now()
			openTo(ctx, t, s, c, &v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort}, 6)
			figure(t, "all servers announce their node ports after %.0f s", time.Since(began).Seconds())
			summary := stopLoad(ctx, t, l, "node ports opened: ")
			nothingLost(t, summary)
			noErrors(t, summary)
			sameServers(t, before, s.pods(ctx, t, c))
		})).
		Assess("a primary is lost", step(func(ctx context.Context, t *testing.T, s *scope) {
			o := goOutside(ctx, t, s, c, "lost")
			o.goesOn(ctx, t)
			primary := refresh(ctx, t, s, c).Status.Shards[0].Primary
			pod := s.pods(ctx, t, c)[slices.IndexFunc(s.pods(ctx, t, c), func(p corev1.Pod) bool { return p.Name == primary })]
			deletePods(ctx, t, s, pod)
			waitReady(ctx, t, s, c)
			o.end(ctx, t, "a primary's pod is deleted")
		}))
	for _, shards := range []int32{4, 3} {
		feature.Assess(fmt.Sprintf("to %d shards", shards), step(func(ctx context.Context, t *testing.T, s *scope) {
			o := goOutside(ctx, t, s, c, fmt.Sprintf("shards-%d", shards))
			reshard(ctx, t, s, c, shards)
			waitReady(ctx, t, s, c)
			wantOutside(ctx, t, s, c, 2*int(shards))
			o.end(ctx, t, fmt.Sprintf("to %d shards", shards))
		}))
	}
	feature.Assess("they are closed under load", step(func(ctx context.Context, t *testing.T, s *scope) {
		l := startLoad(ctx, t, s, c)
		before := s.pods(ctx, t, c)
		openTo(ctx, t, s, c, nil, 0)
		must(t, harness.Eventually(ctx, "the Services to go", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
			left := s.externalServices(ctx, t, c)
			return len(left) == 0, fmt.Sprintf("%d are left", len(left)), nil
		}))
		summary := stopLoad(ctx, t, l, "node ports closed: ")
		nothingLost(t, summary)
		noErrors(t, summary)
		sameServers(t, before, s.pods(ctx, t, c))
	}))
	suite.Test(t, feature.Feature())
}

// TestRedisIsReachedByLoadBalancers plays the provider: it gives every Service an address, and routes that to a node, which answers
// for it.
func TestRedisIsReachedByLoadBalancers(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.RedisCluster
	feature := features.New("load balancers").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1)
			c.Spec.Engine, c.Spec.Version = new(v1alpha1.RedisEngine), s.version(t, "VALKEY_9_1")
			*c.Spec.Engine = v1alpha1.EngineValkey
			c.Spec.ExternalAccess = &v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalLoadBalancer}
			s.create(ctx, t, c)
		})).
		Assess("the cluster serves while it waits for them", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, harness.WaitCondition(ctx, s.Cluster, c, metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue}, readyTimeout))
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a word about the load balancers", Within: readyTimeout}, func(c *v1alpha1.RedisCluster) (bool, string) {
				return strings.Contains(c.Status.Activity, "has no load balancer yet"), c.Status.Activity
			}))
			writeMarks(ctx, t, s, c)
		})).
		Assess("clients outside come through them", step(func(ctx context.Context, t *testing.T, s *scope) {
			s.provide(ctx, t, c)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "all endpoints", Within: 4 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
				return len(c.Status.ExternalEndpoints) == 6, c.Status.Activity
			}))
			waitReady(ctx, t, s, c)
			wantOutside(ctx, t, s, c, 6)
			o := goOutside(ctx, t, s, c, "balanced")
			o.goesOn(ctx, t)
			primary := refresh(ctx, t, s, c).Status.Shards[1].Primary
			pod := s.pods(ctx, t, c)[slices.IndexFunc(s.pods(ctx, t, c), func(p corev1.Pod) bool { return p.Name == primary })]
			deletePods(ctx, t, s, pod)
			waitReady(ctx, t, s, c)
			o.end(ctx, t, "through load balancers, a primary's pod is deleted")
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// TestReplicatedRedisIsReachedByNodePorts has an ordinary client outside write to the primary.
func TestReplicatedRedisIsReachedByNodePorts(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.RedisCluster
	feature := features.New("a node port of the primary").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(e *v1alpha1.RedisClusterSpec) {
				e.Mode, e.Shards = new(v1alpha1.RedisMode), 0
				*e.Mode = v1alpha1.RedisReplicated
				e.ExternalAccess = &v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort}
			})
			createReady(ctx, t, s, c)
		})).
		Assess("it is reached by what the connection Secret says", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "all endpoints", Within: 4 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
				return len(c.Status.ExternalEndpoints) == 2, c.Status.Activity
			}))
			waitReady(ctx, t, s, c)
			data := s.secretOf(ctx, t, cluster.ConnectionSecret(c.Name))
			o, err := goredis.ParseURL(string(data["external-uri"]))
			must(t, err)
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(data["ca.crt"])
			o.TLSConfig.RootCAs = pool
			client := goredis.NewClient(o)
			defer func() { _ = client.Close() }()
			must(t, client.Set(ctx, "outside", "in", 0).Err())
			if got, err := client.Get(ctx, "outside").Result(); err != nil || got != "in" {
				t.Errorf("%q, %v", got, err)
			}
			figure(t, "the primary is reached at %s", o.Addr)
		}))
	suite.Test(t, feature.Feature())
}

// openTo changes external access and waits until all servers announce it.
func openTo(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, access *v1alpha1.RedisExternalAccess, endpoints int) {
	t.Helper()
	change(ctx, t, s, c, func() { c.Spec.ExternalAccess = access })
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "all endpoints", Within: 4 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
		return c.Status.ObservedGeneration == c.Generation && len(c.Status.ExternalEndpoints) == endpoints, c.Status.Activity
	}))
	waitReady(ctx, t, s, c)
	if access != nil {
		wantOutside(ctx, t, s, c, endpoints)
	}
}

// wantOutside insists that every endpoint sends clients to the endpoints and to nothing else, and proves itself by its certificate.
func wantOutside(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, endpoints int) {
	t.Helper()
	data := s.secretOf(ctx, t, cluster.ConnectionSecret(c.Name))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data["ca.crt"])
	nodes := strings.Split(string(data["external-nodes"]), ",")
	if len(nodes) != endpoints {
		t.Errorf("the connection Secret has the endpoints %v, want %d", nodes, endpoints)
	}
	for _, node := range nodes {
		one := goredis.NewClient(&goredis.Options{
			Addr: node, Username: string(data["username"]), Password: string(data["password"]), TLSConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		})
		slots, err := one.ClusterSlots(ctx).Result() //nolint:staticcheck // It is what clients ask.
		_ = one.Close()
		if err != nil {
			t.Errorf("%s: %v", node, err)
		}
		for _, r := range slots {
			for _, n := range r.Nodes {
				if !slices.Contains(nodes, n.Addr) {
					t.Errorf("%s sends clients to %s, which is none of %v", node, n.Addr, nodes)
				}
			}
		}
	}
}

// sameServers insists that no pod was replaced and no server restarted.
func sameServers(t *testing.T, before, after []corev1.Pod) {
	t.Helper()
	for i := range before {
		if i >= len(after) || after[i].UID != before[i].UID || after[i].Status.ContainerStatuses[0].RestartCount != before[i].Status.ContainerStatuses[0].RestartCount {
			t.Errorf("pod %s was restarted", before[i].Name)
		}
	}
}

// externalServices are the Services that lead to single pods.
func (s *scope) externalServices(ctx context.Context, t *testing.T, c *v1alpha1.RedisCluster) []corev1.Service {
	t.Helper()
	var list corev1.ServiceList
	must(t, s.List(ctx, &list, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: c.Name}))
	return slices.DeleteFunc(list.Items, func(v corev1.Service) bool { return v.Spec.Selector["statefulset.kubernetes.io/pod-name"] == "" })
}

// provide gives every load balancer an address, and leads it to a node.
func (s *scope) provide(ctx context.Context, t *testing.T, c *v1alpha1.RedisCluster) {
	t.Helper()
	var nodes corev1.NodeList
	must(t, s.List(ctx, &nodes))
	via := ""
	for _, a := range nodes.Items[0].Status.Addresses {
		if a.Type == corev1.NodeInternalIP && net.ParseIP(a.Address).To4() != nil {
			via = a.Address
		}
	}
	for i, v := range s.externalServices(ctx, t, c) {
		address := fmt.Sprintf("%s%d", balancers, 10+i)
		if out, err := exec.CommandContext(ctx, "ip", "route", "replace", address, "via", via).CombinedOutput(); err != nil {
			t.Fatalf("ip route replace %s via %s: %v: %s", address, via, err, out)
		}
		t.Cleanup(func() { _ = exec.CommandContext(context.WithoutCancel(ctx), "ip", "route", "del", address).Run() })
		before := v.DeepCopy()
		v.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		must(t, s.Status().Patch(ctx, &v, client.MergeFrom(before)))
	}
}
