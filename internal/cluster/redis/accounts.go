package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
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
func (u User) IsAccount(want User, s Software) bool {
	if can, _ := s.Capabilities(); !can.LiteralACL { // Zero for a version that cannot be read.
		u.Commands = want.Commands
	}
	return u.Is(want)
}

// DeleteUsers deletes users of servers.
type DeleteUsers struct{ Pods []PodUsers }

// ReasonDeleteUsers is the reason of DeleteUsers.
const ReasonDeleteUsers = "DeletingUsers"

func (s DeleteUsers) String() string {
	return "delete users " + list(s.Pods, func(p PodUsers) string {
		return list(p.Users, func(u User) string { return u.Name }) + " of " + p.Pod
	})
}

// Calls sends ACL DELUSER.
func (s DeleteUsers) Calls() []Call {
	return calls(s.Pods, func(p PodUsers) Call {
		return Call{p.Pod, func(ctx context.Context, c Client) error {
			var names []string
			for _, u := range p.Users {
				names = append(names, u.Name)
			}
			return c.DeleteUsers(ctx, names, p.Admits)
		}}
	})
}

// syncAccounts gives a server that lacks an account, as a new one does, that of the others, so that it need not wait until the
// RedisUser is looked at; and takes those away that no RedisUser asks for: an operator that did not know yet of a deletion may
// have made one anew. What an account may do is not decided here.
func syncAccounts(v *view) (cluster.Plan, bool) {
	if v.Accounts == nil {
		return cluster.Pass()
	}
	known := map[string]User{}
	for _, p := range v.read {
		for _, u := range p.Node.Users {
			if name := u.MadeFor(); name != "" && v.Accounts[name].Wanted && v.Accounts[name].Username == u.Name {
				known[u.Name] = u
			}
		}
	}
	var missing SetUsers
	var over DeleteUsers
	for _, p := range v.read {
		if p.Node.Users == nil {
			continue
		}
		if lacks := p.Node.lacks(known); len(lacks) > 0 {
			missing.Pods = append(missing.Pods, PodUsers{p.Name, lacks, p.Node.Admits})
		}
		if u := p.Node.unclaimed(v.Accounts); len(u) > 0 {
			over.Pods = append(over.Pods, PodUsers{p.Name, u, p.Node.Admits})
		}
	}
	switch {
	case len(missing.Pods) > 0:
		return cluster.Do(missing, "servers lack users that the others have")
	case len(over.Pods) > 0:
		return cluster.Do(over, "no RedisUser asks for users that were made for one")
	}
	return cluster.Pass()
}

// lacks are the accounts of other servers that this one does not have, by name.
func (n *Node) lacks(known map[string]User) []User {
	var out []User
	for _, u := range known {
		if !slices.ContainsFunc(n.Users, func(o User) bool { return o.Name == u.Name }) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// unclaimed are the accounts of a server that no resource asks for.
func (n *Node) unclaimed(accounts map[string]AccountClaim) []User {
	var out []User
	for _, u := range n.Users {
		if name := u.MadeFor(); name != "" && accounts[name].Username != u.Name {
			out = append(out, u)
		}
	}
	return out
}

// AccountClaim is what a RedisUser asks for.
type AccountClaim struct {
	Username string
	// Wanted says that the resource is there to stay.
	Wanted bool
}
