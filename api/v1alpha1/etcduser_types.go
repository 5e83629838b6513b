package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EtcdUserSpec is the desired state of a user of an etcd cluster.
type EtcdUserSpec struct {
	// clusterName is the EtcdCluster, in the same namespace, whose user this
	// is. It cannot change.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,message="spec.clusterName must be the name of an EtcdCluster of the same namespace: lower case letters, digits and -"
	// +kubebuilder:validation:XValidation:rule=`self == oldSelf`,message="spec.clusterName cannot change: create another EtcdUser for the other cluster"
	// +kubebuilder:validation:MaxLength=40
	ClusterName string `json:"clusterName"`
	// username in etcd, at most 64 letters, digits and . _ @ -. Names that
	// certificates of the cluster carry are refused: root, client, quorate-*.
	// It cannot change. Default: metadata.name.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9]([A-Za-z0-9._@-]*[A-Za-z0-9])?$')`,message="spec.username must be letters, digits and . _ @ -, and begin and end with a letter or digit"
	// +kubebuilder:validation:MaxLength=64
	Username *string `json:"username,omitempty"`
	// permissions that the user has, at most 64. It has no others. Where two
	// speak of the same keys, both count. Default: none, the user can log in and
	// do nothing else.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Permissions []EtcdPermission `json:"permissions,omitempty"`
	// passwordSecret names a Secret of the same namespace whose key "password"
	// holds the password, of at most 72 bytes. When its content changes, so does
	// the password in etcd. Default: the operator generates one.
	// +optional
	PasswordSecret *SecretReference `json:"passwordSecret,omitempty"`
}

// SecretReference names a Secret of the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="name must be that of a Secret of the same namespace: lower case letters, digits, - and ."
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// EtcdAccess is what may be done with keys.
// +kubebuilder:validation:Enum=Read;Write;ReadWrite
type EtcdAccess string

// Kinds of access.
const (
	// EtcdRead allows to get and to watch.
	EtcdRead EtcdAccess = "Read"
	// EtcdWrite allows to put and to delete.
	EtcdWrite EtcdAccess = "Write"
	// EtcdReadWrite allows both.
	EtcdReadWrite EtcdAccess = "ReadWrite"
)

// EtcdPermission allows access to keys: one key, all that begin with a prefix, or a range.
// +kubebuilder:validation:XValidation:rule=`[has(self.prefix), has(self.key), has(self.range)].exists_one(x, x)`,message="spec.permissions: every entry needs exactly one of prefix, key and range, for example {prefix: /app/, access: ReadWrite}"
type EtcdPermission struct {
	// prefix of the keys, for example /app/. Default: none; exactly one of
	// prefix, key and range is required.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message="spec.permissions: an empty prefix would mean every key; if that is meant, write range: {from: \"\\0\"}"
	// +kubebuilder:validation:MaxLength=512
	Prefix *string `json:"prefix,omitempty"`
	// key is a single key. Default: none; exactly one of prefix, key and range
	// is required.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message="spec.permissions: key must not be empty: etcd has no empty key"
	// +kubebuilder:validation:MaxLength=512
	Key *string `json:"key,omitempty"`
	// range of keys. Default: none; exactly one of prefix, key and range is
	// required.
	// +optional
	Range *EtcdKeyRange `json:"range,omitempty"`
	// access to the keys: Read, Write or ReadWrite.
	// +required
	Access EtcdAccess `json:"access"`
}

// EtcdKeyRange is a range of keys in the order of their bytes.
// +kubebuilder:validation:XValidation:rule=`!has(self.to) || self.from < self.to`,fieldPath=".to",message="spec.permissions: range.to must come after range.from in the order of bytes; it is not part of the range itself. Leave it out for a range without end"
type EtcdKeyRange struct {
	// from is the first key of the range.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message="spec.permissions: range.from must not be empty: etcd has no empty key; the first one is \"\\0\""
	// +kubebuilder:validation:MaxLength=512
	From string `json:"from"`
	// to is the first key behind the range. Default: none, the range has no end.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	To *string `json:"to,omitempty"`
}

// EtcdUserStatus is what the operator last saw. It is output only: the operator never reads it back.
type EtcdUserStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// username in etcd.
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

// EtcdUser is a user of an etcd cluster, with a role of its own.
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,fieldPath=".metadata",message="metadata.name must be at most 63 lower case letters, digits and -, begin with a letter and end with a letter or digit: names of Secrets and of the role in etcd are made from it"
// +kubebuilder:validation:XValidation:rule=`!((has(self.spec.username) ? self.spec.username : self.metadata.name) in ['root', 'client']) && !(has(self.spec.username) ? self.spec.username : self.metadata.name).startsWith('quorate-')`,fieldPath=".spec.username",message="spec.username (metadata.name where it is not set) must not be root, client or begin with quorate-: certificates of the cluster carry these names, and etcd takes the name in a certificate for the user; choose another one"
// +kubebuilder:validation:XValidation:rule=`(has(self.spec.username) ? self.spec.username : self.metadata.name) == (has(oldSelf.spec.username) ? oldSelf.spec.username : oldSelf.metadata.name)`,fieldPath=".spec.username",message="spec.username cannot change: create another EtcdUser with the other name"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eu,categories={all,quorate}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Username",type=string,JSONPath=`.status.username`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secretName`,priority=1
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdUser struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec EtcdUserSpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status EtcdUserStatus `json:"status,omitempty"`
}

// EtcdUserList is a list of users of etcd clusters.
// +kubebuilder:object:root=true
type EtcdUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdUser `json:"items"`
}
