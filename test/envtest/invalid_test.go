package envtest

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestInvalidEtcdClustersAreRefused(t *testing.T) {
	refuseAll(t, etcdKind, merged(invalidEtcd, invalidBoth))
}

func TestInvalidRedisClustersAreRefused(t *testing.T) {
	refuseAll(t, redisKind, merged(invalidRedis, invalidBoth))
}

func refuseAll(t *testing.T, k kind, table map[string]bad) {
	t.Helper()
	s := apiServer(t)
	refused := 0
	for name, c := range table {
		t.Run(name, func(t *testing.T) {
			err := s.client.Create(testContext(t), toUnstructured(t, c.object(t, k)), client.DryRunAll)
			refusal(t, err, c.field, c.words)
			refused++
		})
	}
	t.Logf("%s: %d of %d invalid or hostile specs refused with field and cure", k.name, refused, len(table))
}

var (
	longName  = strings.Repeat("a", 41)
	longKey   = strings.Repeat("k", 65)
	longValue = strings.Repeat("v", 257)
)

var invalidEtcd = map[string]bad{
	"no size":                         {spec: `size: <removed>`, field: "spec.size", words: "Required"},
	"null size":                       {spec: `size: null`, field: "spec.size", words: "Required"},
	"no version":                      {spec: `version: <removed>`, field: "spec.version", words: "Required"},
	"no spec":                         {whole: `spec: <removed>`, field: "spec", words: "Required"},
	"even size":                       {spec: `size: 4`, field: "spec.size", words: "an even number of members bears no more failures"},
	"size zero":                       {spec: `size: 0`, field: "spec.size", words: "must be 1, 3, 5 or 7"},
	"negative size":                   {spec: `size: -3`, field: "spec.size", words: "must be 1, 3, 5 or 7"},
	"size nine":                       {spec: `size: 9`, field: "spec.size", words: "more than 7 slow every write down"},
	"size beyond 32 bits":             {spec: `size: 4294967299`, field: "spec.size", words: "must be 1, 3, 5 or 7"},
	"size in words":                   {spec: `size: three`, field: "spec.size", words: "must be of type integer"},
	"size and a half":                 {spec: `size: 3.5`, field: "spec.size", words: "must be of type int32"},
	"version with a v":                {spec: `version: v3.6.16`, field: "spec.version", words: "write 3.6.16, without a leading v"},
	"version without patch":           {spec: `version: "3.6"`, field: "spec.version", words: "write 3.6.16"},
	"version of a release candidate":  {spec: `version: 3.6.0-rc.1`, field: "spec.version", words: "without a leading v or a suffix"},
	"version 3.4":                     {spec: `version: 3.4.33`, field: "spec.version", words: "must be 3.5.x (x from 11), 3.6.x or 3.7.x"},
	"version 3.5 before 11":           {spec: `version: 3.5.10`, field: "spec.version", words: "x from 11"},
	"version 3.8":                     {spec: `version: 3.8.0`, field: "spec.version", words: "must be 3.5.x (x from 11), 3.6.x or 3.7.x"},
	"version latest":                  {spec: `version: latest`, field: "spec.version", words: "must be 3.5.x"},
	"empty version":                   {spec: `version: ""`, field: "spec.version", words: "must be 3.5.x"},
	"version with a newline":          {spec: `version: "3.6.16\n"`, field: "spec.version", words: "must be 3.5.x"},
	"version in full-width digits":    {spec: `version: "３.６.１６"`, field: "spec.version", words: "must be 3.5.x"},
	"endless version":                 {spec: `version: "3.6.00000000000000000000000000000000016"`, field: "spec.version", words: "Too long"},
	"quota too small":                 {spec: `config: {quotaBackendBytes: 1Ki}`, field: "spec.config.quotaBackendBytes", words: "from 1Mi to 100Gi"},
	"quota too large":                 {spec: `{storage: {size: 1Ti}, config: {quotaBackendBytes: 101Gi}}`, field: "spec.config.quotaBackendBytes", words: "from 1Mi to 100Gi"},
	"negative quota":                  {spec: `config: {quotaBackendBytes: "-1Gi"}`, field: "spec.config.quotaBackendBytes", words: "from 1Mi to 100Gi"},
	"quota with a wrong unit":         {spec: `config: {quotaBackendBytes: 1GiB}`, field: "spec.config.quotaBackendBytes", words: "should match"},
	"quota with a fraction of a byte": {spec: `config: {quotaBackendBytes: "10485760500m"}`, field: "spec.config.quotaBackendBytes", words: "whole number of bytes"},
	"quota above the volume":          {spec: `config: {quotaBackendBytes: 2Gi}`, field: "spec.config.quotaBackendBytes", words: "must be below spec.storage.size"},
	"heartbeat too short":             {spec: `config: {heartbeatInterval: 1ms}`, field: "spec.config.heartbeatInterval", words: "from 10ms to 10s"},
	"heartbeat without unit":          {spec: `config: {heartbeatInterval: "100"}`, field: "spec.config.heartbeatInterval", words: "for example 100ms"},
	"heartbeat as a number":           {spec: `config: {heartbeatInterval: 100}`, field: "spec.config.heartbeatInterval", words: "must be of type string"},
	"negative heartbeat":              {spec: `config: {heartbeatInterval: "-100ms"}`, field: "spec.config.heartbeatInterval", words: "from 10ms to 10s"},
	"election too close to heartbeat": {spec: `config: {heartbeatInterval: 500ms, electionTimeout: 2s}`, field: "spec.config.electionTimeout", words: "five times config.heartbeatInterval"},
	"default election too close":      {spec: `config: {heartbeatInterval: 300ms}`, field: "spec.config.electionTimeout", words: "default 1s"},
	"election too close to default":   {spec: `config: {electionTimeout: 400ms}`, field: "spec.config.electionTimeout", words: "default 100ms"},
	"election too long":               {spec: `config: {electionTimeout: 51s}`, field: "spec.config.electionTimeout", words: "from 50ms to 50s"},
	"unknown compaction mode":         {spec: `config: {autoCompactionMode: periodic}`, field: "spec.config.autoCompactionMode", words: `supported values: "Periodic", "Revision"`},
	"periodic retention without unit": {spec: `config: {autoCompactionRetention: "1"}`, field: "spec.config.autoCompactionRetention", words: "a duration such as 1h"},
	"revision retention with unit":    {spec: `config: {autoCompactionMode: Revision, autoCompactionRetention: 1h}`, field: "spec.config.autoCompactionRetention", words: "a number of revisions such as 10000"},
	"negative retention":              {spec: `config: {autoCompactionMode: Revision, autoCompactionRetention: "-1"}`, field: "spec.config.autoCompactionRetention", words: "a number of revisions"},
	"no entries per snapshot":         {spec: `config: {snapshotCount: 0}`, field: "spec.config.snapshotCount", words: "greater than or equal to 1"},
	"too many entries per snapshot":   {spec: `config: {snapshotCount: 10000001}`, field: "spec.config.snapshotCount", words: "less than or equal to 10000000"},
	"requests too small to work":      {spec: `config: {maxRequestBytes: "1"}`, field: "spec.config.maxRequestBytes", words: "from 64Ki to 10Mi"},
	"requests too large":              {spec: `config: {maxRequestBytes: 11Mi}`, field: "spec.config.maxRequestBytes", words: "from 64Ki to 10Mi"},
	"unknown log level":               {spec: `config: {logLevel: verbose}`, field: "spec.config.logLevel", words: "supported values"},
	"owned name":                      {spec: `config: {extra: {name: evil}}`, field: "spec.config.extra", words: "identity, data and membership"},
	"owned membership":                {spec: `config: {extra: {initial-cluster-state: new}}`, field: "spec.config.extra", words: "initial-*"},
	"owned force-new-cluster":         {spec: `config: {extra: {force-new-cluster: "true"}}`, field: "spec.config.extra", words: "force-new-cluster*"},
	"owned address":                   {spec: `config: {extra: {listen-client-urls: "http://0.0.0.0:2379"}}`, field: "spec.config.extra", words: "addresses and ports"},
	"owned certificate":               {spec: `config: {extra: {peer-trusted-ca-file: /tmp/ca.crt}}`, field: "spec.config.extra", words: "use spec.tls"},
	"owned token":                     {spec: `config: {extra: {auth-token: simple}}`, field: "spec.config.extra", words: "use spec.auth"},
	"unsafe-no-fsync":                 {spec: `config: {extra: {unsafe-no-fsync: "true"}}`, field: "spec.config.extra", words: "endanger the data"},
	"typed key again":                 {spec: `config: {extra: {quota-backend-bytes: "1"}}`, field: "spec.config.extra", words: "use spec.config.quotaBackendBytes"},
	"experimental key after 3.5":      {spec: `config: {extra: {experimental-corrupt-check-time: 1h}}`, field: "spec.config.extra", words: "end with etcd 3.5"},
	"key that etcd does not know":     {spec: `config: {extra: {max-txn-opps: "256"}}`, field: "spec.config.extra", words: "check the name"},
	"key before its time":             {spec: `{version: 3.5.35, config: {extra: {corrupt-check-time: 1h}}}`, field: "spec.config.extra", words: "comes with etcd 3.6"},
	"number in words":                 {spec: `config: {extra: {max-txn-ops: many}}`, field: "spec.config.extra", words: "must be whole"},
	"switch that is neither":          {spec: `config: {extra: {pre-vote: maybe}}`, field: "spec.config.extra", words: "true or false"},
	"time without unit":               {spec: `config: {extra: {corrupt-check-time: "60"}}`, field: "spec.config.extra", words: "for example 10s"},
	"bcrypt cost of a day":            {spec: `config: {extra: {bcrypt-cost: "31"}}`, field: "spec.config.extra", words: "bcrypt-cost from 4 to 14"},
	"old TLS":                         {spec: `config: {extra: {tls-min-version: TLS1.0}}`, field: "spec.config.extra", words: "TLS1.2 or TLS1.3"},
	"key in capitals":                 {spec: `config: {extra: {Max-Txn-Ops: "1"}}`, field: "spec.config.extra", words: "lower case letters"},
}

var invalidRedis = map[string]bad{
	"unknown engine":               {spec: `engine: keydb`, field: "spec.engine", words: `supported values: "redis", "valkey"`},
	"engine in capitals":           {spec: `engine: Redis`, field: "spec.engine", words: "supported values"},
	"empty engine":                 {spec: `engine: ""`, field: "spec.engine", words: "supported values"},
	"no version":                   {spec: `version: <removed>`, field: "spec.version", words: "Required"},
	"redis 6":                      {spec: `version: 6.2.14`, field: "spec.version", words: "must be 7.0.x, 7.2.x, 7.4.x or 8.x.y"},
	"redis 7.1":                    {spec: `version: 7.1.0`, field: "spec.version", words: "7.0.x, 7.2.x, 7.4.x"},
	"redis 9":                      {spec: `version: 9.1.2`, field: "spec.version", words: "of engine redis"},
	"valkey 7":                     {spec: `{engine: valkey, version: 7.2.5}`, field: "spec.version", words: "must be 8.x.y or 9.x.y"},
	"version with a v":             {spec: `version: v8.0.2`, field: "spec.version", words: "without a leading v"},
	"version without patch":        {spec: `version: "8.0"`, field: "spec.version", words: "write 8.0.2"},
	"version with a flavour":       {spec: `version: 8.0.2-alpine`, field: "spec.version", words: "or a suffix"},
	"no shards":                    {spec: `shards: <removed>`, field: "spec.shards", words: "Required"},
	"two shards":                   {spec: `shards: 2`, field: "spec.shards", words: "fewer than three primaries cannot elect a replacement by majority"},
	"no shard at all":              {spec: `shards: 0`, field: "spec.shards", words: "at least 3"},
	"negative shards":              {spec: `shards: -3`, field: "spec.shards", words: "at least 3"},
	"501 shards":                   {spec: `shards: 501`, field: "spec.shards", words: "at most 500"},
	"shards beyond 32 bits":        {spec: `shards: 4294967299`, field: "spec.shards", words: "at most 500"},
	"too many servers":             {spec: `{shards: 500, replicasPerShard: 2}`, field: "spec.shards", words: "at most 1000"},
	"negative replicas":            {spec: `replicasPerShard: -1`, field: "spec.replicasPerShard", words: "from 0 to 5"},
	"six replicas":                 {spec: `replicasPerShard: 6`, field: "spec.replicasPerShard", words: "from 0 to 5"},
	"replicas as text":             {spec: `replicasPerShard: "1"`, field: "spec.replicasPerShard", words: "must be of type integer"},
	"node timeout too short":       {spec: `config: {nodeTimeout: 500ms}`, field: "spec.config.nodeTimeout", words: "from 1s to 60s"},
	"node timeout too long":        {spec: `config: {nodeTimeout: 61s}`, field: "spec.config.nodeTimeout", words: "from 1s to 60s"},
	"node timeout without unit":    {spec: `config: {nodeTimeout: "5000"}`, field: "spec.config.nodeTimeout", words: "for example 5s"},
	"node timeout that overflows":  {spec: `config: {nodeTimeout: 999999999999999999s}`, field: "spec.config.nodeTimeout", words: "from 1s to 60s"},
	"memory too small":             {spec: `config: {maxMemory: 100Ki}`, field: "spec.config.maxMemory", words: "at least 1Mi"},
	"negative memory":              {spec: `config: {maxMemory: "-1Gi"}`, field: "spec.config.maxMemory", words: "at least 1Mi"},
	"memory in redis units":        {spec: `config: {maxMemory: 512mb}`, field: "spec.config.maxMemory", words: "should match"},
	"memory at the limit":          {spec: `{config: {maxMemory: 1Gi}, resources: {limits: {memory: 1Gi}}}`, field: "spec.config.maxMemory", words: "must be below spec.resources.limits.memory"},
	"memory above the limit":       {spec: `{config: {maxMemory: 2Gi}, resources: {limits: {memory: 1Gi}}}`, field: "spec.config.maxMemory", words: "three quarters"},
	"unknown memory policy":        {spec: `config: {maxMemoryPolicy: lru}`, field: "spec.config.maxMemoryPolicy", words: "supported values"},
	"unknown fsync":                {spec: `config: {appendFsync: never}`, field: "spec.config.appendFsync", words: "supported values"},
	"owned port":                   {spec: `config: {extra: {port: "6380"}}`, field: "spec.config.extra", words: "addresses and ports"},
	"owned protected-mode":         {spec: `config: {extra: {protected-mode: "no"}}`, field: "spec.config.extra", words: "protected-mode"},
	"owned user":                   {spec: `config: {extra: {user: default on nopass}}`, field: "spec.config.extra", words: "use spec.auth"},
	"owned password":               {spec: `config: {extra: {requirepass: x}}`, field: "spec.config.extra", words: "use spec.auth"},
	"owned shape":                  {spec: `config: {extra: {cluster-enabled: "no"}}`, field: "spec.config.extra", words: "the shape of the cluster"},
	"owned replicaof":              {spec: `config: {extra: {replicaof: evil.example.com 6379}}`, field: "spec.config.extra", words: "the shape of the cluster"},
	"owned directory":              {spec: `config: {extra: {dir: /etc}}`, field: "spec.config.extra", words: "use spec.storage"},
	"owned certificate":            {spec: `config: {extra: {tls-cert-file: /tmp/x}}`, field: "spec.config.extra", words: "use spec.tls"},
	"a module":                     {spec: `config: {extra: {loadmodule: /tmp/evil.so}}`, field: "spec.config.extra", words: "what the server executes"},
	"an include":                   {spec: `config: {extra: {include: /tmp/evil.conf}}`, field: "spec.config.extra", words: "what the server executes"},
	"a renamed command":            {spec: `config: {extra: {rename-command: CONFIG x}}`, field: "spec.config.extra", words: "what the server executes"},
	"debug commands":               {spec: `config: {extra: {enable-debug-command: "yes"}}`, field: "spec.config.extra", words: "enable-*"},
	"a daemon":                     {spec: `config: {extra: {daemonize: "yes"}}`, field: "spec.config.extra", words: "the process and its log"},
	"typed key again":              {spec: `config: {extra: {maxmemory: "1"}}`, field: "spec.config.extra", words: "use spec.config.maxMemory"},
	"typed key of an owned prefix": {spec: `config: {extra: {cluster-node-timeout: "1"}}`, field: "spec.config.extra", words: "use spec.config.nodeTimeout"},
}

// invalidBoth are wrong for either kind.
var invalidBoth = map[string]bad{
	"name too long":               {whole: `metadata: {name: ` + longName + `}`, field: "metadata", words: "at most 40"},
	"name with a dot":             {whole: `metadata: {name: my.cluster}`, field: "metadata", words: "letters, digits and -"},
	"name that begins with digit": {whole: `metadata: {name: 1st}`, field: "metadata", words: "begin with a letter"},
	"name in capitals":            {whole: `metadata: {name: Orders}`, field: "metadata", words: "lower case"},

	"image with a space":            {spec: `image: "etcd:v3.6.16 --privileged"`, field: "spec.image", words: "must be an image reference"},
	"image with shell characters":   {spec: `image: "etcd:$(reboot)"`, field: "spec.image", words: "must be an image reference"},
	"image as a URL":                {spec: `image: "https://quay.io/coreos/etcd:v3.6.16"`, field: "spec.image", words: "must be an image reference"},
	"empty image":                   {spec: `image: ""`, field: "spec.image", words: "at least 1 char"},
	"image with a truncated digest": {spec: `image: "quay.io/coreos/etcd@sha256:abc"`, field: "spec.image", words: "must be an image reference"},

	"storage without size":     {spec: `storage: {size: <removed>}`, field: "spec.storage.size", words: "Required"},
	"storage of nothing":       {spec: `storage: {size: "0"}`, field: "spec.storage.size", words: "at least 64Mi"},
	"negative storage":         {spec: `storage: {size: "-1Gi"}`, field: "spec.storage.size", words: "at least 64Mi"},
	"tiny storage":             {spec: `storage: {size: 63Mi}`, field: "spec.storage.size", words: "at least 64Mi"},
	"storage of milli bytes":   {spec: `storage: {size: 500m}`, field: "spec.storage.size", words: "at least 64Mi"},
	"boundless storage":        {spec: `storage: {size: "1e30"}`, field: "spec.storage.size", words: "at most 64Ti"},
	"storage in a wrong unit":  {spec: `storage: {size: 10GB}`, field: "spec.storage.size", words: "should match"},
	"storage class with slash": {spec: `storage: {className: a/b}`, field: "spec.storage.className", words: "name of a StorageClass"},
	"unknown deletion policy":  {spec: `storage: {deletionPolicy: Recycle}`, field: "spec.storage.deletionPolicy", words: "supported values"},

	"unknown tls mode":                   {spec: `tls: {mode: "Off"}`, field: "spec.tls.mode", words: "supported values"},
	"provided certificates from nowhere": {spec: `tls: {mode: Provided}`, field: "spec.tls.secretName", words: "name a Secret of this namespace with the keys ca.crt"},
	"certificates that are not read":     {spec: `tls: {secretName: mine}`, field: "spec.tls.secretName", words: "set tls.mode to Provided"},
	"certificates with tls off":          {spec: `tls: {mode: Disabled, secretName: mine}`, field: "spec.tls.secretName", words: "set tls.mode to Provided"},
	"certificates of other namespace":    {spec: `tls: {mode: Provided, secretName: kube-system/mine}`, field: "spec.tls.secretName", words: "a Secret of the same namespace"},
	"certificates with a namespace":      {spec: `tls: {mode: Provided, secretName: mine, namespace: kube-system}`, field: "spec.tls.namespace", words: "unknown field"},
	"unknown auth mode":                  {spec: `auth: {mode: None}`, field: "spec.auth.mode", words: "supported values"},
	"password with auth off":             {spec: `auth: {mode: Disabled, secretName: mine}`, field: "spec.auth.secretName", words: "set auth.mode to Password"},
	"password of other namespace":        {spec: `auth: {secretName: ../kube-system/mine}`, field: "spec.auth.secretName", words: "a Secret of the same namespace"},
	"password in the spec":               {spec: `auth: {password: hunter2}`, field: "spec.auth.password", words: "unknown field"},

	"request above limit":       {spec: `resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}`, field: "spec.resources.requests", words: "lower the request or raise the limit"},
	"cpu request above limit":   {spec: `resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}`, field: "spec.resources.requests", words: "lower the request or raise the limit"},
	"negative request":          {spec: `resources: {requests: {cpu: "-1"}}`, field: "spec.resources.requests", words: "cannot be negative"},
	"limit of nothing":          {spec: `resources: {limits: {memory: 0}}`, field: "spec.resources.limits", words: "above zero"},
	"limit of something else":   {spec: `resources: {limits: {"nvidia.com/gpu": 1}}`, field: "spec.resources.limits", words: "cpu, memory and ephemeral-storage only"},
	"request of something else": {spec: `resources: {requests: {ram: 1Gi}}`, field: "spec.resources.requests", words: "cpu, memory and ephemeral-storage only"},
	"memory in a wrong unit":    {spec: `resources: {limits: {memory: 1gb}}`, field: "spec.resources.limits.memory", words: "should match"},
	"resource claims":           {spec: `resources: {claims: [{name: device}]}`, field: "spec.resources.claims", words: "cannot be set"},

	"label of the operator":      {spec: `template: {labels: {app.kubernetes.io/name: evil}}`, field: "spec.template.labels", words: "use a prefix of your own"},
	"shard label":                {spec: `template: {labels: {quorate.dev/shard: "0"}}`, field: "spec.template.labels", words: "use a prefix of your own"},
	"label of the StatefulSet":   {spec: `template: {labels: {statefulset.kubernetes.io/pod-name: x}}`, field: "spec.template.labels", words: "use a prefix of your own"},
	"label key with a space":     {spec: `template: {labels: {"my team": x}}`, field: "spec.template.labels", words: "a valid label key"},
	"label value with a space":   {spec: `template: {labels: {team: "a b"}}`, field: "spec.template.labels", words: "a valid label value"},
	"label value too long":       {spec: `template: {labels: {team: ` + strings.Repeat("a", 64) + `}}`, field: "spec.template.labels", words: "at most 63"},
	"annotation of the operator": {spec: `template: {annotations: {quorate.dev/template-hash: x}}`, field: "spec.template.annotations", words: "belong to the operator"},
	"apparmor by annotation":     {spec: `template: {annotations: {container.apparmor.security.beta.kubernetes.io/etcd: unconfined}}`, field: "spec.template.annotations", words: "AppArmor"},
	"annotation key with braces": {spec: `template: {annotations: {"{{evil}}": x}}`, field: "spec.template.annotations", words: "a valid annotation key"},
	"node selector too long":     {spec: `template: {nodeSelector: {zone: ` + strings.Repeat("z", 64) + `}}`, field: "spec.template.nodeSelector", words: "at most 63"},
	"system priority":            {spec: `template: {priorityClassName: system-node-critical}`, field: "spec.template.priorityClassName", words: "use a PriorityClass of your own"},
	"priority with a slash":      {spec: `template: {priorityClassName: a/b}`, field: "spec.template.priorityClassName", words: "name of a PriorityClass"},

	"env of etcd":             {spec: `template: {env: [{name: ETCD_FORCE_NEW_CLUSTER, value: "true"}]}`, field: "spec.template.env", words: "set parameters under spec.config"},
	"env of the operator":     {spec: `template: {env: [{name: POD_NAME, value: x}]}`, field: "spec.template.env", words: "belong to the operator"},
	"env of the linker":       {spec: `template: {env: [{name: LD_PRELOAD, value: /tmp/evil.so}]}`, field: "spec.template.env", words: "belong to the operator"},
	"env of the Go runtime":   {spec: `template: {env: [{name: GODEBUG, value: x509sha1=1}]}`, field: "spec.template.env", words: "belong to the operator"},
	"env with the password":   {spec: `template: {env: [{name: REDISCLI_AUTH, value: x}]}`, field: "spec.template.env", words: "belong to the operator"},
	"env without a name":      {spec: `template: {env: [{name: "", value: x}]}`, field: "spec.template.env", words: "needs a name"},
	"env twice":               {spec: `template: {env: [{name: A, value: x}, {name: A, value: y}]}`, field: "spec.template.env[1]", words: "Duplicate"},
	"env of the pod":          {spec: `template: {env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}`, field: "spec.template.env", words: "secretKeyRef and configMapKeyRef"},
	"env from nowhere":        {spec: `template: {env: [{name: A, valueFrom: {}}]}`, field: "spec.template.env", words: "exactly one of"},
	"env from an unnamed one": {spec: `template: {env: [{name: A, valueFrom: {secretKeyRef: {key: x}}}]}`, field: "spec.template.env", words: "need a name"},
	"env from two places":     {spec: `template: {env: [{name: A, value: x, valueFrom: {secretKeyRef: {name: s, key: x}}}]}`, field: "spec.template.env", words: "either value or valueFrom"},
	"pull secret unnamed":     {spec: `template: {imagePullSecrets: [{}]}`, field: "spec.template.imagePullSecrets", words: "name of a Secret"},

	"root user":                {spec: `template: {securityContext: {runAsUser: 0}}`, field: "spec.template.securityContext.runAsUser", words: "never run as root"},
	"root group":               {spec: `template: {securityContext: {runAsGroup: 0}}`, field: "spec.template.securityContext.runAsGroup", words: "never run as root"},
	"root fsGroup":             {spec: `template: {securityContext: {fsGroup: 0}}`, field: "spec.template.securityContext.fsGroup", words: "never run as root"},
	"root as a second group":   {spec: `template: {securityContext: {supplementalGroups: [1000, 0]}}`, field: "spec.template.securityContext.supplementalGroups", words: "above 0"},
	"seccomp file missing":     {spec: `template: {securityContext: {seccompProfile: {type: Localhost}}}`, field: "spec.template.securityContext.seccompProfile.localhostProfile", words: "names a file of the node"},
	"apparmor profile missing": {spec: `template: {securityContext: {appArmorProfile: {type: Localhost}}}`, field: "spec.template.securityContext.appArmorProfile.localhostProfile", words: "names a profile of the node"},
	"unknown change policy":    {spec: `template: {securityContext: {fsGroupChangePolicy: Never}}`, field: "spec.template.securityContext.fsGroupChangePolicy", words: "OnRootMismatch or Always"},
	"unknown groups policy":    {spec: `template: {securityContext: {supplementalGroupsPolicy: merge}}`, field: "spec.template.securityContext.supplementalGroupsPolicy", words: "Merge or Strict"},
	"unknown relabeling":       {spec: `template: {securityContext: {seLinuxChangePolicy: None}}`, field: "spec.template.securityContext.seLinuxChangePolicy", words: "MountOption or Recursive"},
	"maybe root":               {spec: `template: {securityContext: {runAsNonRoot: false}}`, field: "spec.template.securityContext.runAsNonRoot", words: "must be true"},
	"unconfined seccomp":       {spec: `template: {securityContext: {seccompProfile: {type: Unconfined}}}`, field: "spec.template.securityContext.seccompProfile.type", words: "RuntimeDefault or Localhost"},
	"unconfined apparmor":      {spec: `template: {securityContext: {appArmorProfile: {type: Unconfined}}}`, field: "spec.template.securityContext.appArmorProfile.type", words: "RuntimeDefault or Localhost"},
	"sysctls":                  {spec: `template: {securityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}}`, field: "spec.template.securityContext.sysctls", words: "cannot be set"},
	"windows":                  {spec: `template: {securityContext: {windowsOptions: {hostProcess: true}}}`, field: "spec.template.securityContext.windowsOptions", words: "run on Linux"},
	"selinux user":             {spec: `template: {securityContext: {seLinuxOptions: {user: system_u}}}`, field: "spec.template.securityContext.seLinuxOptions", words: "user and role cannot be set"},
	"selinux type":             {spec: `template: {securityContext: {seLinuxOptions: {type: spc_t}}}`, field: "spec.template.securityContext.seLinuxOptions.type", words: "container_t"},
	"privileged":               {spec: `template: {securityContext: {privileged: true}}`, field: "spec.template.securityContext.privileged", words: "unknown field"},
	"host network":             {spec: `template: {hostNetwork: true}`, field: "spec.template.hostNetwork", words: "unknown field"},
	"host processes":           {spec: `template: {hostPID: true}`, field: "spec.template.hostPID", words: "unknown field"},
	"host path":                {spec: `template: {volumes: [{name: x, hostPath: {path: /}}]}`, field: "spec.template.volumes", words: "unknown field"},
	"init containers":          {spec: `template: {initContainers: [{name: x, image: x}]}`, field: "spec.template.initContainers", words: "unknown field"},
	"containers":               {spec: `template: {containers: [{name: x, image: x}]}`, field: "spec.template.containers", words: "unknown field"},
	"a service account":        {spec: `template: {serviceAccountName: admin}`, field: "spec.template.serviceAccountName", words: "unknown field"},
	"a pod template":           {spec: `template: {spec: {hostNetwork: true}}`, field: "spec.template.spec", words: "unknown field"},
	"a command":                {spec: `command: [sh, -c, id]`, field: "spec.command", words: "unknown field"},
	"too many tolerations":     {spec: `template: {tolerations: [` + strings.Repeat("{operator: Exists},", 33) + `]}`, field: "spec.template.tolerations", words: "Too many"},
	"tolerations as a map":     {spec: `template: {tolerations: {}}`, field: "spec.template.tolerations", words: "must be of type array"},
	"endless affinity":         {spec: `template: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [` + strings.Repeat(`{weight: 1, podAffinityTerm: {topologyKey: a}},`, 17) + `]}}}`, field: "spec.template.affinity", words: "at most 16"},
	"paused as text":           {spec: `paused: "yes"`, field: "spec.paused", words: "must be of type boolean"},

	"config value with a newline":     {spec: `config: {extra: {hz: "10\nloadmodule /tmp/evil.so"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with a tab":         {spec: `config: {extra: {hz: "10\t"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with a NUL":         {spec: `config: {extra: {hz: "10\0"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with a quote":       {spec: `config: {extra: {hz: "10\""}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with a subshell":    {spec: `config: {extra: {hz: "$(id)"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with backticks":     {spec: "config: {extra: {hz: '`id`'}}", field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with a semicolon":   {spec: `config: {extra: {hz: "10; id"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with a pipe":        {spec: `config: {extra: {hz: "10 | id"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with a backslash":   {spec: `config: {extra: {hz: '10\n'}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value with letters":       {spec: `config: {extra: {hz: "zehn ①"}}`, field: "spec.config.extra[hz]", words: "a value may hold letters"},
	"config value too long":           {spec: `config: {extra: {hz: ` + longValue + `}}`, field: "spec.config.extra.hz", words: "Too long"},
	"config value as a number":        {spec: `config: {extra: {hz: 10}}`, field: "spec.config.extra.hz", words: "must be of type string"},
	"config key too long":             {spec: `config: {extra: {` + longKey + `: x}}`, field: "spec.config.extra", words: "at most 64"},
	"config key with a newline":       {spec: `config: {extra: {"hz 10\ninclude": x}}`, field: "spec.config.extra", words: "lower case letters, digits and -"},
	"config key with a space":         {spec: `config: {extra: {"hz 10": x}}`, field: "spec.config.extra", words: "lower case letters, digits and -"},
	"config key that hides in dashes": {spec: `config: {extra: {--config-file: x}}`, field: "spec.config.extra", words: "lower case letters, digits and -"},
	"version as a number":             {spec: `version: 8.0`, field: "spec.version", words: "must be of type string"},
	"empty config key":                {spec: `config: {extra: {"": x}}`, field: "spec.config.extra", words: "lower case letters, digits and -"},
	"unknown typed parameter":         {spec: `config: {quota: 1Gi}`, field: "spec.config.quota", words: "unknown field"},
}
