package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/test/docs"
)

// brief are the pages whose commands take less than a minute in all, so that every change carries them out.
var brief = []string{"docs/etcd-users.md", "docs/kubernetes.md", "docs/migration.md", "docs/reasons.md", "docs/redis-users.md"}

func TestTheCommandsOfBriefPages(t *testing.T) {
	carryOut(t, func(p docs.Page) bool { return slices.Contains(brief, p.Path) })
}

func TestTheCommandsOfThePages(t *testing.T) {
	carryOut(t, func(p docs.Page) bool { return !slices.Contains(brief, p.Path) })
}

// carryOut carries out what pages tell their readers to do, each in a namespace of its own.
func carryOut(t *testing.T, chosen func(docs.Page) bool) {
	t.Helper()
	pages, err := docs.Pages(kind.Root)
	must(t, err)
	programs := programsOf(t)
	ran := 0
	for _, p := range pages {
		if !chosen(p) || !p.Executable() {
			continue
		}
		ran++
		t.Run(p.Path, func(t *testing.T) {
			t.Parallel()
			suite.Test(t, features.New(p.Path).Assess("its commands work", step(func(ctx context.Context, t *testing.T, s *scope) {
				read(ctx, t, s, p, programs)
			})).Feature())
		})
	}
	if ran == 0 {
		t.Error("no page has commands")
	}
}

// programsOf is a directory with the programs that readers have.
func programsOf(t *testing.T) string {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	link := func(path string, err error) {
		must(t, err)
		must(t, os.Symlink(path, filepath.Join(dir, filepath.Base(path))))
	}
	link(kind.Kubectl, nil)
	link(newPlugin(ctx, t, &scope{kind, ""}).path, nil)
	for _, name := range []string{"etcdctl", "etcdutl"} {
		link(kind.Kind(ctx, "bin", name))
	}
	link(kind.Tool(ctx, "age-keygen"))
	servers, err := kind.Kind(ctx, "servers")
	must(t, err)
	redis, err := kind.Version("REDIS_8_0")
	must(t, err)
	link(filepath.Join(servers, "redis-"+redis, "bin", "redis-cli"), nil)
	return dir
}

// read does what a page says, as one session of a shell in an empty directory.
func read(ctx context.Context, t *testing.T, s *scope, p docs.Page, programs string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Minute, errors.New("a page takes 20 minutes at most"))
	defer cancel()
	dir := t.TempDir()
	for _, name := range []string{"config", "hack"} { // What pages name of a checkout.
		must(t, os.Symlink(filepath.Join(s.Root, name), filepath.Join(dir, name)))
	}
	setups := filepath.Join(s.Root, "test/e2e/pages")
	versions, known := versionsOf(t, s)
	script := filepath.Join(dir, ".script")
	must(t, os.WriteFile(script, []byte(versions.Replace(p.Script(setups))), 0o600))
	said, err := os.Create(filepath.Join(dir, ".output"))
	must(t, err)
	defer func() { must(t, said.Close()) }()

	cmd := exec.CommandContext(ctx, "bash", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	cmd.Env = append(os.Environ(), "HOME="+dir, "KUBECONFIG="+kubeconfigOf(t, s, dir), "PATH="+programs+":"+os.Getenv("PATH"), "PAGES="+setups)
	cmd.Env = append(cmd.Env, known...)
	// What commands have left in the background ends with the page.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	began := time.Now()
	err = cmd.Run()
	_ = end() // There may be nothing left.
	out, readErr := os.ReadFile(said.Name())
	must(t, readErr)
	if err != nil {
		t.Fatalf("%s: %v\n%s", p.Path, errors.Join(err, context.Cause(ctx)), out)
	}
	t.Logf("%s\n%s", p.Path, out)
	figure(t, "%s took %.0f s", p.Path, time.Since(began).Seconds())
}

// kubeconfigOf is a kubeconfig for the namespace of a test.
func kubeconfigOf(t *testing.T, s *scope, dir string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(s.Kubeconfig)
	must(t, err)
	config.Contexts[config.CurrentContext].Namespace = s.ns
	path := filepath.Join(dir, ".kubeconfig")
	must(t, clientcmd.WriteToFile(*config, path))
	return path
}

// versionsOf puts the versions that were really built in the place of those that pages name, and names them to setups.
func versionsOf(t *testing.T, s *scope) (*strings.Replacer, []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Root, "hack/versions.env"))
	must(t, err)
	var pairs, env []string
	for line := range strings.Lines(string(raw)) {
		key, pinned, _ := strings.Cut(strings.TrimSpace(line), "=")
		store, _, _ := strings.Cut(key, "_")
		if !slices.Contains([]string{"ETCD", "REDIS", "VALKEY"}, store) || strings.HasSuffix(key, "_SUITE") {
			continue
		}
		built := s.version(t, key)
		pairs, env = append(pairs, pinned, built), append(env, fmt.Sprintf("%s=%s", key, built))
	}
	return strings.NewReplacer(pairs...), env
}
