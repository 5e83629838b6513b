package planner

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
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
