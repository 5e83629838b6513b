package planner

import (
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// handOutPasswords gives new passwords out. Every server was read, and the rule about users found that it takes them.
func handOutPasswords(v *model.View) (cluster.Plan, bool) {
	if v.Spec.Access == nil || !v.Spec.Access.Has(acl.NextPrefix) {
		return cluster.Pass()
	}
	return cluster.Do(steps.RotatePasswords{Cause: steps.ReasonHandOut}, "every server takes the new passwords beside the old ones")
}

// setReplicationPasswords keeps the password that servers copy each other with in line: after a replacement, when nobody was left to
// give a server its own back that had another to migrate slots with, and when a
// server restarts in place with the configuration of its pod's start. Its own primary takes the one before as long as
// that works, so it depends on no other server.
func setReplicationPasswords(v *model.View) (cluster.Plan, bool) {
	if v.Spec.Access == nil || v.Spec.Access.Passwords[acl.PasswordReplication] == "" {
		return cluster.Pass()
	}
	step := steps.SetReplicationPassword{Access: v.Spec.Access}
	for _, p := range v.Readable {
		want := acl.Hash(v.Spec.Access.ReplicationPassword(p.Name))
		other := p.Node.ReplicationUser != "" && p.Node.ReplicationUser != acl.UserReplication
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
func retirePasswords(v *model.View) (cluster.Plan, bool) { return retire(v) }

// A refused field may stay as it is for longer than former passwords may stay valid. So they are
// retired before it is corrected, once all replicas are in sync and all pods are ready.

// retireWhileRefused retires former passwords while spec.version or a pod with new settings is
// refused.
func retireWhileRefused(v *model.View) (cluster.Plan, bool) {
	if !facts.RefusesRollout(v) || facts.FirstUnsynced(v) != nil || facts.FirstUnready(v) != nil {
		return cluster.Pass()
	}
	return retire(v)
}

// retireWhileMemoryRefused retires former passwords while less memory is refused.
func retireWhileMemoryRefused(v *model.View) (cluster.Plan, bool) {
	if facts.TooLittleMemory(v) == "" || facts.FirstUnready(v) != nil {
		return cluster.Pass()
	}
	return retire(v)
}

// retire returns the next step that ends the former passwords, if one is due.
func retire(v *model.View) (cluster.Plan, bool) {
	a := v.Spec.Access
	switch {
	case a == nil || !a.Has(acl.FormerPrefix) || !v.Spec.HandedOut:
		return cluster.Pass()
	case a.Passwords[acl.HandedOutKey] == "":
		return cluster.Do(steps.RotatePasswords{Cause: steps.ReasonHold}, "the connection Secret holds the new password")
	}
	since, err := time.Parse(time.RFC3339, a.Passwords[acl.HandedOutKey])
	if err == nil && v.Now.Before(since.Add(v.Spec.Hold)) {
		return cluster.Pass()
	}
	return cluster.Do(steps.RotatePasswords{Cause: steps.ReasonRetire}, "clients have had %s to follow the connection Secret", v.Spec.Hold)
}
