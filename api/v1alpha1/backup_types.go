package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterKind is a kind of cluster.
// +kubebuilder:validation:Enum=EtcdCluster;RedisCluster
type ClusterKind string

// Kinds of clusters.
const (
	KindEtcdCluster  ClusterKind = "EtcdCluster"
	KindRedisCluster ClusterKind = "RedisCluster"
)

// ClusterReference names a cluster of the same namespace.
type ClusterReference struct {
	// kind of the cluster: EtcdCluster or RedisCluster.
	// +required
	Kind ClusterKind `json:"kind"`
	// name of the cluster.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,message="spec.cluster.name must be the name of a cluster of the same namespace: lower case letters, digits and -"
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
}

// BackupDestination is where backups are kept, and how to get there.
type BackupDestination struct {
	// url of the place: s3://bucket/prefix?region=eu-west-1, gs://bucket/prefix,
	// azblob://container/prefix, or pvc://claim/directory for a
	// PersistentVolumeClaim of the same namespace. Servers that speak the
	// language of S3 are named by endpoint=https://host:port, most of them with
	// path-style=true.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches('^(s3|gs|azblob|pvc)://[A-Za-z0-9][A-Za-z0-9._-]*(/[^?#\\\\]*)?([?][^#]*)?$') && !self.contains('..')`,message="destination.url must be s3://bucket/prefix?region=..., gs://bucket/prefix, azblob://container/prefix or pvc://claim/directory, without .. in it"
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url"`
	// credentials names a Secret of the same namespace. For s3 its keys are
	// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where needed,
	// AWS_SESSION_TOKEN; for gs credentials.json; for azblob
	// AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN.
	// ca.crt holds the certificate authority of an endpoint of one's own.
	// Default: none, the identity of the service account is used.
	// +optional
	Credentials *SecretReference `json:"credentials,omitempty"`
	// encryption names a Secret of the same namespace with keys of age
	// (age-encryption.org): "recipients" with public keys to encrypt for, and
	// "identity" with the secret key, which reading back needs. Without the
	// secret key nobody can restore. "authentication" has keys, one on a line,
	// that prove who took a backup; "identity" is such a key, too. Default:
	// none, data is stored as it is, and the store is trusted.
	// +optional
	Encryption *SecretReference `json:"encryption,omitempty"`
	// serviceAccountName that the pods run as which read and write there, for
	// example one that a cloud gives an identity to. It has to have the label
	// quorate.dev/backup-account with the value "true". Default: default,
	// without a token.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')`,message="destination.serviceAccountName must be the name of a ServiceAccount of the same namespace"
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`
}

// ExternalCluster is one that Quorate does not run: another operator's, a chart's, or one outside of Kubernetes.
// +kubebuilder:validation:XValidation:rule=`self.endpoints.all(e, e.substring(0, e.indexOf(':')) == self.endpoints[0].substring(0, self.endpoints[0].indexOf(':')))`,message="spec.external.endpoints must all be reached with TLS, or all without: use the same scheme for each"
type ExternalCluster struct {
	// endpoints are the URLs of its servers: https://host:2379 or
	// http://host:2379 of etcd, rediss://host:6379 (with TLS) or
	// redis://host:6379 of Redis and Valkey. A member of etcd that does not lead
	// is read where there is one. Of servers in cluster mode one is enough, the
	// others are found by what it says; of servers that are not, name the
	// primary, and its replicas too if one of them is to be read.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=300
	Endpoints []string `json:"endpoints"`
	// credentials names a Secret of the same namespace with what it takes to be
	// let in, all of it optional: username and password, ca.crt with the
	// authority of the servers' certificates (default: those that the system
	// knows), tls.crt and tls.key with the certificate of a client. Default:
	// nobody asks for any.
	// +optional
	Credentials *SecretReference `json:"credentials,omitempty"`
}

// BackupSpec is one backup that is to be taken.
// +kubebuilder:validation:XValidation:rule=`self.cluster == oldSelf.cluster && self.destination == oldSelf.destination && has(self.external) == has(oldSelf.external) && (!has(self.external) || self.external == oldSelf.external)`,message="spec.cluster, spec.external and spec.destination cannot change: the backup is where it was put; create another Backup"
// +kubebuilder:validation:XValidation:rule=`!has(self.external) || self.external.endpoints.all(e, e.matches(self.cluster.kind == 'EtcdCluster' ? '^https?://[A-Za-z0-9.:_\\[\\]-]+:[0-9]+$' : '^rediss?://[A-Za-z0-9.:_\\[\\]-]+:[0-9]+$'))`,message="spec.external.endpoints must be https://host:2379 or http://host:2379 with spec.cluster.kind EtcdCluster, and rediss://host:6379 or redis://host:6379 with RedisCluster: no path, no credentials"
type BackupSpec struct {
	// cluster that is backed up. With spec.external it is only what the data is
	// called: clusters of other names can begin with it.
	// +required
	Cluster ClusterReference `json:"cluster"`
	// external is the cluster that is backed up when it is none of Quorate's, so
	// that a cluster of Quorate can begin with its data. It is read only, and
	// stays as it is. Default: the cluster of the same namespace that
	// spec.cluster names.
	// +optional
	External *ExternalCluster `json:"external,omitempty"`
	// destination of the backup.
	// +required
	Destination BackupDestination `json:"destination"`
	// deletionPolicy says what becomes of the stored data when this resource is
	// deleted: Retain keeps it, Delete deletes it. Default: Retain.
	// +optional
	DeletionPolicy *DeletionPolicy `json:"deletionPolicy,omitempty"`
	// resources of the pods that take, check and delete the backup: requests and
	// limits of cpu (cores) and memory (bytes). Default: 100m and 64Mi requested,
	// 2 and 128Mi at most; for a check, in which a server runs, 320Mi of memory
	// at most and status.serverMemory more, of which half is requested.
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
	// verify says that the backup is read back, restored into a throw-away server
	// and checked as soon as it is complete. Default: false.
	// +optional
	Verify *bool `json:"verify,omitempty"`
}

// BackupVerification is what a check of a backup found out.
type BackupVerification struct {
	// time at which the check ended.
	Time metav1.Time `json:"time"`
	// seconds that reading the backup back, restoring it and starting a server on
	// it took.
	Seconds int64 `json:"seconds"`
	// keys that were found in it.
	Keys int64 `json:"keys"`
	// revision of etcd that the restored data is at. Absent for Redis and Valkey.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// server that was started on the restored data, such as "etcd 3.6.16". Absent
	// where no image of the version is known: the data was read only.
	// +optional
	Server string `json:"server,omitempty"`
}

// BackupStatus is what became of a backup. It is output only: what counts is what is stored.
type BackupStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Complete, Verified, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// activity says in words what the operator is doing or what it is waiting
	// for.
	// +optional
	Activity string `json:"activity,omitempty"`
	// directory of the backup below the url of its destination.
	// +optional
	Directory string `json:"directory,omitempty"`
	// type of the backup: Full.
	// +optional
	Type string `json:"type,omitempty"`
	// size of the data in bytes, and storedSize of what is kept of it, compressed
	// and encrypted. They grow while the backup is being taken.
	// +optional
	Size int64 `json:"size,omitempty"`
	// storedSize in bytes.
	// +optional
	StoredSize int64 `json:"storedSize,omitempty"`
	// stored is the size of what is kept, for people.
	// +optional
	Stored string `json:"stored,omitempty"`
	// engine of the cluster, etcd, redis or valkey, with its version.
	// +optional
	Engine string `json:"engine,omitempty"`
	// revision of etcd that the backup holds at least. Absent for Redis and
	// Valkey.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// keys in the backup. Absent for etcd: a snapshot does not tell before it is
	// checked.
	// +optional
	Keys int64 `json:"keys,omitempty"`
	// serverMemory in bytes is what a server is expected to need for the data, of
	// several shards for the largest one.
	// +optional
	ServerMemory int64 `json:"serverMemory,omitempty"`
	// startTime and completionTime of the run that took it.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime of the run that took it.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// verification is what the last check that succeeded found out.
	// +optional
	Verification *BackupVerification `json:"verification,omitempty"`
}

// Backup is one backup of a cluster.
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 56 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,fieldPath=".metadata",message="metadata.name must be at most 56 lower case letters, digits and -, begin with a letter and end with a letter or digit"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qbak,categories={quorate}
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.cluster.kind`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.stored`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.conditions[?(@.type=="Verified")].status`
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the backup that is to be taken.
	// +required
	Spec BackupSpec `json:"spec"`
	// status is what became of it.
	// +optional
	Status BackupStatus `json:"status,omitempty"`
}

// BackupList is a list of backups.
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}
