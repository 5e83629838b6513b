package acl

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/test/golden"
	"github.com/quorate/quorate/test/redistest"
)

func TestUsersText(t *testing.T) {
	for name, tc := range map[string]struct{ open, admit bool }{
		"users.acl": {false, true}, "users-open.acl": {true, true}, "users-closed.acl": {false, false},
	} {
		users, err := Access{Passwords: redistest.Passwords(), Open: tc.open}.Users("carts-1-0", redistest.Redis80)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, UsersText(users, tc.admit))
	}
}

func TestAUserWithoutAPasswordIsNotMade(t *testing.T) {
	for _, key := range PasswordKeys {
		passwords := redistest.Passwords()
		delete(passwords, key)
		if _, err := (Access{Passwords: passwords}).Users("carts-1-0", redistest.Redis80); err == nil {
			t.Errorf("a user without the password %s was made", key)
		}
	}
}

func TestUsersHaveTheCommandsOfTheirServer(t *testing.T) {
	for name, tc := range map[string]struct {
		software            software.Release
		operator, migration []string
	}{
		"redis 7.0":                   {software.Release{Engine: v1alpha1.EngineRedis, Version: "7.0.15"}, nil, nil},
		"redis 8.2":                   {software.Release{Engine: v1alpha1.EngineRedis, Version: "8.2.1"}, []string{"+cluster|slot-stats"}, nil},
		"redis 8.4":                   {software.Release{Engine: v1alpha1.EngineRedis, Version: "8.4.0"}, []string{"+cluster|slot-stats", "+cluster|migration"}, nil},
		"redis 9":                     {software.Release{Engine: v1alpha1.EngineRedis, Version: "9.0.0"}, []string{"+cluster|slot-stats", "+cluster|migration"}, nil},
		"valkey 8.1":                  {software.Release{Engine: v1alpha1.EngineValkey, Version: "8.1.1"}, []string{"+cluster|slot-stats"}, nil},
		"valkey 9.0":                  {software.Release{Engine: v1alpha1.EngineValkey, Version: "9.0.0"}, []string{"+cluster|slot-stats", "+cluster|migrateslots", "+cluster|getslotmigrations"}, []string{"+cluster|syncslots", "+@write", "-flushall", "-flushdb", "-swapdb", "-function"}},
		"a version that is not known": {software.Release{Engine: v1alpha1.EngineValkey, Version: "unstable"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			users, err := Access{Passwords: redistest.Passwords()}.Users("carts-1-0", tc.software)
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

func TestPasswordsAreNotPrinted(t *testing.T) {
	a := Access{Passwords: map[string]string{PasswordDefault: "hunter2"}}
	for _, text := range []string{a.String(), a.GoString()} {
		if strings.Contains(text, "hunter2") {
			t.Error(text)
		}
	}
}
