package kube

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// PodMonitorKind is what has the operator of Prometheus scrape pods, and PodMonitorCRD what the API server knows it by.
var PodMonitorKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"}

// PodMonitorCRD is the name of its definition.
const PodMonitorCRD = "podmonitors.monitoring.coreos.com"

// PodMonitor is what we say in one,
// https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PodMonitor.
type PodMonitor struct {
	Name, Namespace  string
	Labels, Selector map[string]string
	Owner            *metav1ac.OwnerReferenceApplyConfiguration
	// User is what the specification of the cluster says, nil for nothing.
	User     *v1alpha1.PodMonitorSpec
	Endpoint PodMetricsEndpoint
}

// PodMetricsEndpoint is a port of the pods that tells metrics.
type PodMetricsEndpoint struct {
	Port   string `json:"port"`
	Scheme string `json:"scheme,omitempty"`
	// HonorLabels keeps labels that the metrics come with and that the scrape would set, too.
	HonorLabels bool         `json:"honorLabels,omitempty"`
	Interval    string       `json:"interval"`
	Relabelings []Relabeling `json:"relabelings"`
	TLS         *ScrapeTLS   `json:"tlsConfig,omitempty"`
}

// Relabeling sets a label of everything that is scraped.
type Relabeling struct {
	TargetLabel string `json:"targetLabel"`
	Replacement string `json:"replacement"`
}

// ScrapeTLS is what Prometheus proves itself with, and what it asks servers to prove.
type ScrapeTLS struct {
	ServerName string      `json:"serverName"`
	CA         SecretValue `json:"ca"`
	Cert       SecretValue `json:"cert"`
	Key        SecretKey   `json:"keySecret"`
}

// SecretValue is a value that is kept in a Secret.
type SecretValue struct {
	Secret SecretKey `json:"secret"`
}

// SecretKey names a key of a Secret of the same namespace.
type SecretKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// Build returns the object. The label managed_by tells what is scraped from other etcds and Redis servers: alerts and dashboards are about
// what has it.
func (m PodMonitor) Build() (*unstructured.Unstructured, error) {
	m.Endpoint.Interval = m.User.ScrapeInterval().String()
	m.Endpoint.Relabelings = []Relabeling{{TargetLabel: "managed_by", Replacement: cluster.ManagedBy}}
	labels := map[string]string{}
	if m.User != nil {
		labels = plain(m.User.Labels)
	}
	for k, v := range m.Labels {
		labels[k] = v
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": PodMonitorKind.GroupVersion().String(), "kind": PodMonitorKind.Kind,
		"metadata": map[string]any{
			"name": m.Name, "namespace": m.Namespace, "labels": labels, "ownerReferences": []any{m.Owner},
		},
		"spec": map[string]any{
			"selector":            metav1.LabelSelector{MatchLabels: m.Selector},
			"podMetricsEndpoints": []PodMetricsEndpoint{m.Endpoint},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode PodMonitor %s: %w", m.Name, err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &out.Object); err != nil {
		return nil, fmt.Errorf("decode PodMonitor %s: %w", m.Name, err)
	}
	return out, nil
}
