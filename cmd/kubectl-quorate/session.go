package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

// streams are what a person sees and types.
type streams struct {
	in       io.Reader
	out, err io.Writer
	// terminal and typed say that out and in are a terminal.
	terminal, typed bool
	// width of the terminal in columns, 0: no limit.
	width int
}

func standardStreams() streams {
	s := streams{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), typed: term.IsTerminal(int(os.Stdin.Fd())),
	}
	if s.terminal {
		s.width, _, _ = term.GetSize(int(os.Stdout.Fd())) // Without a size nothing is cut.
	}
	return s
}

// session is what all commands share: the way to a Kubernetes cluster, by the conventions of kubeconfig files, and the person.
type session struct {
	streams
	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
	now       func() time.Time
	// fake takes the place of the API server in tests.
	fake client.WithWatch
}

func newSession(io streams) *session {
	return &session{
		streams: io, rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}, now: time.Now,
	}
}

// bind adds the flags that kubectl has for where it connects, and as whom.
func (s *session) bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig file")
	clientcmd.BindOverrideFlags(s.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
}

func (s *session) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(s.rules, s.overrides)
}

// namespace that the person means.
func (s *session) namespace() (string, error) {
	ns, _, err := s.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace: %w", err)
	}
	return cmp.Or(ns, corev1.NamespaceDefault), nil
}

func (s *session) config() (*rest.Config, error) {
	cfg, err := s.loader().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes cluster: %w (name one with --kubeconfig or --context)", err)
	}
	cfg.QPS, cfg.Burst = 50, 100
	cfg.UserAgent = "kubectl-quorate/" + version
	return cfg, nil
}

func scheme() (*runtime.Scheme, error) {
	out := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(out), v1alpha1.AddToScheme(out)); err != nil {
		return nil, fmt.Errorf("build scheme: %w", err)
	}
	return out, nil
}

// client of the API server, with the namespace that the person means.
func (s *session) client() (client.WithWatch, string, error) {
	ns, err := s.namespace()
	if err != nil || s.fake != nil {
		return s.fake, ns, err
	}
	cfg, err := s.config()
	if err != nil {
		return nil, "", err
	}
	known, err := scheme()
	if err != nil {
		return nil, "", err
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: known})
	if err != nil {
		return nil, "", fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return c, ns, nil
}

// clientset is for what the typed client cannot do: logs and terminals.
func (s *session) clientset() (kubernetes.Interface, *rest.Config, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, nil, err
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return c, cfg, nil
}

// say tells a person who waits what goes on. It is not what a script reads.
func (s *session) say(format string, args ...any) { _, _ = fmt.Fprintf(s.err, format+"\n", args...) }

// explain is an error with what a person can do about it, where that is known.
func explain(err error) string {
	switch {
	case meta.IsNoMatchError(err):
		return err.Error() + "\n  cure: the API server does not know the resources of Quorate: install the operator and its CRDs, or choose another cluster with --context"
	case apierrors.IsForbidden(err):
		return err.Error() + "\n  cure: ask for that right in the namespace; docs/plugin.md lists what each command needs"
	case apierrors.IsUnauthorized(err):
		return err.Error() + "\n  cure: log in again, or choose another user with --user"
	}
	return err.Error()
}
