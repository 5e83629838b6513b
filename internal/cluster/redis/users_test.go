package redis

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/golden"
)

func testPasswords() map[string]string {
	return map[string]string{PasswordDefault: "a", PasswordOperator: "b", PasswordReplication: "c", PasswordMigration: "d"}
}

var redis80 = Software{Engine: v1alpha1.EngineRedis, Version: "8.0.2"}

func TestUsersText(t *testing.T) {
	for name, tc := range map[string]struct{ open, admit bool }{
		"users.acl": {false, true}, "users-open.acl": {true, true}, "users-closed.acl": {false, false},
	} {
		users, err := Access{Passwords: testPasswords(), Open: tc.open}.Users("carts-1-0", redis80)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, UsersText(users, tc.admit))
	}
}

func TestAUserWithoutAPasswordIsNotMade(t *testing.T) {
	for _, key := range PasswordKeys {
		passwords := testPasswords()
		delete(passwords, key)
		if _, err := (Access{Passwords: passwords}).Users("carts-1-0", redis80); err == nil {
			t.Errorf("a user without the password %s was made", key)
		}
	}
}

func TestUsersHaveTheCommandsOfTheirServer(t *testing.T) {
	for name, tc := range map[string]struct {
		software            Software
		operator, migration []string
	}{
		"redis 7.0":                   {Software{v1alpha1.EngineRedis, "7.0.15"}, nil, nil},
		"redis 8.2":                   {Software{v1alpha1.EngineRedis, "8.2.1"}, []string{"+cluster|slot-stats"}, nil},
		"redis 8.4":                   {Software{v1alpha1.EngineRedis, "8.4.0"}, []string{"+cluster|slot-stats", "+cluster|migration"}, nil},
		"redis 9":                     {Software{v1alpha1.EngineRedis, "9.0.0"}, []string{"+cluster|slot-stats", "+cluster|migration"}, nil},
		"valkey 8.1":                  {Software{v1alpha1.EngineValkey, "8.1.1"}, []string{"+cluster|slot-stats"}, nil},
		"valkey 9.0":                  {Software{v1alpha1.EngineValkey, "9.0.0"}, []string{"+cluster|slot-stats", "+cluster|migrateslots", "+cluster|getslotmigrations"}, []string{"+cluster|syncslots", "+@write", "-flushall", "-flushdb", "-swapdb", "-function"}},
		"a version that is not known": {Software{v1alpha1.EngineValkey, "unstable"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			users, err := Access{Passwords: testPasswords()}.Users("carts-1-0", tc.software)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range []struct {
				user   User
				usual  []string
				wanted []string
			}{{users[1], operatorCommands, tc.operator}, {users[3], migrationCommands, tc.migration}} {
				own := slices.DeleteFunc(u.user.Commands, func(c string) bool {
					return c == "-@all" || slices.Contains(u.usual, strings.TrimPrefix(c, "+"))
				})
				if u.user.Name == UserMigration { // Last, because -function takes them away.
					rest, loads := own[:max(0, len(own)-4)], own[max(0, len(own)-4):]
					if own = rest; !slices.Equal(loads, []string{"+function|load", "+function|list", "+function|delete", "+scan"}) {
						t.Errorf("%s cannot load functions at the end of %v", u.user.Name, u.user.Commands)
					}
				}
				if !slices.Equal(own, u.wanted) {
					t.Errorf("%s has %v beside the usual ones, want %v", u.user.Name, own, u.wanted)
				}
			}
		})
	}
}

// The lines are those of Redis 7.0, Redis 8.0 and Valkey 9.1.
func TestParseUsers(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		want User
	}{
		"open": {"user default on nopass ~* &* +@all", User{Name: "default", On: true, NoPassword: true, Keys: []string{"~*"}, Channels: []string{"&*"}, Commands: []string{"+@all"}}},
		"switched off": {
			"user r off sanitize-payload #a1 #b2 resetchannels -@all +ping +memory|usage",
			User{Name: "r", Passwords: []string{"#a1", "#b2"}, Commands: []string{"-@all", "+ping", "+memory|usage"}},
		},
		"with selectors": {
			"user s on nopass ~a* %R~b(* resetchannels &c* -@all +@read -get (~x resetchannels -@all +@write) (%W~y resetchannels -@all +set)",
			User{
				Name: "s", On: true, NoPassword: true, Keys: []string{"~a*", "%R~b(*"}, Channels: []string{"&c*"}, Commands: []string{"-@all", "+@read", "-get"},
				Selectors: []string{"(~x resetchannels -@all +@write)", "(%W~y resetchannels -@all +set)"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseUsers([]string{tc.line})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]User{tc.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := ParseUsers([]string{"nonsense #a1"}); err == nil || strings.Contains(err.Error(), "#a1") {
		t.Errorf("%v", err)
	}
}

// guarded is a settled cluster whose servers have the users that they are to have.
func guarded() *fixture {
	f := formed()
	f.Spec.Access = &Access{Passwords: testPasswords()}
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
	user := func(f *fixture, pod, name string) *User {
		users := f.pod(pod).Node.Users
		return &users[slices.IndexFunc(users, func(u User) bool { return u.Name == name })]
	}
	for name, tc := range map[string]struct {
		spoil func(*fixture)
		want  string
	}{
		"as they should be":          {func(*fixture) {}, ""},
		"nobody knows the passwords": {func(f *fixture) { f.Spec.Access = nil; f.pod("c-1-0").Node.Users = []User{} }, ""},
		"the Secret lacks one": {func(f *fixture) {
			delete(f.Spec.Access.Passwords, PasswordMigration)
			f.pod("c-1-0").Node.Users = []User{}
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
		"replicas may not connect yet": {func(f *fixture) { user(f, "c-1-0", UserReplication).On = false }, ""},
		"clients may not connect":      {func(f *fixture) { user(f, "c-1-0", UserDefault).On = false }, "set users default of c-1-0"},
		"clients may do less":          {func(f *fixture) { user(f, "c-1-0", UserDefault).Commands = []string{"+@all", "-flushall"} }, "set users default of c-1-0"},
		"clients may see fewer keys":   {func(f *fixture) { user(f, "c-1-0", UserDefault).Keys = []string{"~app:*"} }, "set users default of c-1-0"},
		"clients get in without a password": {
			func(f *fixture) { u := user(f, "c-1-0", UserDefault); u.Passwords, u.NoPassword = nil, true }, "set users default of c-1-0",
		},
		"a password more":               {func(f *fixture) { u := user(f, "c-1-0", UserOperator); u.Passwords = append(u.Passwords, "#00") }, "set users quorate of c-1-0"},
		"the password of another shard": {func(f *fixture) { *user(f, "c-1-0", UserReplication) = *user(f, "c-0-0", UserReplication) }, "set users replication of c-1-0"},
		"in another order":              {func(f *fixture) { slices.Reverse(user(f, "c-1-0", UserMigration).Commands) }, ""},
		"users of somebody else":        {func(f *fixture) { n := f.pod("c-1-0").Node; n.Users = append(n.Users, User{Name: "app"}) }, ""},
		"while a server does not answer": {
			func(f *fixture) { f.pod("c-0-0").Node = nil; user(f, "c-1-0", UserDefault).On = false }, "set users default of c-1-0",
		},
		"of a pod that goes": {func(f *fixture) { user(f, "c-1-0", UserDefault).On = false; f.pod("c-1-0").Deleting = true }, ""},
		"another version has other commands": {
			func(f *fixture) { f.pod("c-1-0").Node.Version = "8.4.0" }, "set users quorate of c-1-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := guarded()
			tc.spoil(f)
			got := ""
			if s, ok := Next(f.State).Step.(SetUsers); ok {
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
		if on := slices.Contains(rules, "on"); on == (u.Name == UserReplication) || slices.Contains(rules, "off") || slices.Contains(rules, "reset") {
			t.Errorf("%s: %v", u.Name, rules)
		}
	}
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	a := Access{Passwords: map[string]string{PasswordDefault: "hunter2"}}
	for _, text := range []string{a.String(), a.GoString()} {
		if strings.Contains(text, "hunter2") {
			t.Error(text)
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
		n.ReplicationPassword = Hash(ShardPassword(f.Spec.Access.Passwords[PasswordReplication], f.Pods[i].Name))
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
				old := Access{Passwords: testPasswords()}
				f.pod("c-1-1").Node.Users, _ = old.Users("c-1-1", redis80)
			}, "set users default, replication of c-1-1",
		},
		"a server does not answer":      {next, func(f *fixture) { f.pod("c-1-1").Node = nil }, ""},
		"a pod is missing":              {next, func(f *fixture) { f.Pods = f.Pods[:5] }, ""},
		"all servers take the new ones": {next, nil, "hand out the new passwords"},
		"a replica uses the former one": {former, func(f *fixture) { f.pod("c-1-1").Node.ReplicationPassword = Hash(ShardPassword("c", "c-1-1")) }, "set the replication password of c-1-1"},
		"a server was lent the password that moves keys": {
			nil, func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.ReplicationUser, n.ReplicationPassword = UserMigration, Hash("d")
			}, "set the replication password of c-1-0",
		},
		"a server was given its own back":       {nil, func(f *fixture) { f.pod("c-1-0").Node.ReplicationUser = UserReplication }, ""},
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
	data := Introduce(testPasswords(), map[string]string{PasswordDefault: "a2", PasswordOperator: "b2"})
	for _, tc := range []struct {
		cause string
		want  map[string]string
	}{
		{ReasonHandOut, map[string]string{"password": "a2", "former-password": "a", "operator": "b2", "former-operator": "b", "replication": "c", "migration": "d"}},
		{ReasonHold, map[string]string{
			"password": "a2", "former-password": "a", "operator": "b2", "former-operator": "b", "replication": "c", "migration": "d", "handed-out": "2026-01-02T03:04:05Z",
		}},
		{ReasonRetire, map[string]string{"password": "a2", "operator": "b2", "replication": "c", "migration": "d"}},
	} {
		for i := range 2 {
			data = RotatePasswords{tc.cause}.Apply(data, now.Add(time.Duration(i)*time.Hour))
			if diff := cmp.Diff(tc.want, data); diff != "" {
				t.Errorf("%s, time %d (-want +got):\n%s", tc.cause, i, diff)
			}
		}
	}
}
