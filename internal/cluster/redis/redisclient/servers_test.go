package redisclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/stores"
)

// Servers of all of these engines are tested, with what takes long only the latest Redis and Valkey unless QUORATE_ALL_ENGINES is set, as
// `make test-all` does. QUORATE_SERVERS names the directory that `make test-unit` fills.
var (
	allEngines = []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"}
	engines    = func() []string {
		if os.Getenv("QUORATE_ALL_ENGINES") != "" {
			return allEngines
		}
		return []string{"redis-8.0", "valkey-9.1"}
	}()
)

// someEngines are those of a test that takes minutes: in short runs one of the engines, another one from test to test.
func someEngines(t *testing.T) []string {
	t.Helper()
	if !testing.Short() || len(engines) == len(allEngines) {
		return engines
	}
	one := crc32.ChecksumIEEE([]byte(t.Name())) % uint32(len(engines))
	return engines[one : one+1]
}

// picked tells whether a variant of a test that takes minutes is run with an engine: all of them if there is one or all of them, and else
// another one with each engine.
func picked(some []string, engine, variant int) bool {
	return len(some) == 1 || len(some) == len(allEngines) || engine%2 == variant%2
}

// world is a cluster of real servers on loopback: every "pod" has an address of its own in 127.0.0.0/8 and a directory
// as its volume, and is started the way that the gate and the pod template do it.
type world struct {
	t         *testing.T
	binary    string
	cluster   *v1alpha1.RedisCluster
	subnet    string
	nextIP    int
	pods      map[string]*process
	passwords map[string]string
	given     atomic.Value        // the password in the connection Secret
	others    []redisclient.Login // what the operator connects as when its password is refused
	ca        clustertls.Pair
	leaf      clustertls.Pair
	trusted   []byte                 // the authorities that clients and the operator trust; nil: ca
	sessions  tls.ClientSessionCache // of the operator with the servers; nil: each connection begins one
	steps     []string
	guarded   map[int]bool
	// sets are the numbers of pods of the StatefulSets, by shard.
	sets map[int]int
	// idle is what is remembered of shards that are to go.
	idle history.Idle
	// hungFor is for how long servers that hang have done so.
	hungFor time.Duration
	// processes are what was seen of the servers; nil: nothing is remembered.
	processes history.Processes
	// disks are the volumes of pods that have left, by name.
	disks map[string]string
	// ephemeral says that the pods have no volumes, and assignEmpty that a lost shard is served empty.
	ephemeral, assignEmpty bool
	// change guards pods and their addresses against a client that runs meanwhile.
	change   sync.RWMutex
	accounts map[string]model.AccountClaim
	// appointed and roles are what Kubernetes knows of the roles in the mode Replicated.
	appointed model.Appointment
	candidate model.FailoverCandidate
	failed    model.FailedHandOvers
	roles     map[string]string
	// outside is where pods are to be reached from outside, by name, and open where they are.
	outside, open map[string]*door
	// rebalance says by what slots are divided, samples are what they weighed first and last, and proposal is what was proposed because
	// of it.
	rebalance model.Rebalance
	samples   []balance.Sample
	proposal  *model.Proposal
	// front stands between the operator and a server, nil: nothing does.
	front func(p *process, server net.Conn) net.Conn
	// neighbour is the other cluster that the operator knows; nil: there is none.
	neighbour *world
	// ids are the node ids in the status of the resource.
	ids []string
	// leaves are parameters that the loop does not compare, because a test simulates a fault with them.
	leaves []string
}

const domain = "cluster.local"

// hold is how long former passwords work.
const hold = 3 * time.Second

// nodeTimeout is how long a server may be silent before the others suspect it.
const nodeTimeout = 1500 * time.Millisecond

func newWorld(t *testing.T, engine string, shards, replicas int32, secure bool) *world {
	t.Helper()
	return newWorldOf(t, "carts", engine, shards, replicas, secure)
}

// newWorldOf returns a world whose cluster has a name.
func newWorldOf(t *testing.T, name, engine string, shards, replicas int32, secure bool) *world {
	t.Helper()
	server := stores.Newest(t, engine)
	e, mode := v1alpha1.RedisEngine(server.Name), v1alpha1.TLSManaged
	if !secure {
		mode = v1alpha1.TLSDisabled
	}
	w := &world{
		t: t, binary: server.Program(),
		subnet: fmt.Sprintf("127.%d.%d", 1+rand.IntN(254), rand.IntN(256)),
		pods:   map[string]*process{}, guarded: map[int]bool{}, sets: map[int]int{}, disks: map[string]string{}, idle: history.Idle{},
		passwords: map[string]string{
			acl.PasswordDefault: `cl"ient\ pass'word`, acl.PasswordOperator: "operator-secret", acl.PasswordReplication: `repl "\x41`,
			acl.PasswordMigration: "migration-secret",
		},
		cluster: &v1alpha1.RedisCluster{Spec: v1alpha1.RedisClusterSpec{
			Engine: &e, Version: server.Version, Shards: shards, ReplicasPerShard: &replicas, TLS: &v1alpha1.TLSSpec{Mode: &mode},
			Config: &v1alpha1.RedisConfig{NodeTimeout: &metav1.Duration{Duration: nodeTimeout}, Extra: map[string]v1alpha1.ConfigValue{
				"hz": "20", "client-output-buffer-limit": "replica 256mb 64mb 60", "notify-keyspace-events": "KEA",
			}},
		}},
	}
	w.cluster.Name, w.cluster.Namespace = name, "shop"
	w.given.Store(w.passwords[acl.PasswordDefault])
	w.certify()
	w.ensure()
	t.Cleanup(w.stop) // Before the directories are removed, which is cleaned up last.
	return w
}

// ensure does what the controller and then Kubernetes do: sets get the pods that are asked for at least, and new pods the
// volumes of those of their name.
func (w *world) ensure() (fresh []*process) {
	for shard := range int(w.cluster.Spec.Shards) {
		w.sets[shard] = max(w.sets[shard], 1+w.cluster.Spec.Replicas())
		for ordinal := range w.sets[shard] {
			name := cluster.Pod(cluster.ShardSet(w.cluster.Name, shard), ordinal)
			if w.pods[name] != nil {
				continue
			}
			p := &process{name: name, dir: w.disks[name], shard: shard, ordinal: ordinal}
			if p.dir == "" {
				p.dir = w.t.TempDir()
			}
			w.pods[name] = p
			fresh = append(fresh, p)
		}
	}
	return fresh
}

func (w *world) certify() {
	w.t.Helper()
	var err error
	if w.ca, err = clustertls.NewCA("test", time.Now()); err != nil {
		w.t.Fatal(err)
	}
	w.leaf, err = clustertls.Issue(w.ca, clustertls.Leaf{
		CommonName: w.cluster.Name, DNSNames: []string{"*." + cluster.ServiceHost(cluster.PeersService(w.cluster.Name), w.cluster.Namespace, domain), outsideHost, "*." + outsideHost},
	}, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop() {
	for _, p := range w.pods {
		w.kill(p)
	}
}

func (w *world) startAll() {
	w.t.Helper()
	for _, p := range w.pods {
		w.newIP(p)
		w.start(p)
	}
}

func (w *world) access() *acl.Access {
	return &acl.Access{Passwords: w.passwords, Replicated: w.cluster.Spec.IsReplicated()}
}

func (w *world) secure() bool { return w.cluster.Spec.TLS.TLSMode() != v1alpha1.TLSDisabled }

// tlsFor is the TLS configuration for one server; nil without TLS.
func (w *world) tlsFor(pod string) *tls.Config {
	if !w.secure() {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(append(slices.Clone(w.trusted), w.ca.Cert...))
	return &tls.Config{RootCAs: pool, ServerName: w.host(pod), MinVersion: tls.VersionTLS12, ClientSessionCache: w.sessions}
}

// clients returns a cluster client like that of a user. Names of pods are resolved as the peers Service would.
func (w *world) clients() *goredis.ClusterClient {
	return w.clientsAs(func() (string, string) { return "default", w.given.Load().(string) })
}

func (w *world) clientsAs(who func() (string, string)) *goredis.ClusterClient {
	var addrs []string
	for _, p := range w.pods {
		addrs = append(addrs, w.host(p.name)+":6379")
	}
	var conf *tls.Config
	if w.secure() {
		conf = w.tlsFor("carts-0-0")
		conf.ServerName = ""
	}
	c := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, CredentialsProvider: who,
		MaxRedirects: 20, MinRetryBackoff: 50 * time.Millisecond,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			name, _, _ := strings.Cut(host, ".")
			ip := host
			w.change.RLock()
			if p, ok := w.pods[name]; ok {
				ip = p.ip
			}
			w.change.RUnlock()
			if at, ok := w.enter(host, port); ok {
				ip, port, _ = net.SplitHostPort(at)
			} else if host == outsideHost {
				return nil, closed(network, addr)
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, net.JoinHostPort(ip, port))
			if err != nil || conf == nil {
				return conn, err
			}
			own := conf.Clone()
			own.ServerName = host
			return tls.Client(conn, own), nil
		},
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// The tests write so many keys, over all shards, and this value.
const (
	keys  = 300
	value = "one"
)

func (w *world) write(c *goredis.ClusterClient) {
	w.t.Helper()
	for i := range keys {
		if err := c.Set(w.t.Context(), fmt.Sprintf("key-%d", i), value, 0).Err(); err != nil {
			w.t.Fatalf("write: %v", err)
		}
	}
}

func (w *world) expect(c *goredis.ClusterClient) {
	w.t.Helper()
	for i := range keys {
		got, err := c.Get(w.t.Context(), fmt.Sprintf("key-%d", i)).Result()
		if err != nil || got != value {
			w.t.Fatalf("key-%d is %q (%v), want %q\n%s", i, got, err, value, strings.Join(w.steps, "\n"))
		}
	}
}
