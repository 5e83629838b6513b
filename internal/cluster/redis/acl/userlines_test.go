package acl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNoPasswordLeavesTheServers(t *testing.T) {
	hash := "#" + strings.Repeat("5e", 32)
	got := PublicUsers([]string{
		"user default on " + hash + " ~* &* +@all",
		"user shop on " + hash + " " + hash + " sanitize-payload ~cart:* resetchannels -@all +get (~stock:* resetchannels -@all +get) (%R~quorate:shop:0123456789abcdef resetchannels -@all)",
		"user quorate on " + hash + " resetchannels -@all +ping",
		"user replication on " + hash + " resetchannels -@all +psync",
		"user migration on " + hash + " ~* resetchannels -@all +migrate",
		"user audit off nopass resetkeys alldbs &a#b %R~#x* -@all",
		"user",
		"",
	})
	want := []string{
		"user audit off nopass resetkeys alldbs &a#b %R~#x* -@all",
		"user shop on sanitize-payload ~cart:* resetchannels -@all +get (~stock:* resetchannels -@all +get)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"audit"}, UsersWithout(got, []string{"user shop off"})); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if got := UsersWithout(nil, got); got != nil {
		t.Errorf("%v", got)
	}
}
