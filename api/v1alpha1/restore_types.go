package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RestoreSlots says which keys of a Redis or Valkey cluster are restored.
// +kubebuilder:validation:Enum=All;Lost
type RestoreSlots string

// Which slots are restored.
const (
	// RestoreAll replaces all that the cluster has.
	RestoreAll RestoreSlots = "All"
	// RestoreLost brings back the slots of shards that are lost, while the others serve.
	RestoreLost RestoreSlots = "Lost"
)

// RestoreSpec says which backup is put into which cluster.
// +kubebuilder:validation:XValidation:rule=`self == oldSelf`,message="spec cannot change: create another Restore"
// +kubebuilder:validation:XValidation:rule=`!has(self.slots) || self.cluster.kind == 'RedisCluster'`,fieldPath=".slots",message="spec.slots is for a RedisCluster: etcd is restored as a whole; remove it"
// +kubebuilder:validation:XValidation:rule=`!has(self.saveCurrent) || self.cluster.kind == 'RedisCluster'`,fieldPath=".saveCurrent",message="spec.saveCurrent is for a RedisCluster: what members of etcd have is kept on their volumes; remove it"
// +kubebuilder:validation:XValidation:rule=`!has(self.from.revision) || self.cluster.kind == 'EtcdCluster'`,fieldPath=".from.revision",message="spec.from.revision is for an EtcdCluster: changes of Redis and Valkey are not recorded; remove it"
// +kubebuilder:validation:XValidation:rule=`!has(self.from.time) || self.cluster.kind == 'EtcdCluster'`,fieldPath=".from.time",message="spec.from.time is for an EtcdCluster: changes of Redis and Valkey are not recorded; remove it, and name the backup"
type RestoreSpec struct {
	// cluster whose data is replaced.
	// +required
	Cluster ClusterReference `json:"cluster"`
	// from is the backup.
	// +required
	From RestoreSource `json:"from"`
	// slots of a RedisCluster that are restored: All replaces everything that it
	// has, Lost brings back those of shards that are lost, while the others serve.
	// Default: All.
	// +optional
	Slots *RestoreSlots `json:"slots,omitempty"`
	// saveCurrent takes a Backup of what a RedisCluster has before that is
	// replaced, to the same destination. It does not apply to slots: Lost. Default:
	// true.
	// +optional
	SaveCurrent *bool `json:"saveCurrent,omitempty"`
}

// RestoreFound is the backup that was found.
type RestoreFound struct {
	// directory of the backup below the url of its destination.
	Directory string `json:"directory"`
	// engine that it is of, etcd, redis or valkey, with its version.
	Engine string `json:"engine"`
	// time at which it was taken.
	Time metav1.Time `json:"time"`
	// size of the data in bytes.
	Size int64 `json:"size"`
	// revision of etcd that the snapshot holds at least. Absent for Redis and
	// Valkey.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// target is the revision of etcd up to which changes that were recorded are
	// restored. Absent where the snapshot holds all.
	// +optional
	Target int64 `json:"target,omitempty"`
	// lastChange is when the target was recorded, where a time was asked for. It
	// may be long before that time, when nothing was changed or nobody recorded
	// it.
	// +optional
	LastChange *metav1.Time `json:"lastChange,omitempty"`
	// timeline of etcd that the revision belongs to.
	// +optional
	Timeline string `json:"timeline,omitempty"`
	// keys in the backup of Redis or Valkey.
	// +optional
	Keys int64 `json:"keys,omitempty"`
	// shards that it was taken of.
	// +optional
	Shards int32 `json:"shards,omitempty"`
}

// RestoreStatus is what became of a restore.
type RestoreStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Confirmed, Complete, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// activity says in words what the operator is doing or what it is waiting
	// for.
	// +optional
	Activity string `json:"activity,omitempty"`
	// found is the backup that is restored. Absent until it was looked up.
	// +optional
	Found *RestoreFound `json:"found,omitempty"`
	// plan tells apart what may be confirmed: the annotation quorate.dev/confirm
	// has to say the same. Absent until the backup was looked up.
	// +optional
	Plan string `json:"plan,omitempty"`
	// scope is what the plan is for: the UID of the cluster, and which loss where
	// only lost slots are restored.
	// +optional
	Scope string `json:"scope,omitempty"`
	// savedAs names the Backup of what the cluster had before.
	// +optional
	SavedAs string `json:"savedAs,omitempty"`
	// revision of etcd that the cluster is at after it was restored.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// keys of Redis or Valkey that were restored.
	// +optional
	Keys int64 `json:"keys,omitempty"`
	// completionTime is when the data was back.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// Restore puts a backup into a cluster that exists. It is done once, and after it was confirmed.
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 48 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,fieldPath=".metadata",message="metadata.name must be at most 48 lower case letters, digits and -, begin with a letter and end with a letter or digit"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qres,categories={quorate}
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.cluster.kind`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.found.directory`
// +kubebuilder:printcolumn:name="Confirmed",type=string,JSONPath=`.status.conditions[?(@.type=="Confirmed")].status`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Restore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which backup is put into which cluster.
	// +required
	Spec RestoreSpec `json:"spec"`
	// status is what became of it.
	// +optional
	Status RestoreStatus `json:"status,omitempty"`
}

// RestoreList is a list of restores.
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Restore `json:"items"`
}
