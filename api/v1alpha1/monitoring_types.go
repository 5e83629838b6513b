package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
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
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m))+$') && duration(self) >= duration('5s') && duration(self) <= duration('5m')`,message="spec.monitoring.podMonitor.interval must be a duration from 5s to 5m, for example 30s: Prometheus forgets what it has not read for 5m"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// labels of the PodMonitor besides those of the operator, which your
	// Prometheus selects by, for example release: prometheus; at most 8. Default:
	// none.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253 && !k.startsWith('app.kubernetes.io/') && !k.startsWith('quorate.dev/'))`,message="spec.monitoring.podMonitor.labels: a key must be a valid label key, for example release or example.com/team; those under app.kubernetes.io/ and quorate.dev/ belong to the operator"
	Labels map[string]PodMonitorLabel `json:"labels,omitempty"`
}

// PodMonitorLabel is the value of a label of a PodMonitor.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`
type PodMonitorLabel string

// RedisExporterSpec is what a user may say about the exporter of a cluster.
type RedisExporterSpec struct {
	// resources of the exporter. Default: 10m of cpu and 32Mi of memory requested,
	// and 128Mi of memory at most.
	// +optional
	Resources *ExporterResources `json:"resources,omitempty"`
}

// ExporterResources are the resources of the exporter.
type ExporterResources struct {
	// requests are what is kept free for it. Default: none.
	// +optional
	Requests *ExporterAmounts `json:"requests,omitempty"`
	// limits are what it can have at most. Default: none.
	// +optional
	Limits *ExporterAmounts `json:"limits,omitempty"`
}

// ExporterAmounts are amounts of resources. Patterns check them, and no CEL: rules about quantities are dear, and the CRD has as many as it may
// have. A request above its limit is refused by the API server in the Deployment, and MonitoringReady says so.
type ExporterAmounts struct {
	// cpu in cores, for example 100m; not in bytes. Default: none.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}|[0-9]{1,6}[.][0-9]{1,3}|[0-9]{1,9}m)$`
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// memory in bytes, for example 128Mi. Default: none.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]{1,15}(k|M|G|Ki|Mi|Gi)?$`
	Memory *resource.Quantity `json:"memory,omitempty"`
}
