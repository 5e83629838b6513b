package users_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

func TestNextCreatesAUser(t *testing.T) {
	runRows(t, map[string]row{
		"the resource is held before anything is written": {state: fresh(nil), step: users.Protect{}},
		"the role comes first": {
			state: fresh(func(s *users.State) { s.Protected = true }), step: users.AddRole{Role: role},
		},
		"permissions follow the role": {
			state: fresh(func(s *users.State) { s.Protected, s.Etcd.Role = true, &users.Role{} }),
			step:  users.SetPermissions{Role: role, Changes: []users.Change{grant(appPrefix), grant(oneKey)}},
			says:  `grant ReadWrite on prefix "/app/", grant Read on key "/flag"`,
		},
		"the user follows the permissions": {
			state: inPlace(func(s *users.State) { s.Etcd.User, s.Published = nil, false }), step: users.AddUser{User: "app"},
		},
		"the user gets the role": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Roles, s.Published = nil, false }), step: users.GrantRole{User: "app", Role: role},
		},
		"the Secret comes last":       {state: inPlace(func(s *users.State) { s.Published = false }), step: users.Publish{}},
		"what is right is left alone": {state: inPlace(nil), says: "the user is as specified"},
		"a user without permissions is in place": {
			state: inPlace(func(s *users.State) { s.Want.Permissions, s.Etcd.Role.Permissions = nil, nil }),
		},
	})
}

func TestNextRepairsAUser(t *testing.T) {
	runRows(t, map[string]row{
		"a revoked permission is granted again": {
			state: inPlace(func(s *users.State) { s.Etcd.Role.Permissions = []users.Permission{oneKey} }),
			step:  users.SetPermissions{Role: role, Changes: []users.Change{grant(appPrefix)}}, says: `grant ReadWrite on prefix "/app/"`,
		},
		"an added permission is revoked": {
			state: inPlace(func(s *users.State) {
				s.Want.Permissions = []users.Permission{oneKey}
			}),
			step: users.SetPermissions{Role: role, Changes: []users.Change{revoke(appPrefix)}}, says: `revoke ReadWrite on prefix "/app/"`,
		},
		"a deleted user is made anew": {state: inPlace(func(s *users.State) { s.Etcd.User = nil }), step: users.AddUser{User: "app"}},
		"a changed password is set back": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Password = users.PasswordWrong }), step: users.SetPassword{User: "app"},
		},
		"a further role is revoked": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Roles = []string{"admin", role, "root"} }),
			step:  users.RevokeRoles{User: "app", Roles: []string{"admin", "root"}}, says: "admin, root",
		},
		"a deleted role of a user with the operator's own password is made anew": {
			state: inPlace(func(s *users.State) { s.Etcd.Role, s.Etcd.User.Roles = nil, nil }), step: users.AddRole{Role: role},
		},
		"a user without a password is made anew": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Password = users.PasswordNone }), step: users.DeleteUser{User: "app"},
		},
	})
}

func TestNextLeavesUsersOfOthersAlone(t *testing.T) {
	runRows(t, map[string]row{
		"a user that was made by hand is left alone": {
			state: fresh(byHand), reason: users.ReasonForeign, stalled: true, says: "etcdctl user delete app",
		},
		"a user made by hand that happens to have the same given password is left alone": {
			state: fresh(func(s *users.State) {
				byHand(s)
				s.Want.Generated, s.Etcd.User.Password = false, users.PasswordRight
			}), reason: users.ReasonForeign, stalled: true,
		},
		"a user made by hand after the managed one was deleted is left alone": {
			state:  inPlace(func(s *users.State) { s.Etcd.User = &users.User{Password: users.PasswordWrong} }),
			reason: users.ReasonForeign, stalled: true,
		},
		"a crash between adding the user and granting its role is no riddle": {
			state: inPlace(func(s *users.State) { s.Want.Generated, s.Etcd.User.Roles = false, nil }),
			step:  users.GrantRole{User: "app", Role: role},
		},
	})
}
