package rediscluster

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestUsersOfRedisServersAreKeptInLineWithoutARestart(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	before := s.Uids()
	s.Servers["carts-1-1"].Users = nil // Those of an operator that could not list them.
	s.UserOf("carts-0-0", acl.UserDefault).Commands = []string{"+@all", "-set"}
	for range 5 {
		s.Pass()
	}
	for _, name := range []string{acl.UserDefault, acl.UserOperator, acl.UserReplication, acl.UserMigration} {
		if s.UserOf("carts-1-1", name) == nil {
			t.Errorf("carts-1-1 has no user %s", name)
		}
	}
	if got := s.UserOf("carts-0-0", acl.UserDefault).Commands; !slices.Equal(got, []string{"+@all"}) {
		t.Errorf("clients may do %v", got)
	}
	for pod, uid := range s.Uids() {
		if before[pod] != uid {
			t.Errorf("%s was restarted", pod)
		}
	}
}

func TestARunningRedisClusterGetsPasswordsThatItDidNotHave(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	live := s.Secret(cluster.AuthSecret("carts"))
	delete(live.Data, acl.PasswordMigration)
	if err := s.API.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	s.MinuteLater()
	for range 3 {
		s.Pass()
	}
	password := string(s.Secret(cluster.AuthSecret("carts")).Data[acl.PasswordMigration])
	if password == "" || !slices.Equal(s.UserOf("carts-2-0", acl.UserMigration).Passwords, []string{acl.Hash(password)}) {
		t.Errorf("the server does not have the password of the Secret: %v", s.UserOf("carts-2-0", acl.UserMigration))
	}
	if u := s.UserOf("carts-2-0", acl.UserMigration); slices.Contains(u.Commands, "+@all") || u.NoPassword {
		t.Errorf("%+v", u)
	}
}
