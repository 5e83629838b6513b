package planner

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// syncAccounts gives a server that lacks an account, as a new one does, that of the others, so that it need not wait until the
// RedisUser is looked at; and takes those away that no RedisUser asks for: an operator that did not know yet of a deletion may
// have made one anew. What an account may do is not decided here.
func syncAccounts(v *model.View) (cluster.Plan, bool) {
	if v.Accounts == nil {
		return cluster.Pass()
	}
	known := map[string]acl.User{}
	for _, p := range v.Readable {
		for _, u := range p.Node.Users {
			if name := u.MadeFor(); name != "" && v.Accounts[name].Wanted && v.Accounts[name].Username == u.Name {
				known[u.Name] = u
			}
		}
	}
	var missing steps.SetUsers
	var over steps.DeleteUsers
	for _, p := range v.Readable {
		if p.Node.Users == nil {
			continue
		}
		if lacks := lacks(p.Node, known); len(lacks) > 0 {
			missing.Pods = append(missing.Pods, steps.PodUsers{Pod: p.Name, Users: lacks, Admits: p.Node.Admits})
		}
		if u := unclaimedUsers(p.Node, v.Accounts); len(u) > 0 {
			over.Pods = append(over.Pods, steps.PodUsers{Pod: p.Name, Users: u, Admits: p.Node.Admits})
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
func lacks(n *model.Node, known map[string]acl.User) []acl.User {
	var out []acl.User
	for _, u := range known {
		if !slices.ContainsFunc(n.Users, func(o acl.User) bool { return o.Name == u.Name }) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b acl.User) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// unclaimedUsers are the accounts of a server that no resource asks for.
func unclaimedUsers(n *model.Node, accounts map[string]model.AccountClaim) []acl.User {
	var out []acl.User
	for _, u := range n.Users {
		if name := u.MadeFor(); name != "" && accounts[name].Username != u.Name {
			out = append(out, u)
		}
	}
	return out
}

// setUsers keeps the users of every server in line, without a restart: a new version of the operator needs other commands,
// somebody has changed a user by hand. It comes before all that the operator may lack the commands for, and depends on no
// other server.
func setUsers(v *model.View) (cluster.Plan, bool) {
	if v.Spec.Access == nil {
		return cluster.Pass() // Unknown.
	}
	var step steps.SetUsers
	for _, p := range v.Readable {
		want, err := v.Spec.Access.Users(p.Name, p.Node.Software())
		if err != nil {
			return cluster.Pass() // The Secret is being written.
		}
		if u := wrongUsers(p.Node, want); len(u) > 0 {
			step.Pods = append(step.Pods, steps.PodUsers{Pod: p.Name, Users: u, Admits: p.Node.Admits})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "users of servers are not as this version of the operator makes them")
}

// wrongUsers are the wanted users that a server does not have as they are wanted. While the operator may not list users, it
// has to become what it is to be first.
func wrongUsers(n *model.Node, want []acl.User) []acl.User {
	return slices.DeleteFunc(want, func(w acl.User) bool {
		if n.Users == nil {
			return w.Name != acl.UserOperator
		}
		return slices.ContainsFunc(n.Users, func(u acl.User) bool { return u.Is(w) })
	})
}

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

// projection is how soon to tell servers again to read what the kubelet may not have brought yet.
const projection = 5 * time.Second

// reloadCertificates has servers read a renewed certificate.
func reloadCertificates(v *model.View) (cluster.Plan, bool) { return reload(v, projection) }

// A reload depends on no other server, and a server that is away or unhealthy may stay so for as
// long as a certificate is valid. So a due reload goes ahead before each rule that waits for
// servers, or refuses a field of the specification, for that long.

// reloadWhileCanaryFails reloads certificates while a pod with new settings does not answer.
func reloadWhileCanaryFails(v *model.View) (cluster.Plan, bool) {
	if facts.SilentCanary(v) == "" {
		return cluster.Pass()
	}
	return reload(v, projection)
}

// reloadWhileIncomplete reloads certificates while a pod is missing or a server does not answer.
func reloadWhileIncomplete(v *model.View) (cluster.Plan, bool) {
	if v.Complete {
		return cluster.Pass()
	}
	return reload(v, facts.UntilAnswered(v))
}

// reloadWhileRefused reloads certificates while spec.version or a pod with new settings is refused.
func reloadWhileRefused(v *model.View) (cluster.Plan, bool) {
	if !facts.RefusesRollout(v) {
		return cluster.Pass()
	}
	return reload(v, projection)
}

// reloadWhileUnsynced reloads certificates while a replica is not in sync.
func reloadWhileUnsynced(v *model.View) (cluster.Plan, bool) {
	p := facts.FirstUnsynced(v)
	if p == nil {
		return cluster.Pass()
	}
	return reload(v, cmp.Or(p.After, projection))
}

// reloadWhileMemoryRefused reloads certificates while less memory is refused.
func reloadWhileMemoryRefused(v *model.View) (cluster.Plan, bool) {
	if facts.TooLittleMemory(v) == "" {
		return cluster.Pass()
	}
	return reload(v, projection)
}

// reloadWhileUnready reloads certificates while a pod is not ready.
func reloadWhileUnready(v *model.View) (cluster.Plan, bool) {
	if facts.FirstUnready(v) == nil {
		return cluster.Pass()
	}
	return reload(v, facts.Later)
}

// reload returns the step that has servers read what their Secret holds when they show another
// certificate than that. What they show is the proof that they have read it: a server reads all of
// its files together, and the kubelet replaces them together. It takes a minute and a half at most
// to bring a Secret to its pods, and reports nothing then, so the step is repeated until servers
// show the certificate: after projection, or within a shorter time.
func reload(v *model.View, within time.Duration) (cluster.Plan, bool) {
	if v.Spec.Certificate == "" {
		return cluster.Pass()
	}
	var step steps.ReloadCertificates
	for _, p := range v.Readable {
		if p.Node.Certificate != v.Spec.Certificate {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "servers show another certificate than their Secret holds, which the kubelet may take a minute and a half to bring to them")
	plan.After = min(projection, within)
	return plan, ok
}
