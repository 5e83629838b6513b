package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultScrapeInterval is how often Prometheus reads the metrics unless the specification says otherwise.
const DefaultScrapeInterval = 30 * time.Second

// EtcdMonitoringSpec says how the metrics of an etcd cluster are read.
type EtcdMonitoringSpec struct {
	// podMonitor has Prometheus read the metrics of the members. Default: it is
	// made where its CRD is installed.
	// +optional
	PodMonitor *PodMonitorSpec `json:"podMonitor,omitempty"`
}

// RedisMonitoringSpec says how the metrics of a Redis or Valkey cluster are read.
type RedisMonitoringSpec struct {
	// podMonitor has Prometheus read the metrics of the servers. Default: it is
	// made where its CRD is installed.
	// +optional
	PodMonitor *PodMonitorSpec `json:"podMonitor,omitempty"`
	// exporter is a pod that tells the metrics of all servers, as a user that may
	// do nothing else. Default: as its fields say.
	// +optional
	Exporter *RedisExporterSpec `json:"exporter,omitempty"`
}

// PodMonitorSpec is what a user may say about the PodMonitor of a cluster.
type PodMonitorSpec struct {
	// enabled says whether there is a PodMonitor. Set it to false for a Prometheus
	// without its operator. Default: true.
	// +optional
	// +default=true
	Enabled *bool `json:"enabled,omitempty"`
	// interval at which the metrics are read, from 5s to 5m. Default: 30s.
	// +optional
	// +default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m))+$') && duration(self) >= duration('5s') && duration(self) <= duration('5m')`,message="spec.monitoring.podMonitor.interval must be a duration from 5s to 5m, for example 30s: Prometheus forgets what it has not read for 5m"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// labels of the PodMonitor besides those of the operator, which your
	// Prometheus selects by, for example release: prometheus. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253)`,message="spec.monitoring.podMonitor.labels: a key must be a valid label key, for example release or example.com/team"
	// +kubebuilder:validation:XValidation:rule=`self.all(k, self[k].matches('^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$') && self[k].size() <= 63)`,message="spec.monitoring.podMonitor.labels: a value must be a valid label value: at most 63 letters, digits, - _ and ."
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k.startsWith('app.kubernetes.io/') || k.startsWith('quorate.dev/'))`,message="spec.monitoring.podMonitor.labels: keys under app.kubernetes.io/ and quorate.dev/ belong to the operator; use a prefix of your own"
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]TemplateValue `json:"labels,omitempty"`
}

// RedisExporterSpec is what a user may say about the exporter of a cluster.
type RedisExporterSpec struct {
	// resources of the exporter: requests and limits of cpu (cores), memory and
	// ephemeral-storage (bytes). Default: 10m and 32Mi requested, 128Mi of memory
	// at most.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!has(self.claims) || self.claims.size() == 0`,fieldPath=".claims",message="spec.monitoring.exporter.resources.claims cannot be set: the pods have no resource claims; use requests and limits"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || self.limits.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])`,fieldPath=".limits",message="spec.monitoring.exporter.resources.limits may hold cpu, memory and ephemeral-storage only"
	// +kubebuilder:validation:XValidation:rule=`!has(self.requests) || self.requests.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])`,fieldPath=".requests",message="spec.monitoring.exporter.resources.requests may hold cpu, memory and ephemeral-storage only"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits) || (!string(self.limits[k]).matches('[-+eE]') && isQuantity(string(self.limits[k]))))`,fieldPath=".limits",message="spec.monitoring.exporter.resources.limits must be numbers with or without a unit, for example memory: 2Gi: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`!has(self.requests) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || (!string(self.requests[k]).matches('[-+eE]') && isQuantity(string(self.requests[k]))))`,fieldPath=".requests",message="spec.monitoring.exporter.resources.requests must be numbers with or without a unit, for example cpu: 500m: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.limits[k])).isGreaterThan(quantity('0')))`,fieldPath=".limits",message="spec.monitoring.exporter.resources.limits must be above zero"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || !has(self.requests) || ['cpu', 'memory'].all(k, !(k in self.requests) || !(k in self.limits) || string(self.requests[k]).matches('[-+eE]') || !isQuantity(string(self.requests[k])) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)`,fieldPath=".requests",message="spec.monitoring.exporter.resources.requests cannot be above spec.monitoring.exporter.resources.limits: lower the request or raise the limit"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || !has(self.requests) || ['ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || string(self.requests[k]).matches('[-+eE]') || !isQuantity(string(self.requests[k])) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)`,fieldPath=".requests",message="spec.monitoring.exporter.resources.requests cannot be above spec.monitoring.exporter.resources.limits: lower the request or raise the limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}
