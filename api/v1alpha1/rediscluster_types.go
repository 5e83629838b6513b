package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RedisEngine is the server software of a RedisCluster.
// +kubebuilder:validation:Enum=redis;valkey
type RedisEngine string

// Engines.
const (
	EngineRedis  RedisEngine = "redis"
	EngineValkey RedisEngine = "valkey"
)

// RedisMode is how the data of a RedisCluster is divided, and how clients reach it.
// +kubebuilder:validation:Enum=Sharded;Replicated
type RedisMode string

// Modes.
const (
	// RedisSharded spreads the data over shards. Clients speak the cluster protocol.
	RedisSharded RedisMode = "Sharded"
	// RedisReplicated keeps all data on one primary and copies of it. Any client will do.
	RedisReplicated RedisMode = "Replicated"
)

// RedisClusterSpec is the desired state of a Redis or Valkey cluster.
// +kubebuilder:validation:XValidation:rule=`has(self.storage) == has(oldSelf.storage)`,fieldPath=".storage",message="spec.storage cannot be added or removed: the data of a running cluster stays where it is; create a new cluster"
// +kubebuilder:validation:XValidation:rule=`self.engine != 'redis' || self.version.matches('^(7[.][024]|8[.](0|[1-9][0-9]?))[.](0|[1-9][0-9]?)$')`,fieldPath=".version",message="spec.version of engine redis must be 7.0.x, 7.2.x, 7.4.x or 8.x.y: write 8.0.2, without a leading v or a suffix"
// +kubebuilder:validation:XValidation:rule=`self.engine != 'valkey' || self.version.matches('^[89][.](0|[1-9][0-9]?)[.](0|[1-9][0-9]?)$')`,fieldPath=".version",message="spec.version of engine valkey must be 8.x.y or 9.x.y: write 9.1.2, without a leading v or a suffix"
// +kubebuilder:validation:XValidation:rule=`self.engine == oldSelf.engine`,fieldPath=".engine",message="spec.engine cannot change: create a new cluster with the wanted engine and copy the data"
// +kubebuilder:validation:XValidation:rule=`self.mode == oldSelf.mode`,fieldPath=".mode",message="spec.mode cannot change: clients of the two modes speak to the servers in different ways; create a new cluster with the wanted mode and copy the data"
// +kubebuilder:validation:XValidation:rule=`self.mode != 'Sharded' || has(self.shards)`,fieldPath=".shards",message="spec.shards is required with spec.mode Sharded: write how many primaries the data is spread over, or use spec.mode Replicated for clients that do not speak the cluster protocol"
// +kubebuilder:validation:XValidation:rule=`self.mode != 'Replicated' || !has(self.shards) || self.shards == 1`,fieldPath=".shards",message="spec.shards must be 1 or absent with spec.mode Replicated: there is one primary; change spec.replicasPerShard for more copies"
// +kubebuilder:validation:XValidation:rule=`self.mode != 'Replicated' || !has(self.config) || !has(self.config.extra) || !self.config.extra.exists(k, k in ['min-replicas-to-write', 'min-replicas-max-lag', 'repl-ping-replica-period'])`,fieldPath=".config.extra",message="spec.config.extra: min-replicas-to-write, min-replicas-max-lag and repl-ping-replica-period belong to the operator with spec.mode Replicated: they keep a lost primary from taking writes; remove them, and see spec.config.nodeTimeout"
// +kubebuilder:validation:XValidation:rule=`!has(self.shards) || self.shards < 1 || self.shards > 500 || self.shards * (1 + self.replicasPerShard) <= 1000`,fieldPath=".shards",message="spec.shards x (1 + spec.replicasPerShard) must be at most 1000: Redis Cluster is made for up to about 1000 nodes"
// +kubebuilder:validation:XValidation:rule=`!has(self.config) || !has(self.config.maxMemory) || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || string(self.config.maxMemory).matches('[-+eE]') || !isQuantity(string(self.config.maxMemory)) || string(self.resources.limits['memory']).matches('[-+eE]') || !isQuantity(string(self.resources.limits['memory'])) || quantity(string(self.config.maxMemory)).compareTo(quantity(string(self.resources.limits['memory']))) < 0`,fieldPath=".config.maxMemory",message="spec.config.maxMemory must be below spec.resources.limits.memory: the server needs memory beside its data (three quarters of the limit is a good start)"
// +kubebuilder:validation:XValidation:rule=`self.engine != 'redis' || !self.version.startsWith('7.0.') || !has(self.config) || !has(self.config.extra) || !self.config.extra.exists(k, k in ['set-max-listpack-entries', 'set-max-listpack-value'])`,fieldPath=".config.extra",message="spec.config.extra: set-max-listpack-entries and set-max-listpack-value come with redis 7.2: remove them"
// +kubebuilder:validation:XValidation:rule=`!has(self.externalAccess) || self.auth.mode != 'Disabled'`,fieldPath=".externalAccess",message="spec.externalAccess cannot be set with spec.auth.mode Disabled: whoever reaches the nodes or the load balancers could read and write everything; create the cluster with passwords"
// +kubebuilder:validation:XValidation:rule=`self.mode != 'Replicated' || !has(self.rebalance) || self.rebalance.by == 'Slots'`,fieldPath=".rebalance",message="spec.rebalance.by cannot be Memory or Load with spec.mode Replicated: there is one primary, and nothing to divide"
// +kubebuilder:validation:XValidation:rule=`!has(self.rebalance) || self.rebalance.by != 'Load' || self.engine != 'redis' || !self.version.matches('^(7[.]|8[.][01][.])')`,fieldPath=".rebalance.by",message="spec.rebalance.by cannot be Load with redis before 8.2: these servers do not tell the load of a slot; use Memory"
// +kubebuilder:validation:XValidation:rule=`!has(self.config) || !has(self.config.minReplicasToWrite) || self.config.minReplicasToWrite <= self.replicasPerShard`,fieldPath=".config.minReplicasToWrite",message="spec.config.minReplicasToWrite must be at most spec.replicasPerShard: no more replicas can acknowledge a write"
// +kubebuilder:validation:XValidation:rule=`self.mode != 'Replicated' || !has(self.config) || !has(self.config.minReplicasToWrite)`,fieldPath=".config.minReplicasToWrite",message="spec.config.minReplicasToWrite cannot be set with spec.mode Replicated: there a primary with a replica always needs one to take writes; remove it"
type RedisClusterSpec struct {
	// engine is redis (default) or valkey. It cannot change.
	// +optional
	// +default="redis"
	Engine *RedisEngine `json:"engine,omitempty"`
	// version of the engine, for example 8.0.2. Supported: redis 7.0, 7.2, 7.4
	// and 8.x, valkey 8.x and 9.x. It may change to any later one, and back to
	// an earlier minor version while no primary runs the later one.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version"`
	// mode is Sharded (default) or Replicated. Sharded spreads the data over
	// several primaries, and its clients have to speak the cluster protocol.
	// Replicated is one primary with copies of all data, for clients that do
	// not: the Service <name>-primary leads to whoever is the primary, and
	// <name>-replicas to its copies. It cannot change.
	// +optional
	// +default="Sharded"
	Mode *RedisMode `json:"mode,omitempty"`
	// shards is the number of primaries that the 16384 hash slots are spread
	// over, from 1 to 500. Of one or two primaries none can be outvoted: there the
	// operator replaces a dead one, and not the servers by themselves. When it
	// changes, slots and their keys move between servers while all of them serve;
	// a shard that is to go gives its own away first. It is required with mode
	// Sharded, and cannot be anything but 1 with mode Replicated. Default: none,
	// and 1 with mode Replicated.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self >= 1`,message="spec.shards must be at least 1: somebody has to own the slots"
	// +kubebuilder:validation:XValidation:rule=`self <= 500`,message="spec.shards must be at most 500"
	Shards int32 `json:"shards,omitempty"`
	// replicasPerShard is the number of copies of each primary, from 0 to 5.
	// With 0, a lost primary takes its slots out of service until it is back. It
	// may change at any time; the pods with the highest ordinals leave. Default:
	// 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 5`,message="spec.replicasPerShard must be from 0 to 5"
	// +default=1
	ReplicasPerShard *int32 `json:"replicasPerShard,omitempty"`
	// image overrides the container image. It must hold the engine of the given
	// version. Default: docker.io/library/redis:<version> or
	// docker.io/valkey/valkey:<version>.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$')`,message="spec.image must be an image reference, for example registry.example.com/team/redis:8.0.2"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image *string `json:"image,omitempty"`
	// storage of each pod. Default: none, the data lives and dies with the pod.
	// It cannot be added or removed later.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`string(self.size).matches('[-+eE]') || !isQuantity(string(self.size)) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0`,fieldPath=".size",message="storage.size cannot shrink: volumes only grow; create a new cluster with smaller volumes and copy the data"
	// +kubebuilder:validation:XValidation:rule=`string(self.size).matches('[-+eE]') || !isQuantity(string(self.size)) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) <= 0`,fieldPath=".size",message="storage.size cannot grow yet: expanding volumes is not part of this release; create a new cluster with the wanted size"
	// +kubebuilder:validation:XValidation:rule=`has(self.className) == has(oldSelf.className) && (!has(self.className) || self.className == oldSelf.className)`,fieldPath=".className",message="storage.className cannot change: a volume stays in its class; create a new cluster with the wanted class"
	Storage *StorageSpec `json:"storage,omitempty"`
	// resources of the server container: requests and limits of cpu (cores),
	// memory and ephemeral-storage (bytes). Other amounts of cpu and memory reach
	// running servers without a restart where Kubernetes can resize pods (1.33
	// and later); memory is not lowered below what the data takes. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!has(self.claims) || self.claims.size() == 0`,fieldPath=".claims",message="spec.resources.claims cannot be set: the pods have no resource claims; use requests and limits"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || self.limits.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])`,fieldPath=".limits",message="spec.resources.limits may hold cpu, memory and ephemeral-storage only"
	// +kubebuilder:validation:XValidation:rule=`!has(self.requests) || self.requests.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])`,fieldPath=".requests",message="spec.resources.requests may hold cpu, memory and ephemeral-storage only"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits) || (!string(self.limits[k]).matches('[-+eE]') && isQuantity(string(self.limits[k]))))`,fieldPath=".limits",message="spec.resources.limits must be numbers with or without a unit, for example memory: 2Gi: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`!has(self.requests) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || (!string(self.requests[k]).matches('[-+eE]') && isQuantity(string(self.requests[k]))))`,fieldPath=".requests",message="spec.resources.requests must be numbers with or without a unit, for example cpu: 500m: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.limits[k])).isGreaterThan(quantity('0')))`,fieldPath=".limits",message="spec.resources.limits must be above zero"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || !has(self.requests) || ['cpu', 'memory'].all(k, !(k in self.requests) || !(k in self.limits) || string(self.requests[k]).matches('[-+eE]') || !isQuantity(string(self.requests[k])) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)`,fieldPath=".requests",message="spec.resources.requests cannot be above spec.resources.limits: lower the request or raise the limit"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || !has(self.requests) || ['ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || string(self.requests[k]).matches('[-+eE]') || !isQuantity(string(self.requests[k])) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)`,fieldPath=".requests",message="spec.resources.requests cannot be above spec.resources.limits: lower the request or raise the limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// template changes the pods within what the restricted Pod Security Standard
	// allows. Default: none.
	// +optional
	Template *PodTemplate `json:"template,omitempty"`
	// config of the server. Most of it takes effect without a restart. Default:
	// the server's own values but for those that a field below names.
	// +optional
	Config *RedisConfig `json:"config,omitempty"`
	// tls of client, replication and cluster bus connections. Default:
	// certificates managed by the operator.
	// +optional
	// +default={}
	// +kubebuilder:validation:XValidation:rule=`!has(self.mode) || !has(oldSelf.mode) || self.mode == oldSelf.mode`,fieldPath=".mode",message="spec.tls.mode cannot change yet: switching the encryption of a running cluster is not part of this release; create a new cluster with the wanted mode"
	TLS *TLSSpec `json:"tls,omitempty"`
	// auth of clients. Default: the user "default" has a generated password.
	// +optional
	// +default={}
	Auth *AuthSpec `json:"auth,omitempty"`
	// externalAccess lets clients outside of Kubernetes reach the servers. It may
	// be switched on, changed and switched off at any time. Default: none.
	// +optional
	ExternalAccess *RedisExternalAccess `json:"externalAccess,omitempty"`
	// rebalance says by what slots are divided among shards. Default: evenly, by
	// their number.
	// +optional
	Rebalance *RedisRebalanceSpec `json:"rebalance,omitempty"`
	// bootstrap says what the cluster begins with. Default: it begins empty.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!has(self.restore) || !has(self.restore.revision)`,fieldPath=".restore.revision",message="spec.bootstrap.restore.revision is for an EtcdCluster: name a backup or a time"
	Bootstrap *BootstrapSpec `json:"bootstrap,omitempty"`
	// recovery of a shard whose data is lost, or whose primary is dead. Default:
	// slots without data are held until somebody says that they may be served
	// empty, and a primary that is about to be started again is waited for.
	// +optional
	Recovery *RedisRecoverySpec `json:"recovery,omitempty"`
	// monitoring has the metrics of the servers offered and read, whether it has
	// fields or not (monitoring: {}): an exporter tells them, and a PodMonitor has
	// Prometheus read them. Default: none.
	// +optional
	Monitoring *RedisMonitoringSpec `json:"monitoring,omitempty"`
	// paused stops the operator from changing anything of this cluster, but for
	// certificates that would expire; its status is still reported. Default:
	// false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// RedisRole is the part that a node plays.
// +kubebuilder:validation:Enum=Primary;Replica;Unknown
type RedisRole string

// Node roles.
const (
	RedisPrimary     RedisRole = "Primary"
	RedisReplica     RedisRole = "Replica"
	RedisRoleUnknown RedisRole = "Unknown"
)

// RedisNodeStatus is what was last seen of one server.
type RedisNodeStatus struct {
	// name of the server's pod.
	Name string `json:"name"`
	// id of the node in the cluster, and with mode Replicated that of its
	// process; empty while it is unknown.
	// +optional
	ID string `json:"id,omitempty"`
	// role of the node.
	Role RedisRole `json:"role"`
	// ready is true when the node answers, is part of the cluster and, if a
	// replica, is in sync with its primary.
	Ready bool `json:"ready"`
	// version that the server reports.
	// +optional
	Version string `json:"version,omitempty"`
	// message says what is wrong with the node, empty when nothing is.
	// +optional
	Message string `json:"message,omitempty"`
}

// RedisShardStatus is what was last seen of one shard.
type RedisShardStatus struct {
	// name of the shard's StatefulSet.
	Name string `json:"name"`
	// slots that the shard owns, as ranges: "0-5460 10923".
	// +optional
	Slots string `json:"slots,omitempty"`
	// primary is the pod of the primary.
	// +optional
	Primary string `json:"primary,omitempty"`
	// nodes of the shard.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []RedisNodeStatus `json:"nodes,omitempty"`
}

// RedisReshardingStatus says how far a move of slots has got. What was moved is counted by the operator that runs, and begins anew
// when that restarts.
type RedisReshardingStatus struct {
	// slotsLeft is how many slots are yet to move.
	SlotsLeft int32 `json:"slotsLeft"`
	// slotsMoved, since the operator began or was restarted.
	// +optional
	SlotsMoved int32 `json:"slotsMoved,omitempty"`
	// keysMoved with them. What servers move by themselves is estimated: they
	// tell of slots alone.
	// +optional
	KeysMoved int64 `json:"keysMoved,omitempty"`
	// bytesMoved is what those keys take in memory, estimated likewise.
	// +optional
	BytesMoved int64 `json:"bytesMoved,omitempty"`
	// bytesPerSecond is the average rate.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// timeLeft at the rate at which slots have moved so far.
	// +optional
	TimeLeft *metav1.Duration `json:"timeLeft,omitempty"`
}

// RedisClusterStatus is what the operator last saw. It is output only: the operator never reads it back.
type RedisClusterStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Available, Reconciling, Stalled, SlotsCovered (with mode
	// Sharded), TLSReady, MemoryHealthy, TimeoutHealthy, PerformanceHealthy, Balanced
	// (with rebalance by Memory or Load), BackupHealthy (with a BackupSchedule).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// shardCount is the number of shards that own slots.
	// +optional
	ShardCount int32 `json:"shardCount,omitempty"`
	// ready says how many servers are ready out of how many are wanted, for
	// example 6/6.
	// +optional
	Ready string `json:"ready,omitempty"`
	// slots says how many of the 16384 hash slots have an owner, for example
	// 16384/16384. Absent with mode Replicated.
	// +optional
	Slots string `json:"slots,omitempty"`
	// currentVersion is the lowest version among the servers.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`
	// activity says in words what the operator is doing or what it is waiting
	// for.
	// +optional
	Activity string `json:"activity,omitempty"`
	// resharding says how far the move of slots between shards has got. Absent
	// while none are to move.
	// +optional
	Resharding *RedisReshardingStatus `json:"resharding,omitempty"`
	// rebalancing is what would make shards weigh alike, and what stands in its
	// way. Absent while no shard is too heavy, and with spec.rebalance.by Slots.
	// +optional
	Rebalancing *RedisRebalancingStatus `json:"rebalancing,omitempty"`
	// shards of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	Shards []RedisShardStatus `json:"shards,omitempty"`
	// selector of one pod of each shard, for the scale subresource: autoscalers
	// take a pod for a shard.
	// +optional
	Selector string `json:"selector,omitempty"`
	// connectionSecret names the Secret that clients connect with (Service
	// Binding layout).
	// +optional
	ConnectionSecret string `json:"connectionSecret,omitempty"`
	// externalEndpoints are where clients outside of Kubernetes reach the
	// servers. Absent without spec.externalAccess.
	// +optional
	// +listType=map
	// +listMapKey=name
	ExternalEndpoints []RedisExternalEndpoint `json:"externalEndpoints,omitempty"`
	// certificates says until when they are valid. Absent without TLS.
	// +optional
	Certificates *CertificateStatus `json:"certificates,omitempty"`
}

// RedisCluster is a Redis or Valkey cluster.
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,fieldPath=".metadata",message="metadata.name must be at most 40 lower case letters, digits and -, begin with a letter and end with a letter or digit: names of pods and Services are made from it"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.shards,statuspath=.status.shardCount,selectorpath=.status.selector
// +kubebuilder:resource:shortName=rdc,categories={all,quorate}
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.engine`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.currentVersion`
// +kubebuilder:printcolumn:name="Shards",type=integer,JSONPath=`.spec.shards`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicasPerShard`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Slots",type=string,JSONPath=`.status.slots`
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RedisCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec RedisClusterSpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status RedisClusterStatus `json:"status,omitempty"`
}

// RedisClusterList is a list of Redis clusters.
// +kubebuilder:object:root=true
type RedisClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RedisCluster `json:"items"`
}
