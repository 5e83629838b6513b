package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// An account is a user of a server that a RedisUser asks for. It carries a mark: a further set of rules that allows no
// command, and whose pattern of keys names the resource and sums up what it asks for. So every server tells by itself which
// of its users were made for whom, and whether they are up to date: Redis before 8 tells the commands of a user in other
// words than they were set in.
const (
	markPrefix = "(%R~quorate:"
	markSuffix = " resetchannels -@all)"
)

// clientCommands are what a client of a cluster needs to connect and to find its way.
var clientCommands = []string{"command", "cluster|slots", "cluster|shards", "cluster|nodes", "cluster|info", "cluster|keyslot", "cluster|myid"}

// Account is the user that a RedisUser asks for.
func Account(u *v1alpha1.RedisUser, password string) User {
	out := User{Name: u.Username(), On: true, Passwords: []string{Hash(password)}, Commands: []string{"-@all", "+@connection"}}
	for _, c := range u.Spec.Channels {
		out.Channels = append(out.Channels, "&"+string(c))
	}
	if slices.Contains(out.Channels, allChannels) {
		out.Channels = []string{allChannels}
	}
	for _, c := range u.Spec.Categories {
		out.Commands = append(out.Commands, "+@"+string(c))
	}
	// What is dangerous goes before single commands come: who names one means it. So do functions, which have no keys, are writes by their category,
	// and run with the rights of whoever calls them.
	out.Commands = append(out.Commands, "-@admin", "-@dangerous")
	if len(u.Spec.Categories) > 0 && !slices.Contains(u.Spec.Categories, scripting) && !slices.Contains(u.Spec.Commands, function) {
		out.Commands = append(out.Commands, "-function")
	}
	out.Keys, out.Channels = keyRules(u.Spec.Keys), once(out.Channels)
	out.Commands = once(append(out.Commands, singly(u.Spec.Commands)...))
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(out.Keys, out.Channels, out.Commands), " ")))
	out.Selectors = []string{markPrefix + u.Name + ":" + hex.EncodeToString(sum[:8]) + markSuffix}
	return out
}

const (
	allKeys     = "~*"
	allChannels = "&*"
	// scripting is the category of functions and scripts, and function the command for the former.
	scripting = "scripting"
	function  = "function"
)

// keyRules are the rules for keys in the words that servers tell them in: each pattern once, and none beside the one for all keys.
func keyRules(keys []v1alpha1.RedisKeys) []string {
	const read, write = 1, 2
	access := map[v1alpha1.RedisAccess]int{v1alpha1.RedisRead: read, v1alpha1.RedisWrite: write, v1alpha1.RedisReadWrite: read | write}
	may, patterns := map[string]int{}, []string{}
	for _, k := range keys {
		pattern := string(k.Pattern)
		if may[pattern] == 0 {
			patterns = append(patterns, pattern)
		}
		may[pattern] |= access[k.Access]
	}
	var out []string
	for _, pattern := range patterns {
		rule := map[int]string{read: "%R~", write: "%W~", read | write: "~"}[may[pattern]] + pattern
		if rule == allKeys {
			return []string{allKeys}
		}
		out = append(out, rule)
	}
	return out
}

// singly are the rules for single commands, those that every client needs first. Servers do not tell a part of a command beside the whole of it.
func singly[S ~string](commands []S) []string {
	named := slices.Clone(clientCommands)
	for _, c := range commands {
		named = append(named, string(c))
	}
	var out []string
	for _, c := range named {
		whole, _, part := strings.Cut(c, "|")
		if !part || !slices.Contains(named, whole) {
			out = append(out, "+"+c)
		}
	}
	return out
}

// once leaves of equal words the first: a server tells each but once.
func once(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// MadeFor is the name of the RedisUser that a user was made for, empty when there is none.
func (u User) MadeFor() string {
	for _, s := range u.Selectors {
		if rest, ok := strings.CutPrefix(s, markPrefix); ok {
			name, _, _ := strings.Cut(rest, ":")
			return name
		}
	}
	return ""
}

// IsAccount reports whether a server's user is the wanted account. What a server that tells commands in its own words says of
// them proves nothing, so that there the mark speaks for them.
func (u User) IsAccount(want User, s software.Release) bool {
	if can, _ := s.Capabilities(); !can.LiteralACL { // Zero for a version that cannot be read.
		u.Commands = want.Commands
	}
	return u.Is(want)
}
