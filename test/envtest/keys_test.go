package envtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	etcdconfig "github.com/quorate/quorate/internal/cluster/etcd/config"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	redissoftware "github.com/quorate/quorate/internal/cluster/redis/software"
)

// Parameters of etcd that users may set, with a value, and the minor versions of etcd 3 that have them.
var etcdFree = map[string]struct {
	value       string
	first, last int
}{
	"backend-batch-interval":        {"10s", 5, 7},
	"backend-batch-limit":           {"1000", 5, 7},
	"backend-bbolt-freelist-type":   {"map", 5, 7},
	"bcrypt-cost":                   {"10", 5, 7},
	"cipher-suites":                 {"TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384", 5, 7},
	"enable-grpc-gateway":           {"true", 5, 7},
	"grpc-keepalive-interval":       {"10s", 5, 7},
	"grpc-keepalive-min-time":       {"10s", 5, 7},
	"grpc-keepalive-timeout":        {"10s", 5, 7},
	"initial-election-tick-advance": {"true", 5, 7},
	"max-concurrent-streams":        {"1000", 5, 7},
	"max-snapshots":                 {"1000", 5, 7},
	"max-txn-ops":                   {"1000", 5, 7},
	"max-wals":                      {"1000", 5, 7},
	"pre-vote":                      {"true", 5, 7},
	"tls-max-version":               {"TLS1.3", 5, 7},
	"tls-min-version":               {"TLS1.2", 5, 7},
	"experimental-bootstrap-defrag-threshold-megabytes": {"1000", 5, 5},
	"experimental-compact-hash-check-time":              {"10s", 5, 5},
	"experimental-compaction-batch-limit":               {"1000", 5, 5},
	"experimental-compaction-sleep-interval":            {"10s", 5, 5},
	"experimental-corrupt-check-time":                   {"10s", 5, 5},
	"experimental-distributed-tracing-address":          {"example.com:4317", 5, 5},
	"experimental-distributed-tracing-instance-id":      {"example.com:4317", 5, 5},
	"experimental-distributed-tracing-sampling-rate":    {"1000", 5, 5},
	"experimental-distributed-tracing-service-name":     {"example.com:4317", 5, 5},
	"experimental-downgrade-check-time":                 {"10s", 5, 5},
	"experimental-enable-distributed-tracing":           {"true", 5, 5},
	"experimental-enable-lease-checkpoint":              {"true", 5, 5},
	"experimental-enable-lease-checkpoint-persist":      {"true", 5, 5},
	"experimental-snapshot-catch-up-entries":            {"1000", 5, 5},
	"experimental-stop-grpc-service-on-defrag":          {"true", 5, 5},
	"experimental-txn-mode-write-with-shared-buffer":    {"true", 5, 5},
	"experimental-warning-apply-duration":               {"10s", 5, 5},
	"experimental-watch-progress-notify-interval":       {"10s", 5, 5},
	"bootstrap-defrag-threshold-megabytes":              {"1000", 6, 7},
	"compact-hash-check-time":                           {"10s", 6, 7},
	"compaction-batch-limit":                            {"1000", 6, 7},
	"compaction-sleep-interval":                         {"10s", 6, 7},
	"corrupt-check-time":                                {"10s", 6, 7},
	"distributed-tracing-address":                       {"example.com:4317", 6, 7},
	"distributed-tracing-instance-id":                   {"example.com:4317", 6, 7},
	"distributed-tracing-sampling-rate":                 {"1000", 6, 7},
	"distributed-tracing-service-name":                  {"example.com:4317", 6, 7},
	"downgrade-check-time":                              {"10s", 6, 7},
	"enable-distributed-tracing":                        {"true", 6, 7},
	"feature-gates":                                     {"StopGRPCServiceOnDefrag=true", 6, 7},
	"snapshot-catchup-entries":                          {"1000", 6, 7},
	"warning-apply-duration":                            {"10s", 6, 7},
	"warning-unary-request-duration":                    {"10s", 6, 7},
	"watch-progress-notify-interval":                    {"10s", 6, 7},
}

// More keys that nobody may set, whatever the renderers say.
var (
	etcdRefused = []string{
		"wal-dir", "config-file", "proxy", "proxy-failure-wait", "discovery-token", "initial-cluster-id", "listen-anything",
		"client-cert-auth", "peer-key-file", "force-new-cluster-bump-amount", "unsafe-anything", "enable-v2v3",
		"log-rotation-config-json", "no-such-parameter", "auth-token-ttl", "cors", "enable-pprof", "host-whitelist", "metrics", "log-format", "max-learners",
	}
	redisRefused = []string{
		"loadmodule", "module", "user", "masterauth", "primaryauth", "cluster-announce-ip", "cluster-anything", "tls-anything",
		"replica-announce-ip", "slave-announce-port", "syslog-enabled", "shutdown-timeout", "sentinel", "unixsocketperm",
		"bind-source-addr", "rdma-port", "enable-anything",
	}
)

// admitted asks the API server.
func admitted(t *testing.T, k kind, spec object) error {
	t.Helper()
	o := overlay(parse(t, k.base), object{"spec": spec})
	return apiServer(t).client.Create(testContext(t), toUnstructured(t, o), client.DryRunAll)
}

func withExtra(key, value string) object {
	return object{"config": object{"extra": object{key: value}}}
}

func TestNoOperatorOwnedKeyOfEtcdIsAdmitted(t *testing.T) {
	keys := append(slices.Concat(etcdconfig.OwnedConfigKeys, etcdRefused), mapKeys(etcdconfig.TypedConfigKeys)...)
	for _, key := range keys {
		refusal(t, admitted(t, etcdKind, withExtra(key, "1")), "spec.config.extra", "config.extra: ")
	}
	for key, field := range etcdconfig.TypedConfigKeys {
		refusal(t, admitted(t, etcdKind, withExtra(key, "1")), "spec.config.extra", "instead of "+key+" use spec.config."+field)
	}
	t.Logf("%d keys of etcd refused", len(keys))
}

func TestNoOperatorOwnedKeyOfRedisIsAdmitted(t *testing.T) {
	keys := []string{}
	for _, key := range slices.Concat(redisconfig.OwnedConfigKeys, redisRefused) {
		keys = append(keys, strings.ReplaceAll(key, "*", "x"))
	}
	for _, key := range keys {
		refusal(t, admitted(t, redisKind, withExtra(key, "1")), "spec.config.extra", "config.extra: ")
	}
	t.Logf("%d keys of Redis refused", len(keys))
}

// What admission lets through, the renderer must be able to write: else the user learns of his mistake only later, from
// a condition.
func TestAdmissionAndRendererAgreeOnParametersOfEtcd(t *testing.T) {
	versions := map[string]int{"3.5.35": 5, "3.6.16": 6, "3.7.3": 7}
	for key, p := range etcdFree {
		for version, minor := range versions {
			want := p.first <= minor && minor <= p.last
			v, err := etcdmodel.ParseVersion(version)
			if err != nil {
				t.Fatal(err)
			}
			extra := map[string]v1alpha1.ConfigValue{key: v1alpha1.ConfigValue(p.value)}
			_, rendered := etcdconfig.Common(&v1alpha1.EtcdConfig{Extra: extra}, v, v)
			accepted := admitted(t, etcdKind, overlay(withExtra(key, p.value), object{"version": version}))
			if (accepted == nil) != want || (rendered == nil) != want {
				t.Errorf("%s with etcd %s: admission says %v, the renderer %v, want it accepted: %t", key, version, accepted, rendered, want)
			}
		}
	}
	t.Logf("%d parameters of etcd in %d versions", len(etcdFree), len(versions))
}

// redisRules are the rules that the table of the renderer comes to: one for the names, and one for each kind of value,
// which says what it is for. To name only what it refuses would cost more than the budget of CEL allows.
func redisRules() []apiextensionsv1.ValidationRule {
	names := map[*redisconfig.Value][]string{}
	for _, name := range slices.Sorted(maps.Keys(redisconfig.FreeParameters)) {
		v := redisconfig.FreeParameters[name].Value
		names[v] = append(names[v], name)
	}
	out := []apiextensionsv1.ValidationRule{namesRule()}
	for v, of := range names {
		out = append(out, apiextensionsv1.ValidationRule{
			Rule:    fmt.Sprintf("%s.all(k, !(k in self) || self[k].matches('%s'))", list(of), v.Pattern),
			Message: fmt.Sprintf("config.extra: %s (%s)", v.Says, strings.Join(of, ", ")),
		})
	}
	return out
}

func namesRule() apiextensionsv1.ValidationRule {
	exact, prefixes := []string{}, []string{}
	for _, key := range append(slices.Clone(redisconfig.OwnedConfigKeys), "cluster-node-timeout") {
		if prefix, wild := strings.CutSuffix(key, "*"); wild {
			prefixes = append(prefixes, prefix)
		} else {
			exact = append(exact, key)
		}
	}
	return apiextensionsv1.ValidationRule{
		Rule: fmt.Sprintf("self.all(k, k in %s || k in %s || %s.exists(p, k.startsWith(p)) || !k.matches('^[a-z][a-z0-9-]*$'))",
			list(slices.Sorted(maps.Keys(redisconfig.FreeParameters))), list(exact), list(prefixes)),
		Message: "config.extra: there is no such parameter that may be set, and the server would not start with it; check the name",
	}
}

func list(names []string) string { return "['" + strings.Join(names, "', '") + "']" }

// The rules and the table say the same because the rules are made from it.
func TestTheRulesOfRedisParametersAreThoseOfTheRenderer(t *testing.T) {
	extra := loadCRD(t, redisKind.resource).Properties["spec"].Properties["config"].Properties["extra"]
	for _, r := range redisRules() {
		if slices.Contains(extra.XValidations, r) {
			continue
		}
		t.Errorf("config.extra needs, in the place of what it has of this kind:\n\t// +kubebuilder:validation:XValidation:rule=`%s`,message=%q",
			r.Rule, r.Message)
	}
}

func TestAdmissionAndRendererAgreeOnParametersOfRedis(t *testing.T) {
	for key, p := range redisconfig.FreeParameters {
		for _, value := range p.Value.Good {
			if err := admitted(t, redisKind, withExtra(key, value)); err != nil {
				t.Errorf("%s %q: %v", key, value, err)
			}
		}
		for _, value := range p.Value.Bad {
			refusal(t, admitted(t, redisKind, withExtra(key, value)), "spec.config.extra", "config.extra: "+p.Value.Says)
		}
		for _, server := range []object{
			{"engine": "redis", "version": "7.0.15"}, {"engine": "redis", "version": "7.2.5"}, {"engine": "valkey", "version": "8.1.1"},
		} {
			v, err := redissoftware.ParseVersion(server["version"].(string))
			if err != nil {
				t.Fatal(err)
			}
			want := p.In(v1alpha1.RedisEngine(server["engine"].(string)), v)
			if err := admitted(t, redisKind, overlay(withExtra(key, p.Value.Good[0]), server)); (err == nil) != want {
				t.Errorf("%s with %v: %v, want it accepted: %t", key, server, err, want)
			}
		}
	}
	t.Logf("%d parameters of Redis", len(redisconfig.FreeParameters))
}

func mapKeys(m map[string]string) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	return out
}
