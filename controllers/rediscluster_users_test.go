package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// userOf finds a user of a server; nil when there is none.
func (s *redisStage) userOf(pod, name string) *redis.User {
	users := s.servers[pod].Users
	i := slices.IndexFunc(users, func(u redis.User) bool { return u.Name == name })
	if i < 0 {
		return nil
	}
	return &users[i]
}

func (s *redisStage) secret(name string) *corev1.Secret {
	s.t.Helper()
	var out corev1.Secret
	if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &out); err != nil {
		s.t.Fatal(err)
	}
	return &out
}

func TestUsersOfRedisServersAreKeptInLineWithoutARestart(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	before := s.uids()
	s.servers["carts-1-1"].Users = nil // Those of an operator that could not list them.
	s.userOf("carts-0-0", redis.UserDefault).Commands = []string{"+@all", "-set"}
	for range 5 {
		s.pass()
	}
	for _, name := range []string{redis.UserDefault, redis.UserOperator, redis.UserReplication, redis.UserMigration} {
		if s.userOf("carts-1-1", name) == nil {
			t.Errorf("carts-1-1 has no user %s", name)
		}
	}
	if got := s.userOf("carts-0-0", redis.UserDefault).Commands; !slices.Equal(got, []string{"+@all"}) {
		t.Errorf("clients may do %v", got)
	}
	for pod, uid := range s.uids() {
		if before[pod] != uid {
			t.Errorf("%s was restarted", pod)
		}
	}
}

func TestARunningRedisClusterGetsPasswordsThatItDidNotHave(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	live := s.secret(cluster.AuthSecret("carts"))
	delete(live.Data, redis.PasswordMigration)
	if err := s.api.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	s.minuteLater()
	for range 3 {
		s.pass()
	}
	password := string(s.secret(cluster.AuthSecret("carts")).Data[redis.PasswordMigration])
	if password == "" || !slices.Equal(s.userOf("carts-2-0", redis.UserMigration).Passwords, []string{redis.Hash(password)}) {
		t.Errorf("the server does not have the password of the Secret: %v", s.userOf("carts-2-0", redis.UserMigration))
	}
	if u := s.userOf("carts-2-0", redis.UserMigration); slices.Contains(u.Commands, "+@all") || u.NoPassword {
		t.Errorf("%+v", u)
	}
}
