// Package e2e runs the operator on a real Kubernetes cluster (hack/kind) and looks at it as a user would: through kubectl,
// through the data stores' own clients, and by breaking things.
package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/test/harness"
	"github.com/quorate/quorate/test/need"
)

var (
	suite env.Environment
	// kind is the cluster under test, loadImage the image of test/e2e/load. Both are set before the first test.
	kind      *harness.Cluster
	loadImage string
	// leaving are the namespaces of tests that have ended, until they are gone.
	leaving errgroup.Group
)

func TestMain(m *testing.M) {
	if err := harness.NoCluster(); err != nil {
		os.Exit(need.Exit(err))
	}
	suite = env.NewWithConfig(envconf.NewWithKubeConfig(os.Getenv("KUBECONFIG")))
	suite.Setup(
		stage("find the cluster", func(ctx context.Context) (err error) {
			kind, err = harness.Connect(ctx)
			return err
		}),
		stage("deploy the operator", func(ctx context.Context) error { return kind.Deploy(ctx) }),
		stage("build the load", func(ctx context.Context) (err error) {
			loadImage, err = kind.BuildLoad(ctx)
			return err
		}),
	)
	suite.Finish(stage("wait for the namespaces to be gone", func(context.Context) error { return leaving.Wait() }))
	suite.BeforeEachTest(enterScope)
	suite.AfterEachTest(leaveScope)
	began := time.Now()
	code := suite.Run(m)
	if err := reportRights(context.Background(), began); err != nil { // The suite would pass over it.
		fmt.Fprintln(os.Stderr, "FAIL e2e:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// reportRights prints which rights of the operator the audit log shows no use of. In a run of a few tests those are many. A right that it
// lacks is an error.
func reportRights(ctx context.Context, since time.Time) error {
	if kind == nil { // There is no cluster, and the set-up has said so.
		return nil
	}
	r, err := kind.Rights(ctx, since)
	if err != nil {
		return err
	}
	fmt.Printf("FIGURE rights: the operator has %d, and no use was seen of %d: %v\n", r.Granted, len(r.Unused), r.Unused)
	if len(r.Denied) > 0 {
		return fmt.Errorf("the operator was denied what it asked for:\n%s", strings.Join(r.Denied, "\n"))
	}
	return nil
}

// stage is a part of the set-up that says when it begins.
func stage(what string, do func(context.Context) error) env.Func {
	return func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
		fmt.Fprintf(os.Stderr, "%s e2e: %s\n", time.Now().Format(time.TimeOnly), what)
		if err := do(ctx); err != nil {
			return ctx, fmt.Errorf("%s: %w", what, err)
		}
		return ctx, nil
	}
}

// scope is what one test works with: the cluster, and a namespace of its own that enforces restricted pods.
type scope struct {
	*harness.Cluster
	ns string
}

type scopeKey struct{}

func enterScope(ctx context.Context, _ *envconf.Config, t *testing.T) (context.Context, error) { //nolint:thelper // The framework wants this order.
	ns, err := kind.NewNamespace(ctx, t.Name())
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, scopeKey{}, &scope{kind, ns}), nil
}

// leaveScope shows what a person would look at when the test failed, and removes its namespace unless E2E_KEEP is set.
func leaveScope(ctx context.Context, _ *envconf.Config, t *testing.T) (context.Context, error) { //nolint:thelper // The framework wants this order.
	s := ctx.Value(scopeKey{}).(*scope)
	if t.Failed() {
		t.Logf("what was there when %s failed:\n%s", t.Name(), s.Dump(ctx, s.ns))
		if os.Getenv("E2E_KEEP") != "" {
			t.Logf("E2E_KEEP is set: namespace %s stays", s.ns)
			return ctx, nil
		}
	}
	s.wantNoLeaks(ctx, t)
	if err := s.Empty(ctx, s.ns); err != nil {
		return ctx, err
	}
	// Kubernetes takes its time to find that nothing is left. The next test need not wait for that.
	leaving.Go(func() error { return s.DeleteNamespace(context.WithoutCancel(ctx), s.ns) })
	return ctx, nil
}

// step makes a step of a feature out of a function that needs the scope.
func step(fn func(ctx context.Context, t *testing.T, s *scope)) features.Func {
	return func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		fn(ctx, t, ctx.Value(scopeKey{}).(*scope))
		return ctx
	}
}

// figure prints a measured value in one line that is easy to find: grep FIGURE.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	fmt.Printf("FIGURE %s: %s\n", name, fmt.Sprintf(format, args...))
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
