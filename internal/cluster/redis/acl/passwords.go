package acl

import (
	"maps"
	"slices"
)

// Keys of the auth Secret while passwords are being replaced: beside the key of each password in use, that of its successor
// and that of its predecessor with these prefixes. All that are there work.
//
//	phase       given out  works     ends when
//	Settled     old        old       another password is wanted
//	Introduced  old        old, new  every server takes both
//	Replaced    new        old, new  replicas use the new one, and clients had time to follow the connection Secret
//	Settled     new        new
const (
	NextPrefix   = "next-"
	FormerPrefix = "former-"
	// HandedOutKey holds when the connection Secret was first found to contain the new password.
	HandedOutKey = "handed-out"
)

// Works lists the passwords under a key that servers take, the one that is given out first.
func (a Access) Works(key string) []string {
	var out []string
	for _, k := range []string{key, NextPrefix + key, FormerPrefix + key} {
		if p := a.Passwords[k]; p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// Has reports whether the auth Secret holds a password under a key with the prefix.
func (a Access) Has(prefix string) bool {
	return slices.ContainsFunc(PasswordKeys, func(key string) bool { return a.Passwords[prefix+key] != "" })
}

// Replacing reports whether passwords are being replaced: another replacement begins when this one is over.
func (a Access) Replacing() bool { return a.Has(NextPrefix) || a.Has(FormerPrefix) }

// Introduce is the content of the auth Secret with successors of passwords.
func Introduce(data, next map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, data)
	for key, p := range next {
		out[NextPrefix+key] = p
	}
	return out
}
