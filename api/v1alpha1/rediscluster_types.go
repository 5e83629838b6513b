package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// RedisClusterSpec is the desired state of a Redis or Valkey cluster.
type RedisClusterSpec struct {
	// engine is redis (default) or valkey. It cannot change.
	// +optional
	// +default="redis"
	Engine *RedisEngine `json:"engine,omitempty"`
	// version of the engine, for example 8.0.2. Supported: redis 7.0 to 8.x, valkey 8.x and 9.x.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version"`
	// shards is the number of primaries that the 16384 hash slots are spread over.
	// +required
	Shards int32 `json:"shards"`
	// replicasPerShard is the number of copies of each primary. Default: 1. With 0, a lost primary takes its slots
	// out of service until it is back.
	// +optional
	// +default=1
	ReplicasPerShard *int32 `json:"replicasPerShard,omitempty"`
	// image overrides the container image. It must hold the engine of the given version.
	// Default: docker.io/library/redis:<version> or docker.io/valkey/valkey:<version>.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image *string `json:"image,omitempty"`
	// storage of each pod. Absent: the data lives and dies with the pod.
	// +optional
	Storage *StorageSpec `json:"storage,omitempty"`
	// resources of the server container. Default: none.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// template changes the pods within what the restricted Pod Security Standard allows.
	// +optional
	Template *PodTemplate `json:"template,omitempty"`
	// config of the server.
	// +optional
	Config *RedisConfig `json:"config,omitempty"`
	// tls of client, replication and cluster bus connections. Default: certificates managed by the operator.
	// +optional
	// +default={}
	TLS *TLSSpec `json:"tls,omitempty"`
	// auth of clients. Default: the user "default" has a generated password.
	// +optional
	// +default={}
	Auth *AuthSpec `json:"auth,omitempty"`
	// paused stops the operator from changing anything of this cluster; its status is still reported. Default: false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// RedisConfig is the configuration of the server: typed known parameters, and any other by its own name in extra.
type RedisConfig struct {
	// maxMemory that the data of one server may take, for example 512Mi. Default: no limit.
	// +optional
	MaxMemory *resource.Quantity `json:"maxMemory,omitempty"`
	// maxMemoryPolicy says which keys go when maxMemory is reached. Default: noeviction (writes fail instead).
	// +optional
	// +kubebuilder:validation:Enum=noeviction;allkeys-lru;allkeys-lfu;allkeys-random;volatile-lru;volatile-lfu;volatile-random;volatile-ttl
	MaxMemoryPolicy *string `json:"maxMemoryPolicy,omitempty"`
	// nodeTimeout is how long a server may be silent before the others call it failed: between 1s and 60s.
	// A lost primary is replaced after about 1.5 times as long. Default: 5s.
	// +optional
	NodeTimeout *metav1.Duration `json:"nodeTimeout,omitempty"`
	// appendFsync says how often the append-only file is forced to disk. Default: everysec.
	// +optional
	// +kubebuilder:validation:Enum=always;everysec;no
	AppendFsync *string `json:"appendFsync,omitempty"`
	// extra sets further parameters under the names of redis.conf, for example hz: "50". Parameters that identity,
	// addresses, persistence, certificates or users depend on belong to the operator.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Extra map[string]ConfigValue `json:"extra,omitempty"`
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
	// id of the node in the cluster, empty while it is unknown.
	// +optional
	ID string `json:"id,omitempty"`
	// role of the node.
	Role RedisRole `json:"role"`
	// ready is true when the node answers, is part of the cluster and, if a replica, is in sync with its primary.
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

// RedisClusterStatus is what the operator last saw. It is output only: the operator never reads it back.
type RedisClusterStatus struct {
	// observedGeneration is the generation of the specification that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Available, Reconciling, Stalled, SlotsCovered, TLSReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// shardCount is the number of shards that own slots.
	// +optional
	ShardCount int32 `json:"shardCount,omitempty"`
	// ready says how many servers are ready out of how many are wanted, for example 6/6.
	// +optional
	Ready string `json:"ready,omitempty"`
	// slots says how many of the 16384 hash slots have an owner, for example 16384/16384.
	// +optional
	Slots string `json:"slots,omitempty"`
	// currentVersion is the lowest version among the servers.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`
	// activity says in words what the operator is doing or what it is waiting for.
	// +optional
	Activity string `json:"activity,omitempty"`
	// shards of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	Shards []RedisShardStatus `json:"shards,omitempty"`
	// selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// connectionSecret names the Secret that clients connect with (Service Binding layout).
	// +optional
	ConnectionSecret string `json:"connectionSecret,omitempty"`
}

// RedisCluster is a Redis or Valkey cluster.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.shards,statuspath=.status.shardCount,selectorpath=.status.selector
// +kubebuilder:resource:shortName=rc,categories={all,quorate}
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
