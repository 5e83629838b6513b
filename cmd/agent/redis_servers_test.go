package main

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/test/loopback"
)

func TestTheUsersOfClientsAreReadWithoutTheirPasswords(t *testing.T) {
	for _, name := range []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"} {
		t.Run(name, func(t *testing.T) {
			port := strconv.Itoa(loopback.Port(t))
			addr := "127.0.0.1:" + port
			c := rdbServer(t, name, shortDir(t), "--bind", "127.0.0.1", "--port", port)
			access := acl.Access{Replicated: true, Passwords: map[string]string{}}
			for i, key := range acl.PasswordKeys {
				access.Passwords[key] = "secret-" + strconv.Itoa(i)
			}
			users, err := access.Users("carts-0-0", software.Release{Engine: "redis", Version: "7.0.0"})
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range users {
				args := []any{"ACL", "SETUSER", u.Name, "on", ">" + access.Passwords[acl.PasswordOperator]}
				for _, word := range append(u.Keys, u.Commands...) {
					args = append(args, word)
				}
				if err := c.Do(t.Context(), args...).Err(); err != nil && u.Name == acl.UserOperator {
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

// A shard that is on its way in or out has no slots. Any other one is missed, whoever else is there.
func TestAShardWithoutSlotsNeedsNoServerThatAnswers(t *testing.T) {
	nodes := startShards(t, "valkey-9.1")
	gone := redisServer{3, "carts-3-0", "localhost:" + strconv.Itoa(loopback.Port(t))}
	var servers []redisServer
	for shard, n := range nodes {
		servers = append(servers, redisServer{shard, "carts-" + strconv.Itoa(shard) + "-0", n.addr})
	}
	look := func(of ...redisServer) (int, string) {
		s := redisServers{servers: of, access: acl.Access{Passwords: serverPasswords}}
		views, err := s.look(t.Context())
		if err == nil {
			return len(views), ""
		}
		return len(views), err.Error()
	}
	if n, err := look(append(servers, gone)...); n != 3 || err != "" {
		t.Errorf("%d of the servers that there are, %s", n, err)
	}
	if _, err := look(servers[0], servers[1], gone); !strings.Contains(err, "no server of shard 3 answers") {
		t.Errorf("it may be that one which has slots: %q", err)
	}
	if _, err := look(gone); !strings.Contains(err, "no server of shard 3 answers") {
		t.Errorf("nobody answers: %q", err)
	}
	if err := nodes[2].ClusterDelSlotsRange(t.Context(), 16000, 16000).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := look(append(servers, gone)...); !strings.Contains(err, "no server of shard 3 answers") {
		t.Errorf("nobody that answers has slot 16000: %q", err)
	}
}

// A server may have been replaced as the owner of slots by one that does not answer, and not know that yet.
func TestServersHaveAllSlotsWhenNoneSaysOtherwise(t *testing.T) {
	all := slots.Set{{From: 0, To: slots.Count - 1}}
	self := func(id string, slots slots.Set, others ...model.Peer) redisView {
		return redisView{node: &model.Node{ID: id, Peers: append(others, model.Peer{ID: id, Myself: true, Slots: slots})}}
	}
	for name, tc := range map[string]struct {
		views []redisView
		want  bool
	}{
		"one has them all":                    {[]redisView{self("a", all), self("b", nil, model.Peer{ID: "a", Slots: all}, model.Peer{ID: "c"})}, true},
		"another one is said to have some":    {[]redisView{self("a", all), self("b", nil, model.Peer{ID: "c", Slots: slots.Set{{From: 1, To: 1}}})}, false},
		"a slot is nobody's":                  {[]redisView{self("a", slots.Set{{From: 1, To: slots.Count - 1}})}, false},
		"there is nobody who could have them": {nil, false},
	} {
		if got := haveAllSlots(tc.views); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A shard that has given everything away is not copied, and so nobody needs to be fit for that.
func TestAShardWithoutSlotsIsNotCopied(t *testing.T) {
	nodes := startShards(t, "valkey-9.1")
	left, right := startRedis(t, "valkey-9.1", clustered...), startRedis(t, "valkey-9.1", clustered...)
	meet(t, nodes[0], left, right)
	healthy(t, 5, append(nodes, left, right)...)
	until(t, "a replica", func() error { return right.ClusterReplicate(t.Context(), left.ClusterMyID(t.Context()).Val()).Err() })
	left.kill()
	until(t, "a replica without its primary", func() error {
		if info := right.Info(t.Context(), "replication").Val(); !strings.Contains(info, "master_link_status:down") {
			return errors.New(info)
		}
		return nil
	})
	b := redisBackup{redisServers: redisServers{access: acl.Access{Passwords: serverPasswords}}}
	for shard, n := range append(nodes, right) {
		b.servers = append(b.servers, redisServer{shard, "carts-" + strconv.Itoa(shard) + "-0", n.addr})
	}
	topology, err := b.observe(t.Context())
	if err != nil || len(topology.shards) != 3 || len(topology.from) != 3 {
		t.Errorf("%+v, %v", topology, err)
	}
}
