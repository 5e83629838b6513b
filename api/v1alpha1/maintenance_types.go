package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdMaintenanceSpec says when the operator may do what is of use but not urgent.
type EtcdMaintenanceSpec struct {
	// window in which maintenance may begin. What has begun is finished. A full
	// database is cured at any time. Default: always, except that the only member
	// of a cluster is defragmented in a window alone, because it serves nobody
	// meanwhile.
	// +optional
	Window *MaintenanceWindow `json:"window,omitempty"`
	// defragmentation gives freed space of the databases back to the file system.
	// Default: where it is worth it.
	// +optional
	Defragmentation *DefragmentationSpec `json:"defragmentation,omitempty"`
}

// MaintenanceWindow is a time of the day, on some days of the week.
type MaintenanceWindow struct {
	// start of the window in hours and minutes, for example 02:30.
	// +required
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')`,message="spec.maintenance.window.start must be a time from 00:00 to 23:59, for example 02:30"
	Start string `json:"start"`
	// duration of the window, from 15m to 24h. It may go beyond midnight.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) >= duration('15m') && duration(self) <= duration('24h')`,message="spec.maintenance.window.duration must be a duration from 15m to 24h, for example 2h"
	Duration metav1.Duration `json:"duration"`
	// timeZone of start and days, a name of the IANA time zone database, for
	// example Europe/Berlin. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$') && self != 'Local'`,message="spec.maintenance.window.timeZone must be a name of the IANA time zone database, for example Europe/Berlin"
	TimeZone *string `json:"timeZone,omitempty"`
	// days of the week on which the window opens. Default: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`
}

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// DefragmentationMode says whether the operator defragments databases.
// +kubebuilder:validation:Enum=Auto;Disabled
type DefragmentationMode string

// Modes of defragmentation.
const (
	// DefragmentationAuto defragments where it is worth it.
	DefragmentationAuto DefragmentationMode = "Auto"
	// DefragmentationDisabled never does, not even to cure a full database.
	DefragmentationDisabled DefragmentationMode = "Disabled"
)

// DefragmentationSpec says when a database is defragmented.
type DefragmentationSpec struct {
	// mode is Auto or Disabled. Auto takes one member after the other, followers
	// first and the leader after it has handed over, while all are well; the
	// member gets no new clients meanwhile. Disabled never does, not even to cure
	// a full database. Default: Auto.
	// +optional
	Mode *DefragmentationMode `json:"mode,omitempty"`
	// minFree is the free space in bytes that makes a defragmentation worth it,
	// from 32Mi to 100Gi, where it is also at least 45 % of the database's file.
	// A file above 80 % of the quota is defragmented for 32Mi already. Default:
	// 200Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('[-+eE]') && isQuantity(string(self))`,message="spec.maintenance.defragmentation.minFree must be a number with or without a unit, for example 200Mi: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('[-+eE]') || !isQuantity(string(self)) || (quantity(string(self)).isInteger() && quantity(string(self)).compareTo(quantity('32Mi')) >= 0 && quantity(string(self)).compareTo(quantity('100Gi')) <= 0)`,message="spec.maintenance.defragmentation.minFree must be a whole number of bytes from 32Mi to 100Gi, for example 200Mi"
	MinFree *resource.Quantity `json:"minFree,omitempty"`
}
