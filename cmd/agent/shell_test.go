package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/stores"
)

// shellPassword would break a line of a shell.
const shellPassword = `tell nobody'"$7`

// agentVariable says that the test is to be the agent, with the arguments that are its value.
const agentVariable = "QUORATE_TEST_AGENT"

func TestMain(m *testing.M) {
	if args := os.Getenv(agentVariable); args != "" {
		if err := run(context.Background(), strings.Split(args, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// connectionOf is a connection Secret as it is mounted.
func connectionOf(t *testing.T, address, username string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for key, value := range map[string]string{
		connection.KeyHost: host, connection.KeyPort: port, connection.KeyUsername: username, connection.KeyPassword: shellPassword,
	} {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell runs the agent in a process of its own, which becomes the client. It returns what that prints.
func shell(t *testing.T, programs, in string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), agentVariable+"="+strings.Join(append([]string{"shell"}, args...), "\n"), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("shell %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestEtcdctlIsLoggedIn(t *testing.T) {
	for _, version := range []string{"etcd-3.5", "etcd-3.6", "etcd-3.7"} {
		member, c := startEtcdOf(t, version)
		for _, err := range []error{
			second(c.RoleAdd(t.Context(), "root")), second(c.UserAdd(t.Context(), "root", shellPassword)),
			second(c.UserGrantRole(t.Context(), "root", "root")), second(c.AuthEnable(t.Context())),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		where, err := url.Parse(member)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"--client=etcdctl", "--secret-dir=" + connectionOf(t, where.Host, "root"), "--"}
		if out := shell(t, stores.Newest(t, version).Dir, "", append(args, "put", "a key", "a value")...); !strings.Contains(out, "OK") {
			t.Errorf("%s: %s", version, out)
		}
		out := shell(t, stores.Newest(t, version).Dir, "get 'a key'\nno-such-command\n\nget \"a key\nexit\nget never\n", args...)
		if strings.Count(out, "a value") != 1 || !strings.Contains(out, "unknown command") || !strings.Contains(out, "close it") || strings.Contains(out, "never") {
			t.Errorf("%s, line by line: %s", version, out)
		}
	}
}

func TestRedisCliIsLoggedIn(t *testing.T) {
	for engine, client := range map[string]string{"redis-8.0": "redis-cli", "valkey-9.1": "valkey-cli", "redis-7.0": "redis-cli"} {
		p := startRedis(t, engine)
		if err := p.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">"+shellPassword, "+@all", "~*").Err(); err != nil {
			t.Fatal(err)
		}
		args := []string{"--client=" + client, "--secret-dir=" + connectionOf(t, p.addr, "app"), "--sharded=false", "--"}
		if out := shell(t, stores.Newest(t, engine).Dir, "PING\nACL WHOAMI\n", args...); out != "PONG\napp\n" {
			t.Errorf("%s: %s", engine, out)
		}
		if out := shell(t, stores.Newest(t, engine).Dir, "", append(args, "ACL", "WHOAMI")...); out != "app\n" {
			t.Errorf("%s: %s", engine, out)
		}
	}
}

func TestNoCredentialIsAnArgument(t *testing.T) {
	c := connection.Connection{Host: "carts-client", Port: "6379", Username: "app", Password: shellPassword}
	args := redisArgs(c, shellOptions{sharded: true, dir: "/connection"})
	if slices.Contains(args, shellPassword) || !slices.Equal(args, []string{"-h", "carts-client", "-p", "6379", "-c", "--user", "app"}) {
		t.Errorf("arguments %q", args)
	}
	err := run(t.Context(), []string{"shell", "--client=sh", "--secret-dir=" + connectionOf(t, "127.0.0.1:1", "x")})
	if err == nil || !strings.Contains(err.Error(), "use etcdctl") {
		t.Errorf("another client: %v", err)
	}
}

func TestALineIsSplitAsAShellWould(t *testing.T) {
	type result struct {
		Words      []string
		Unfinished bool
	}
	for line, want := range map[string]result{
		"":                             {},
		"  get\t--prefix  / \n":        {Words: []string{"get", "--prefix", "/"}},
		`put "a b" 'c "d"' e\ f ''`:    {Words: []string{"put", "a b", `c "d"`, "e f", ""}},
		`put k "say \"hi\" 'there'" x`: {Words: []string{"put", "k", `say "hi" 'there'`, "x"}},
		`get "a`:                       {Words: []string{"get", "a"}, Unfinished: true},
	} {
		var got result
		got.Words, got.Unfinished = splitWords(line)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
}
