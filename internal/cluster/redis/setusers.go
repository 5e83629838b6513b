package redis

import (
	"context"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
)

// SetUsers makes users of servers what they are to be.
type SetUsers struct{ Pods []PodUsers }

// PodUsers are users of the server of one pod.
type PodUsers struct {
	Pod   string
	Users []User
	// Admits says who may copy the server, which stays so.
	Admits Admission
}

// ReasonSetUsers is the reason of SetUsers.
const ReasonSetUsers = "SettingUsers"

func (s SetUsers) String() string {
	return "set users " + list(s.Pods, func(p PodUsers) string {
		return list(p.Users, func(u User) string { return u.Name }) + " of " + p.Pod
	})
}

// Calls sends ACL SETUSER, and ACL SAVE.
func (s SetUsers) Calls() []Call {
	return calls(s.Pods, func(p PodUsers) Call {
		return Call{p.Pod, func(ctx context.Context, c Client) error { return c.SetUsers(ctx, p.Users, p.Admits) }}
	})
}

// setUsers keeps the users of every server in line, without a restart: a new version of the operator needs other commands,
// somebody has changed a user by hand. It comes before all that the operator may lack the commands for, and depends on no
// other server.
func setUsers(v *view) (cluster.Plan, bool) {
	if v.Spec.Access == nil {
		return cluster.Pass() // Unknown.
	}
	var step SetUsers
	for _, p := range v.read {
		want, err := v.Spec.Access.Users(p.Name, p.Node.Software())
		if err != nil {
			return cluster.Pass() // The Secret is being written.
		}
		if u := p.Node.strayed(want); len(u) > 0 {
			step.Pods = append(step.Pods, PodUsers{p.Name, u, p.Node.Admits})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "users of servers are not as this version of the operator makes them")
}

// strayed are the wanted users that a server does not have as they are wanted. While the operator may not list users, it
// has to become what it is to be first.
func (n *Node) strayed(want []User) []User {
	return slices.DeleteFunc(want, func(w User) bool {
		if n.Users == nil {
			return w.Name != UserOperator
		}
		return slices.ContainsFunc(n.Users, func(u User) bool { return u.Is(w) })
	})
}

// Software is what the server runs.
func (n *Node) Software() Software { return Software{Engine: n.Engine, Version: n.Version} }
