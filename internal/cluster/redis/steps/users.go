package steps

import (
	"context"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// DeleteUsers deletes users of servers.
type DeleteUsers struct{ Pods []PodUsers }

// ReasonDeleteUsers is the reason of DeleteUsers.
const ReasonDeleteUsers = "DeletingUsers"

func (s DeleteUsers) String() string {
	return "delete users " + JoinItems(s.Pods, func(p PodUsers) string {
		return JoinItems(p.Users, func(u acl.User) string { return u.Name }) + " of " + p.Pod
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

// SetUsers makes users of servers what they are to be.
type SetUsers struct{ Pods []PodUsers }

// PodUsers are users of the server of one pod.
type PodUsers struct {
	Pod   string
	Users []acl.User
	// Admits says who may copy the server, which stays so.
	Admits model.Admission
}

// ReasonSetUsers is the reason of SetUsers.
const ReasonSetUsers = "SettingUsers"

func (s SetUsers) String() string {
	return "set users " + JoinItems(s.Pods, func(p PodUsers) string {
		return JoinItems(p.Users, func(u acl.User) string { return u.Name }) + " of " + p.Pod
	})
}

// Calls sends ACL SETUSER, and ACL SAVE.
func (s SetUsers) Calls() []Call {
	return calls(s.Pods, func(p PodUsers) Call {
		return Call{p.Pod, func(ctx context.Context, c Client) error { return c.SetUsers(ctx, p.Users, p.Admits) }}
	})
}
