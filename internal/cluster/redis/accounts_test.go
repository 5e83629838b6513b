package redis

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/redistest"
)

func TestAnAccountMayDoWhatItsResourceAsksFor(t *testing.T) {
	got := Account(redistest.User(), "secret")
	mark := got.Selectors
	got.Selectors = nil
	want := User{
		Name: "app", On: true, Passwords: []string{Hash("secret")}, Keys: []string{"~app:*", "%R~in:*", "%W~out:*"}, Channels: []string{"&app:*"},
		Commands: []string{
			"-@all", "+@connection", "+@read", "+@write", "-@admin", "-@dangerous", "-function",
			"+command", "+cluster|slots", "+cluster|shards", "+cluster|nodes", "+cluster|info", "+cluster|keyslot", "+cluster|myid", "+keys",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Selectors = mark
	if got.MadeFor() != "carts-app" {
		t.Errorf("it was made for %q: %v", got.MadeFor(), mark)
	}
}

func TestWhatAServerTellsOfAnAccount(t *testing.T) {
	want := Account(redistest.User(), "secret")
	other := redistest.User()
	other.Spec.Commands = nil
	retold, less := want, Account(other, "secret")
	retold.Commands = []string{"-@all", "+@hash", "+get"}
	seven, eight := Software{v1alpha1.EngineRedis, "7.0.15"}, Software{v1alpha1.EngineValkey, "8.1.1"}
	for name, tc := range map[string]struct {
		have     User
		software Software
		is       bool
	}{
		"as it was set":                  {want, eight, true},
		"in other words, by an old one":  {retold, seven, true},
		"in other words, by a newer one": {retold, eight, false},
		"what was asked for before":      {less, seven, false},
		"another password":               {Account(redistest.User(), "other"), seven, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.have.IsAccount(want, tc.software); got != tc.is {
				t.Errorf("%t", got)
			}
		})
	}
}

func TestServersHaveTheAccountsOfTheOthers(t *testing.T) {
	app := Account(redistest.User(), "secret")
	claims := map[string]AccountClaim{"carts-app": {"app", true}}
	for name, tc := range map[string]struct {
		accounts map[string]AccountClaim
		has      []string
		spoil    func(*fixture)
		want     string
	}{
		"all have it":                      {claims, []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}, nil, ""},
		"one lacks it":                     {claims, []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0"}, nil, "set users app of c-2-1"},
		"one lacks it, another is away":    {claims, []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1"}, func(f *fixture) { f.pod("c-2-0").Node = nil }, "set users app of c-2-1"},
		"none has it":                      {claims, nil, nil, ""},
		"the resource is being deleted":    {map[string]AccountClaim{"carts-app": {"app", false}}, []string{"c-0-0"}, nil, ""},
		"the resource is gone":             {map[string]AccountClaim{}, []string{"c-0-0"}, nil, "delete users app of c-0-0"},
		"a resource of another user":       {map[string]AccountClaim{"carts-app": {"web", true}}, []string{"c-0-0"}, nil, "delete users app of c-0-0"},
		"nobody knows about resources":     {nil, []string{"c-0-0"}, nil, ""},
		"a user without a mark":            {map[string]AccountClaim{}, nil, func(f *fixture) { n := f.pod("c-0-0").Node; n.Users = append(n.Users, User{Name: "theirs"}) }, ""},
		"a user of the name without marks": {claims, []string{"c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}, func(f *fixture) { n := f.pod("c-0-0").Node; n.Users = append(n.Users, User{Name: "app"}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := guarded()
			f.Accounts = tc.accounts
			for _, pod := range tc.has {
				n := f.pod(pod).Node
				n.Users = append(n.Users, app)
			}
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

// Servers tell rules in their own words, and an account that they tell in others would be set at each look.
func TestRulesOfAnAccountAreThoseThatServersTell(t *testing.T) {
	keys := func(rules ...string) (out []v1alpha1.RedisKeys) {
		for i := 0; i < len(rules); i += 2 {
			out = append(out, v1alpha1.RedisKeys{Pattern: v1alpha1.RedisPattern(rules[i]), Access: v1alpha1.RedisAccess(rules[i+1])})
		}
		return out
	}
	for name, tc := range map[string]struct {
		spec                     v1alpha1.RedisUserSpec
		keys, channels, commands string
	}{
		"nothing":                   {v1alpha1.RedisUserSpec{}, "[]", "[]", "[]"},
		"one pattern in two parts":  {v1alpha1.RedisUserSpec{Keys: keys("a:*", "Read", "b:*", "Read", "a:*", "Write")}, "[~a:* %R~b:*]", "[]", "[]"},
		"one pattern twice":         {v1alpha1.RedisUserSpec{Keys: keys("a:*", "Write", "a:*", "Write")}, "[%W~a:*]", "[]", "[]"},
		"all keys":                  {v1alpha1.RedisUserSpec{Keys: keys("a:*", "Read", "*", "ReadWrite", "b", "Write")}, "[~*]", "[]", "[]"},
		"all keys in two parts":     {v1alpha1.RedisUserSpec{Keys: keys("*", "Read", "a:*", "ReadWrite", "*", "Write")}, "[~*]", "[]", "[]"},
		"all keys to read":          {v1alpha1.RedisUserSpec{Keys: keys("*", "Read", "a:*", "ReadWrite")}, "[%R~* ~a:*]", "[]", "[]"},
		"all channels":              {v1alpha1.RedisUserSpec{Channels: []v1alpha1.RedisPattern{"a", "*"}}, "[]", "[&*]", "[]"},
		"a channel twice":           {v1alpha1.RedisUserSpec{Channels: []v1alpha1.RedisPattern{"a", "b", "a"}}, "[]", "[&a &b]", "[]"},
		"a part and the whole":      {v1alpha1.RedisUserSpec{Commands: []v1alpha1.RedisCommand{"memory|usage", "get", "memory"}}, "[]", "[]", "[+get +memory]"},
		"parts":                     {v1alpha1.RedisUserSpec{Commands: []v1alpha1.RedisCommand{"memory|usage", "object|freq"}}, "[]", "[]", "[+memory|usage +object|freq]"},
		"functions, where they may": {v1alpha1.RedisUserSpec{Categories: []v1alpha1.RedisCategory{"write", "scripting"}, Commands: []v1alpha1.RedisCommand{"get"}}, "[]", "[]", "[+get]"},
		"functions by their name":   {v1alpha1.RedisUserSpec{Categories: []v1alpha1.RedisCategory{"write"}, Commands: []v1alpha1.RedisCommand{"function"}}, "[]", "[]", "[+function]"},
	} {
		t.Run(name, func(t *testing.T) {
			u := Account(&v1alpha1.RedisUser{Spec: tc.spec}, "secret")
			at := slices.Index(u.Commands, "+cluster|myid")
			if got := fmt.Sprint(u.Keys); got != tc.keys {
				t.Errorf("keys %s, want %s", got, tc.keys)
			}
			if got := fmt.Sprint(u.Channels); got != tc.channels {
				t.Errorf("channels %s, want %s", got, tc.channels)
			}
			if got := fmt.Sprint(u.Commands[at+1:]); got != tc.commands || slices.Contains(u.Commands, "-function") {
				t.Errorf("commands %s, want %s", u.Commands, tc.commands)
			}
		})
	}
}
