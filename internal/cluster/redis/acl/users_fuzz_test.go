package acl

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/redistest"
)

// The rules of the CRD, see api/v1alpha1/redisuser_types.go.
var (
	userRule    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@-]{0,62}[A-Za-z0-9])?$`)
	patternRule = regexp.MustCompile(`^[!-~]{1,256}$`)
	commandRule = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,40}([|][a-z][a-z0-9_-]{0,20})?$`)
)

// FuzzUsers holds the file of users, and what servers are told of them, against what a RedisUser asks for. What the CRD refuses is
// not looked at.
func FuzzUsers(f *testing.F) {
	for _, pattern := range append([]string{"app:*", "(", ")", "(a)", "~", "&", "%R~", "%RW~x", "+@all", "#", ">p", "<p", "nopass", "on", "{a}", "[^a]", `\`, `"`, "'", ":"}, redistest.Nasty...) {
		f.Add("app", pattern, pattern, "get", "secret")
		f.Add("a.b@c-d_e", "k:"+pattern, "c", "memory|usage", pattern)
	}
	f.Fuzz(func(t *testing.T, name, key, channel, command, password string) {
		if !userRule.MatchString(name) || !patternRule.MatchString(key) || !patternRule.MatchString(channel) || !commandRule.MatchString(command) {
			return
		}
		u := &v1alpha1.RedisUser{ObjectMeta: metav1.ObjectMeta{Name: "carts-app"}, Spec: v1alpha1.RedisUserSpec{
			Username: &name, Channels: []v1alpha1.RedisPattern{v1alpha1.RedisPattern(channel)}, Commands: []v1alpha1.RedisCommand{v1alpha1.RedisCommand(command)},
			Keys: []v1alpha1.RedisKeys{
				{Pattern: v1alpha1.RedisPattern(key), Access: v1alpha1.RedisRead}, {Pattern: v1alpha1.RedisPattern(key), Access: v1alpha1.RedisReadWrite},
			},
		}}
		want := Account(u, password)
		for _, rule := range want.Rules() {
			if strings.ContainsAny(strings.TrimSuffix(rule, markSuffix), " \t\r\n\x00") {
				t.Errorf("the rule %q is more than one word", rule)
			}
		}
		text := UsersText([]User{want}, false)
		if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
			t.Fatalf("it is not one line: %q", text)
		}
		told := listed(want)
		got, err := ParseUsers([]string{told})
		if err != nil || len(got) != 1 {
			t.Fatalf("%d users, %v", len(got), err)
		}
		if !got[0].Is(want) || got[0].MadeFor() != want.MadeFor() {
			t.Errorf("made for %q (-want +got):\n%s", got[0].MadeFor(), cmp.Diff(want, got[0]))
		}
		if kept := PublicUsers([]string{told}); !slices.Contains(internalUsers, name) && (len(kept) != 1 || strings.Contains(kept[0], want.Passwords[0])) {
			t.Errorf("a backup would hold %q", kept)
		}
	})
}

// listed is a user in the words of ACL LIST: rules in this order, and further sets of rules last.
func listed(u User) string {
	words := slices.Concat([]string{"user", u.Name, "on", "sanitize-payload"}, u.Passwords, u.Keys, []string{"resetchannels"}, u.Channels, u.Commands, u.Selectors)
	return strings.Join(words, " ")
}
