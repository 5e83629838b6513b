package planner

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/redistest"
)

// guarded is a settled cluster whose servers have the users that they are to have.
func guarded() *fixture {
	f := formed()
	f.Spec.Access = &acl.Access{Passwords: redistest.Passwords()}
	for i := range f.Pods {
		n := f.Pods[i].Node
		n.Engine = v1alpha1.EngineRedis
		var err error
		if n.Users, err = f.Spec.Access.Users(f.Pods[i].Name, n.Software()); err != nil {
			panic(err)
		}
	}
	return f
}

func TestUsersAreKeptInLine(t *testing.T) {
	user := func(f *fixture, pod, name string) *acl.User {
		users := f.pod(pod).Node.Users
		return &users[slices.IndexFunc(users, func(u acl.User) bool { return u.Name == name })]
	}
	for name, tc := range map[string]struct {
		spoil func(*fixture)
		want  string
	}{
		"as they should be":          {func(*fixture) {}, ""},
		"nobody knows the passwords": {func(f *fixture) { f.Spec.Access = nil; f.pod("c-1-0").Node.Users = []acl.User{} }, ""},
		"the Secret lacks one": {func(f *fixture) {
			delete(f.Spec.Access.Passwords, acl.PasswordMigration)
			f.pod("c-1-0").Node.Users = []acl.User{}
		}, ""},
		"a server that may not list users": {
			func(f *fixture) { f.pod("c-1-0").Node.Users = nil }, "set users quorate of c-1-0",
		},
		"a server of an earlier operator": {
			func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Users = n.Users[:3]
				n.Users[1].Commands = n.Users[1].Commands[:5]
			},
			"set users quorate, migration of c-1-0",
		},
		"replicas may not connect yet": {func(f *fixture) { user(f, "c-1-0", acl.UserReplication).On = false }, ""},
		"clients may not connect":      {func(f *fixture) { user(f, "c-1-0", acl.UserDefault).On = false }, "set users default of c-1-0"},
		"clients may do less":          {func(f *fixture) { user(f, "c-1-0", acl.UserDefault).Commands = []string{"+@all", "-flushall"} }, "set users default of c-1-0"},
		"clients may see fewer keys":   {func(f *fixture) { user(f, "c-1-0", acl.UserDefault).Keys = []string{"~app:*"} }, "set users default of c-1-0"},
		"clients get in without a password": {
			func(f *fixture) { u := user(f, "c-1-0", acl.UserDefault); u.Passwords, u.NoPassword = nil, true }, "set users default of c-1-0",
		},
		"a password more":               {func(f *fixture) { u := user(f, "c-1-0", acl.UserOperator); u.Passwords = append(u.Passwords, "#00") }, "set users quorate of c-1-0"},
		"the password of another shard": {func(f *fixture) { *user(f, "c-1-0", acl.UserReplication) = *user(f, "c-0-0", acl.UserReplication) }, "set users replication of c-1-0"},
		"in another order":              {func(f *fixture) { slices.Reverse(user(f, "c-1-0", acl.UserMigration).Commands) }, ""},
		"users of somebody else":        {func(f *fixture) { n := f.pod("c-1-0").Node; n.Users = append(n.Users, acl.User{Name: "app"}) }, ""},
		"while a server does not answer": {
			func(f *fixture) { f.pod("c-0-0").Node = nil; user(f, "c-1-0", acl.UserDefault).On = false }, "set users default of c-1-0",
		},
		"of a pod that goes": {func(f *fixture) { user(f, "c-1-0", acl.UserDefault).On = false; f.pod("c-1-0").Deleting = true }, ""},
		"another version has other commands": {
			func(f *fixture) { f.pod("c-1-0").Node.Version = "8.4.0" }, "set users quorate of c-1-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := guarded()
			tc.spoil(f)
			got := ""
			if s, ok := Next(f.State).Step.(steps.SetUsers); ok {
				got = s.String()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestRulesDoNotSwitchReplicationOnOrOff(t *testing.T) {
	f := guarded()
	for _, u := range f.pod("c-0-0").Node.Users {
		rules := u.Rules()
		if on := slices.Contains(rules, "on"); on == (u.Name == acl.UserReplication) || slices.Contains(rules, "off") || slices.Contains(rules, "reset") {
			t.Errorf("%s: %v", u.Name, rules)
		}
	}
}

// rotating is a settled cluster some way into the replacement of its passwords, whose servers take all that are to work.
func rotating(data map[string]string) *fixture {
	f := guarded()
	for key, p := range data {
		f.Spec.Access.Passwords[key] = p
	}
	f.Spec.HandedOut, f.Spec.Hold = true, 5*time.Minute
	for i := range f.Pods {
		n := f.Pods[i].Node
		n.Users, _ = f.Spec.Access.Users(f.Pods[i].Name, n.Software())
		n.ReplicationPassword = acl.Hash(acl.ShardPassword(f.Spec.Access.Passwords[acl.PasswordReplication], f.Pods[i].Name))
	}
	return f
}

func TestPasswordsAreReplacedInPhases(t *testing.T) {
	next := map[string]string{"next-password": "a2", "next-replication": "c2"}
	former := map[string]string{"password": "a2", "former-password": "a", "replication": "c2", "former-replication": "c"}
	at := func(ago time.Duration) map[string]string {
		out := maps.Clone(former)
		out["handed-out"] = now.Add(-ago).Format(time.RFC3339)
		return out
	}
	for name, tc := range map[string]struct {
		data  map[string]string
		spoil func(*fixture)
		want  string
	}{
		"at rest": {nil, nil, ""},
		"a server has yet to take the new ones": {
			next, func(f *fixture) {
				old := acl.Access{Passwords: redistest.Passwords()}
				f.pod("c-1-1").Node.Users, _ = old.Users("c-1-1", redistest.Redis80)
			}, "set users default, replication of c-1-1",
		},
		"a server does not answer":      {next, func(f *fixture) { f.pod("c-1-1").Node = nil }, ""},
		"a pod is missing":              {next, func(f *fixture) { f.Pods = f.Pods[:5] }, ""},
		"all servers take the new ones": {next, nil, "hand out the new passwords"},
		"a replica uses the former one": {former, func(f *fixture) { f.pod("c-1-1").Node.ReplicationPassword = acl.Hash(acl.ShardPassword("c", "c-1-1")) }, "set the replication password of c-1-1"},
		"a server was lent the password that moves keys": {
			nil, func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.ReplicationUser, n.ReplicationPassword = acl.UserMigration, acl.Hash("d")
			}, "set the replication password of c-1-0",
		},
		"a server was given its own back":       {nil, func(f *fixture) { f.pod("c-1-0").Node.ReplicationUser = acl.UserReplication }, ""},
		"nobody may ask what a replica uses":    {nil, func(f *fixture) { f.pod("c-1-1").Node.ReplicationPassword = "" }, ""},
		"clients have not been told yet":        {former, func(f *fixture) { f.Spec.HandedOut = false }, ""},
		"clients have been told":                {former, nil, "leave clients the time to follow the connection Secret"},
		"clients have had some time":            {at(4 * time.Minute), nil, ""},
		"clients have had their time":           {at(5 * time.Minute), nil, "retire the former passwords"},
		"they have, and a version is refused":   {at(time.Hour), func(f *fixture) { f.Spec.Version = "8.2.0" }, "retire the former passwords"},
		"they have, and less memory is refused": {at(time.Hour), func(f *fixture) { f.starve() }, "retire the former passwords"},
		"a version is refused, and a replica lags": {
			at(time.Hour), func(f *fixture) { f.Spec.Version = "8.2.0"; f.unlink("c-1-1") }, "",
		},
		"they have, but a replica is missing": {at(time.Hour), func(f *fixture) { f.pod("c-1-1").Node = nil }, ""},
		"they have, but a replica lags":       {at(time.Hour), func(f *fixture) { f.unlink("c-1-1") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := rotating(tc.data)
			if tc.spoil != nil {
				tc.spoil(f)
			}
			got := ""
			if s := Next(f.State).Step; s != nil {
				got = s.String()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestEachPhaseChangesTheSecretOnceOnly(t *testing.T) {
	data := acl.Introduce(redistest.Passwords(), map[string]string{acl.PasswordDefault: "a2", acl.PasswordOperator: "b2"})
	for _, tc := range []struct {
		cause string
		want  map[string]string
	}{
		{steps.ReasonHandOut, map[string]string{"password": "a2", "former-password": "a", "operator": "b2", "former-operator": "b", "replication": "c", "migration": "d"}},
		{steps.ReasonHold, map[string]string{
			"password": "a2", "former-password": "a", "operator": "b2", "former-operator": "b", "replication": "c", "migration": "d", "handed-out": "2026-01-02T03:04:05Z",
		}},
		{steps.ReasonRetire, map[string]string{"password": "a2", "operator": "b2", "replication": "c", "migration": "d"}},
	} {
		for i := range 2 {
			data = steps.RotatePasswords{Cause: tc.cause}.Apply(data, now.Add(time.Duration(i)*time.Hour))
			if diff := cmp.Diff(tc.want, data); diff != "" {
				t.Errorf("%s, time %d (-want +got):\n%s", tc.cause, i, diff)
			}
		}
	}
}
