// Package chart renders the Helm chart of this tree, for tests.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/quorate/quorate/test/repository"
)

// Release and Namespace are what Render installs the chart as.
const (
	Release   = "quorate"
	Namespace = "default"
)

// Values of the chart, as in values.yaml.
type Values = map[string]any

var program = sync.OnceValues(func() (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	return output(exec.Command(filepath.Join(root, "hack/tools.sh"), "helm"))
})

// Helm runs Helm in the root of the repository, where the chart is charts/quorate, and returns what it prints. An error holds what it
// wrote to standard error.
func Helm(ctx context.Context, args ...string) (string, error) {
	helm, err := program()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, helm, args...)
	if cmd.Dir, err = repository.Root(); err != nil {
		return "", err
	}
	return output(cmd)
}

func output(cmd *exec.Cmd) (string, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Render returns the objects of the chart. Values are written to a file in dir, which is empty.
func Render(ctx context.Context, dir string, values Values) ([]*unstructured.Unstructured, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("write the values: %w", err)
	}
	file := filepath.Join(dir, "values.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return nil, fmt.Errorf("write the values: %w", err)
	}
	out, err := Helm(ctx, "template", Release, "charts/quorate", "--namespace", Namespace, "--values", file)
	if err != nil {
		return nil, err
	}
	return Objects([]byte(out))
}

// Objects are the documents of a YAML file. One that holds only comments is none.
func Objects(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		err := in.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what was rendered: %w", err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}
