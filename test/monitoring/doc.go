// Package monitoring tests config/monitoring and docs/runbooks: alerts fire and clear and have a page each, dashboards are what Grafana
// reads, and every metric that one of them names is told by the operator, by a real etcd or by the exporter at a real Redis.
package monitoring
