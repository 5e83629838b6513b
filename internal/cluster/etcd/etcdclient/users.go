package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

var _ users.Client = (*Client)(nil)

// noPassword is how etcd says that a user has no password: it has no error code for that (ErrNoPasswordUser in
// server/auth/store.go).
const noPassword = "no password user"

var accesses = map[authpb.Permission_Type]v1alpha1.EtcdAccess{
	clientv3.PermRead:      v1alpha1.EtcdRead,
	clientv3.PermWrite:     v1alpha1.EtcdWrite,
	clientv3.PermReadWrite: v1alpha1.EtcdReadWrite,
}

// Store tells whether anything may have changed.
func (c *Client) Store(ctx context.Context) (users.Store, error) {
	var out users.Store
	err := c.users(ctx, "state of the users", func(conn *clientv3.Client) error {
		r, err := conn.AuthStatus(ctx)
		if err != nil {
			return err
		}
		if r.Header == nil {
			return errors.New("the answer has no header")
		}
		out = users.Store{ClusterID: r.Header.ClusterId, Revision: r.AuthRevision, Enabled: r.Enabled}
		return nil
	})
	return out, err
}

// User returns the roles of a user. Whether there is one is asked of the list of users: "user not found" could mean the one who asks.
func (c *Client) User(ctx context.Context, user string) (roles []string, found bool, err error) {
	err = c.users(ctx, "user "+user, func(conn *clientv3.Client) error {
		all, err := conn.UserList(ctx)
		if err != nil || !slices.Contains(all.Users, user) {
			return err
		}
		r, err := conn.UserGet(ctx, user)
		if err == nil {
			roles, found = r.Roles, true
		}
		return err
	})
	return roles, found, err
}

// Role returns the permissions of a role.
func (c *Client) Role(ctx context.Context, role string) (out []users.Permission, found bool, err error) {
	err = c.users(ctx, "role "+role, func(conn *clientv3.Client) error {
		r, err := conn.RoleGet(ctx, role)
		if errors.Is(err, rpctypes.ErrRoleNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		for _, p := range r.Perm {
			out = append(out, users.Permission{
				Keys: users.Keys{From: string(p.Key), End: string(p.RangeEnd)}, Access: accesses[p.PermType],
			})
		}
		return nil
	})
	return out, found, err
}

// CheckPassword tries a password.
func (c *Client) CheckPassword(ctx context.Context, user, password string) (users.Password, error) {
	out := users.PasswordUnknown
	err := c.users(ctx, "password of user "+user, func(conn *clientv3.Client) error {
		_, err := conn.Authenticate(ctx, user, password)
		switch {
		case err == nil:
			out = users.PasswordRight
		case errors.Is(err, rpctypes.ErrAuthFailed):
			out = users.PasswordWrong
		case strings.Contains(err.Error(), noPassword):
			out = users.PasswordNone
		default:
			return err
		}
		return nil
	})
	return out, err
}

// AddRole adds a role.
func (c *Client) AddRole(ctx context.Context, role string) error {
	return c.users(ctx, "add role "+role, func(conn *clientv3.Client) error {
		_, err := conn.RoleAdd(ctx, role)
		return unless(err, rpctypes.ErrRoleAlreadyExist)
	})
}

// DeleteRole deletes a role.
func (c *Client) DeleteRole(ctx context.Context, role string) error {
	return c.users(ctx, "delete role "+role, func(conn *clientv3.Client) error {
		_, err := conn.RoleDelete(ctx, role)
		return unless(err, rpctypes.ErrRoleNotFound)
	})
}

// Grant gives a role a permission.
func (c *Client) Grant(ctx context.Context, role string, p users.Permission) error {
	typ := clientv3.PermRead
	for t, a := range accesses {
		if a == p.Access {
			typ = t
		}
	}
	return c.users(ctx, fmt.Sprintf("grant %s to role %s", p, role), func(conn *clientv3.Client) error {
		_, err := conn.RoleGrantPermission(ctx, role, p.From, p.End, clientv3.PermissionType(typ))
		return err
	})
}

// Revoke takes permissions from a role.
func (c *Client) Revoke(ctx context.Context, role string, p users.Permission) error {
	return c.users(ctx, fmt.Sprintf("revoke %s from role %s", p, role), func(conn *clientv3.Client) error {
		_, err := conn.RoleRevokePermission(ctx, role, p.From, p.End)
		return unless(err, rpctypes.ErrPermissionNotGranted)
	})
}

// AddUser adds a user.
func (c *Client) AddUser(ctx context.Context, user, password string) error {
	return c.users(ctx, "add user "+user, func(conn *clientv3.Client) error {
		_, err := conn.UserAdd(ctx, user, password)
		return unless(err, rpctypes.ErrUserAlreadyExist)
	})
}

// DeleteUser deletes a user.
func (c *Client) DeleteUser(ctx context.Context, user string) error {
	return c.users(ctx, "delete user "+user, func(conn *clientv3.Client) error {
		_, err := conn.UserDelete(ctx, user)
		return unless(err, rpctypes.ErrUserNotFound)
	})
}

// SetPassword changes the password of a user.
func (c *Client) SetPassword(ctx context.Context, user, password string) error {
	return c.users(ctx, "change the password of user "+user, func(conn *clientv3.Client) error {
		_, err := conn.UserChangePassword(ctx, user, password)
		return err
	})
}

// GrantRole gives a user a role.
func (c *Client) GrantRole(ctx context.Context, user, role string) error {
	return c.users(ctx, fmt.Sprintf("grant role %s to user %s", role, user), func(conn *clientv3.Client) error {
		_, err := conn.UserGrantRole(ctx, user, role)
		return err
	})
}

// RevokeRole takes a role from a user.
func (c *Client) RevokeRole(ctx context.Context, user, role string) error {
	return c.users(ctx, fmt.Sprintf("revoke role %s from user %s", role, user), func(conn *clientv3.Client) error {
		_, err := conn.UserRevokeRole(ctx, user, role)
		return unless(err, rpctypes.ErrRoleNotGranted)
	})
}

// users runs a call about users or roles as root.
func (c *Client) users(ctx context.Context, what string, call func(*clientv3.Client) error) error {
	if err := c.asRoot(ctx, call); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// unless takes the errors for none that say that it is so already.
func unless(err error, fine ...error) error {
	for _, e := range fine {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
