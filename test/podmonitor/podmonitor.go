// Package podmonitor gives tests the definition of PodMonitors, as the operator of Prometheus brings it.
package podmonitor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// CRD returns the definition. root is that of the repository.
func CRD(ctx context.Context, root string) (*unstructured.Unstructured, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack/podmonitor-crd.sh"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the CRD of PodMonitors: %w", err)
	}
	raw, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, fmt.Errorf("read the CRD of PodMonitors: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &u.Object); err != nil {
		return nil, fmt.Errorf("read the CRD of PodMonitors: %w", err)
	}
	return u, nil
}
