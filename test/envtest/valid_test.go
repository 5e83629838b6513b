package envtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var validEtcd = map[string]string{
	"minimal":                    ``,
	"one member":                 `size: 1`,
	"seven members":              `size: 7`,
	"ephemeral":                  `storage: <removed>`,
	"first version of 3.5":       `{version: 3.5.11, tls: {mode: Disabled}}`,
	"first of 3.5 with tls":      `version: 3.5.14`,
	"version 3.7":                `version: 3.7.3`,
	"no tls and no auth":         `{tls: {mode: Disabled}, auth: {mode: Disabled}}`,
	"nulls":                      `{tls: null, auth: {mode: null}, paused: null, image: null}`,
	"provided secrets":           `{tls: {mode: Provided, secretName: my.certs}, auth: {secretName: root}}`,
	"durations as Go writes":     `config: {heartbeatInterval: 1.5s, electionTimeout: 50s}`,
	"longest election":           `config: {heartbeatInterval: 10s, electionTimeout: 0m50s}`,
	"compaction by revision":     `config: {autoCompactionMode: Revision, autoCompactionRetention: "5000"}`,
	"compaction off":             `config: {autoCompactionRetention: "0"}`,
	"quota as a number":          `config: {quotaBackendBytes: 104857600, maxRequestBytes: 65536}`,
	"smallest volume":            `storage: {size: 512Mi}`,
	"largest quota of a volume":  `config: {quotaBackendBytes: 640Mi}`,
	"maintenance at weekends":    `maintenance: {window: {start: "23:30", duration: 2h, timeZone: Europe/Berlin, days: [Saturday, Sunday]}, defragmentation: {mode: Auto, minFree: 1Gi}}`,
	"maintenance at any time":    `maintenance: {window: {start: "00:00", duration: 24h0m0s}}`,
	"no snapshot at an upgrade":  `upgrade: {snapshot: Skip}`,
	"a snapshot at an upgrade":   `upgrade: {snapshot: Required}`,
	"a snapshot that goes to s3": `upgrade: {destination: {url: "s3://backups/orders?region=eu-west-1", credentials: {name: s3}}}`,
	"the same without storage":   `{storage: <removed>, upgrade: {snapshot: Required, destination: {url: "pvc://backups/orders"}}}`,
	"no defragmentation":         `maintenance: {window: null, defragmentation: {mode: Disabled}}`,
	"extra parameters":           `config: {extra: {max-txn-ops: "256", pre-vote: "true", corrupt-check-time: 1h, cipher-suites: "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"}}`,
	"experimental ones with 3.5": `{version: 3.5.35, config: {extra: {experimental-corrupt-check-time: 1h}}}`,
	"hibernated from the start":  `hibernated: true`,
	"awake without storage":      `{storage: <removed>, hibernated: false}`,
	"image by digest":            `image: "localhost:5000/a/etcd:v3.6.16@sha256:` + strings.Repeat("0a", 32) + `"`,
}

var validRedis = map[string]string{
	"minimal":                     ``,
	"redis 7.0":                   `version: 7.0.15`,
	"node ports":                  `externalAccess: {type: NodePort}`,
	"node ports of a name":        `externalAccess: {type: NodePort, host: redis.example.com}`,
	"node ports of an address":    `externalAccess: {type: NodePort, host: 203.0.113.7}`,
	"node ports without tls":      `{externalAccess: {type: NodePort}, tls: {mode: Disabled}}`,
	"load balancers":              `externalAccess: {type: LoadBalancer, annotations: {service.example.com/pool: outer}}`,
	"a load balancer for one":     `{mode: Replicated, shards: <removed>, externalAccess: {type: LoadBalancer}}`,
	"redis 7.4":                   `version: 7.4.6`,
	"redis 8.4":                   `version: 8.4.0`,
	"valkey 8":                    `{engine: valkey, version: 8.1.1}`,
	"valkey 9":                    `{engine: valkey, version: 9.1.2}`,
	"one primary":                 `{mode: Replicated, shards: <removed>}`,
	"one primary spelled out":     `{mode: Replicated, shards: 1, replicasPerShard: 0}`,
	"shards spelled out":          `mode: Sharded`,
	"no replicas":                 `replicasPerShard: 0`,
	"as many servers as may be":   `{shards: 500, replicasPerShard: 1}`,
	"five replicas":               `replicasPerShard: 5`,
	"one shard":                   `shards: 1`,
	"two shards, held when lost":  `{shards: 2, recovery: {lostShard: Hold}}`,
	"a cache":                     `{storage: <removed>, recovery: {lostShard: AssignEmpty, deadPrimary: Replace}}`,
	"no wish for a recovery":      `recovery: {}`,
	"no wish for a balance":       `rebalance: {}`,
	"balanced by memory":          `rebalance: {by: Memory, mode: Automatic, threshold: 5, coolDown: 1m}`,
	"balanced by load":            `{engine: valkey, version: 8.1.1, rebalance: {by: Load, threshold: 400, coolDown: 720h0m0s}}`,
	"balanced by load, redis 8.2": `{version: 8.2.0, rebalance: {by: Load}}`,
	"an exporter of any size":     `monitoring: {exporter: {resources: {requests: {cpu: 10m}, limits: {memory: 1Gi}}}}`,
	"one primary, and no balance": `{mode: Replicated, shards: <removed>, rebalance: {by: Slots}}`,
	"ephemeral":                   `storage: <removed>`,
	"nulls":                       `{engine: null, replicasPerShard: null, tls: null, auth: null}`,
	"no tls and no auth":          `{tls: {mode: Disabled}, auth: {mode: Disabled}}`,
	"node timeouts as Go writes":  `config: {nodeTimeout: 1m0s}`,
	"guarded writes":              `{replicasPerShard: 2, config: {minReplicasToWrite: 2}}`,
	"memory within the limit":     `{config: {maxMemory: 768Mi}, resources: {limits: {memory: 1Gi}}}`,
	"set entries since redis 7.2": `{version: 7.2.5, config: {extra: {set-max-listpack-entries: "256"}}}`,
	"set entries of valkey":       `{engine: valkey, version: 8.1.1, config: {extra: {set-max-listpack-entries: "256"}}}`,
	"parameters of several words": `config: {extra: {client-output-buffer-limit: pubsub 64mb 16mb 90, hz: "50", notify-keyspace-events: KEA, latency-tracking-info-percentiles: "50 99.9"}}`,
}

// validBoth suit either kind.
var validBoth = map[string]string{
	"name of 40 letters":    ``, // See baseFor.
	"resources as numbers":  `resources: {requests: {cpu: 1, memory: 1073741824}, limits: {cpu: 2}}`,
	"a template":            `template: {labels: {team: "", example.com/a: b-c_d.e}, nodeSelector: {zone: a}, tolerations: [{operator: Exists}], priorityClassName: high}`,
	"env from everywhere":   `template: {env: [{name: GOGC, value: "50"}, {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: B, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}]}`,
	"restricted":            `template: {securityContext: {runAsNonRoot: true, runAsUser: 1000, supplementalGroups: [2000], seccompProfile: {type: Localhost, localhostProfile: a.json}, seLinuxOptions: {level: "s0:c1,c2", type: container_t}}}`,
	"rotation on demand":    `tls: {rotation: {after: "2026-12-01T00:00:00Z", hold: 1h30m}}`,
	"rotation at any pace":  `tls: {mode: Managed, rotation: {hold: 90s}}`,
	"slowest rotation":      `tls: {rotation: {hold: 720h0m0s}}`,
	"an issuer":             `tls: {mode: CertManager, issuerRef: {name: ours}}`,
	"a cluster issuer":      `tls: {mode: CertManager, issuerRef: {name: our.ca, kind: ClusterIssuer}, rotation: {hold: 10m}}`,
	"an external issuer":    `tls: {mode: CertManager, issuerRef: {name: ours, kind: AWSPCAIssuer, group: awspca.cert-manager.io}}`,
	"storage in odd units":  `storage: {size: 1500M, className: fast.ssd, deletionPolicy: Delete}`,
	"monitored":             `monitoring: {}`,
	"monitored as wanted":   `monitoring: {podMonitor: {interval: 1m30s, labels: {release: prometheus, example.com/team: ""}}}`,
	"not by an operator":    `monitoring: {podMonitor: {enabled: false, interval: 5s}}`,
	"monitored by nulls":    `monitoring: {podMonitor: {enabled: null, interval: null, labels: null}}`,
	"paused":                `paused: true`,
	"empty things":          `{resources: {}, template: {}, config: {}}`,
	"every toleration":      `template: {tolerations: [{key: example.com/a, value: b}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: a, operator: Equal, value: "", effect: PreferNoSchedule}]}`,
	"affinity of all kinds": `template: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: cores, operator: Gt, values: ["4"]}, {key: a, operator: Exists}, {key: a, operator: In, values: [b]}]}]}}, podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, namespaces: [a], namespaceSelector: {}, labelSelector: {matchLabels: {a.b/c: d}, matchExpressions: [{key: a, operator: NotIn, values: [""]}, {key: a, operator: DoesNotExist}]}}]}}}`,
	"highest numbers":       `template: {securityContext: {runAsUser: 2147483647, supplementalGroups: [2147483647]}}`,
	"spread over the zones": `template: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}`,
}

func TestValidEtcdClustersAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, etcdKind, merged(validEtcd, validRestores, validEtcdRestores, validBoth))
}

func TestValidRedisClustersAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, redisKind, merged(validRedis, validRestores, validBoth))
}

func acceptAll(t *testing.T, k kind, table map[string]string) {
	t.Helper()
	s := apiServer(t)
	golden := map[string]any{}
	for name, spec := range table {
		t.Run(name, func(t *testing.T) {
			c := bad{spec: spec}
			if name == "name of 40 letters" {
				c.whole = `metadata: {name: ` + longName[1:] + `}`
			}
			u := toUnstructured(t, c.object(t, k))
			if err := s.client.Create(testContext(t), u, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			golden[name] = u.Object["spec"]
		})
	}
	if len(golden) == len(table) { // Not when -run chose some of them, or one has failed already.
		compareGolden(t, k.resource, golden)
	}
	t.Logf("%s: %d valid specs accepted with their defaults", k.name, len(golden))
}

func compareGolden(t *testing.T, name string, got map[string]any) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden.yaml")
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s differs; if that is meant, run the test with -update (-want +got):\n%s", path, diff)
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	s := apiServer(t)
	files, err := filepath.Glob(filepath.Join(samplesDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applied := map[string]int{}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		s.kubectl(t, "apply", "--server-side", "--validate=strict", "-n", "default", "-f", file)
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: parse(t, string(raw))}
		applied[u.GetKind()]++
		if strings.HasSuffix(file, "-full.yaml") {
			showsEveryField(t, u)
		}
		s.kubectl(t, "delete", "-n", "default", "-f", file)
	}
	s.kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-k", samplesDir)
	if applied["EtcdCluster"] < 2 || applied["RedisCluster"] < 2 || applied["EtcdUser"] < 1 || applied["RedisUser"] < 1 || applied["Backup"] < 2 || applied["BackupSchedule"] < 2 || applied["Restore"] < 2 || applied["Autoscaler"] < 2 {
		t.Errorf("want a minimal and a full sample of each kind of cluster, of a backup and of a schedule, and a user of each, got %v", applied)
	}
	t.Logf("samples applied: %v", applied)
}

// exclusive are the fields that exclude another one, which the full samples show, and those of one kind only. A comment beside
// that shows them.
var exclusive = map[string]bool{
	"spec.auth.rotation": true, "spec.tls.rotation": true, "spec.tls.issuerRef": true,
	"spec.bootstrap.restore.backup": true, "spec.bootstrap.restore.time": true, "spec.from.backup": true, "spec.from.revision": true, "Autoscaler spec.storage": true, "spec.from.time": true, "RedisCluster spec.bootstrap.restore.revision": true,
}

// showsEveryField checks that a full sample has every field of ours that the CRD knows.
func showsEveryField(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	spec := loadCRD(t, strings.ToLower(u.GetKind())+"s").Properties["spec"]
	walk("spec", spec, func(path string, _ schemaProps) bool {
		if exclusive[path] || exclusive[u.GetKind()+" "+path] {
			return false
		}
		if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...); !found {
			t.Errorf("the full sample %s lacks %s", u.GetName(), path)
		}
		return !embedded[path] && !strings.HasSuffix(path, ".extra")
	})
}
