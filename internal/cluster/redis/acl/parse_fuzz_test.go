package acl

import (
	"strings"
	"testing"
)

// FuzzParseUsers reads answers to ACL LIST.
func FuzzParseUsers(f *testing.F) {
	f.Add("user default on nopass sanitize-payload ~* &* +@all")
	f.Add("user app on #aa resetchannels ~a -@all (~b +get) +config|get")
	f.Add("user\nuser a (\nuser b ) ()")
	f.Fuzz(func(_ *testing.T, text string) {
		lines := strings.Split(text, "\n")
		_, _ = ParseUsers(lines)
		UsersWithout(lines, nil)
	})
}
