package acl

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/software"
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
	seven, eight := software.Release{Engine: v1alpha1.EngineRedis, Version: "7.0.15"}, software.Release{Engine: v1alpha1.EngineValkey, Version: "8.1.1"}
	for name, tc := range map[string]struct {
		have     User
		software software.Release
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
