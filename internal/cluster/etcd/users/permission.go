package users

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
)

// openEnd as the end of a range means that it has none (isOpenEnded in server/auth/range_perm_cache.go).
const openEnd = "\x00"

// Keys are the keys from From up to End, without End itself. An empty End stands for the single key From.
type Keys struct{ From, End string }

// Permission allows access to keys.
type Permission struct {
	Keys
	Access v1alpha1.EtcdAccess
}

// Permissions returns what a specification asks for, sorted, and one for each set of keys: etcd knows no more.
func Permissions(list []v1alpha1.EtcdPermission) []Permission {
	access := map[Keys]v1alpha1.EtcdAccess{}
	for _, p := range list {
		k := keysOf(p)
		if have, ok := access[k]; ok && have != p.Access {
			access[k] = v1alpha1.EtcdReadWrite
			continue
		}
		access[k] = p.Access
	}
	out := make([]Permission, 0, len(access))
	for k, a := range access {
		out = append(out, Permission{k, a})
	}
	slices.SortFunc(out, func(a, b Permission) int { return a.compare(b.Keys) })
	return out
}

func keysOf(p v1alpha1.EtcdPermission) Keys {
	switch {
	case p.Prefix != nil:
		return Keys{*p.Prefix, prefixEnd(*p.Prefix)}
	case p.Range != nil && p.Range.To != nil:
		return Keys{p.Range.From, *p.Range.To}
	case p.Range != nil:
		return Keys{p.Range.From, openEnd}
	case p.Key != nil:
		return Keys{From: *p.Key}
	}
	return Keys{}
}

// prefixEnd is the first key behind those that begin with a prefix. Text in UTF-8 never holds the byte 0xff, which would
// make it the one before.
func prefixEnd(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return string(end[:i+1])
		}
	}
	return openEnd
}

func (k Keys) compare(other Keys) int {
	if c := strings.Compare(k.From, other.From); c != 0 {
		return c
	}
	return strings.Compare(k.End, other.End)
}

// String says which keys are meant, for people.
func (k Keys) String() string {
	switch k.End {
	case "":
		return fmt.Sprintf("key %q", k.From)
	case prefixEnd(k.From):
		return fmt.Sprintf("prefix %q", k.From)
	case openEnd:
		return fmt.Sprintf("all keys from %q", k.From)
	}
	return fmt.Sprintf("range %q to %q", k.From, k.End)
}

// String says what is allowed, for people.
func (p Permission) String() string { return fmt.Sprintf("%s on %s", p.Access, p.Keys) }

// Change of a permission of a role.
type Change struct {
	Permission
	Revoke bool
}

// String says what changes, for people.
func (c Change) String() string {
	if c.Revoke {
		return "revoke " + c.Permission.String()
	}
	return "grant " + c.Permission.String()
}

// changes lead from what a role has to what it should have. What is missing comes first, so that nobody loses access
// between two permissions that overlap. etcd may hold several permissions for the same keys: it looks for one to replace
// by its first key only (RoleGrantPermission in server/auth/store.go). Only revoking them all leaves one.
func changes(have, want []Permission) []Change {
	held := map[Keys][]v1alpha1.EtcdAccess{}
	for _, p := range have {
		held[p.Keys] = append(held[p.Keys], p.Access)
	}
	var out, surplus []Change
	for _, p := range want {
		accesses := held[p.Keys]
		delete(held, p.Keys)
		switch {
		case len(accesses) > 1:
			out = append(out, Change{p, true}, Change{p, false})
		case len(accesses) == 0 || accesses[0] != p.Access:
			out = append(out, Change{p, false})
		}
	}
	for k, accesses := range held {
		surplus = append(surplus, Change{Permission{k, accesses[0]}, true})
	}
	slices.SortFunc(surplus, func(a, b Change) int { return a.compare(b.Keys) })
	return append(out, surplus...)
}

// listed is how many changes a message names.
const listed = 4

func describe(list []Change) string {
	var out []string
	for i, c := range list {
		if i == listed {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(list)-listed)
		}
		out = append(out, c.String())
	}
	return strings.Join(out, ", ")
}
