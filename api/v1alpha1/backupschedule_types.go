package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupRetention says which backups of a schedule are kept. A backup is kept when any of the fields asks for it.
type BackupRetention struct {
	// keepLast is how many of the newest backups are kept, up to 10000. Default:
	// 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepLast *int32 `json:"keepLast,omitempty"`
	// keepHourly is for how many hours with a backup the newest of each hour is
	// kept, up to 10000. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepHourly *int32 `json:"keepHourly,omitempty"`
	// keepDaily is the same for days, up to 10000. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepDaily *int32 `json:"keepDaily,omitempty"`
	// keepWeekly is the same for weeks, up to 10000. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepWeekly *int32 `json:"keepWeekly,omitempty"`
	// keepMonthly is the same for months, up to 10000. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepMonthly *int32 `json:"keepMonthly,omitempty"`
}

// ConcurrencyPolicy says what happens when a backup is due while the one before is still being taken.
// +kubebuilder:validation:Enum=Forbid;Allow
type ConcurrencyPolicy string

// Concurrency policies.
const (
	// ConcurrencyForbid skips the new one.
	ConcurrencyForbid ConcurrencyPolicy = "Forbid"
	// ConcurrencyAllow takes both.
	ConcurrencyAllow ConcurrencyPolicy = "Allow"
)

// BackupIncremental says how changes are recorded between the backups of a schedule.
type BackupIncremental struct {
	// interval is how long a change waits at most before it is stored, from 1s to
	// 1h: so much would be lost of what was acknowledged. Default: 10s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')`,message="spec.incremental.interval must be a duration from 1s to 1h, for example 10s"
	Interval *metav1.Duration `json:"interval,omitempty"`
}

// BackupVerify says when the newest backup is checked.
type BackupVerify struct {
	// schedule at which the newest complete backup is restored into a throw-away
	// server and checked, in cron syntax.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
}

// BackupScheduleSpec says how often backups of a cluster are taken and which of them are kept.
// +kubebuilder:validation:XValidation:rule=`!has(self.incremental) || self.cluster.kind == 'EtcdCluster'`,fieldPath=".incremental",message="spec.incremental is for an EtcdCluster: the changes of a RedisCluster cannot be recorded; remove it, and take backups more often"
// +kubebuilder:validation:XValidation:rule=`self.cluster == oldSelf.cluster`,fieldPath=".cluster",message="spec.cluster cannot change: create another BackupSchedule for the other cluster"
type BackupScheduleSpec struct {
	// cluster that is backed up.
	// +required
	Cluster ClusterReference `json:"cluster"`
	// schedule in cron syntax: "0 3 * * *", or @hourly, @daily, @weekly.
	// +required
	// +kubebuilder:validation:XValidation:rule=`!self.contains('TZ=')`,message="spec.schedule holds no time zone: name it in spec.timeZone"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
	// timeZone of the schedule and of retention, for example Europe/Berlin.
	// Default: UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone *string `json:"timeZone,omitempty"`
	// jitter delays each schedule by a part of this time that is its own, so that
	// not all of them begin in the same second. Up to 24h. Default: 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')`,message="spec.jitter must be a duration from 0s to 24h, for example 5m"
	Jitter *metav1.Duration `json:"jitter,omitempty"`
	// startingDeadline is how late a backup that was missed may still begin; of
	// several that were missed only the last is made up for. From 10s to 720h.
	// Default: 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) >= duration('10s') && duration(self) <= duration('720h')`,message="spec.startingDeadline must be a duration from 10s to 720h, for example 1h"
	StartingDeadline *metav1.Duration `json:"startingDeadline,omitempty"`
	// concurrencyPolicy says what happens when a backup is due while another one
	// of this schedule is being taken: Forbid skips it, Allow takes both.
	// Default: Forbid.
	// +optional
	ConcurrencyPolicy *ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// suspend stops new backups; what is being taken is finished. Default: false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
	// destination of the backups.
	// +required
	Destination BackupDestination `json:"destination"`
	// incremental records every change between the backups, so that an etcd
	// cluster can be restored to any revision or time. It takes a pod that runs
	// all the time. Default: no changes are recorded.
	// +optional
	Incremental *BackupIncremental `json:"incremental,omitempty"`
	// retention says which backups of this schedule are kept; the others are
	// deleted with their data. The newest complete one and the newest verified
	// one always stay. Default: all are kept.
	// +optional
	Retention *BackupRetention `json:"retention,omitempty"`
	// verify says when the newest backup is checked. Default: never.
	// +optional
	Verify *BackupVerify `json:"verify,omitempty"`
	// resources of the pods that take, check and delete backups: requests and
	// limits of cpu (cores) and memory (bytes). Default: 100m and 64Mi requested,
	// 2 and 128Mi at most; for checks, in which a server runs, more by the size of
	// the backup, see spec.resources of a Backup.
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
}

// BackupScheduleStatus is what the operator last saw. It is output only: the operator never reads it back.
type BackupScheduleStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, BackupHealthy, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// activity says in words what the operator is doing or what it is waiting
	// for.
	// +optional
	Activity string `json:"activity,omitempty"`
	// lastBackup is the newest complete backup.
	// +optional
	LastBackup string `json:"lastBackup,omitempty"`
	// lastBackupTime is when that was complete.
	// +optional
	LastBackupTime *metav1.Time `json:"lastBackupTime,omitempty"`
	// lastVerifiedTime is when a backup of this schedule last proved to be
	// restorable.
	// +optional
	LastVerifiedTime *metav1.Time `json:"lastVerifiedTime,omitempty"`
	// restoreSeconds is how long reading back and restoring took then.
	// +optional
	RestoreSeconds int64 `json:"restoreSeconds,omitempty"`
	// nextTime is when the next backup is due.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// recording says how far the recording of changes is: Current when nothing
	// acknowledged more than a minute ago is missing, Behind when something may
	// be, Starting before the first backup. Absent without spec.incremental.
	// +optional
	Recording string `json:"recording,omitempty"`
	// backups of this schedule that are complete.
	// +optional
	Backups int32 `json:"backups,omitempty"`
}

// BackupSchedule takes backups of a cluster again and again.
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,fieldPath=".metadata",message="metadata.name must be at most 40 lower case letters, digits and -, begin with a letter and end with a letter or digit"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qbs,categories={quorate}
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.cluster.kind`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="BackupHealthy")].status`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastBackupTime`
// +kubebuilder:printcolumn:name="Verified",type=date,JSONPath=`.status.lastVerifiedTime`
// +kubebuilder:printcolumn:name="Backups",type=integer,JSONPath=`.status.backups`
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BackupSchedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how often and what is kept.
	// +required
	Spec BackupScheduleSpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status BackupScheduleStatus `json:"status,omitempty"`
}

// BackupScheduleList is a list of schedules.
// +kubebuilder:object:root=true
type BackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupSchedule `json:"items"`
}
