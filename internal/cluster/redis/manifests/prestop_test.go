package manifests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/redistest"
)

// TestNobodyElseFailsOver: of two who have a replica take over, one cancels what the other has begun (Valkey issue 3996). So servers
// are not to do so when they end, whether by themselves or by a hook of their container, which only waits.
func TestNobodyElseFailsOver(t *testing.T) {
	for engine, version := range map[v1alpha1.RedisEngine]string{v1alpha1.EngineRedis: "8.0.2", v1alpha1.EngineValkey: "9.1.2"} {
		b := testBuilder(redistest.Cluster(engine, version))
		set, err := b.Set(0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range set.Spec.Template.Spec.Containers {
			if l := c.Lifecycle; l != nil && (l.PostStart != nil || !slices.Equal(l.PreStop.Exec.Command, []string{"sh", "-c", b.lastWords()})) {
				t.Errorf("%s: container %s has another hook than the one that waits for the operator", engine, *c.Name)
			}
		}
		config, err := redisconfig.Config(&b.Cluster.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(config, "shutdown-on-sig") || !redisconfig.OwnsConfigKey("shutdown-on-sigterm") {
			t.Errorf("%s: servers may be told to fail over when they end", engine)
		}
	}
}

func TestWhatAPodWaitsForBeforeItsServerEnds(t *testing.T) {
	const (
		primary   = "aa 10.0.0.1:6379@16379,c-0-0.c-peers,,tls-port=0 myself,master - 0 0 1 connected 0-5460\n"
		replica   = "bb 10.0.0.2:6379@16379 slave aa 0 1700000000000 1 connected\n"
		elsewhere = "cc 10.0.0.3:6379@16379 master - 0 1700000000000 2 connected 5461-10922\n"
		vars      = "vars currentEpoch 3 lastVoteEpoch 0\n"
	)
	tests := map[string]struct {
		table string
		waits bool
	}{
		"a primary with a replica":                    {primary + replica + elsewhere + vars, true},
		"a primary without one":                       {primary + elsewhere + vars, false},
		"a primary whose replica failed":              {primary + strings.Replace(replica, "slave", "slave,fail", 1) + vars, false},
		"a replica":                                   {"bb 10.0.0.2:6379@16379 myself,slave aa 0 0 1 connected\n" + strings.Replace(primary, "myself,", "", 1) + vars, false},
		"a primary without slots":                     {strings.Replace(primary, " 0-5460", "", 1) + replica + vars, false},
		"a primary that only awaits slots of another": {strings.Replace(primary, "0-5460", "[7-<-cc]", 1) + replica + vars, false},
		"a server that never was in a cluster":        {"", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), model.NodesFile)
			if tc.table != "" {
				write(t, file, tc.table)
			}
			script := strings.ReplaceAll(fmt.Sprintf(lastWords, leads), model.DataDir+"/"+model.NodesFile, file)
			waitsFor(t, script, tc.waits, func() { write(t, file, tests["a replica"].table) })
		})
	}
}

// In the mode Replicated the server is asked, by the client that comes with it.
func TestWhatAPrimaryWithoutAClusterWaitsForBeforeItEnds(t *testing.T) {
	const follows = "OK\nOK\nslave\n10.0.0.1\n6379\nconnected\n1234\n"
	tests := map[string]struct {
		answer string
		waits  bool
	}{
		"a primary with a replica": {"OK\nOK\nmaster\n1234\n10.0.0.2\n6379\n1200\n", true},
		"one of the passwords":     {"OK\nWRONGPASS invalid username-password pair or user is disabled.\n\nmaster\n1234\n10.0.0.2\n6379\n1200\n", true},
		"a primary without one":    {"OK\nOK\nmaster\n1234\n\n", false},
		"a replica":                {follows, false},
		"another password":         {"WRONGPASS invalid username-password pair or user is disabled.\n\nNOAUTH Authentication required.\n\n", false},
		"no answer":                {"", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			answer, asked := filepath.Join(dir, "answer"), filepath.Join(dir, "asked")
			write(t, answer, tc.answer)
			passwords := filepath.Join(dir, "passwords")
			if err := os.Mkdir(passwords, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(passwords, "former-replication"), `o"\d`)
			write(t, filepath.Join(passwords, "replication"), "new")
			write(t, filepath.Join(dir, "valkey-cli"), fmt.Sprintf("#!/bin/sh\ncat > %s.new; mv %s.new %s; cat %s\n", asked, asked, asked, answer))
			if err := os.Chmod(filepath.Join(dir, "valkey-cli"), 0o700); err != nil {
				t.Fatal(err)
			}
			script := fmt.Sprintf(lastWords, fmt.Sprintf(leadsAlone, " --tls"))
			script = "PATH=" + dir + ":$PATH\n" + strings.ReplaceAll(script, model.ReplicationDir, passwords)
			waitsFor(t, script, tc.waits, func() { write(t, answer, follows) })
			got, err := os.ReadFile(asked)
			if want := `AUTH replication "o\"\\d"` + "\nAUTH replication \"new\"\nROLE\n"; err != nil || string(got) != want {
				t.Errorf("the server was asked %q %v, want %q", got, err, want)
			}
		})
	}
}

// waitsFor checks that a script ends by itself, sooner than one that waits in vain, or else only after something was done.
func waitsFor(t *testing.T, script string, waits bool, done func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	if !waits {
		if err := <-ended; err != nil {
			t.Fatalf("it waits for nothing, or %v", err)
		}
		return
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended at once: %v", err)
	case <-time.After(time.Second):
	}
	done()
	if err := <-ended; err != nil {
		t.Fatalf("it does not end when that was done: %v", err)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
