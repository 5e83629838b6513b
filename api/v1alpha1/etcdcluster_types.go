package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdClusterSpec is the desired state of an etcd cluster.
type EtcdClusterSpec struct {
	// size is the number of members: 1, 3, 5 or 7. Half of them (rounded down) may fail at a time.
	// +required
	Size int32 `json:"size"`
	// version of etcd, for example 3.6.16. Supported: 3.5 (from 3.5.11), 3.6 and 3.7.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version"`
	// image overrides the container image. It must hold etcd of the given version.
	// Default: quay.io/coreos/etcd:v<version>.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image *string `json:"image,omitempty"`
	// storage of each member. Absent: the data lives and dies with the pod.
	// +optional
	Storage *StorageSpec `json:"storage,omitempty"`
	// resources of the etcd container. Default: none.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// template changes the pods of the members within what the restricted Pod Security Standard allows.
	// +optional
	Template *PodTemplate `json:"template,omitempty"`
	// config of etcd.
	// +optional
	Config *EtcdConfig `json:"config,omitempty"`
	// tls of client and peer connections. Default: certificates managed by the operator.
	// +optional
	// +default={}
	TLS *TLSSpec `json:"tls,omitempty"`
	// auth of clients. Default: a root user with a generated password.
	// +optional
	// +default={}
	Auth *AuthSpec `json:"auth,omitempty"`
	// paused stops the operator from changing anything of this cluster; its status is still reported. Default: false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// EtcdConfig is the configuration of etcd: typed known parameters, and any other by its own name in extra.
type EtcdConfig struct {
	// quotaBackendBytes is the size of the database at which etcd stops accepting writes, for example 4Gi.
	// Default: etcd's own, 2Gi.
	// +optional
	QuotaBackendBytes *resource.Quantity `json:"quotaBackendBytes,omitempty"`
	// autoCompactionMode is Periodic or Revision. Default: Periodic.
	// +optional
	// +kubebuilder:validation:Enum=Periodic;Revision
	AutoCompactionMode *string `json:"autoCompactionMode,omitempty"`
	// autoCompactionRetention is a duration (mode Periodic, for example 1h) or a number of revisions (mode Revision).
	// Default: 1h for Periodic, 10000 for Revision. "0" switches compaction off.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	AutoCompactionRetention *string `json:"autoCompactionRetention,omitempty"`
	// snapshotCount is the number of applied entries after which a member writes a snapshot of its state.
	// Default: etcd's own for its version.
	// +optional
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
	// heartbeatInterval of the leader, for example 100ms. Default: 100ms.
	// +optional
	HeartbeatInterval *metav1.Duration `json:"heartbeatInterval,omitempty"`
	// electionTimeout after which a follower that hears nothing stands for election: at least five times the
	// heartbeatInterval, at most 50s. Default: 1s.
	// +optional
	ElectionTimeout *metav1.Duration `json:"electionTimeout,omitempty"`
	// maxRequestBytes is the largest request that a member accepts, for example 1536Ki. Default: 1536Ki.
	// +optional
	MaxRequestBytes *resource.Quantity `json:"maxRequestBytes,omitempty"`
	// logLevel of etcd. Default: info.
	// +optional
	// +kubebuilder:validation:Enum=debug;info;warn;error
	LogLevel *string `json:"logLevel,omitempty"`
	// extra sets further parameters under the names of etcd's configuration file, for example max-txn-ops: "256".
	// Parameters that identity, addresses, membership, certificates or authentication depend on belong to the operator.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Extra map[string]ConfigValue `json:"extra,omitempty"`
}

// EtcdMemberRole is the part that a member plays.
// +kubebuilder:validation:Enum=Leader;Follower;Learner;Unstarted;Unknown
type EtcdMemberRole string

// Member roles.
const (
	EtcdLeader    EtcdMemberRole = "Leader"
	EtcdFollower  EtcdMemberRole = "Follower"
	EtcdLearner   EtcdMemberRole = "Learner"
	EtcdUnstarted EtcdMemberRole = "Unstarted"
	// EtcdRoleUnknown is the role of a pod that is no member yet, or of a member that does not answer.
	EtcdRoleUnknown EtcdMemberRole = "Unknown"
)

// EtcdMemberStatus is what was last seen of one member.
type EtcdMemberStatus struct {
	// name of the member's pod.
	Name string `json:"name"`
	// id of the member in hexadecimal, empty while it has none.
	// +optional
	ID string `json:"id,omitempty"`
	// role of the member.
	Role EtcdMemberRole `json:"role"`
	// ready is true when the member answers and its pod is ready.
	Ready bool `json:"ready"`
	// version that the member reports.
	// +optional
	Version string `json:"version,omitempty"`
	// dbSize of the member's database, rounded up to a power of two so that it changes seldom.
	// +optional
	DBSize string `json:"dbSize,omitempty"`
	// message says what is wrong with the member, empty when nothing is.
	// +optional
	Message string `json:"message,omitempty"`
}

// EtcdClusterStatus is what the operator last saw. It is output only: the operator never reads it back.
type EtcdClusterStatus struct {
	// observedGeneration is the generation of the specification that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Available, Reconciling, Stalled, QuorumHealthy, TLSReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// clusterID of etcd in hexadecimal.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// leader is the pod of the leading member.
	// +optional
	Leader string `json:"leader,omitempty"`
	// size is the number of members that etcd itself counts.
	// +optional
	Size int32 `json:"size,omitempty"`
	// ready says how many members are ready out of how many are wanted, for example 3/3.
	// +optional
	Ready string `json:"ready,omitempty"`
	// currentVersion is the lowest version among the members.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`
	// activity says in words what the operator is doing or what it is waiting for.
	// +optional
	Activity string `json:"activity,omitempty"`
	// members of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []EtcdMemberStatus `json:"members,omitempty"`
	// selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// connectionSecret names the Secret that clients connect with (Service Binding layout).
	// +optional
	ConnectionSecret string `json:"connectionSecret,omitempty"`
}

// EtcdCluster is an etcd cluster.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ec,categories={all,quorate}
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.currentVersion`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec EtcdClusterSpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status EtcdClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is a list of etcd clusters.
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCluster `json:"items"`
}
