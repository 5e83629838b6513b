package redis

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
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
	nextPrefix   = "next-"
	formerPrefix = "former-"
	// handedOutKey is when the connection Secret was first found to hold the new password.
	handedOutKey = "handed-out"
)

// Works lists the passwords under a key that servers take, the one that is given out first.
func (a Access) Works(key string) []string {
	var out []string
	for _, k := range []string{key, nextPrefix + key, formerPrefix + key} {
		if p := a.Passwords[k]; p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (a Access) has(prefix string) bool {
	return slices.ContainsFunc(PasswordKeys, func(key string) bool { return a.Passwords[prefix+key] != "" })
}

// Replacing reports whether passwords are being replaced: another replacement begins when this one is over.
func (a Access) Replacing() bool { return a.has(nextPrefix) || a.has(formerPrefix) }

// Introduce is the content of the auth Secret with successors of passwords.
func Introduce(data, next map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, data)
	for key, p := range next {
		out[nextPrefix+key] = p
	}
	return out
}

// RotatePasswords takes the replacement of passwords one phase further. It is one write to the auth Secret.
type RotatePasswords struct {
	// Cause is the reason shown to users: one of those below.
	Cause string
}

// Reasons of RotatePasswords.
const (
	// ReasonHandOut gives the new passwords out.
	ReasonHandOut = "HandingOutPasswords"
	// ReasonHold begins the time that clients have.
	ReasonHold = "HoldingPasswords"
	// ReasonRetire ends it.
	ReasonRetire = "RetiringPasswords"
)

func (s RotatePasswords) String() string {
	switch s.Cause {
	case ReasonHandOut:
		return "hand out the new passwords"
	case ReasonHold:
		return "leave clients the time to follow the connection Secret"
	}
	return "retire the former passwords"
}

// Apply is the content of the auth Secret after the step. Doing it again changes nothing.
func (s RotatePasswords) Apply(data map[string]string, now time.Time) map[string]string {
	out := maps.Clone(data)
	switch s.Cause {
	case ReasonHandOut:
		for _, key := range PasswordKeys {
			if next := data[nextPrefix+key]; next != "" {
				out[key], out[formerPrefix+key] = next, data[key]
				delete(out, nextPrefix+key)
			}
		}
	case ReasonHold:
		if data[handedOutKey] == "" {
			out[handedOutKey] = now.UTC().Format(time.RFC3339)
		}
	case ReasonRetire:
		for _, key := range PasswordKeys {
			delete(out, formerPrefix+key)
		}
		delete(out, handedOutKey)
	}
	return out
}

// handOutPasswords gives new passwords out. Every server was read, and the rule about users found that it takes them.
func handOutPasswords(v *view) (cluster.Plan, bool) {
	if v.Spec.Access == nil || !v.Spec.Access.has(nextPrefix) {
		return cluster.Pass()
	}
	return cluster.Do(RotatePasswords{ReasonHandOut}, "every server takes the new passwords beside the old ones")
}

// SetReplicationPassword makes replicas connect with the password of their shard.
type SetReplicationPassword struct {
	Pods   []string
	access *Access
}

// ReasonReplicationPassword is the reason of SetReplicationPassword.
const ReasonReplicationPassword = "SettingReplicationPassword"

func (s SetReplicationPassword) String() string {
	return "set the replication password of " + list(s.Pods, func(pod string) string { return pod })
}

// Calls sends CONFIG SET masteruser and masterauth.
func (s SetReplicationPassword) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error {
			return c.SetReplicationPassword(ctx, s.access.ReplicationPassword(pod))
		}}
	})
}

// setReplicationPasswords keeps the password that servers copy each other with in line: after a replacement, when nobody was left to
// give a server its own back that had another to migrate slots with, and when a
// server restarts in place with the configuration of its pod's start. Its own primary takes the one before as long as
// that works, so it depends on no other server.
func setReplicationPasswords(v *view) (cluster.Plan, bool) {
	if v.Spec.Access == nil || v.Spec.Access.Passwords[PasswordReplication] == "" {
		return cluster.Pass()
	}
	step := SetReplicationPassword{access: v.Spec.Access}
	for _, p := range v.read {
		want := Hash(v.Spec.Access.ReplicationPassword(p.Name))
		other := p.Node.ReplicationUser != "" && p.Node.ReplicationUser != UserReplication
		if have := p.Node.ReplicationPassword; other || (have != "" && have != want) {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "servers are to copy their primary with another password")
}

// retirePasswords ends the former passwords, when nobody has a reason to use them any more: every server is well and uses
// the new ones, and clients had the time to follow their Secret. It holds up nothing meanwhile.
func retirePasswords(v *view) (cluster.Plan, bool) { return v.retire() }

// A refused field may stay as it is for longer than former passwords may stay valid. So they are
// retired before it is corrected, once all replicas are in sync and all pods are ready.

// retireWhileRefused retires former passwords while spec.version or a pod with new settings is
// refused.
func retireWhileRefused(v *view) (cluster.Plan, bool) {
	if !v.refusesRollout() || v.firstUnsynced() != nil || v.firstUnready() != nil {
		return cluster.Pass()
	}
	return v.retire()
}

// retireWhileMemoryRefused retires former passwords while less memory is refused.
func retireWhileMemoryRefused(v *view) (cluster.Plan, bool) {
	if v.tooLittleMemory() == "" || v.firstUnready() != nil {
		return cluster.Pass()
	}
	return v.retire()
}

// retire returns the next step that ends the former passwords, if one is due.
func (v *view) retire() (cluster.Plan, bool) {
	a := v.Spec.Access
	switch {
	case a == nil || !a.has(formerPrefix) || !v.Spec.HandedOut:
		return cluster.Pass()
	case a.Passwords[handedOutKey] == "":
		return cluster.Do(RotatePasswords{ReasonHold}, "the connection Secret holds the new password")
	}
	since, err := time.Parse(time.RFC3339, a.Passwords[handedOutKey])
	if err == nil && v.Now.Before(since.Add(v.Spec.Hold)) {
		return cluster.Pass()
	}
	return cluster.Do(RotatePasswords{ReasonRetire}, "clients have had %s to follow the connection Secret", v.Spec.Hold)
}
