package redisclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis"
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
	idle redis.Idle
	// hungFor is for how long servers that hang have done so.
	hungFor time.Duration
	// processes are what was seen of the servers; nil: nothing is remembered.
	processes redis.Processes
	// disks are the volumes of pods that have left, by name.
	disks map[string]string
	// ephemeral says that the pods have no volumes, and assignEmpty that a lost shard is served empty.
	ephemeral, assignEmpty bool
	// change guards pods and their addresses against a client that runs meanwhile.
	change   sync.RWMutex
	accounts map[string]redis.AccountClaim
	// appointed and roles are what Kubernetes knows of the roles in the mode Replicated.
	appointed redis.Appointment
	candidate redis.FailoverCandidate
	failed    redis.FailedHandOvers
	roles     map[string]string
	// outside is where pods are to be reached from outside, by name, and open where they are.
	outside, open map[string]*door
	// rebalance says by what slots are divided, samples are what they weighed first and last, and proposal is what was proposed because
	// of it.
	rebalance redis.Rebalance
	samples   []redis.Sample
	proposal  *redis.Proposal
	// front stands between the operator and a server, nil: nothing does.
	front func(p *process, server net.Conn) net.Conn
	// neighbour is the other cluster that the operator knows; nil: there is none.
	neighbour *world
	// ids are the node ids in the status of the resource.
	ids []string
	// leaves are parameters that the loop does not compare, because a test simulates a fault with them.
	leaves []string
}

type process struct {
	name, ip, dir  string
	shard, ordinal int
	cmd            *exec.Cmd
	gate           string
	started, ended time.Time // the process, and the one before it
	// version of the template that the pod was made from.
	version string
	// stuck says why the pod cannot start.
	stuck string
	// limit of the memory of the pod's container.
	limit int64
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
		pods:   map[string]*process{}, guarded: map[int]bool{}, sets: map[int]int{}, disks: map[string]string{}, idle: redis.Idle{},
		passwords: map[string]string{
			redis.PasswordDefault: `cl"ient\ pass'word`, redis.PasswordOperator: "operator-secret", redis.PasswordReplication: `repl "\x41`,
			redis.PasswordMigration: "migration-secret",
		},
		cluster: &v1alpha1.RedisCluster{Spec: v1alpha1.RedisClusterSpec{
			Engine: &e, Version: server.Version, Shards: shards, ReplicasPerShard: &replicas, TLS: &v1alpha1.TLSSpec{Mode: &mode},
			Config: &v1alpha1.RedisConfig{NodeTimeout: &metav1.Duration{Duration: nodeTimeout}, Extra: map[string]v1alpha1.ConfigValue{
				"hz": "20", "client-output-buffer-limit": "replica 256mb 64mb 60", "notify-keyspace-events": "KEA",
			}},
		}},
	}
	w.cluster.Name, w.cluster.Namespace = name, "shop"
	w.given.Store(w.passwords[redis.PasswordDefault])
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

func (w *world) newIP(p *process) {
	w.change.Lock()
	defer w.change.Unlock()
	w.nextIP++
	p.ip = fmt.Sprintf("%s.%d", w.subnet, w.nextIP)
}

// kill ends a server as kill -9 does.
func (w *world) kill(p *process) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd, p.ended = nil, time.Now()
}

// terminate ends a server as the deletion of its pod does.
func (w *world) terminate(pods ...*process) {
	w.t.Helper()
	for _, p := range pods {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, p := range pods {
		_ = p.cmd.Wait()
		p.cmd, p.ended = nil, time.Now()
	}
}

// recreate starts the successor of a deleted pod: it has another address, and the volume unless it is lost.
func (w *world) recreate(p *process, loseDisk bool) {
	w.t.Helper()
	w.newIP(p)
	w.recreateAt(p, p.ip, loseDisk)
}

// recreateAt does so at an address that another server may have had before.
func (w *world) recreateAt(p *process, ip string, loseDisk bool) {
	w.t.Helper()
	if loseDisk {
		p.dir = w.t.TempDir()
	}
	w.change.Lock()
	p.ip = ip
	w.change.Unlock()
	w.start(p)
}

// start does what the gate and then the server's container do.
func (w *world) start(p *process) {
	w.t.Helper()
	nodes, err := os.ReadFile(filepath.Join(p.dir, redis.NodesFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(p.dir, redis.AppendDir, "*.manifest"))
	if err != nil {
		w.t.Fatal(err)
	}
	disk := redis.Disk{Nodes: string(nodes), Data: len(manifests) > 0, Server: redis.Software{Engine: w.cluster.Spec.ServerEngine(), Version: w.cluster.Spec.Version}}
	if disk.Data {
		disk.Writer = w.writerOf(p, manifests[0])
	}
	decision := w.gate(disk)
	p.gate = decision.Message
	if !decision.Start {
		w.t.Fatalf("the gate holds %s: %s", p.name, decision.Message)
	}
	if decision.Retire {
		if err := os.Remove(filepath.Join(p.dir, redis.NodesFile)); err != nil {
			w.t.Fatal(err)
		}
	}
	if decision.SetAside {
		if err := os.RemoveAll(filepath.Join(p.dir, redis.AppendDir)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.writeFiles(p, decision.Admit)
	p.version, p.limit = w.cluster.Spec.Version, redis.MemoryLimit(w.cluster.Spec.Resources)
	w.run(p)
}

// writerOf reads which server wrote what lies on the volume of a pod.
func (w *world) writerOf(p *process, manifest string) redis.Software {
	w.t.Helper()
	text, err := os.ReadFile(manifest)
	if err != nil {
		w.t.Fatal(err)
	}
	head, err := os.ReadFile(filepath.Join(p.dir, redis.AppendDir, redis.BaseFile(string(text))))
	if err != nil {
		w.t.Fatal(err)
	}
	writer := redis.RDBWriter(head)
	if writer.Version == "" {
		w.t.Errorf("%s does not tell who wrote it: %q", manifest, head[:min(len(head), 64)])
	}
	return writer
}

// run starts the process alone, as a restart in place does.
func (w *world) run(p *process) {
	w.t.Helper()
	p.cmd = exec.CommandContext(context.Background(), w.binary, filepath.Join(p.dir, redis.ConfigKey)) //nolint:usetesting // killed in Cleanup
	p.started = time.Now()
	stores.Start(w.t, p.cmd, filepath.Join(p.dir, "server.log"))
}

func (w *world) writeFiles(p *process, admit bool) {
	w.t.Helper()
	common, err := redis.Config(&w.cluster.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := redis.PodConfig(common, redis.PodFacts{
		Name: p.name, IP: p.ip, Host: w.host(p.name), Engine: string(w.cluster.Spec.ServerEngine()), Version: w.cluster.Spec.Version,
		ReplicationPassword: w.access().ReplicationPassword(p.name),
		Announcement:        w.announcement(p.name), Replicated: w.cluster.Spec.IsReplicated(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	// The paths of a pod become those of the test. bind keeps the servers of one machine apart.
	config = strings.NewReplacer("/run/quorate", p.dir, "dir /data", "dir "+p.dir, "/etc/quorate/tls", p.dir).Replace(config) +
		"bind " + p.ip + "\nbind-source-addr " + p.ip + "\n"
	users, err := w.access().Users(p.name, redis.Software{Engine: w.cluster.Spec.ServerEngine(), Version: w.cluster.Spec.Version})
	if err != nil {
		w.t.Fatal(err)
	}
	for name, text := range map[string]string{
		redis.ConfigKey: config, redis.UsersFile: redis.UsersText(users, admit),
		"tls.crt": string(w.leaf.Cert), "tls.key": string(w.leaf.Key), "ca.crt": string(w.ca.Cert),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) access() *redis.Access {
	return &redis.Access{Passwords: w.passwords, Replicated: w.cluster.Spec.IsReplicated()}
}

func (w *world) host(pod string) string {
	return cluster.PodHost(pod, w.cluster.Name, w.cluster.Namespace, domain)
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

func (w *world) connect(p *process) *redisclient.Client {
	dial := w.dial(p)
	return redisclient.New(redisclient.Options{
		Replicated: w.cluster.Spec.IsReplicated(),
		Logins:     append([]redisclient.Login{{Username: redis.UserOperator, Password: w.passwords[redis.PasswordOperator]}}, w.others...),
		TLS:        w.tlsFor(p.name),
		Dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			if err == nil && w.front != nil {
				conn = w.front(p, conn)
			}
			return conn, err
		},
	})
}

// mover connects as the user that moves keys.
func (w *world) mover(p *process) *redisclient.Client {
	return redisclient.NewMover(redisclient.Options{
		Logins: []redisclient.Login{{Username: redis.UserMigration, Password: w.passwords[redis.PasswordMigration]}}, TLS: w.tlsFor(p.name),
		Dial: w.dial(p),
	})
}

// address is where a server listens now.
func (w *world) address(p *process) redis.Address {
	w.change.RLock()
	defer w.change.RUnlock()
	return redis.Address{IP: p.ip, Port: redis.ClientPort}
}

// dial connects to where a server listens now. A client may go on connecting when the pod has another address.
func (w *world) dial(p *process) func(context.Context) (net.Conn, error) {
	addr := w.address(p).String()
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
}

// drop ends the servers of a shard, as the deletion of its StatefulSet does.
func (w *world) drop(shard int) {
	w.t.Helper()
	var gone []*process
	w.change.Lock()
	delete(w.sets, shard)
	for name, p := range w.pods {
		if p.shard == shard {
			gone = append(gone, p)
			delete(w.pods, name)
		}
	}
	w.change.Unlock()
	w.terminate(gone...)
}

// observe is what the controller does.
func (w *world) observe(ctx context.Context) redis.State {
	spec := w.cluster.Spec
	certificate := ""
	if w.secure() {
		certificate = clustertls.LeafFingerprint(w.leaf.Cert)
	}
	s := redis.State{Now: time.Now(), Accounts: w.accounts, Spec: redis.Spec{
		Name: w.cluster.Name, Namespace: w.cluster.Namespace, Shards: spec.ShardCount(), Replicated: spec.IsReplicated(), Replicas: spec.Replicas(), Version: spec.Version, Persistent: !w.ephemeral, AssignEmpty: w.assignEmpty,
		NodeTimeout: redis.NodeTimeout(spec.Config), ReplaceDead: spec.Recovery.ReplacesDead(), Access: w.access(), HandedOut: true, Hold: hold,
		MemoryLimit: redis.MemoryLimit(spec.Resources), MinReplicas: redis.MinReplicas(&spec),
		Certificate: certificate, Rebalance: w.rebalance,
	}}
	live, err := redis.LiveConfig(&spec)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range w.leaves {
		delete(live, name)
	}
	s.Spec.Live, s.Spec.LiveNames = live, redis.LiveNames(spec.Config)
	for shard := range w.sets {
		s.Sets = append(s.Sets, redis.Set{Shard: shard, Replicas: w.sets[shard], Guarded: w.guarded[shard]})
	}
	s.Appointed, s.Candidate, s.FailedHandOvers = w.appointed, w.candidate, w.failed
	s.Doors, s.Exposed = w.doors(), w.exposed()
	for _, p := range w.pods {
		pod := redis.Pod{
			Role: w.roles[p.name],
			Name: p.name, UID: p.name + "/" + p.ip, Shard: p.shard, Ordinal: p.ordinal, Addr: redis.Address{IP: p.ip, Port: redis.ClientPort}, Gate: p.gate,
			Outdated: p.version != w.cluster.Spec.Version, HasRun: true, Stuck: p.stuck, Ended: p.ended,
			MemoryLimit: p.limit, Resize: redis.Resizing{Wanted: p.limit != redis.MemoryLimit(spec.Resources)},
		}
		if !spec.IsReplicated() {
			pod.Announce = w.announcement(p.name).Parameters(w.host(p.name), p.ip)
			pod.Announce["cluster-preferred-endpoint-type"] = redis.Endpoint(&spec, w.announcement(p.name))
		}
		if p.cmd != nil {
			pod.Started = p.started
			c := w.connect(p)
			asked := time.Now()
			node, err := c.Read(ctx)
			pod.Node, pod.Ready = node, err == nil
			if err == nil {
				pod.Clock = anomaly.ClockOf(p.name, node.Clock, time.Microsecond, asked, time.Now())
			} else {
				pod.Error, pod.Hangs, pod.HungFor = err.Error(), errors.Is(err, redis.ErrHangs), w.hungFor
			}
			_ = c.Close()
		}
		s.Pods = append(s.Pods, pod)
		if !w.ephemeral {
			s.Claims = append(s.Claims, redis.Claim{Name: "data-" + p.name, UID: p.dir, Shard: p.shard, Ordinal: p.ordinal})
		}
	}
	s.Neighbours = w.neighbours()
	w.weigh(ctx, &s)
	w.idle.Watch(&s)
	if w.processes != nil {
		w.processes.Watch(&s)
	}
	return s
}

func (w *world) act(ctx context.Context, step cluster.Step) error {
	w.processes.Stand(step, time.Now())
	if g, ok := step.(redis.Guard); ok {
		for _, shard := range g.Protect {
			w.guarded[shard] = true
		}
		for _, shard := range g.Release {
			delete(w.guarded, shard)
		}
		return nil
	}
	switch s := step.(type) {
	case redis.Appoint:
		w.appoint(s)
		return nil
	case redis.AssignRoles:
		w.assign(s)
		return nil
	case redis.ResizePod:
		w.pods[s.Pod.Name].limit = redis.MemoryLimit(w.cluster.Spec.Resources)
		return nil
	case redis.MoveSlots:
		var errs []error
		for _, m := range s.Moves {
			from, to := w.mover(w.pods[m.From]), w.mover(w.pods[m.To])
			end := time.Now().Add(s.For)
			done, err := m.Run(ctx, from, to, func() bool { return time.Now().Before(end) })
			w.steps = append(w.steps, fmt.Sprintf("%s to %s: %+v %v", m.From, m.To, done, err))
			_, _ = from.Close(), to.Close()
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	case redis.MoverStep:
		pod, _ := s.Server()
		m := w.mover(w.pods[pod])
		defer func() { _ = m.Close() }()
		return s.Run(ctx, m)
	case redis.Withdraw:
		w.withdraw(s)
		return nil
	case redis.DropShard:
		w.drop(s.Shard)
	case redis.ScaleShards:
		return w.scale(s) //nolint:contextcheck // Servers outlive the step.
	case redis.End:
		w.end(s.Pods) //nolint:contextcheck // Servers outlive the step.
		return nil
	case redis.Restart:
		w.restart(s) //nolint:contextcheck // Servers outlive the step.
	case redis.ReplaceDisk:
		w.terminate(w.pods[s.Pod.Name])
		w.recreate(w.pods[s.Pod.Name], true) //nolint:contextcheck // Servers outlive the step.
		return nil
	case redis.Failover:
		former, heir := w.connect(w.pods[s.From]), w.connect(w.pods[s.To])
		defer func() { _, _ = former.Close(), heir.Close() }()
		return s.Run(ctx, former, heir)
	case redis.RotatePasswords:
		w.passwords = s.Apply(w.passwords, time.Now())
		w.given.Store(w.passwords[redis.PasswordDefault])
		return nil
	}
	s, ok := step.(redis.ServerStep)
	if !ok {
		return fmt.Errorf("unexpected step %s", step)
	}
	err := w.tell(ctx, s)
	w.failed.Note(step, err, time.Now())
	return err
}

// tell sends the commands of a step to the servers.
func (w *world) tell(ctx context.Context, s redis.ServerStep) error {
	for _, call := range s.Calls() {
		c := w.connect(w.pods[call.Pod])
		_, err := c.Read(ctx) // As the controller does: this finds out who the server lets in.
		if err == nil {
			err = call.Do(ctx, c)
		}
		_ = c.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", call.Pod, err)
		}
	}
	return nil
}

// settle runs the loop until nothing is left to do, and returns how long it took.
func (w *world) settle() time.Duration {
	w.t.Helper()
	return w.settleUntil("")
}

// refuseReplicas keeps a primary from sending its data to new replicas, as a full disk might, until it starts anew.
func (w *world) refuseReplicas(p *process) {
	w.t.Helper()
	w.leaves = append(w.leaves, "repl-diskless-sync-delay")
	if err := w.do(p, "CONFIG", "SET", "repl-diskless-sync-delay", 3600); err != nil {
		w.t.Fatal(err)
	}
}

// do sends a command as a client that may do anything.
func (w *world) do(p *process, args ...any) error {
	w.t.Helper()
	c := w.client(p)
	defer func() { _ = c.Close() }()
	return c.Do(w.t.Context(), args...).Err()
}

// settleUntil runs the loop until the plan has a reason; the empty one is that of a settled cluster.
func (w *world) settleUntil(reason string) time.Duration {
	w.t.Helper()
	const limit = 2 * time.Minute
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	started := time.Now()
	var last cluster.Plan
	for ctx.Err() == nil {
		p := redis.Next(w.observe(ctx))
		if p.Message != last.Message {
			w.steps = append(w.steps, fmt.Sprintf("%6s %s: %s", time.Since(started).Round(time.Millisecond), p.Reason, p.Message))
		}
		last = p
		if p.Step == nil && p.Reason == reason {
			return time.Since(started)
		}
		if p.Step != nil {
			if err := w.act(ctx, p.Step); err != nil {
				w.steps = append(w.steps, err.Error())
			}
		}
		pause(ctx, max(p.After, 20*time.Millisecond))
	}
	w.t.Errorf("not settled within %s; the last plan was %s: %s\n%s", limit, last.Reason, last.Message, strings.Join(w.steps, "\n"))
	for _, p := range w.pods {
		log, _ := os.ReadFile(filepath.Join(p.dir, "server.log"))
		w.t.Logf("log of %s (%s):\n%s", p.name, p.ip, log[max(0, len(log)-2000):])
	}
	w.t.FailNow()
	return 0
}

// nodeID is the identity of a server that runs.
func (w *world) nodeID(p *process) string {
	w.t.Helper()
	for _, pod := range w.observe(w.t.Context()).Pods {
		if pod.Name == p.name && pod.Node != nil {
			return pod.Node.ID
		}
	}
	w.t.Fatalf("%s does not say who it is", p.name)
	return ""
}

// expectNoSuccessor waits until all others agree that a primary is dead, and then for as long as an election takes:
// within a second of the agreement a replica asks for votes, and it waits for them twice the node timeout
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#replica-election-and-promotion). Nobody of
// its shard may win.
func (w *world) expectNoSuccessor(dead *process, id string) {
	w.t.Helper()
	const limit = time.Minute
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	var agreed time.Time
	for ctx.Err() == nil {
		s := w.observe(ctx)
		for _, p := range s.Pods {
			if p.Shard == dead.shard && p.Name != dead.name && p.Node != nil && len(p.Node.Self().Slots) > 0 {
				w.t.Fatalf("%s succeeds %s", p.Name, dead.name)
			}
		}
		switch {
		case agreed.IsZero() && allSeeDead(s, id):
			agreed = time.Now()
		case !agreed.IsZero() && time.Since(agreed) > time.Second+2*nodeTimeout:
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
	w.t.Fatalf("the others do not agree within %s that %s is dead", limit, dead.name)
}

// allSeeDead reports whether every server but the dead one was read and takes that one for dead.
func allSeeDead(s redis.State, dead string) bool {
	alive := 0
	for _, p := range s.Pods {
		if p.Node == nil || p.Node.ID == dead {
			continue
		}
		if peer, ok := p.Node.Peer(dead); !ok || !peer.Failed {
			return false
		}
		alive++
	}
	return alive == len(s.Pods)-1
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
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

// squat starts a server of another cluster at an address.
func (w *world) squat(ip string) {
	w.t.Helper()
	dir := w.t.TempDir()
	foreign := exec.CommandContext(context.Background(), w.binary, "--bind", ip, "--port", "6379", "--cluster-enabled", "yes", //nolint:usetesting // killed in Cleanup
		"--dir", dir, "--requirepass", "foreign", "--protected-mode", "no")
	if err := foreign.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = foreign.Process.Kill()
		_ = foreign.Wait()
	})
}
