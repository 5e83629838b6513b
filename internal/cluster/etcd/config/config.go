package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Where the files are inside a pod.
const (
	// ConfigDir is the ConfigMap of the cluster, as mounted into the start gate.
	ConfigDir = "/etc/quorate"
	// RunDir is the memory-backed directory that the gate writes the final configuration to.
	RunDir = "/run/quorate"
	// ConfigFile is what etcd reads.
	ConfigFile = RunDir + "/etcd.yaml"
	// DataMount is the volume; DataDir is below it, because the root of a volume may hold lost+found.
	DataMount = "/var/lib/etcd"
	DataDir   = DataMount + "/data"
	// ServerTLSDir and PeerTLSDir hold ca.crt, tls.crt and tls.key.
	ServerTLSDir = "/etc/quorate-tls/server"
	PeerTLSDir   = "/etc/quorate-tls/peer"
	// SigningDir holds the key that members sign tokens with.
	SigningDir = "/etc/quorate-signing"
)

// SigningKey is the key in the auth Secret, and the file in SigningDir, of what members sign tokens with.
const SigningKey = "signing-key"

// OwnedConfigKeys are the keys of etcd's configuration file that spec.config.extra must not set: the operator sets
// them, or leaves them unset for the reason next to them. Sorted.
var OwnedConfigKeys = []string{
	"advertise-client-urls",
	"auth-token", "auth-token-ttl", // A token provider needs keys in the pods; authentication belongs to the operator.
	"auto-tls",
	"client-transport-security",
	"cors",
	"data-dir",
	"discovery", "discovery-config", "discovery-proxy", "discovery-srv", "discovery-srv-name",
	"enable-log-rotation", "enable-pprof",
	"enable-v2", "experimental-compact-hash-check-enabled", "experimental-enable-v2v3", "experimental-initial-corrupt-check",
	"experimental-peer-skip-client-san-verification",
	"force-new-cluster", // Forms a second cluster out of one member.
	"host-whitelist",
	"initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state", "initial-cluster-token",
	"listen-client-http-urls", "listen-client-urls", "listen-metrics-urls", "listen-peer-urls",
	"log-format",
	"log-outputs", // Files would land on a read-only file system.
	"log-rotation-config-json",
	"logger",
	"max-learners",
	"metrics",
	"name",
	"peer-transport-security",
	"self-signed-cert-validity",
	"socket-options",
	"strict-reconfig-check", // Refuses membership changes that would lose the quorum.
	"unsafe-no-fsync",       // Loses acknowledged writes.
	"v2-deprecation",
	"wal-dir",
}

// QuotaKey is the configuration key of the backend quota, in bytes.
const QuotaKey = "quota-backend-bytes"

// TypedConfigKeys are the keys that have a field of their own in spec.config, by that field's name.
var TypedConfigKeys = map[string]string{
	QuotaKey:                    "quotaBackendBytes",
	"auto-compaction-mode":      "autoCompactionMode",
	"auto-compaction-retention": "autoCompactionRetention",
	"snapshot-count":            "snapshotCount",
	"heartbeat-interval":        "heartbeatInterval",
	"election-timeout":          "electionTimeout",
	"max-request-bytes":         "maxRequestBytes",
	"log-level":                 "logLevel",
}

// Defaults where the operator's choice differs from etcd's: etcd does not compact unless told to.
const (
	defaultCompactionMode      = "Periodic"
	defaultPeriodicRetention   = "1h"
	defaultRevisionedRetention = "10000"
)

const (
	// logReserve is the room of the write-ahead log in bytes. The rules of the CRD say the same.
	logReserve = 384 << 20
	// maxWALs is how many WAL files etcd keeps when it purges them. It purges none with entries
	// since the last snapshot (ReleaseLockTo in server/storage/wal), so the log is bounded by
	// snapshot-count alone. keptWALs is the size of the purged log in bytes: maxWALs files of
	// SegmentSizeBytes and the preallocated next one.
	maxWALs  = 2
	keptWALs = (maxWALs + 1) * 64 << 20
	// meanEntry is the mean size of the entries for which the log is bounded, in bytes. Where
	// max-request-bytes/requestPerMean is more, that counts. A bound for entries of
	// max-request-bytes would take a snapshot every 128 writes.
	meanEntry      = 64 << 10
	requestPerMean = 24
	// EtcdQuota is etcd's own default quota in bytes (DefaultQuotaBytes in
	// server/storage/quota.go).
	EtcdQuota = 2 << 30
)

// Common returns what all members of a version have in common: everything that a member must be restarted for when it changes.
// The keys are those of the wanted version. On the way there, they are written under the names that v knows them by, and left
// out where it has none.
func Common(c *v1alpha1.EtcdConfig, v, wanted model.Version) (map[string]any, error) {
	if c == nil {
		c = &v1alpha1.EtcdConfig{}
	}
	out := map[string]any{
		"logger":                "zap",
		"log-outputs":           []string{"stderr"},
		"log-level":             "info",
		"strict-reconfig-check": true,
	}
	typed(out, c)
	for _, key := range slices.Sorted(maps.Keys(c.Extra)) {
		value, err := extra(key, string(c.Extra[key]), wanted)
		if err != nil {
			return nil, cluster.Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("spec.config.extra[%s]: %v", key, err)}
		}
		if name := nameIn(key, v); name != "" {
			out[name] = value
		}
	}
	corruptionChecks(out, v)
	return out, nil
}

func typed(out map[string]any, c *v1alpha1.EtcdConfig) {
	quantity(out, QuotaKey, c.QuotaBackendBytes)
	quantity(out, "max-request-bytes", c.MaxRequestBytes)
	out["max-wals"], out["snapshot-count"] = maxWALs, snapshotCount(c)
	milliseconds(out, "heartbeat-interval", c.HeartbeatInterval)
	milliseconds(out, "election-timeout", c.ElectionTimeout)
	if c.LogLevel != nil {
		out["log-level"] = *c.LogLevel
	}
	mode := defaultCompactionMode
	if c.AutoCompactionMode != nil {
		mode = *c.AutoCompactionMode
	}
	retention := defaultPeriodicRetention
	if mode != defaultCompactionMode {
		retention = defaultRevisionedRetention
	}
	if c.AutoCompactionRetention != nil {
		retention = *c.AutoCompactionRetention
	}
	out["auto-compaction-mode"] = strings.ToLower(mode)
	out["auto-compaction-retention"] = retention // etcd wants a string even for a number.
}

// snapshotCount returns after how many entries a member takes a snapshot: as many as its log has room
// for beside what etcd keeps, unless the specification says otherwise. etcd 3.5 would keep 100000.
func snapshotCount(c *v1alpha1.EtcdConfig) int64 {
	if c.SnapshotCount != nil {
		return *c.SnapshotCount
	}
	mean := int64(meanEntry)
	if c.MaxRequestBytes != nil {
		mean = max(mean, c.MaxRequestBytes.Value()/requestPerMean)
	}
	return (logReserve - keptWALs) / mean
}

func quantity(out map[string]any, key string, q *resource.Quantity) {
	if q != nil {
		out[key] = q.Value()
	}
}

func milliseconds(out map[string]any, key string, d *metav1.Duration) {
	if d != nil {
		out[key] = d.Milliseconds()
	}
}

// corruptionChecks switches on the check that finds a member whose data differs at each compaction
// (https://etcd.io/docs/v3.6/op-guide/data_corruption/). 3.6 made a feature gate out of the flag. The check at the start
// is left off: it asks the peers before the member serves anybody, so that members that start together wait for each
// other, 7 s for each peer.
func corruptionChecks(out map[string]any, v model.Version) {
	if !model.CapabilitiesOf(v).FeatureGates {
		out["experimental-compact-hash-check-enabled"] = true
		return
	}
	gates := "CompactHashCheck=true"
	if user, ok := out[gatesKey].(string); ok && user != "" {
		gates += "," + user
	}
	out[gatesKey] = gates
}

// stopOnDefrag makes a member tell clients that check its health (https://grpc.io/docs/guides/health-checking/) that it does
// not serve while it is defragmented, unless the user decides otherwise. They go on with the other members then. Nobody
// need be restarted for it, so it is no part of the common configuration.
func stopOnDefrag(out map[string]any, v model.Version) {
	const flag, gate = "experimental-stop-grpc-service-on-defrag", "StopGRPCServiceOnDefrag"
	gates, _ := out[gatesKey].(string)
	gated := model.CapabilitiesOf(v).FeatureGates
	switch {
	case !gated && out[flag] == nil:
		out[flag] = true
	case gated && !strings.Contains(gates, gate):
		out[gatesKey] = gates + "," + gate + "=true"
	}
}

// Layout is what the configuration of a member depends on beside the common part.
type Layout struct {
	Name, Namespace, UID string
	Domain               string
	// TLS is where the certificates come from, Disabled without any.
	TLS v1alpha1.TLSMode
	// Plain says that members listen for plain text; without TLS they do.
	Plain bool
	// Auth says that clients must authenticate.
	Auth    bool
	Version model.Version
	Members []model.Peer
	// VolumeSize in bytes that each member's volume has at least, 0 without volumes.
	VolumeSize int64
}

// MemberConfig returns the configuration file of one member, without initial-cluster-state, which the start gate adds.
func MemberConfig(common map[string]any, l Layout, member model.Peer) (string, error) {
	scheme := "http"
	if model.Secure(member.URL) {
		scheme = "https"
	}
	out := WithQuota(common, l.VolumeSize)
	maps.Copy(out, map[string]any{
		"name":                        member.Name,
		"data-dir":                    DataDir,
		"initial-cluster":             model.InitialCluster(l.Members),
		"initial-cluster-token":       fmt.Sprintf("%s-%s-%s", l.Namespace, l.Name, l.UID),
		"initial-advertise-peer-urls": member.URL,
		"advertise-client-urls":       model.ClientURL(scheme, cluster.PodHost(member.Name, l.Name, l.Namespace, l.Domain)),
		"listen-peer-urls":            l.listeners(model.PlainPeerPort, model.PeerPort),
		"listen-client-urls":          l.listeners(model.ClientPort, model.ClientPort),
		"listen-metrics-urls":         fmt.Sprintf("http://0.0.0.0:%d", model.MetricsPort),
	})
	stopOnDefrag(out, l.Version)
	if l.TLS != v1alpha1.TLSDisabled {
		out["client-transport-security"] = transportSecurity(ServerTLSDir)
		out["peer-transport-security"] = l.peerSecurity()
	}
	if l.Auth {
		out["auth-token"] = authToken
	}
	raw, err := encode(out)
	if err != nil {
		return "", fmt.Errorf("encode the configuration of %s: %w", member.Name, err)
	}
	return string(raw), nil
}

// encode writes a configuration in the form that pods have started with since the first version: by way of JSON, as sigs.k8s.io/yaml does, it would be
// the same and take twice as long, for every member in every pass.
func encode(config map[string]any) ([]byte, error) { return yaml.Marshal(config) }

// listeners are the URLs to listen at, given the ports for plain text and TLS.
func (l Layout) listeners(plain, tls int) string {
	var urls []string
	if l.Plain || l.TLS == v1alpha1.TLSDisabled {
		urls = append(urls, fmt.Sprintf("http://0.0.0.0:%d", plain))
	}
	if l.TLS != v1alpha1.TLSDisabled {
		urls = append(urls, fmt.Sprintf("https://0.0.0.0:%d", tls))
	}
	return strings.Join(urls, ",")
}

// authToken makes members hand out tokens that are signed with a key of the cluster, so that any member takes those of any
// other, also after a restart. etcd's default keeps them in the memory of the members: after a restart every request in
// flight asks for a new one, and each costs a bcrypt, which can keep a small cluster from coming back for minutes. A
// change of passwords or rights makes all tokens invalid before their time.
var authToken = "jwt,sign-method=HS256,priv-key=" + SigningDir + "/" + SigningKey + ",ttl=1h"

// WithQuota adds what the volume means for the quota of the database to the common configuration. A quota that the user has
// set stands, but the log keeps its room until the volume is as large as the specification says: larger ones come later.
func WithQuota(common map[string]any, volume int64) map[string]any {
	out := maps.Clone(common)
	set, ok := out[QuotaKey].(int64)
	switch quota := defaultQuota(volume); {
	case ok && volume > 0:
		out[QuotaKey] = min(set, volume-logReserve)
	case !ok && quota > 0:
		out[QuotaKey] = quota
	}
	return out
}

// defaultQuota keeps the database of a small volume from filling it, 0 where etcd's own default does. It is half of what
// the log leaves: a defragmentation writes the database a second time, and so does a snapshot from the leader.
func defaultQuota(volume int64) int64 {
	if quota := (volume - logReserve) / 2; quota < EtcdQuota {
		return max(quota, 0)
	}
	return 0
}

func transportSecurity(dir string) map[string]any {
	return map[string]any{
		"cert-file":        dir + "/tls.crt",
		"key-file":         dir + "/tls.key",
		"trusted-ca-file":  dir + "/ca.crt",
		"client-cert-auth": true,
	}
}

// peerSecurity restricts the peer port to members. Certificates that the operator issues are told
// apart by their common name. Provided certificates are told apart by the host name of the first
// member, which every provided certificate must carry (see manifests.Hosts) and a client has no use
// for. A common name would not do there: a renewal may change it, and members that have not
// restarted would reject the others. Where the version has it, the reverse look-up of issued
// certificates is skipped: the name in the certificate is the proof, and DNS that lags behind a new
// pod address must not keep a member out.
func (l Layout) peerSecurity() map[string]any {
	out, can := transportSecurity(PeerTLSDir), model.CapabilitiesOf(l.Version)
	key, name := "allowed-cn", model.PeerCommonName
	if l.TLS == v1alpha1.TLSProvided {
		key, name = "allowed-hostname", cluster.PodHost(l.Name+"-0", l.Name, l.Namespace, l.Domain)
	} else if can.SkipsClientSAN {
		out["skip-client-san-verification"] = true
	}
	switch {
	case !can.RestrictsPeers: // The cluster is older, see Reconciler.planned in controllers/etcdcluster.
	case !can.PeerNameLists:
		out[key] = name
	default:
		out[key] = []string{name}
	}
	return out
}

// MemberKey is the key of a member's configuration for a version.
func MemberKey(member string, v model.Version) string { return member + "." + v.String() + ".yaml" }

// CommonHash identifies the common part of the configuration.
func CommonHash(common map[string]any) (string, error) {
	raw, err := encode(common)
	if err != nil {
		return "", fmt.Errorf("encode the configuration: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:4]), nil
}
