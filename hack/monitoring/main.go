// Command monitoring writes what follows from other files: docs/metrics.md from the definitions of
// the metrics, the object for the operator of Prometheus from config/monitoring/rules.yaml, and the
// dashboards of Grafana. It is run by make generate, in the root of the repository. It must not
// need a cluster or a running Prometheus.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/metrics"
)

const dir = "config/monitoring"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := write("docs/metrics.md", reference(metrics.Definitions())); err != nil {
		return err
	}
	rule, err := prometheusRule(filepath.Join(dir, "rules.yaml"))
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "prometheusrule.yaml"), rule); err != nil {
		return err
	}
	for _, b := range boards() {
		raw, err := json.MarshalIndent(b.model(), "", " ")
		if err != nil {
			return fmt.Errorf("write dashboard %s: %w", b.uid, err)
		}
		if err := write(filepath.Join(dir, "dashboards", b.uid+".json"), string(raw)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // Everybody may read what is in the repository.
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // Everybody may read what is in the repository.
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// reference is the page about all metrics.
func reference(all []metrics.Definition) string {
	var b strings.Builder
	b.WriteString(`# Metrics of the operator

Generated from internal/metrics/metrics.go. How to scrape them, and what servers tell themselves, is in
[monitoring.md](monitoring.md).

| metric | type | labels | meaning |
|---|---|---|---|
`)
	for _, d := range all {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(d.Labels, ", "), d.Help)
	}
	return b.String()
}

// prometheusRule wraps rules into the object that the operator of Prometheus reads.
func prometheusRule(path string) (string, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // It is a file of this repository.
	if err != nil {
		return "", fmt.Errorf("read rules: %w", err)
	}
	var rules map[string]any
	if err := yaml.Unmarshal(raw, &rules); err != nil {
		return "", fmt.Errorf("read rules of %s: %w", path, err)
	}
	object, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1",
		"kind":       "PrometheusRule",
		"metadata": map[string]any{
			"name": "quorate", "namespace": "quorate-system",
			"labels": map[string]string{"app.kubernetes.io/name": "quorate", "app.kubernetes.io/component": "manager"},
		},
		"spec": rules,
	})
	if err != nil {
		return "", fmt.Errorf("wrap rules: %w", err)
	}
	return "# Generated from rules.yaml by make generate.\n" + string(object), nil
}
