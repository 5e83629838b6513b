package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/redistest"
)

func TestServersHaveTheAccountsOfTheOthers(t *testing.T) {
	app := acl.Account(redistest.User(), "secret")
	claims := map[string]model.AccountClaim{"carts-app": {Username: "app", Wanted: true}}
	for name, tc := range map[string]struct {
		accounts map[string]model.AccountClaim
		has      []string
		spoil    func(*fixture)
		want     string
	}{
		"all have it":                      {claims, []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}, nil, ""},
		"one lacks it":                     {claims, []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0"}, nil, "set users app of c-2-1"},
		"one lacks it, another is away":    {claims, []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1"}, func(f *fixture) { f.pod("c-2-0").Node = nil }, "set users app of c-2-1"},
		"none has it":                      {claims, nil, nil, ""},
		"the resource is being deleted":    {map[string]model.AccountClaim{"carts-app": {Username: "app", Wanted: false}}, []string{"c-0-0"}, nil, ""},
		"the resource is gone":             {map[string]model.AccountClaim{}, []string{"c-0-0"}, nil, "delete users app of c-0-0"},
		"a resource of another user":       {map[string]model.AccountClaim{"carts-app": {Username: "web", Wanted: true}}, []string{"c-0-0"}, nil, "delete users app of c-0-0"},
		"nobody knows about resources":     {nil, []string{"c-0-0"}, nil, ""},
		"a user without a mark":            {map[string]model.AccountClaim{}, nil, func(f *fixture) { n := f.pod("c-0-0").Node; n.Users = append(n.Users, acl.User{Name: "theirs"}) }, ""},
		"a user of the name without marks": {claims, []string{"c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}, func(f *fixture) { n := f.pod("c-0-0").Node; n.Users = append(n.Users, acl.User{Name: "app"}) }, ""},
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
