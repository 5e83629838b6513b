package steps

import (
	"context"
	"maps"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
)

// Reasons of RotatePasswords.
const (
	// ReasonHandOut gives the new passwords out.
	ReasonHandOut = "HandingOutPasswords"
	// ReasonHold begins the time that clients have.
	ReasonHold = "HoldingPasswords"
	// ReasonRetire ends it.
	ReasonRetire = "RetiringPasswords"
)

// RotatePasswords takes the replacement of passwords one phase further. It is one write to the auth Secret.
type RotatePasswords struct {
	// Cause is the reason shown to users: one of those below.
	Cause string
}

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
		for _, key := range acl.PasswordKeys {
			if next := data[acl.NextPrefix+key]; next != "" {
				out[key], out[acl.FormerPrefix+key] = next, data[key]
				delete(out, acl.NextPrefix+key)
			}
		}
	case ReasonHold:
		if data[acl.HandedOutKey] == "" {
			out[acl.HandedOutKey] = now.UTC().Format(time.RFC3339)
		}
	case ReasonRetire:
		for _, key := range acl.PasswordKeys {
			delete(out, acl.FormerPrefix+key)
		}
		delete(out, acl.HandedOutKey)
	}
	return out
}

// SetReplicationPassword makes replicas connect with the password of their shard.
type SetReplicationPassword struct {
	Pods   []string
	Access *acl.Access
}

// ReasonReplicationPassword is the reason of SetReplicationPassword.
const ReasonReplicationPassword = "SettingReplicationPassword"

func (s SetReplicationPassword) String() string {
	return "set the replication password of " + JoinItems(s.Pods, func(pod string) string { return pod })
}

// Calls sends CONFIG SET masteruser and masterauth.
func (s SetReplicationPassword) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error {
			return c.SetReplicationPassword(ctx, s.Access.ReplicationPassword(pod))
		}}
	})
}
