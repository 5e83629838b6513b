// Package harness is what the end-to-end tests and the benchmarks share: the way to the kind cluster, the deployment of
// the operator, waiting on watches, and faults. It holds no assertion about any one feature.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/quorate/quorate/controllers/owned"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/repository"
)

// kindName is the kind cluster that everything runs in. Beside it only those are touched that Fresh makes.
const kindName = "quorate"

// Cluster is the kind cluster under test.
type Cluster struct {
	client.WithWatch
	// Clients are for what the typed client cannot do: logs, tokens, proxies.
	Clients kubernetes.Interface
	Config  *rest.Config
	// Dial connects to a port of a pod through the API server.
	Dial owned.DialFunc
	// Kubeconfig is the file, Kubectl the program, Root the repository.
	Kubeconfig, Kubectl, Root string
	// name of the kind cluster.
	name string
	// env is what hack/kind needs to work on another cluster than the one named quorate; nil: nothing.
	env []string
	// secrets are what is remembered of namespaces, see Leaks.
	secrets sync.Map
}

// NoCluster says how to get a cluster if none was named; nil: one was.
func NoCluster() error {
	if os.Getenv("KUBECONFIG") != "" {
		return nil
	}
	return errors.New(`KUBECONFIG is not set: run "make test-e2e", or export KUBECONFIG="$(hack/kind/kind.sh kubeconfig)"`)
}

// Connect finds the cluster through KUBECONFIG, and refuses any that was not made by hack/kind.
func Connect(ctx context.Context) (*Cluster, error) {
	c := &Cluster{Kubeconfig: os.Getenv("KUBECONFIG"), Kubectl: os.Getenv("KUBECTL"), name: kindName}
	var err error
	if c.Root, err = repository.Root(); err != nil {
		return nil, err
	}
	if err := NoCluster(); err != nil {
		return nil, err
	}
	if c.Kubectl == "" {
		if c.Kubectl, err = c.Kind(ctx, "bin", "kubectl"); err != nil {
			return nil, err
		}
	}
	if c.Config, err = kindConfig(c.Kubeconfig, kindName); err != nil {
		return nil, err
	}
	return c, c.connect()
}

// Fresh makes a kind cluster of one node, with nothing in it, beside this one. The caller removes it.
func (c *Cluster) Fresh(ctx context.Context, name string) (*Cluster, error) {
	f := &Cluster{Kubectl: c.Kubectl, Root: c.Root, name: name, env: []string{"QUORATE_CLUSTER=" + name, "QUORATE_NODES=1"}}
	if err := f.Remove(ctx); err != nil { // An interrupted run may have left one.
		return nil, err
	}
	if err := f.bringUp(ctx, name); err != nil {
		return nil, errors.Join(err, f.Remove(context.WithoutCancel(ctx)))
	}
	return f, nil
}

func (c *Cluster) bringUp(ctx context.Context, name string) (err error) {
	if _, err := c.Kind(ctx, "up"); err != nil {
		return err
	}
	if c.Kubeconfig, err = c.Kind(ctx, "kubeconfig"); err != nil {
		return err
	}
	if c.Config, err = kindConfig(c.Kubeconfig, name); err != nil {
		return err
	}
	return c.connect()
}

// Remove deletes a cluster that Fresh made, and refuses any other one.
func (c *Cluster) Remove(ctx context.Context) error {
	if c.env == nil {
		return errors.New("only a cluster that was made by Fresh is removed")
	}
	_, err := c.Kind(ctx, "down")
	return err
}

// kindConfig reads a kubeconfig whose current context is a kind cluster.
func kindConfig(path, name string) (*rest.Config, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, nil)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	if kindContext := "kind-" + name; raw.CurrentContext != kindContext {
		return nil, fmt.Errorf("the current context of %s is %q, not %s: these tests delete what they find, so they run only there",
			path, raw.CurrentContext, kindContext)
	}
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	cfg.QPS, cfg.Burst = 100, 200
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg, nil
}

func (c *Cluster) connect() error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("build scheme: %w", err)
	}
	var err error
	if c.WithWatch, err = client.NewWithWatch(c.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if c.Clients, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	c.Dial, err = owned.DialThroughAPI(c.Config)
	return err
}

// Kind runs hack/kind/kind.sh and returns what it prints.
func (c *Cluster) Kind(ctx context.Context, args ...string) (string, error) {
	return output(c.command(ctx, filepath.Join(c.Root, "hack/kind/kind.sh"), args...))
}

// Tool returns the path of a program that hack/tools.sh builds.
func (c *Cluster) Tool(ctx context.Context, name string) (string, error) {
	return output(c.command(ctx, filepath.Join(c.Root, "hack/tools.sh"), name))
}

// Run runs kubectl against the cluster and returns what it prints.
func (c *Cluster) Run(ctx context.Context, args ...string) (string, error) {
	return output(c.command(ctx, c.Kubectl, args...))
}

// command is a program that works on the cluster, in the repository.
func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.Root
	cmd.Env = slices.Concat(os.Environ(), c.env, []string{"KUBECONFIG=" + c.Kubeconfig, "KUBECTL=" + c.Kubectl})
	return cmd
}

// output runs a command and returns its standard output; an error carries what it wrote to standard error.
func output(cmd *exec.Cmd) (string, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
