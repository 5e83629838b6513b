package etcdclient

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Auth tells whether authentication is on and the password is right. Only root may ask, so being denied is an answer.
func (c *Client) Auth(ctx context.Context, password string) (model.Auth, error) {
	var out model.Auth
	err := c.asRoot(ctx, func(conn *clientv3.Client) error {
		st, err := conn.AuthStatus(ctx)
		if err != nil {
			return err
		}
		out = model.Auth{Enabled: st.Enabled}
		if !st.Enabled || password == "" {
			return nil
		}
		if out.PasswordWorks, err = accepts(ctx, conn, password); err != nil || out.PasswordWorks {
			return err
		}
		out.Root = IsRoot(c.cfg.TLS)
		if !out.Root && c.cfg.Former != "" {
			out.Root, err = accepts(ctx, conn, c.cfg.Former)
		}
		return err
	})
	if denied(err) {
		return model.Auth{Enabled: true}, nil
	}
	if err != nil {
		return model.Auth{}, fmt.Errorf("ask %s about authentication: %w", c.cfg.Host, err)
	}
	return out, nil
}

// accepts tells whether root has a password. The token of a connection does not: one from before a change stays that of
// root.
func accepts(ctx context.Context, conn *clientv3.Client, password string) (bool, error) {
	_, err := conn.Authenticate(ctx, model.RootUser, password)
	if errors.Is(err, rpctypes.ErrAuthFailed) {
		return false, nil
	}
	return err == nil, err
}

// EnableAuth switches authentication on. What an earlier attempt has done already is not an error.
func (c *Client) EnableAuth(ctx context.Context, password string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error { return enableAuth(ctx, conn, password) })
}

func enableAuth(ctx context.Context, conn *clientv3.Client, password string) error {
	if _, err := conn.RoleAdd(ctx, model.RootUser); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add role root: %w", err)
	}
	_, err := conn.UserAdd(ctx, model.RootUser, password)
	if errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		_, err = conn.UserChangePassword(ctx, model.RootUser, password)
	}
	if err != nil {
		return fmt.Errorf("add user root: %w", err)
	}
	if _, err := conn.UserGrantRole(ctx, model.RootUser, model.RootUser); err != nil {
		return fmt.Errorf("grant role root: %w", err)
	}
	if _, err := conn.AuthEnable(ctx); err != nil {
		return fmt.Errorf("enable authentication: %w", err)
	}
	return nil
}

// SetRootPassword changes the password of root.
func (c *Client) SetRootPassword(ctx context.Context, password string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		if _, err := conn.UserChangePassword(ctx, model.RootUser, password); err != nil {
			return fmt.Errorf("change the password of root: %w", err)
		}
		return nil
	})
}
