package schema

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// bases are valid resources, one of each kind.
var bases = map[string]string{
	"EtcdCluster":    `{metadata: {name: orders}, spec: {size: 3, version: 3.6.16, storage: {size: 4Gi}}}`,
	"RedisCluster":   `{metadata: {name: carts}, spec: {version: 8.0.2, shards: 3, replicasPerShard: 1, storage: {size: 4Gi}}}`,
	"EtcdUser":       `{metadata: {name: orders-app}, spec: {clusterName: orders, username: app, permissions: [{prefix: /app/, access: Read}]}}`,
	"RedisUser":      `{metadata: {name: carts-app}, spec: {clusterName: carts, username: app, categories: [read]}}`,
	"Backup":         `{metadata: {name: good}, spec: {cluster: {kind: EtcdCluster, name: orders}, destination: {url: "s3://bucket/orders"}}}`,
	"BackupSchedule": `{metadata: {name: nightly}, spec: {cluster: {kind: EtcdCluster, name: orders}, schedule: "0 3 * * *", destination: {url: "s3://bucket/orders"}}}`,
	"Autoscaler":     `{metadata: {name: carts}, spec: {cluster: {kind: RedisCluster, name: carts}, shards: {min: 3, max: 12}}}`,
	"Restore":        `{metadata: {name: undo}, spec: {cluster: {kind: EtcdCluster, name: orders}, from: {destination: {url: "s3://bucket/orders"}}}}`,
}

// entry says of leaves what their schema does not. Of several that fit a leaf the neighbours add up, and of the rest the last one counts.
type entry struct {
	// path of the leaves, with a star for anything. With a kind in front and a space, it is for that kind alone.
	path string
	// with is what the leaf needs beside it, as YAML that is laid over the spec; a null takes away.
	with string
	// key is that of the entry which is changed in a map.
	key string
	// values are valid and differ from each other. closed says that there is none: the field comes from Kubernetes and is refused.
	values []any
	closed bool
	// hostile values are of this field: the API server cannot know that they are bad.
	hostile []any
}

// term is what an affinity to other pods selects.
const (
	podTerm  = `topologyKey: zone, labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}, namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}`
	nodeTerm = `matchExpressions: [{key: zone, operator: In, values: ["1"]}]`
)

func affinity(kind, terms string) string {
	return fmt.Sprintf(`template: {affinity: {%s: {%s}}}`, kind, terms)
}

var (
	required  = `requiredDuringSchedulingIgnoredDuringExecution`
	preferred = `preferredDuringSchedulingIgnoredDuringExecution`
)

var table = []entry{
	// Names of other objects, of which none is there.
	{path: "*.credentials.name", values: []any{"mine", "no-such-secret"}},
	{path: "*.encryption.name", values: []any{"mine", "no-such-secret"}},
	{path: "*.passwordSecret.name", values: []any{"mine", "no-such-secret"}},
	{path: "*.secretName", values: []any{"mine", "no-such-secret"}},
	{path: "*.serviceAccountName", values: []any{"backup", "no-such-account"}},
	{path: "*.cluster.name", values: []any{"orders", "no-such-cluster"}},
	{path: "*.clusterName", values: []any{"orders", "no-such-cluster"}},
	{path: "*destination.url", values: []any{"s3://other/prefix?region=eu-west-1", "pvc://backups/a"}},

	// Pods.
	{path: "*.resources.claims[]*", with: `resources: {claims: [{name: a}]}`, closed: true},
	{path: "*.resources.limits{}", key: "memory", values: []any{"2Gi", 3221225472}, hostile: []any{"1"}},
	{path: "*.resources.requests{}", key: "memory", values: []any{"256Mi", 268435457}, hostile: []any{"100Ti"}},
	{path: "*.image", values: []any{"registry.example.com/mirror/store:1"}, hostile: []any{"registry.example.com/no-such:image"}},
	{path: "*.template.labels{}", key: "example.com/team", values: []any{"a", ""}},
	{path: "*.template.annotations{}", key: "example.com/team", values: []any{"a", "b c"}},
	{path: "*.template.nodeSelector{}", key: "disk", values: []any{"fast"}, hostile: []any{"no-such-node"}},
	{path: "*.priorityClassName", values: []any{"high"}, hostile: []any{"no-such-class"}},
	{path: "*.env[].*", with: `template: {env: [{name: A}]}`},
	{path: "*.env[].name", values: []any{"A", "B"}, hostile: []any{"PATH", "LD_LIBRARY_PATH", "ETCD_NAME", "a b", "A=B"}},
	{path: "*.env[].value", values: []any{"a", "b"}},
	{path: "*.env[].valueFrom.configMapKeyRef.*", with: `template: {env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: b}}}]}`, values: []any{"mine", "no-such-map"}},
	{path: "*.env[].valueFrom.secretKeyRef.*", with: `template: {env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: b}}}]}`, values: []any{"mine", "no-such-secret"}},
	{path: "*KeyRef.optional", values: []any{true, false}},
	{path: "*.env[].valueFrom.fieldRef.*", with: `template: {env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`, closed: true},
	{path: "*.env[].valueFrom.fileKeyRef.*", with: `template: {env: [{name: A, valueFrom: {fileKeyRef: {volumeName: a, path: b, key: c}}}]}`, closed: true},
	{path: "*.env[].valueFrom.resourceFieldRef.*", with: `template: {env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]}`, closed: true},
	{path: "*.imagePullSecrets[].name", values: []any{"mine", "no-such-secret"}},
	{path: "*.securityContext.windowsOptions.*", closed: true},
	{path: "*.securityContext.sysctls[].*", with: `template: {securityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}}`, closed: true},
	{path: "*.securityContext.runAsNonRoot", values: []any{true}},
	{path: "*.securityContext.seLinuxOptions.*", with: `template: {securityContext: {seLinuxOptions: {level: s0}}}`},
	{path: "*.securityContext.runAsUser", values: []any{10001, 10002}},
	{path: "*.securityContext.runAsGroup", values: []any{10001, 10002}},
	{path: "*.securityContext.fsGroup", values: []any{10001, 10002}},
	{path: "*.securityContext.supplementalGroups[]", values: []any{10001, 10002}},
	{path: "*.securityContext.fsGroupChangePolicy", values: []any{"Always", "OnRootMismatch"}},
	{path: "*.securityContext.supplementalGroupsPolicy", values: []any{"Strict", "Merge"}},
	{path: "*.securityContext.seLinuxChangePolicy", values: []any{"Recursive", "MountOption"}},
	{path: "*.securityContext.seLinuxOptions.level", values: []any{"s0:c123,c456"}},
	{path: "*.securityContext.seLinuxOptions.type", values: []any{"container_t", "container_init_t"}},
	{path: "*.securityContext.seLinuxOptions.role", closed: true},
	{path: "*.securityContext.seLinuxOptions.user", closed: true},
	{path: "*.securityContext.*Profile.type", values: []any{"RuntimeDefault"}},
	{path: "*.securityContext.seccompProfile.localhostProfile", with: `template: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: first}}}`, values: []any{"profiles/a.json"}},
	{path: "*.securityContext.appArmorProfile.localhostProfile", with: `template: {securityContext: {appArmorProfile: {type: Localhost, localhostProfile: first}}}`, values: []any{"a"}},

	// Placement.
	{path: "*.matchExpressions[].key", values: []any{"zone", "example.com/zone"}},
	{path: "*.tolerations[].key", values: []any{"zone", "example.com/zone"}},
	{path: "*.topologyKey", values: []any{"rack", "example.com/rack"}, hostile: []any{"no-such-topology"}},
	{path: "*.values[]", values: []any{"1", "2"}},
	{path: "*.namespaces[]", values: []any{"default", "other"}},
	{path: "*.matchLabels{}", key: "team", values: []any{"a", "b"}},
	{path: "*.weight", values: []any{7, 70}},
	{path: "*.nodeAffinity." + required + ".*", with: affinity("nodeAffinity", required+`: {nodeSelectorTerms: [{`+nodeTerm+`}]}`), hostile: []any{"no-such-node"}},
	{path: "*.nodeAffinity." + preferred + "[]*", with: affinity("nodeAffinity", preferred+`: [{weight: 1, preference: {`+nodeTerm+`}}]`)},
	{path: "*.podAffinity." + required + "[]*", with: affinity("podAffinity", required+`: [{`+podTerm+`}]`)},
	{path: "*.podAffinity." + preferred + "[]*", with: affinity("podAffinity", preferred+`: [{weight: 1, podAffinityTerm: {`+podTerm+`}}]`)},
	{path: "*.podAntiAffinity." + required + "[]*", with: affinity("podAntiAffinity", required+`: [{`+podTerm+`}]`)},
	{path: "*.podAntiAffinity." + preferred + "[]*", with: affinity("podAntiAffinity", preferred+`: [{weight: 1, podAffinityTerm: {`+podTerm+`}}]`)},
	{path: "*.matchExpressions[].operator", values: []any{"In", "NotIn"}},
	{path: "*.tolerations[].*", with: `template: {tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute}]}`},
	{path: "*.tolerations[].operator", with: `template: {tolerations: [{key: a, effect: NoExecute}]}`, values: []any{"Exists", "Equal"}},
	{path: "*.tolerations[].value", values: []any{"1", "2"}},
	{path: "*.tolerations[].tolerationSeconds", values: []any{0, 60}},
	{path: "*.topologySpreadConstraints[].*", with: `template: {topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}]}`},
	{path: "*.matchLabelKeys[]", values: []any{"team", "example.com/team"}},
	{path: "*.maxSkew", values: []any{2, 3}},
	{path: "*.minDomains", values: []any{2, 3}},

	// Secrets and certificates.
	{path: "*.tls.secretName", with: `tls: {mode: Provided, secretName: first}`},
	{path: "*.tls.mode", values: []any{"Disabled"}},
	{path: "*.tls.issuerRef.*", with: `tls: {mode: CertManager, issuerRef: {name: ours}}`},
	{path: "*.issuerRef.name", values: []any{"theirs", "no-such-issuer"}},
	{path: "*.issuerRef.kind", values: []any{"ClusterIssuer"}},
	{path: "*.issuerRef.group", values: []any{"issuers.example.com"}},
	{path: "*.rotation.after", values: []any{"2026-12-01T00:00:00Z", "2020-01-01T00:00:00Z"}},
	{path: "*.rotation.hold", values: []any{"90s", "720h"}},
	{path: "EtcdCluster *.auth.rotation.hold", closed: true},

	// Where data comes from and goes to.
	{path: "*.bootstrap.restore.*", with: `bootstrap: {restore: {destination: {url: "s3://bucket/orders"}}}`},
	{path: "*.bootstrap.restore.backup", with: `bootstrap: {restore: {destination: null, backup: first}}`, values: []any{"good", "no-such-backup"}},
	{path: "Restore *.from.backup", with: `from: {destination: null, backup: first}`, values: []any{"good", "no-such-backup"}},
	{path: "*.directory", values: []any{"orders-20260501T030000Z-1b9d6bcd", "no-such-directory"}},
	{path: "*.revision", values: []any{7, 8}},
	{path: "RedisCluster *.revision", closed: true},
	{path: "*.time", values: []any{"2026-05-01T12:00:00Z", "2020-05-01T12:00:00Z"}},
	{path: "Restore spec.slots", with: `cluster: {kind: RedisCluster, name: carts}`},
	{path: "Restore spec.saveCurrent", with: `cluster: {kind: RedisCluster, name: carts}`},
	{path: "Backup spec.external.*", with: `external: {endpoints: ["https://etcd-0.old.svc:2379"]}`},
	{path: "*.endpoints[]", values: []any{"https://etcd-0.old.svc:2379", "http://10.0.0.1:2379"}, hostile: []any{"https://u:p@host:2379", "file:///etc/passwd", "https://host:2379/../x"}},
	{path: "*.incremental.interval", values: []any{"1s", "1h"}},
	{path: "*.retention.*", values: []any{1, 2}},
	{path: "*.jitter", values: []any{"15m", "0s"}},
	{path: "*.startingDeadline", values: []any{"10s", "720h"}},
	{path: "*.schedule", values: []any{"@hourly", "30 4 * * 1-5"}, hostile: []any{"every day", "99 99 * * *", "0 0 30 2 *", "* * * * * *", "@every 1ns"}},
	{path: "BackupSchedule *.timeZone", values: []any{"Europe/Berlin", "Asia/Tokyo"}, hostile: []any{"Mars/Olympus", "Local", "../../etc/localtime"}},

	// Settings.
	{path: "EtcdCluster spec.size", values: []any{1, 5}},
	{path: "EtcdCluster spec.version", values: []any{"3.6.17", "3.7.3"}, hostile: []any{"3.5.35", "3.6.99"}},
	{path: "RedisCluster spec.version", values: []any{"8.0.3", "8.2.1"}, hostile: []any{"7.0.15", "8.0.99"}},
	{path: "RedisCluster spec.mode", with: `shards: 1`},
	{path: "RedisCluster spec.engine", with: `version: 8.1.1`},
	{path: "RedisCluster spec.shards", values: []any{2, 4}, hostile: []any{1}},
	{path: "*.replicasPerShard", values: []any{0, 2}},
	{path: "*.storage.size", values: []any{"8Gi", 8589934593}, hostile: []any{"600Mi", "64Ti"}},
	{path: "*.storage.className", values: []any{"fast"}, hostile: []any{"no-such-class"}},
	{path: "EtcdCluster *.extra{}", key: "max-txn-ops", values: []any{"256", "512"}, hostile: []any{"999999999999999999999"}},
	{path: "RedisCluster *.extra{}", key: "hz", values: []any{"50", "100"}, hostile: []any{"999999999"}},
	{path: "*.autoCompactionRetention", values: []any{"30m", "0"}, hostile: []any{"99999h"}},
	{path: "*.electionTimeout", values: []any{"2s", "50s"}},
	{path: "*.heartbeatInterval", values: []any{"10ms", "200ms"}, hostile: []any{"10s"}},
	{path: "*.maxRequestBytes", values: []any{"64Ki", "10Mi"}},
	{path: "*.quotaBackendBytes", values: []any{"1Gi", 2147483648}, hostile: []any{"1Mi"}},
	{path: "*.minFree", values: []any{"32Mi", "1Gi"}},
	{path: "*.maintenance.window.*", with: `maintenance: {window: {start: "23:30", duration: 1h}}`},
	{path: "*.window.start", values: []any{"00:00", "12:00"}},
	{path: "*.window.days[]", values: []any{"Thursday", "Monday"}},
	{path: "*.window.timeZone", values: []any{"Etc/UTC", "Asia/Tokyo"}, hostile: []any{"Mars/Olympus"}},
	{path: "*.window.duration", values: []any{"15m", "24h"}},
	{path: "*.automaticAfter", values: []any{"10s", "24h"}},
	{path: "*.upgrade.destination.*", with: `upgrade: {destination: {url: "s3://bucket/orders"}}`},
	{path: "*.podMonitor.interval", values: []any{"5s", "5m"}},
	{path: "*.podMonitor.labels{}", key: "release", values: []any{"prometheus", "other"}},
	{path: "*.exporter.resources.*.cpu", values: []any{"50m", 1}, hostile: []any{"1m", "999999"}},
	{path: "*.exporter.resources.*.memory", values: []any{"100Mi", 134217729}, hostile: []any{"1Ki"}},
	{path: "*.maxMemory", values: []any{"1Gi", 2147483649}, hostile: []any{"1Mi"}},
	{path: "*.nodeTimeout", values: []any{"1s", "60s"}},
	{path: "*.minReplicasToWrite", values: []any{0, 1}},
	{path: "*.rebalance.*", with: `version: 8.2.1`},
	{path: "*.rebalance.threshold", values: []any{5, 400}},
	{path: "*.rebalance.coolDown", values: []any{"1m", "720h"}},
	{path: "*.externalAccess.*", with: `externalAccess: {type: NodePort}`},
	{path: "*.externalAccess.host", values: []any{"redis.example.com", "203.0.113.7"}},
	{path: "*.externalAccess.annotations{}", key: "example.com/pool", values: []any{"inner", "outer"}},

	// Autoscalers.
	{path: "Autoscaler spec.cluster.kind", with: `{cluster: {kind: EtcdCluster, name: orders}, shards: null, storage: {max: 4Gi}}`, values: []any{"EtcdCluster"}},
	{path: "Autoscaler spec.storage.*", with: `{cluster: {kind: EtcdCluster, name: orders}, shards: null, storage: {max: 4Gi}}`},
	{path: "Autoscaler spec.storage.max", values: []any{"2Gi", 8589934593}, hostile: []any{"64Ti"}},
	{path: "Autoscaler spec.memory.*", with: `{shards: null, memory: {min: 256Mi, max: 8Gi}}`},
	{path: "Autoscaler spec.memory.min", values: []any{"128Mi", 1073741825}, hostile: []any{"16Mi"}},
	{path: "Autoscaler spec.memory.max", values: []any{"4Gi", 17179869185}, hostile: []any{"64Ti"}},
	{path: "Autoscaler spec.shards.min", values: []any{1, 5}},
	{path: "Autoscaler spec.shards.max", values: []any{3, 20}},
	{path: "Autoscaler *After", values: []any{"30s", "24h"}},

	// Users.
	{path: "*.username", values: []any{"app", "other"}, hostile: []any{"root", "default", "quorate-operator", "nopass"}},
	{path: "EtcdUser *.permissions[].key", with: `permissions: [{access: Read, key: /first}]`, values: []any{"/a", "/b"}},
	{path: "EtcdUser *.permissions[].prefix", values: []any{"/a/", "/b/"}},
	{path: "EtcdUser *.permissions[].range.*", with: `permissions: [{access: Read, range: {from: /b, to: /y}}]`, hostile: []any{"/zz"}},
	{path: "*.range.from", values: []any{"/c", "/d"}},
	{path: "*.range.to", values: []any{"/v", "/w"}},
	{path: "RedisUser *.channels[]", values: []any{"app:*", "b"}},
	{path: "RedisUser *.commands[]", values: []any{"get", "memory|usage"}, hostile: []any{"config", "ACL", "nosuchcommand", "flushall", "eval"}},
	{path: "RedisUser *.keys[].*", with: `keys: [{pattern: "app:*", access: Read}]`},
	{path: "RedisUser *.keys[].pattern", values: []any{"a:*", "b:*"}},
}

// words returns the key of a map that the leaf is tried at, and what the table says of the leaf.
func (l Leaf) words() (key string, all entry) {
	key = "example.com/a"
	for _, e := range l.said() {
		if e.key != "" {
			key = e.key
		}
		if e.values != nil || e.closed {
			all.values, all.closed = e.values, e.closed
		}
		all.hostile = append(all.hostile, e.hostile...)
	}
	return key, all
}

// Closed tells whether the leaf has no valid value: all are refused.
func (l Leaf) Closed() bool {
	_, e := l.words()
	return e.closed
}

func (l Leaf) said() []entry {
	var out []entry
	for _, e := range table {
		kind, path, ok := strings.Cut(e.path, " ")
		if !ok {
			kind, path = "", e.path
		}
		if (kind == "" || kind == l.Kind) && glob(path, l.Path) {
			out = append(out, e)
		}
	}
	return out
}

// Base returns a valid resource with the neighbours that the leaf needs, in a namespace.
func (l Leaf) Base(namespace string) (Object, error) {
	o, err := Parse(bases[l.Kind])
	if err != nil || len(o) == 0 {
		return nil, fmt.Errorf("the base of %s: %w", l.Kind, err)
	}
	o = Overlay(o, Object{"apiVersion": "quorate.dev/v1alpha1", "kind": l.Kind, "metadata": Object{"namespace": namespace}})
	for _, e := range l.said() {
		with, err := Parse(e.with)
		if err != nil {
			return nil, fmt.Errorf("the neighbours of %s: %w", e.path, err)
		}
		o = Overlay(o, Object{"spec": with})
	}
	return o, nil
}

// Parse reads YAML.
func Parse(text string) (Object, error) {
	o := Object{}
	return o, yaml.Unmarshal([]byte(text), &o)
}
