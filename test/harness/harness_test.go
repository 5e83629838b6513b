package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOnlyTheKindClusterIsTouched(t *testing.T) {
	config := func(context string) string {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		text := `{"apiVersion": "v1", "kind": "Config", "current-context": "` + context + `",
			"contexts": [{"name": "kind-quorate", "context": {"cluster": "c"}}, {"name": "production", "context": {"cluster": "c"}}],
			"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if _, err := kindConfig(config("production"), kindName); err == nil || !strings.Contains(err.Error(), `"production"`) {
		t.Errorf("another context is not refused by name: %v", err)
	}
	if _, err := kindConfig(config("kind-quorate"), kindName); err != nil {
		t.Errorf("the kind cluster is refused: %v", err)
	}
	if err := (&Cluster{Root: t.TempDir()}).Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "Fresh") {
		t.Errorf("the kind cluster may be removed: %v", err)
	}
}

func TestNamespacesAreNamedAfterTheirTest(t *testing.T) {
	for name, want := range map[string]string{
		"TestEtcdClusterBecomesReady":                    "etcd-cluster-becomes-ready",
		"TestX/with some_words":                          "xwithsomewords",
		"bench-floor":                                    "benchfloor",
		"TestAVeryLongNameThatNoNamespaceCouldEverCarry": "a-very-long-name-that-no-namespace-could",
	} {
		if got := namespacePrefix(name); got != want {
			t.Errorf("namespacePrefix(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestTheEnvironmentOverridesTheVersionThatWasBuilt(t *testing.T) {
	cache, root := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "hack/versions.env"), "# pinned\nREDIS_7_0=7.0.1\nVALKEY_8_1=8.1.0\n")
	write(filepath.Join(cache, "images/datastores.env"), "REDIS_7_0=7.0.15\n")
	t.Setenv("QUORATE_CACHE", cache)
	t.Setenv("REDIS_7_0", "")
	c := &Cluster{Root: root}
	for _, want := range []struct{ key, version string }{{"REDIS_7_0", "7.0.15"}, {"VALKEY_8_1", "8.1.0"}} {
		if got, err := c.Version(want.key); err != nil || got != want.version {
			t.Errorf("version of %s: %q, %v, want %q", want.key, got, err, want.version)
		}
	}
	t.Setenv("REDIS_7_0", "7.2.0")
	if got, err := c.Version("REDIS_7_0"); err != nil || got != "7.2.0" {
		t.Errorf("the environment is ignored: %q, %v", got, err)
	}
	if _, err := c.Version("MONGO_1"); err == nil {
		t.Error("an unknown key has a version")
	}
}

func TestWaitingEndsAtItsDeadlineWithTheLastState(t *testing.T) {
	err := Eventually(t.Context(), "the moon", time.Millisecond, func(context.Context) (bool, string, error) {
		return false, "it is still up", errors.New("no ladder")
	})
	for _, word := range []string{"the moon", "it is still up", "no ladder"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
	broken := errors.New("broken")
	if err := Throughout(t.Context(), time.Minute, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Throughout did not stop at the first failure: %v", err)
	}
	if err := Throughout(t.Context(), time.Millisecond, func(context.Context) error { return nil }); err != nil {
		t.Errorf("Throughout failed although nothing did: %v", err)
	}
}
