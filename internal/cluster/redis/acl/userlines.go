package acl

import (
	"slices"
	"strings"
)

// internalUsers are on every server, and made anew with every cluster.
var internalUsers = []string{UserDefault, UserOperator, UserReplication, UserMigration}

// PublicUsers is what of the lines of ACL LIST may leave the servers, for a backup: the users that clients connect as, but for the default
// one, in the order of their names. Hashes of passwords are not in it, nor is the mark of who asked for a user, see Account.
func PublicUsers(lines []string) []string {
	var out []string
	for _, line := range lines {
		rules, selectors := cutSelectors(line)
		words := strings.Fields(rules)
		if len(words) < 2 || words[0] != "user" || slices.Contains(internalUsers, words[1]) {
			continue
		}
		words = slices.DeleteFunc(words, func(word string) bool { return word[0] == '#' })
		for _, s := range selectors {
			if !strings.HasPrefix(s, markPrefix) {
				words = append(words, s)
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	slices.Sort(out)
	return out
}

// UsersWithout names the users of some lines of ACL LIST that are not in others.
func UsersWithout(lines, present []string) []string {
	name := func(line string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "user "), " ")
		return name
	}
	var out []string
	for _, line := range lines {
		if !slices.ContainsFunc(present, func(p string) bool { return name(p) == name(line) }) {
			out = append(out, name(line))
		}
	}
	return out
}
