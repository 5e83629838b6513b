package envtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/redis/config"
)

// change is an update of a cluster that exists. Without words it is allowed.
type change struct {
	from, to     string // YAML of what differs under spec
	field, words string
}

var etcdChanges = map[string]change{
	"patch version up":        {to: `version: 3.6.17`},
	"patch version down":      {to: `version: 3.6.11`},
	"next minor version":      {to: `version: 3.7.3`},
	"previous minor version":  {to: `version: 3.5.35`},
	"a suffix":                {to: `version: 3.7.3-rc.1`, field: "spec.version", words: "without a leading v or a suffix"},
	"scale out":               {to: `size: 5`},
	"scale in":                {to: `size: 1`},
	"an even size":            {to: `size: 4`, field: "spec.size", words: "must be 1, 3, 5 or 7"},
	"smaller storage":         {to: `storage: {size: 512Mi}`},
	"storage without a log":   {to: `storage: {size: 511Mi}`, field: "spec.storage.size", words: "at least 512Mi"},
	"larger storage":          {to: `storage: {size: 2Gi}`},
	"storage class":           {to: `storage: {className: fast}`},
	"other storage class":     {from: `storage: {className: slow}`, to: `storage: {className: fast, size: 4Gi}`},
	"no storage class":        {from: `storage: {className: slow}`, to: `storage: {className: <removed>}`},
	"a class with a slash":    {to: `storage: {className: a/b}`, field: "spec.storage.className", words: "name of a StorageClass"},
	"storage below the quota": {from: `{storage: {size: 4Gi}, config: {quotaBackendBytes: 2Gi}}`, to: `storage: {size: 2Gi}`, field: "spec.config.quotaBackendBytes", words: "must leave 384Mi of spec.storage.size"},
	"other compaction":        {to: `config: {autoCompactionMode: Revision}`},
	"hibernation":             {from: `storage: {size: 1Gi}`, to: `hibernated: true`},
	"waking up":               {from: `{storage: {size: 1Gi}, hibernated: true}`, to: `hibernated: false`},
	"hibernation without storage": {
		from: `storage: <removed>`, to: `hibernated: true`, field: "spec.hibernated", words: "needs spec.storage",
	},
	"experimental key of 3.5":          {from: `version: 3.5.35`, to: `config: {extra: {experimental-corrupt-check-time: 1h}}`},
	"tls off":                          {to: `tls: {mode: Disabled}`},
	"tls on":                           {from: `tls: {mode: Disabled}`, to: `tls: {mode: Managed}`},
	"tls on by default":                {from: `tls: {mode: Disabled}`, to: `tls: <removed>`},
	"tls on with rotation":             {from: `tls: {mode: Disabled}`, to: `tls: {mode: Managed, rotation: {hold: 90s}}`},
	"tls on with own certificates":     {from: `tls: {mode: Disabled}`, to: `tls: {mode: Provided, secretName: mine}`},
	"own certificates away":            {from: `tls: {mode: Provided, secretName: mine}`, to: `tls: {mode: Disabled, secretName: <removed>}`},
	"tls off, its certificates kept":   {from: `tls: {mode: Provided, secretName: mine}`, to: `tls: {mode: Disabled}`, field: "spec.tls.secretName", words: "remove tls.secretName"},
	"tls off, its rotation kept":       {from: `tls: {mode: Managed, rotation: {hold: 90s}}`, to: `tls: {mode: Disabled}`, field: "spec.tls.rotation", words: "remove tls.rotation"},
	"tls to own certificates":          {to: `tls: {mode: Provided, secretName: mine}`, field: "spec.tls.mode", words: "set it to Disabled first"},
	"tls to managed certificates":      {from: `tls: {mode: Provided, secretName: mine}`, to: `tls: {mode: Managed, secretName: <removed>}`, field: "spec.tls.mode", words: "set it to Disabled first"},
	"tls by default to own":            {from: `tls: <removed>`, to: `tls: {mode: Provided, secretName: mine}`, field: "spec.tls.mode", words: "set it to Disabled first"},
	"tls off to cert-manager":          {from: `tls: {mode: Disabled}`, to: `tls: {mode: CertManager, issuerRef: {name: ours}}`, field: "spec.tls.mode", words: "cannot change from or to CertManager yet"},
	"cert-manager to tls off":          {from: `tls: {mode: CertManager, issuerRef: {name: ours}}`, to: `tls: {mode: Disabled, issuerRef: <removed>}`, field: "spec.tls.mode", words: "cannot change from or to CertManager yet"},
	"tls to cert-manager":              {to: `tls: {mode: CertManager, issuerRef: {name: ours}}`, field: "spec.tls.mode", words: "cannot change from or to CertManager yet"},
	"tls from cert-manager":            {from: `tls: {mode: CertManager, issuerRef: {name: ours}}`, to: `tls: {mode: Managed, issuerRef: <removed>}`, field: "spec.tls.mode", words: "cannot change from or to CertManager yet"},
	"own certificates to cert-manager": {from: `tls: {mode: Provided, secretName: mine}`, to: `tls: {mode: CertManager, secretName: <removed>, issuerRef: {name: ours}}`, field: "spec.tls.mode", words: "cannot change from or to CertManager yet"},
}

var redisChanges = map[string]change{
	"time for another password": {to: `auth: {rotation: {hold: 2m}}`},
	"patch version up":          {to: `version: 8.0.3`},
	"next minor version":        {to: `version: 8.2.0`},
	"next major version":        {from: `version: 7.0.15`, to: `version: 8.0.2`},
	"previous minor version":    {from: `version: 8.2.1`, to: `version: 8.0.2`},
	"a version of nobody":       {to: `version: 6.2.0`, field: "spec.version", words: "must be 7.0.x"},
	"a key of a later version":  {from: `{version: 7.2.5, config: {extra: {set-max-listpack-entries: "64"}}}`, to: `version: 7.0.15`, field: "spec.config.extra", words: "come with redis 7.2"},
	"other engine":              {to: `engine: valkey`, field: "spec.engine", words: "create a new cluster with the wanted engine"},
	"engine spelled out":        {to: `engine: redis`},
	"sharded to replicated":     {to: `{mode: Replicated, shards: <removed>}`, field: "spec.mode", words: "create a new cluster with the wanted mode"},
	"replicated to sharded":     {from: `{mode: Replicated, shards: 1}`, to: `{mode: Sharded, shards: 3}`, field: "spec.mode", words: "create a new cluster with the wanted mode"},
	"mode spelled out":          {to: `mode: Sharded`},
	"more of one primary":       {from: `{mode: Replicated, shards: 1}`, to: `shards: 2`, field: "spec.shards", words: "change spec.replicasPerShard for more copies"},
	"more copies of a primary":  {from: `{mode: Replicated, shards: <removed>}`, to: `replicasPerShard: 2`},
	"more shards":               {to: `shards: 4`},
	"fewer shards":              {from: `shards: 6`, to: `shards: 3`},
	"one shard":                 {to: `shards: 1`},
	"a lost shard served empty": {to: `recovery: {lostShard: AssignEmpty}`},
	"a dead primary replaced":   {to: `recovery: {deadPrimary: Replace}`},
	"too few shards":            {to: `shards: 0`, field: "spec.shards", words: "somebody has to own the slots"},
	"more replicas":             {to: `replicasPerShard: 5`},
	"no replicas":               {to: `replicasPerShard: 0`},
	"too many replicas":         {to: `replicasPerShard: 6`, field: "spec.replicasPerShard", words: "must be from 0 to 5"},
	"too many nodes":            {from: `{shards: 400, replicasPerShard: 1}`, to: `replicasPerShard: 2`, field: "spec.shards", words: "at most 1000"},
	"replicas spelled out":      {to: `replicasPerShard: 1`},
	"smaller storage":           {to: `storage: {size: 512Mi}`, field: "spec.storage.size", words: "storage.size cannot shrink"},
	"larger storage":            {to: `storage: {size: 2Gi}`, field: "spec.storage.size", words: "storage.size cannot grow yet"},
	"storage class":             {to: `storage: {className: fast}`, field: "spec.storage.className", words: "cannot change"},
	"other storage class":       {from: `storage: {className: slow}`, to: `storage: {className: fast}`, field: "spec.storage.className", words: "cannot change"},
	"storage class taken away":  {from: `storage: {className: slow}`, to: `storage: {className: <removed>}`, field: "spec.storage.className", words: "cannot change"},
	"other memory and policy":   {to: `config: {maxMemory: 1Gi, maxMemoryPolicy: allkeys-lru}`},
	"fewer copies":              {from: `{replicasPerShard: 2, config: {minReplicasToWrite: 2}}`, to: `replicasPerShard: 1`, field: "spec.config.minReplicasToWrite", words: "at most spec.replicasPerShard"},
	"memory limit below use":    {from: `config: {maxMemory: 1Gi}`, to: `resources: {limits: {memory: 512Mi}}`, field: "spec.config.maxMemory", words: "must be below spec.resources.limits.memory"},
	"tls off":                   {to: `tls: {mode: Disabled}`, field: "spec.tls.mode", words: "cannot change yet"},
	"tls on":                    {from: `tls: {mode: Disabled}`, to: `tls: {mode: Managed}`, field: "spec.tls.mode", words: "cannot change yet"},
	"tls on by default":         {from: `tls: {mode: Disabled}`, to: `tls: <removed>`, field: "spec.tls.mode", words: "cannot change yet"},
	"tls to own certificates":   {to: `tls: {mode: Provided, secretName: mine}`, field: "spec.tls.mode", words: "cannot change yet"},
	"tls to cert-manager":       {to: `tls: {mode: CertManager, issuerRef: {name: ours}}`, field: "spec.tls.mode", words: "cannot change yet"},
	"tls from cert-manager":     {from: `tls: {mode: CertManager, issuerRef: {name: ours}}`, to: `tls: {mode: Managed, issuerRef: <removed>}`, field: "spec.tls.mode", words: "cannot change yet"},
	"cert-manager to tls off":   {from: `tls: {mode: CertManager, issuerRef: {name: ours}}`, to: `tls: {mode: Disabled, issuerRef: <removed>}`, field: "spec.tls.mode", words: "cannot change yet"},
}

var bothChanges = map[string]change{
	"nothing":                   {to: ``},
	"pause":                     {to: `paused: true`},
	"image":                     {to: `image: registry.example.com/mirror/store:1`},
	"resources":                 {to: `resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}`},
	"template":                  {to: `template: {labels: {team: a}, env: [{name: A, value: b}]}`},
	"deletion policy":           {to: `storage: {deletionPolicy: Delete}`},
	"same storage, other units": {to: `storage: {size: 1024Mi}`},
	"storage taken away":        {to: `storage: <removed>`, field: "spec.storage", words: "cannot be added or removed"},
	"storage added":             {from: `storage: <removed>`, to: `storage: {size: 1Gi}`, field: "spec.storage", words: "cannot be added or removed"},
	"tls to other certificates": {from: `tls: {mode: Provided, secretName: mine}`, to: `tls: {secretName: yours}`, field: "spec.tls.secretName", words: "cannot change yet"},
	"another issuer":            {from: `tls: {mode: CertManager, issuerRef: {name: ours}}`, to: `tls: {issuerRef: {name: theirs, kind: ClusterIssuer}}`},
	"tls left to its default":   {to: `tls: <removed>`},
	"auth off":                  {to: `auth: {mode: Disabled}`, field: "spec.auth.mode", words: "cannot change yet"},
	"auth on":                   {from: `auth: {mode: Disabled}`, to: `auth: {mode: Password}`, field: "spec.auth.mode", words: "cannot change yet"},
	"own password":              {to: `auth: {secretName: mine}`, field: "spec.auth.secretName", words: "cannot change yet"},
	"generated password again":  {from: `auth: {secretName: mine}`, to: `auth: {secretName: <removed>}`, field: "spec.auth.secretName", words: "cannot change yet"},
	"an invalid value later":    {to: `config: {extra: {hz: "$(id)"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"an owned label later":      {to: `template: {labels: {quorate.dev/shard: "1"}}`, field: "spec.template.labels", words: "use a prefix of your own"},
	"a broken version":          {to: `version: latest`, field: "spec.version", words: "without a leading v"},
}

func TestChangesOfEtcdClusters(t *testing.T) {
	changeAll(t, etcdKind, merged(etcdChanges, bothChanges))
}

func TestChangesOfRedisClusters(t *testing.T) {
	changeAll(t, redisKind, merged(redisChanges, bothChanges))
}

func changeAll(t *testing.T, k kind, table map[string]change) {
	t.Helper()
	s := apiServer(t)
	refused, allowed, number := 0, 0, 0
	for name, c := range table {
		number++
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			from := bad{spec: c.from, whole: fmt.Sprintf(`metadata: {name: change-%d}`, number)}
			u := toUnstructured(t, from.object(t, k))
			if err := s.client.Create(ctx, u); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.client.Delete(ctx, u); err != nil {
					t.Error(err)
				}
			}()
			next := toUnstructured(t, overlay(u.Object, object{"spec": parse(t, c.to)}))
			err := s.client.Update(ctx, next, client.DryRunAll)
			if c.words != "" {
				refusal(t, err, c.field, c.words)
				refused++
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			allowed++
		})
	}
	t.Logf("%s: %d changes refused with field and cure, %d allowed", k.name, refused, allowed)
}

func TestScaleSubresource(t *testing.T) {
	for _, c := range []struct {
		kind
		replicas, observed int64
		status             object
		refused            int64
		field, words       string
	}{
		{etcdKind, 3, 2, object{"size": 2, "selector": "a=b"}, 4, "spec.size", "must be 1, 3, 5 or 7"},
		{redisKind, 3, 1, object{"shardCount": 1, "selector": "a=b"}, 0, "spec.shards", "somebody has to own the slots"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, ctx := apiServer(t), testContext(t)
			u := toUnstructured(t, bad{whole: `metadata: {name: scaled}`}.object(t, c.kind))
			if err := s.client.Create(ctx, u); err != nil {
				t.Fatal(err)
			}
			defer s.client.Delete(ctx, u) //nolint:errcheck // The server goes away with the tests.
			u.Object["status"] = c.status
			if err := s.client.Status().Update(ctx, toUnstructured(t, u.Object)); err != nil {
				t.Fatal(err)
			}
			scale := &unstructured.Unstructured{}
			scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
			if err := s.client.SubResource("scale").Get(ctx, u, scale); err != nil {
				t.Fatal(err)
			}
			got := object{"spec": scale.Object["spec"], "status": scale.Object["status"]}
			want := object{"spec": object{"replicas": c.replicas}, "status": object{"replicas": c.observed, "selector": "a=b"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("/scale (-want +got):\n%s", diff)
			}
			scale.Object["spec"] = object{"replicas": c.refused}
			err := s.client.SubResource("scale").Update(ctx, u, client.WithSubResourceBody(scale))
			if err == nil || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("an update of /scale must be refused for %s with %q: %v", c.field, c.words, err)
			}
		})
	}
}

// Everything at its bounds at once must stay within the cost that the API server grants to CEL rules at run time.
func TestTheLargestSpecStaysWithinTheCostBudget(t *testing.T) {
	s := apiServer(t)
	for _, k := range kinds {
		template := object{"labels": object{}, "annotations": object{}, "nodeSelector": object{}}
		for i := range 32 {
			for field := range template {
				size := 63
				if field == "annotations" {
					size = 1024
				}
				template[field].(object)[fmt.Sprintf("%s.example.com/%s%02d", strings.Repeat("d", 60), strings.Repeat("k", 60), i)] = strings.Repeat("v", size)
			}
		}
		env, extra := []any{}, object{}
		for _, name := range slices.Sorted(maps.Keys(config.FreeParameters))[:64] {
			extra[name] = config.FreeParameters[name].Value.Good[0]
		}
		for i := range 64 {
			env = append(env, object{"name": fmt.Sprintf("%s%d", strings.Repeat("N", 200), i), "value": strings.Repeat("v", 10000)})
		}
		template["env"] = env
		spec := object{"template": template, "monitoring": object{"podMonitor": object{"labels": most(template["labels"].(object), 8)}}}
		if k.name == redisKind.name { // etcd has fewer parameters than this.
			spec["config"] = object{"extra": extra}
		}
		u := &unstructured.Unstructured{Object: overlay(parse(t, k.base), object{"spec": spec})}
		if err := s.client.Create(testContext(t), toUnstructured(t, u.Object), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// most returns no more than n entries of a map.
func most(m object, n int) object {
	out := object{}
	for _, key := range slices.Sorted(maps.Keys(m))[:n] {
		out[key] = m[key]
	}
	return out
}
