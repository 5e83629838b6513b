package users

import (
	"fmt"
	"strings"
)

// Protect adds the finalizer, so that the resource stays until its user is gone from etcd.
type Protect struct{}

// AddRole adds a role without permissions.
type AddRole struct{ Role string }

// SetPermissions changes the permissions of a role, in the given order and in one go: each change makes the tokens of all
// clients outdated, and they should have to authenticate anew once rather than once for each.
type SetPermissions struct {
	Role    string
	Changes []Change
}

// AddUser adds a user with the wanted password.
type AddUser struct{ User string }

// SetPassword gives a user the wanted password.
type SetPassword struct{ User string }

// GrantRole gives a user its role.
type GrantRole struct{ User, Role string }

// RevokeRoles takes roles from a user.
type RevokeRoles struct {
	User  string
	Roles []string
}

// DeleteUser deletes a user.
type DeleteUser struct{ User string }

// DeleteRole deletes a role.
type DeleteRole struct{ Role string }

// Publish writes the connection Secret.
type Publish struct{}

// Release removes the finalizer, and with it the resource.
type Release struct{}

func (Protect) String() string          { return "add the finalizer" }
func (s AddRole) String() string        { return "add role " + s.Role }
func (s SetPermissions) String() string { return fmt.Sprintf("change permissions of role %s", s.Role) }
func (s AddUser) String() string        { return "add user " + s.User }
func (s SetPassword) String() string    { return "set the password of user " + s.User }
func (s GrantRole) String() string      { return fmt.Sprintf("grant role %s to user %s", s.Role, s.User) }

func (s RevokeRoles) String() string {
	return fmt.Sprintf("revoke %s from user %s", strings.Join(s.Roles, ", "), s.User)
}
func (s DeleteUser) String() string { return "delete user " + s.User }
func (s DeleteRole) String() string { return "delete role " + s.Role }
func (Publish) String() string      { return "write the connection Secret" }
func (Release) String() string      { return "remove the finalizer" }
