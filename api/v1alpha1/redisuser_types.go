package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RedisUserSpec is the desired state of a user of a Redis or Valkey cluster.
// +kubebuilder:validation:XValidation:rule=`!has(self.commands) || !self.commands.exists(c, c in ['flushall', 'flushdb']) || (has(self.keys) && self.keys.exists(k, k.pattern == '*' && k.access == 'ReadWrite'))`,fieldPath=".commands",message="spec.commands: flushall and flushdb delete all keys, whatever spec.keys allows: remove them, or list the pattern * with access ReadWrite in spec.keys"
type RedisUserSpec struct {
	// clusterName is the RedisCluster, in the same namespace, whose user this
	// is. It cannot change.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,message="spec.clusterName must be the name of a RedisCluster of the same namespace: lower case letters, digits and -"
	// +kubebuilder:validation:XValidation:rule=`self == oldSelf`,message="spec.clusterName cannot change: create another RedisUser for the other cluster"
	// +kubebuilder:validation:MaxLength=40
	ClusterName string `json:"clusterName"`
	// username on the servers, at most 64 letters, digits and . _ @ -. Those of
	// every server are refused: default, quorate, replication, migration. It
	// cannot change. Default: metadata.name.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9]([A-Za-z0-9._@-]*[A-Za-z0-9])?$')`,message="spec.username must be letters, digits and . _ @ -, and begin and end with a letter or digit"
	// +kubebuilder:validation:MaxLength=64
	Username *string `json:"username,omitempty"`
	// keys that the user may use, at most 64. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Keys []RedisKeys `json:"keys,omitempty"`
	// channels of publish and subscribe that the user may use, as patterns with
	// *, ? and [], at most 64. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Channels []RedisPattern `json:"channels,omitempty"`
	// categories of commands that the user may use, without those that the
	// server calls admin or dangerous. Beside them it may do what a client of a
	// cluster needs to connect and to find its way. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Categories []RedisCategory `json:"categories,omitempty"`
	// commands that the user may use besides, at most 64: get, "memory|usage".
	// Those that look after servers and their users are refused; flushall and
	// flushdb, which no pattern of keys limits, take access ReadWrite to the
	// pattern *. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Commands []RedisCommand `json:"commands,omitempty"`
	// passwordSecret names a Secret of the same namespace whose key "password"
	// holds the password. When its content changes, so does the password on the
	// servers. Default: the operator generates one.
	// +optional
	PasswordSecret *SecretReference `json:"passwordSecret,omitempty"`
}

// RedisPattern is a pattern of keys or channels.
// +kubebuilder:validation:XValidation:rule=`self.size() > 0 && !self.matches('[^!-~]')`,message="a pattern of keys or channels must be at least one printable ASCII character, without spaces, for example app:*"
// +kubebuilder:validation:MaxLength=256
type RedisPattern string

// RedisAccess is what may be done with keys.
// +kubebuilder:validation:Enum=Read;Write;ReadWrite
type RedisAccess string

// Kinds of access.
const (
	// RedisRead allows commands to read keys.
	RedisRead RedisAccess = "Read"
	// RedisWrite allows commands to write keys.
	RedisWrite RedisAccess = "Write"
	// RedisReadWrite allows both.
	RedisReadWrite RedisAccess = "ReadWrite"
)

// RedisKeys are the keys of a pattern, and what may be done with them.
type RedisKeys struct {
	// pattern of the keys, with *, ? and []: app:*
	// +required
	Pattern RedisPattern `json:"pattern"`
	// access to the keys: Read, Write or ReadWrite. Which commands are there is
	// another matter.
	// +required
	Access RedisAccess `json:"access"`
}

// RedisCategory is a category of commands, see ACL CAT.
// +kubebuilder:validation:Enum=read;write;string;list;set;sortedset;hash;bitmap;hyperloglog;geo;stream;pubsub;transaction;scripting;blocking
type RedisCategory string

// RedisCommand is a command, or a subcommand behind a bar.
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z][a-z0-9._-]*([|][a-z][a-z0-9_-]*)?$')`,message="spec.commands: a command is written in lower case letters, a subcommand behind a bar: get, memory|usage"
// +kubebuilder:validation:XValidation:rule=`!self.matches('^(acl|bgrewriteaof|bgsave|client|cluster|commandlog|config|debug|failover|latency|migrate|module|monitor|pfdebug|pfselftest|psync|replconf|replicaof|restore|restore-asking|save|shutdown|slaveof|slowlog|swapdb|sync|trimslots|ft[.]config)([|].*)?$')`,message="spec.commands: commands that look after servers, copies and users belong to the operator (acl, client, cluster, config, debug, ft.config, migrate, module, monitor, replicaof, restore, save, shutdown, trimslots and the like); what clients need of them every user may do"
// +kubebuilder:validation:MaxLength=64
type RedisCommand string

// RedisUserStatus is what the operator last saw. It is output only: the operator never reads it back.
type RedisUserStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// username on the servers.
	// +optional
	Username string `json:"username,omitempty"`
	// secretName names the Secret that clients connect with as this user (Service
	// Binding layout). It is there once the user is.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// activity says in words what the operator is doing or what it is waiting
	// for.
	// +optional
	Activity string `json:"activity,omitempty"`
}

// RedisUser is a user of all servers of a Redis or Valkey cluster.
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,fieldPath=".metadata",message="metadata.name must be at most 63 lower case letters, digits and -, begin with a letter and end with a letter or digit: names of Secrets are made from it"
// +kubebuilder:validation:XValidation:rule=`!((has(self.spec.username) ? self.spec.username : self.metadata.name) in ['default', 'quorate', 'replication', 'migration'])`,fieldPath=".spec.username",message="spec.username (metadata.name where it is not set) must not be default, quorate, replication or migration: every server has these users; choose another one"
// +kubebuilder:validation:XValidation:rule=`(has(self.spec.username) ? self.spec.username : self.metadata.name) == (has(oldSelf.spec.username) ? oldSelf.spec.username : oldSelf.metadata.name)`,fieldPath=".spec.username",message="spec.username cannot change: create another RedisUser with the other name"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ru,categories={all,quorate}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Username",type=string,JSONPath=`.status.username`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secretName`,priority=1
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RedisUser struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec RedisUserSpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status RedisUserStatus `json:"status,omitempty"`
}

// RedisUserList is a list of users of Redis and Valkey clusters.
// +kubebuilder:object:root=true
type RedisUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RedisUser `json:"items"`
}
