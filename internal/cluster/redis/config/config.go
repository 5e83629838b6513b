package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// Paths inside the pods.
const (

	// ConfigKey is the key of the configuration in the ConfigMap, and the name of the file that the gate makes of it.
	ConfigKey = "redis.conf"
	// UsersFile is the file with the users that the gate writes.
	UsersFile = "users.acl"
)

const defaultNodeTimeout = 5 * time.Second

const (
	// validityFactor bounds, in times of cluster-node-timeout, for how long a replica may have lost
	// its primary and still start an election. Servers get no more time to elect a primary, see
	// facts.Electing.
	validityFactor = 7
	// pingPeriod is what comes on top of it, the default of repl-ping-replica-period.
	pingPeriod = 10 * time.Second
)

// Validity is for how long a replica that has lost the connection to its primary stands for election by itself
// (clusterHandleSlaveFailover in the servers' source). What its primary acknowledges in that time is lost then, although it may be on
// a disk that is about to come back. A longer one is no help: the operator has those elected that followed a primary until it died.
func Validity(nodeTimeout time.Duration) time.Duration {
	return (validityFactor+1)*nodeTimeout + pingPeriod
}

// NodeTimeout is how long a server may be out of reach before the others suspect it.
func NodeTimeout(c *v1alpha1.RedisConfig) time.Duration {
	if c != nil && c.NodeTimeout != nil {
		return c.NodeTimeout.Duration
	}
	return defaultNodeTimeout
}

// OwnedConfigKeys are the parameters that spec.config.extra cannot set: identity, addresses, persistence, users,
// certificates and what would let a client out of the server depend on them. The rule of the CRD lists the same keys.
// A key that ends in "*" stands for all that begin so.
var OwnedConfigKeys = []string{
	"aclfile", "appenddirname", "appendfilename", "appendfsync", "appendonly", "bind*", "cluster-*", "daemonize",
	"dbfilename", "dir", "enable-*", "include", "loadmodule*", "logfile", "master*", "maxmemory",
	"maxmemory-policy", "min-replicas-to-write", "module*", "pidfile", "port", "primary*", "protected-mode", "rdma-*", "rename-command",
	"repl-diskless-sync", "repl-diskless-sync-delay", "replica-announce*", "replica-read-only", "replicaof",
	"requirepass", "save", "sentinel*", "shutdown-*", "slave-announce*", "slave-read-only", "slaveof",
	"supervised", "syslog-*", "tls-*", "unixsocket*", "user*",
}

// OwnsConfigKey reports whether a parameter belongs to the operator.
func OwnsConfigKey(key string) bool {
	return slices.ContainsFunc(OwnedConfigKeys, func(owned string) bool {
		prefix, wild := strings.CutSuffix(owned, "*")
		return key == owned || (wild && strings.HasPrefix(key, prefix))
	})
}

var configKey = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

// directive is one line of redis.conf: a name and its arguments.
type directive struct {
	name string
	args []string
}

// Config renders what all servers of a cluster have in common. Each pod's gate adds what is its own, see PodConfig.
func Config(spec *v1alpha1.RedisClusterSpec) (string, error) {
	lines, err := settings(spec)
	if err != nil {
		return "", err
	}
	return render(slices.DeleteFunc(lines, func(d directive) bool { return d.name == model.MaxMemory && !limitsAtStart(spec.Config) }))
}

// limitsAtStart tells whether servers start with maxmemory. A cache does; any other server is told when it is certain that it does not
// use more, because its writes would fail.
func limitsAtStart(c *v1alpha1.RedisConfig) bool {
	return c != nil && c.MaxMemory != nil && model.EvictsAny(ptr.Deref(c.MaxMemoryPolicy, ""))
}

// StartConfig is the part of it that servers read only when they start.
func StartConfig(spec *v1alpha1.RedisClusterSpec) (string, error) {
	lines, err := settings(spec)
	if err != nil {
		return "", err
	}
	return render(slices.DeleteFunc(lines, func(d directive) bool { return Live(d.name) }))
}

func settings(spec *v1alpha1.RedisClusterSpec) ([]directive, error) {
	lines := append(fixed(spec), transport(spec)...)
	lines = append(lines, tunables(spec.Config)...)
	lines = append(lines, memory(spec)...)
	if spec.IsReplicated() {
		lines = append(lines, fencing(spec.Config)...)
	} else {
		lines = append(lines, writeGuards(spec)...)
	}
	extra, err := extras(spec)
	return append(lines, extra...), err
}

func fixed(spec *v1alpha1.RedisClusterSpec) []directive {
	lines := []directive{
		{"dir", []string{model.DataDir}},
		{"daemonize", []string{"no"}},
		{"protected-mode", []string{"no"}}, // It would refuse everybody but loopback; users guard the server instead.
		{"aclfile", []string{model.RunDir + "/" + UsersFile}},
		// Data and identity share one fate: both lie on the volume. After a copy of its primary a server has its new data
		// on disk only when the rewrite of the file has ended, see model.Node.OnDisk.
		{model.AppendOnly, []string{"yes"}},
		{"appenddirname", []string{model.AppendDir}},
		{"save", []string{""}}, // The append-only file holds everything already.
	}
	if spec.IsReplicated() {
		lines = append(lines, replicatedStart()...)
	} else {
		lines = append(lines, clustered()...)
	}
	return append(lines, []directive{
		{"repl-diskless-sync", []string{"yes"}},
		{"repl-diskless-sync-delay", []string{"0"}}, // Until its first sync a replica protects nothing.
		{"replica-read-only", []string{"yes"}},
		{"masteruser", []string{acl.UserReplication}},
	}...)
}

func clustered() []directive {
	return []directive{
		{"cluster-enabled", []string{"yes"}},
		{"cluster-config-file", []string{model.NodesFile}},
		{"cluster-allow-replica-migration", []string{"no"}}, // A replica belongs to its shard's StatefulSet.
		// Not 0: with 0 a replica that never got its first copy may be elected while its primary restarts, and the
		// primary then throws its data away to copy the emptiness. Nor large: where an old copy is better than none, because
		// nothing else will be back, the operator knows.
		{"cluster-replica-validity-factor", []string{strconv.Itoa(validityFactor)}},
		{"cluster-require-full-coverage", []string{"no"}}, // The other shards serve on when one is lost.
	}
}

func transport(spec *v1alpha1.RedisClusterSpec) []directive {
	if spec.TLS.TLSMode() == v1alpha1.TLSDisabled {
		// Addresses spare clients the lookup of names.
		return []directive{{"port", []string{strconv.Itoa(model.ClientPort)}}, {model.AnnounceEndpoint, []string{model.EndpointIP}}}
	}
	return []directive{
		{"port", []string{"0"}},
		{"tls-port", []string{strconv.Itoa(model.ClientPort)}},
		{"tls-cert-file", []string{model.TLSDir + "/tls.crt"}},
		{"tls-key-file", []string{model.TLSDir + "/tls.key"}},
		{"tls-ca-cert-file", []string{model.TLSDir + "/ca.crt"}},
		{"tls-replication", []string{"yes"}},
		{"tls-cluster", []string{"yes"}},
		{"tls-auth-clients", []string{"optional"}},
		// Clients verify the name they are sent to, and the certificate cannot list addresses that change.
		{model.AnnounceEndpoint, []string{model.EndpointHost}},
	}
}

// tunables are always set, so that a field that is removed takes effect in running servers too.
func tunables(c *v1alpha1.RedisConfig) []directive {
	if c == nil {
		c = &v1alpha1.RedisConfig{}
	}
	return []directive{
		{"cluster-node-timeout", []string{strconv.FormatInt(NodeTimeout(c).Milliseconds(), 10)}},
		{"maxmemory-policy", []string{ptr.Deref(c.MaxMemoryPolicy, "noeviction")}},
		{model.AppendFsync, []string{ptr.Deref(c.AppendFsync, model.EverySecond)}},
	}
}

// memory returns the limit of the data in a server. Where the specification sets none, it follows
// from the memory limit of the container, see facts.WantedSettings; without that limit there is
// none.
func memory(spec *v1alpha1.RedisClusterSpec) []directive {
	given := resource.Quantity{}
	if spec.Config != nil && spec.Config.MaxMemory != nil {
		given = *spec.Config.MaxMemory
	} else if MemoryLimit(spec.Resources) > 0 {
		return nil
	}
	return []directive{{model.MaxMemory, []string{strconv.FormatInt(given.Value(), 10)}}}
}

// MemoryLimit of a server's container in bytes; 0: none.
func MemoryLimit(r *corev1.ResourceRequirements) int64 {
	if r == nil {
		return 0
	}
	return r.Limits.Memory().Value()
}

// extras are the user's own parameters. Admission has checked them; they are checked again, because a line break in one
// would be a directive of its own.
func extras(spec *v1alpha1.RedisClusterSpec) ([]directive, error) {
	c := spec.Config
	if c == nil || len(c.Extra) == 0 {
		return nil, nil
	}
	version, err := software.ParseVersion(spec.Version)
	if err != nil {
		return nil, invalid("spec.version: %v", err)
	}
	var out []directive
	for _, key := range slices.Sorted(maps.Keys(c.Extra)) {
		value := string(c.Extra[key])
		if key == model.WriteGuard && !spec.IsReplicated() {
			continue // See MinReplicas.
		}
		switch {
		case !configKey.MatchString(key):
			return nil, invalid("spec.config.extra: %q is no name of a parameter", key)
		case OwnsConfigKey(key):
			return nil, invalid("spec.config.extra: %s belongs to the operator or has a field of its own in spec.config: remove it", key)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, invalid("spec.config.extra: the value of %s holds characters other than printable ASCII: remove them", key)
		}
		if err := checkParameter(key, value, spec.ServerEngine(), version); err != nil {
			return nil, invalid("spec.config.extra[%s]: %v", key, err)
		}
		args := strings.Fields(value)
		if len(args) == 0 {
			args = []string{""}
		}
		out = append(out, directive{key, args})
	}
	return out, nil
}

func invalid(format string, args ...any) error {
	return cluster.Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}

// render writes directives in the syntax of redis.conf.
func render(lines []directive) (string, error) {
	var b strings.Builder
	for _, d := range lines {
		b.WriteString(d.name)
		for _, a := range d.args {
			quoted, err := quote(a)
			if err != nil {
				return "", fmt.Errorf("parameter %s: %w", d.name, err)
			}
			b.WriteString(" " + quoted)
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// plainArg needs no quotes.
var plainArg = regexp.MustCompile(`^[A-Za-z0-9_./:@-]+$`)

// quote writes an argument so that redis.conf reads it back as it was, see sdssplitargs in the server's source.
func quote(arg string) (string, error) {
	if plainArg.MatchString(arg) {
		return arg, nil
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(arg) {
		switch c := arg[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			if c == '\n' || c == '\r' || c == 0 {
				return "", fmt.Errorf("a value holds a line break or a zero byte")
			}
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String(), nil
}

// PodFacts is what only the pod itself knows.
type PodFacts struct {
	// Name, IP and Host (DNS name) of the pod.
	Name, IP, Host string
	// Engine and Version of the server.
	Engine, Version string
	// ReplicationPassword of the user that replicas connect as.
	ReplicationPassword string
	// Announcement is where the server is reached from outside.
	Announcement model.Announcement
	// Replicated says that the server is one of the mode Replicated, which announces nothing; its DNS name tells who answers.
	Replicated bool
}

// PodConfig completes the common configuration for one pod.
func PodConfig(common string, p PodFacts) (string, error) {
	lines := []directive{{"masterauth", []string{p.ReplicationPassword}}}
	announced := p.Announcement.Parameters(p.Host, p.IP)
	if p.Replicated {
		announced = map[string]string{model.AnnounceIP: p.IP, model.AnnounceHost: p.Host}
	}
	for _, name := range slices.Sorted(maps.Keys(announced)) {
		lines = append(lines, directive{name, []string{announced[name]}})
	}
	can, err := software.Release{Engine: v1alpha1.RedisEngine(p.Engine), Version: p.Version}.Capabilities()
	if err != nil {
		return "", err
	}
	if can.AnnouncesName {
		lines = append(lines, directive{"cluster-announce-human-nodename", []string{p.Name}})
	}
	own, err := render(lines)
	if err != nil {
		return "", err
	}
	return common + own, nil
}
