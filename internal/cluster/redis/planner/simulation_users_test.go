package planner_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

var simPasswords = map[string]string{
	acl.PasswordDefault: "a", acl.PasswordOperator: "b", acl.PasswordReplication: "c", acl.PasswordMigration: "d",
}

// wantedUsers are those that the server of a pod is to have.
func (s *simulation) wantedUsers(w *redisfake.Server) []acl.User {
	name, _, _ := strings.Cut(w.Host, ".")
	users, err := s.spec.Access.Users(name, software.Release{Engine: v1alpha1.EngineRedis, Version: w.Version})
	if err != nil {
		s.fail("%v", err)
	}
	return users
}

// checkPasswords insists that every server takes the password that clients are given, and was started with it or got it.
func (s *simulation) checkPasswords() {
	if s.spec.Access == nil {
		return
	}
	want := acl.Hash(s.spec.Access.Passwords[acl.PasswordDefault])
	for _, p := range s.pods {
		if p.server == nil || !p.server.Up || p.ordinal >= s.sets[p.shard].Replicas {
			continue // No Service leads to a pod that leaves.
		}
		for _, u := range p.server.Users {
			if u.Name == acl.UserDefault && !slices.Contains(u.Passwords, want) {
				s.fail("%s does not take the password that clients are given", p.name)
			}
		}
	}
}

// wishPasswords is a user who wants other passwords. As long as they are being replaced, that waits.
func (s *simulation) wishPasswords() {
	if s.spec.Access == nil || s.spec.Access.Replacing() {
		return
	}
	s.log("other passwords are wanted")
	next := map[string]string{}
	for _, key := range acl.PasswordKeys {
		next[key] = fmt.Sprint(s.rnd.Uint64())
	}
	s.spec.Access = &acl.Access{Passwords: acl.Introduce(s.spec.Access.Passwords, next)}
}

// rotate carries out one phase of the replacement of passwords.
func (s *simulation) rotate(step steps.RotatePasswords) {
	if s.dies() {
		return
	}
	s.spec.Access = &acl.Access{Passwords: step.Apply(s.spec.Access.Passwords, s.net.Now())}
}

// users are those that a start gate writes: of this version of the operator, of one whose users could do less, or of one
// that could not even list them.
func (s *simulation) users(w *redisfake.Server) []acl.User {
	users := s.wantedUsers(w)
	switch s.rnd.IntN(3) {
	case 0:
		return nil
	case 1:
		users[1].Commands = users[1].Commands[:3]
		return users[:3]
	}
	return users
}

func (s *simulation) changeUser() {
	p := s.pods[s.rnd.IntN(len(s.pods))]
	if p.server == nil || len(p.server.Users) == 0 {
		return
	}
	s.log("fault: a human changes a user of %s", p.name)
	i := s.rnd.IntN(len(p.server.Users))
	u := p.server.Users[i]
	u.Commands = u.Commands[:1]
	p.server.Users = slices.Delete(slices.Clone(p.server.Users), i, i+1)
	if s.rnd.IntN(2) == 0 {
		p.server.Users = append(p.server.Users, u)
	}
}

func (s *simulation) checkUsers(p *simPod) {
	if s.spec.Access == nil {
		return
	}
	for _, want := range s.wantedUsers(p.server) {
		if !slices.ContainsFunc(p.server.Users, func(u acl.User) bool { return u.Is(want) }) {
			s.fail("settled, but user %s of %s is not as it should be", want.Name, p.name)
		}
	}
}
