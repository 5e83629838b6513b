package redisclient_test

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

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// FuzzConfig and FuzzUsers of internal/cluster/redis read the files as the servers do, as far as we know; here the servers do it themselves.
func TestServersReadBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	passwords := []string{`"`, `'`, `\`, `a"b 'c' \x41 \n #`, "\t\x01\x7f\xff", "ü", ` lead and trail `, "$x `y` %z", "#"}
	patterns := []string{
		"app:*", "(", ")", "(a)", "~", "&", "%R~", "%RW~x", "+@all", "#", ">p", "<p", "!p", "nopass", "on", "{a}", "[^a]", `\`, `\*`, `"`, `"a"`, "'", ":", "~*", "allkeys", "resetkeys",
	}
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			server := stores.Newest(t, engine)
			want := acl.Account(userWith(patterns), "secret")
			for i, password := range passwords {
				c := startWith(t, server.Program(), server.Version, password, want)
				if got, err := c.ConfigGet(t.Context(), "masterauth").Result(); err != nil || got["masterauth"] != password {
					t.Errorf("password %d: the server reads %q, written was %q, %v", i, got["masterauth"], password, err)
				}
				if i == 0 {
					tells(t, c, want, server.Version)
				}
			}
		})
	}
}

// Rules that overlap are told otherwise than they were written, and an account would be set at each look.
func TestServersTellAccountsInTheWordsThatAreWanted(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			server := stores.Newest(t, engine)
			u := &v1alpha1.RedisUser{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: v1alpha1.RedisUserSpec{
				Keys: []v1alpha1.RedisKeys{
					{Pattern: "app:*", Access: v1alpha1.RedisRead}, {Pattern: "in:*", Access: v1alpha1.RedisRead}, {Pattern: "app:*", Access: v1alpha1.RedisWrite},
				},
				Channels: []v1alpha1.RedisPattern{"app:*", "*"}, Categories: []v1alpha1.RedisCategory{"read", "write"},
				Commands: []v1alpha1.RedisCommand{"memory|usage", "memory"},
			}}
			want := acl.Account(u, "secret")
			c := startWith(t, server.Program(), server.Version, "", want)
			tells(t, c, want, server.Version)
			for command, allowed := range map[string]bool{"SET app:1 x": true, "FUNCTION FLUSH": false, "FUNCTION LIST": false, "SET in:1 x": false} {
				args := []any{"ACL", "DRYRUN", want.Name}
				for _, word := range strings.Fields(command) {
					args = append(args, word)
				}
				if got, err := c.Do(t.Context(), args...).Text(); err != nil || (got == "OK") != allowed {
					t.Errorf("%s: %s, %v", command, got, err)
				}
			}
			u.Spec.Keys, u.Spec.Commands = append(u.Spec.Keys, v1alpha1.RedisKeys{Pattern: "*", Access: v1alpha1.RedisReadWrite}), []v1alpha1.RedisCommand{"function|list"}
			want = acl.Account(u, "secret")
			c = startWith(t, server.Program(), server.Version, "", want)
			tells(t, c, want, server.Version)
			if got, err := c.Do(t.Context(), "ACL", "DRYRUN", want.Name, "FUNCTION", "LIST").Text(); err != nil || got != "OK" {
				t.Errorf("what is named alone is not allowed: %s, %v", got, err)
			}
			u.Spec.Commands = []v1alpha1.RedisCommand{"function"}
			want = acl.Account(u, "secret")
			tells(t, startWith(t, server.Program(), server.Version, "", want), want, server.Version)
		})
	}
}

func userWith(patterns []string) *v1alpha1.RedisUser {
	u := &v1alpha1.RedisUser{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: v1alpha1.RedisUserSpec{Username: ptr.To("a.b@c-d_E9"), Commands: []v1alpha1.RedisCommand{"get", "memory|usage"}}}
	for i, p := range patterns {
		access := []v1alpha1.RedisAccess{v1alpha1.RedisRead, v1alpha1.RedisWrite, v1alpha1.RedisReadWrite}[i%3]
		u.Spec.Keys = append(u.Spec.Keys, v1alpha1.RedisKeys{Pattern: v1alpha1.RedisPattern(p), Access: access})
		u.Spec.Channels = append(u.Spec.Channels, v1alpha1.RedisPattern(p))
	}
	return u
}

// startWith runs a server with the file of a pod, and with a file of users.
func startWith(t *testing.T, binary, version, password string, user acl.User) *goredis.Client {
	t.Helper()
	dir, port := t.TempDir(), loopback.Port(t)
	users := acl.UsersText([]acl.User{{Name: acl.UserDefault, On: true, NoPassword: true, Keys: []string{"~*"}, Channels: []string{"&*"}, Commands: []string{"+@all"}}, user}, true)
	config, err := config.PodConfig(fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsave \"\"\naclfile %s/users.acl\n", port, dir, dir), config.PodFacts{
		Name: "carts-0-0", IP: "127.0.0.1", Host: "carts-0-0.example", Engine: string(v1alpha1.EngineRedis), Version: version, ReplicationPassword: password, Replicated: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"redis.conf": config, "users.acl": users} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, filepath.Join(dir, "redis.conf"))
	stores.Start(t, cmd, filepath.Join(dir, "server.log"))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := goredis.NewClient(&goredis.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for c.Ping(ctx).Err() != nil {
		if ctx.Err() != nil {
			said, _ := os.ReadFile(filepath.Join(dir, "server.log"))
			t.Fatalf("it does not start:\n%s\nwith\n%s", said, users)
		}
		pause(ctx, 20*time.Millisecond)
	}
	return c
}

// tells fails unless the server knows the user as it was written.
func tells(t *testing.T, c *goredis.Client, want acl.User, version string) {
	t.Helper()
	lines, err := c.Do(t.Context(), "ACL", "LIST").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	users, err := acl.ParseUsers(lines)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(users, func(u acl.User) bool { return u.Name == want.Name })
	if i < 0 {
		t.Fatalf("the server has no user %s: %q", want.Name, lines)
	}
	if !users[i].IsAccount(want, software.Release{Engine: v1alpha1.EngineRedis, Version: version}) {
		t.Errorf("the server tells\n%+v, written was\n%+v", users[i], want)
	}
	if len(users) != 2 {
		t.Errorf("%d users: %q", len(users), lines)
	}
}
