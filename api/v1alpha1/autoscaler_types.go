package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscalerMode says what an Autoscaler does with what it finds.
// +kubebuilder:validation:Enum=Auto;DryRun;Frozen
type AutoscalerMode string

// Modes of an Autoscaler.
const (
	// AutoscalerAuto changes the cluster.
	AutoscalerAuto AutoscalerMode = "Auto"
	// AutoscalerDryRun says what it would change, and why.
	AutoscalerDryRun AutoscalerMode = "DryRun"
	// AutoscalerFrozen holds everything as it is, and goes on measuring.
	AutoscalerFrozen AutoscalerMode = "Frozen"
)

// AutoscalerShards says between which bounds, and by what, the shards of a RedisCluster follow what it holds and does.
// +kubebuilder:validation:XValidation:rule=`self.min <= self.max`,fieldPath=".min",message="spec.shards.min cannot be above spec.shards.max: lower one or raise the other"
type AutoscalerShards struct {
	// min is the least number of shards, from 1 to 500.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	Min int32 `json:"min"`
	// max is the largest number of shards, from 1 to 500.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	Max int32 `json:"max"`
	// memoryPercent of its maxmemory is what a primary is to use at most, on the
	// average of all shards, from 10 to 90. A cache whose keys are evicted is
	// full by design, and not judged by it. Default: 70.
	// +optional
	// +default=70
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=90
	MemoryPercent *int32 `json:"memoryPercent,omitempty"`
	// operationsPerSecond is how many commands a primary is to carry out in a
	// second at most, on the average of all shards. Default: load is not judged.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	OperationsPerSecond *int64 `json:"operationsPerSecond,omitempty"`
	// scaleOutAfter is for how long more shards have to be wanted before there
	// are more, from 0s to 24h. The least that was wanted in that time counts.
	// Default: 2m.
	// +optional
	// +default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) <= duration('24h')`,message="spec.shards.scaleOutAfter must be a duration from 0s to 24h, for example 2m"
	ScaleOutAfter *metav1.Duration `json:"scaleOutAfter,omitempty"`
	// scaleInAfter is for how long fewer shards have to be enough before there
	// are fewer, from 0s to 720h. The most that was wanted in that time counts.
	// Default: 1h.
	// +optional
	// +default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) <= duration('720h')`,message="spec.shards.scaleInAfter must be a duration from 0s to 720h, for example 1h"
	ScaleInAfter *metav1.Duration `json:"scaleInAfter,omitempty"`
}

// AutoscalerMemory says between which bounds the limit of memory of a RedisCluster's servers follows what they hold.
// +kubebuilder:validation:XValidation:rule=`string(self.min).matches('[-+eE]') || !isQuantity(string(self.min)) || string(self.max).matches('[-+eE]') || !isQuantity(string(self.max)) || quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0`,fieldPath=".min",message="spec.memory.min cannot be above spec.memory.max: lower one or raise the other"
type AutoscalerMemory struct {
	// min is the least limit in bytes, at least 16Mi, for example 256Mi.
	// +required
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('[-+eE]') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('16Mi')) >= 0`,message="spec.memory.min must be a number with or without a unit, of at least 16Mi, for example 256Mi"
	Min resource.Quantity `json:"min"`
	// max is the largest limit in bytes, at most 64Ti, for example 8Gi.
	// +required
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('[-+eE]') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('64Ti')) <= 0`,message="spec.memory.max must be a number with or without a unit, of at most 64Ti, for example 8Gi"
	Max resource.Quantity `json:"max"`
	// headroomPercent is how much more than the fullest server uses is to fit,
	// from 0 to 400. Default: 25.
	// +optional
	// +default=25
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=400
	HeadroomPercent *int32 `json:"headroomPercent,omitempty"`
	// growAfter is for how long more memory has to be wanted before it is asked
	// for, from 0s to 24h. Default: 2m.
	// +optional
	// +default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) <= duration('24h')`,message="spec.memory.growAfter must be a duration from 0s to 24h, for example 2m"
	GrowAfter *metav1.Duration `json:"growAfter,omitempty"`
	// shrinkAfter is for how long less memory has to be enough before it is given
	// back, from 0s to 720h. Default: 24h.
	// +optional
	// +default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) <= duration('720h')`,message="spec.memory.shrinkAfter must be a duration from 0s to 720h, for example 24h"
	ShrinkAfter *metav1.Duration `json:"shrinkAfter,omitempty"`
	// apply has the limit of the cluster changed, and the request with it, which
	// reaches running servers where Kubernetes can resize pods. Without it the
	// status recommends one. Default: false.
	// +optional
	Apply *bool `json:"apply,omitempty"`
}

// AutoscalerStorage says up to what size, and when, the volumes of an EtcdCluster grow.
type AutoscalerStorage struct {
	// max is the largest size of a volume in bytes, at most 64Ti, for example
	// 4Gi.
	// +required
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('[-+eE]') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('512Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0`,message="spec.storage.max must be a number with or without a unit, from 512Mi to 64Ti, for example 4Gi"
	Max resource.Quantity `json:"max"`
	// fullPercent of its quota is what the largest database takes when the
	// volumes grow, from 10 to 95. Default: 80.
	// +optional
	// +default=80
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=95
	FullPercent *int32 `json:"fullPercent,omitempty"`
	// growPercent is by how much they grow, from 5 to 100, or by more where that
	// is not enough for the database. Default: 25.
	// +optional
	// +default=25
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	GrowPercent *int32 `json:"growPercent,omitempty"`
}

// AutoscalerSpec says what follows what a cluster holds and does, and within which bounds.
// +kubebuilder:validation:XValidation:rule=`self.cluster == oldSelf.cluster`,fieldPath=".cluster",message="spec.cluster cannot change: create another Autoscaler for the other cluster"
// +kubebuilder:validation:XValidation:rule=`has(self.shards) || has(self.memory) || has(self.storage)`,message="spec.shards, spec.memory or spec.storage is required: write what is to follow the cluster's needs"
// +kubebuilder:validation:XValidation:rule=`!has(self.shards) || self.cluster.kind == 'RedisCluster'`,fieldPath=".shards",message="spec.shards is for a RedisCluster: more members make etcd safer and slower; remove it"
// +kubebuilder:validation:XValidation:rule=`!has(self.memory) || self.cluster.kind == 'RedisCluster'`,fieldPath=".memory",message="spec.memory is for a RedisCluster: members of etcd restart for other amounts of memory; remove it"
// +kubebuilder:validation:XValidation:rule=`!has(self.storage) || self.cluster.kind == 'EtcdCluster'`,fieldPath=".storage",message="spec.storage is for an EtcdCluster: volumes of a RedisCluster cannot grow in this release; remove it"
// +kubebuilder:validation:XValidation:rule=`!has(self.shards) || !has(self.memory) || !has(self.memory.apply) || !self.memory.apply`,fieldPath=".memory.apply",message="spec.memory.apply cannot be true beside spec.shards: both would answer the same need; remove one, and have the other recommend"
type AutoscalerSpec struct {
	// cluster whose specification is changed. It cannot change.
	// +required
	Cluster ClusterReference `json:"cluster"`
	// mode is Auto (default), DryRun (the status says what would be changed and
	// why, and nothing is) or Frozen (everything stays as it is, and is measured
	// on). Default: Auto.
	// +optional
	// +default="Auto"
	Mode *AutoscalerMode `json:"mode,omitempty"`
	// shards of a RedisCluster with mode Sharded. Default: they are left alone.
	// +optional
	Shards *AutoscalerShards `json:"shards,omitempty"`
	// memory of the servers of a RedisCluster: a recommendation or, with apply,
	// the limit itself. Default: it is left alone.
	// +optional
	Memory *AutoscalerMemory `json:"memory,omitempty"`
	// storage of an EtcdCluster, which only grows. Default: it is left alone.
	// +optional
	Storage *AutoscalerStorage `json:"storage,omitempty"`
}

// AutoscalerShardsStatus is what was last seen of the shards.
type AutoscalerShardsStatus struct {
	// current is the number of shards that the cluster asks for.
	Current int32 `json:"current"`
	// wanted is the number that the last measurement asks for, within the
	// bounds. It is followed when it has lasted.
	Wanted int32 `json:"wanted"`
	// memoryPercent of maxmemory that primaries use on average, absent where it
	// does not count. Small changes are not told.
	// +optional
	MemoryPercent *int32 `json:"memoryPercent,omitempty"`
	// operationsPerSecond that primaries carry out on average, absent where they
	// do not count or are not known yet. Small changes are not told.
	// +optional
	OperationsPerSecond *int64 `json:"operationsPerSecond,omitempty"`
}

// AutoscalerMemoryStatus is what was last seen of the memory of servers.
type AutoscalerMemoryStatus struct {
	// current limit in bytes, absent where there is none.
	// +optional
	Current *resource.Quantity `json:"current,omitempty"`
	// recommended limit in bytes, within the bounds.
	Recommended resource.Quantity `json:"recommended"`
}

// AutoscalerStorageStatus is what was last seen of the volumes.
type AutoscalerStorageStatus struct {
	// current size in bytes that the cluster asks for.
	Current resource.Quantity `json:"current"`
	// usedPercent of its quota that the largest database takes. Small changes
	// are not told.
	UsedPercent int32 `json:"usedPercent"`
}

// AutoscalerChange is a change that an Autoscaler made.
type AutoscalerChange struct {
	// time of the change.
	Time metav1.Time `json:"time"`
	// change in words.
	Change string `json:"change"`
	// reason of the change in one sentence.
	Reason string `json:"reason"`
}

// AutoscalerStatus is what the operator last saw and did. It is output only: the operator never decides by it.
type AutoscalerStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, Limited.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// shards as they are and should be.
	// +optional
	Shards *AutoscalerShardsStatus `json:"shards,omitempty"`
	// memory as it is and should be.
	// +optional
	Memory *AutoscalerMemoryStatus `json:"memory,omitempty"`
	// storage as it is.
	// +optional
	Storage *AutoscalerStorageStatus `json:"storage,omitempty"`
	// lastChange that was made.
	// +optional
	LastChange *AutoscalerChange `json:"lastChange,omitempty"`
	// activity says in words what the operator is doing or what it is waiting
	// for.
	// +optional
	Activity string `json:"activity,omitempty"`
}

// Autoscaler changes shards, memory or storage of one cluster of the same namespace as it needs them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qas,categories={all,quorate}
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.cluster.kind`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Limited",type=string,JSONPath=`.status.conditions[?(@.type=="Limited")].status`
// +kubebuilder:printcolumn:name="Changed",type=date,JSONPath=`.status.lastChange.time`
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Autoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec AutoscalerSpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status AutoscalerStatus `json:"status,omitempty"`
}

// AutoscalerList is a list of Autoscalers.
// +kubebuilder:object:root=true
type AutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Autoscaler `json:"items"`
}
