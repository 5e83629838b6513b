package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/test/loopback"
)

func TestTheUsersOfClientsAreReadWithoutTheirPasswords(t *testing.T) {
	for _, name := range []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"} {
		t.Run(name, func(t *testing.T) {
			port := strconv.Itoa(loopback.Port(t))
			addr := "127.0.0.1:" + port
			c := rdbServer(t, name, shortDir(t), "--bind", "127.0.0.1", "--port", port)
			access := redis.Access{Replicated: true, Passwords: map[string]string{}}
			for i, key := range redis.PasswordKeys {
				access.Passwords[key] = "secret-" + strconv.Itoa(i)
			}
			users, err := access.Users("carts-0-0", redis.Software{Engine: "redis", Version: "7.0.0"})
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range users {
				args := []any{"ACL", "SETUSER", u.Name, "on", ">" + access.Passwords[redis.PasswordOperator]}
				for _, word := range append(u.Keys, u.Commands...) {
					args = append(args, word)
				}
				if err := c.Do(t.Context(), args...).Err(); err != nil && u.Name == redis.UserOperator {
					t.Fatal(err)
				}
			}
			if err := c.Do(t.Context(), "ACL", "SETUSER", "shop", "on", ">hunter2", "~cart:*", "+get").Err(); err != nil {
				t.Fatal(err)
			}
			s := redisServers{servers: []redisServer{{0, "carts-0-0", addr}}, replicated: true, access: access}
			views, err := s.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(views[0].users) != 1 || !strings.HasPrefix(views[0].users[0], "user shop on ") || strings.Contains(views[0].users[0], "#") {
				t.Errorf("the users are %q", views[0].users)
			}
			r := redisRestore{redisServers: s}
			for want, backedUp := range map[string][]string{"": views[0].users, "audit": {"user audit on", "user shop off"}} {
				if got, err := r.missingUsers(t.Context(), backedUp); err != nil || got != want {
					t.Errorf("missing are %q, %v; want %q", got, err, want)
				}
			}
			many := make([]string, 100)
			for i := range many {
				many[i] = "user " + strings.Repeat("ü", 100) + strconv.Itoa(i)
			}
			got, err := r.missingUsers(t.Context(), many)
			if err != nil || len(got) > 2000 || !strings.HasSuffix(got, "and 80 more") {
				t.Errorf("%d bytes, %v: %s", len(got), err, got)
			}
		})
	}
}
