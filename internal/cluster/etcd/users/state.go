package users

import "slices"

// State is what was observed of a user. Where something could not be read, it says so; it never leaves a gap that could
// be taken for "there is none".
type State struct {
	Want Want
	// Deleting says that the resource is being deleted, Protected that it stays until the user is gone from etcd.
	Deleting, Protected bool
	// Rival is an older resource for the same user, nil when there is none.
	Rival *Rival
	// Cluster is nil when there is none of the wanted name.
	Cluster *Cluster
	// Etcd is what the cluster knows of the user; nil: unknown. Unreachable says why.
	Etcd        *Etcd
	Unreachable error
	// Published says that the connection Secret is in place.
	Published bool
}

// Want is what the specification asks for.
type Want struct {
	// Name of the resource.
	Name        string
	ClusterName string
	Username    string
	Permissions []Permission
	// Generated says that the password is the operator's own, so that nobody else can have given it to a user.
	Generated bool
}

// Role is the name of the role that carries the permissions of the user. Neither name in it holds a colon, so no two users
// share a role. The namespace is left out: a cluster and its users are in the same one, and a copy of the cluster that was
// restored in another one finds its users.
func (w Want) Role() string { return "quorate:" + w.Name + ":" + w.Username }

// Rival is another resource for the same user.
type Rival struct {
	Name    string
	Leaving bool
}

// Cluster is the cluster that the user belongs to.
type Cluster struct {
	// Leaving says that it is being deleted.
	Leaving bool
	// Paused says that nothing of it may be changed.
	Paused bool
	// Hibernated says that none of its members is to run.
	Hibernated bool
	// Auth says that its clients must authenticate.
	Auth bool
	// Open says that clients are let in.
	Open bool
}

// Etcd is what the cluster knows of the user.
type Etcd struct {
	// Enabled says that clients must authenticate.
	Enabled bool
	// User and Role are nil when there is none.
	User *User
	Role *Role
}

// gone reports whether the cluster is gone or going, and its users with it.
func (s State) gone() bool { return s.Cluster == nil || s.Cluster.Leaving }

// owned reports whether the user in etcd was made by this resource: it has the role, or its password opens it and either the
// role is there, as after a crash between adding the user and granting it, or the password is known to nobody else.
func (s State) owned() bool {
	u := s.Etcd.User
	if u == nil {
		return false
	}
	return slices.Contains(u.Roles, s.Want.Role()) || (u.Password == PasswordRight && (s.Etcd.Role != nil || s.Want.Generated))
}

// otherRoles are those that the user should not have.
func (s State) otherRoles() []string {
	return slices.DeleteFunc(slices.Clone(s.Etcd.User.Roles), func(r string) bool { return r == s.Want.Role() })
}
