package etcdclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// connect returns the connection, made on first use: as root by certificate, by password, by token where nobody can log in, or as
// nobody when authentication is off.
func (c *Client) connect(ctx context.Context) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		return c.conn, nil
	}
	password := c.cfg.Password
	if IsRoot(c.cfg.TLS) {
		password = ""
	}
	conn, err := c.logIn(ctx, password)
	byToken := c.cfg.SigningKey != "" && errors.Is(err, errLearner)
	if byToken {
		conn, err = c.openByToken(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.conn, c.byToken = conn, byToken
	return conn, nil
}

// logIn opens a connection with a password, empty for none. A wrong password still lets us read the member list, and find out that
// it is wrong: the connection is without one then.
func (c *Client) logIn(ctx context.Context, password string) (*clientv3.Client, error) {
	passwords := []string{password, c.cfg.Former}
	if password == "" {
		passwords = nil
	}
	for _, p := range passwords {
		if p == "" || c.refusals.Held(model.RootUser, p) {
			continue
		}
		conn, err := c.open(ctx, p, "")
		if err == nil {
			c.refusals.Accept()
		}
		if !errors.Is(err, rpctypes.ErrAuthFailed) {
			return conn, err
		}
		c.refusals.Refuse(model.RootUser, p)
	}
	return c.open(ctx, "", "")
}

// openByToken opens a connection with a token as members give them out (server/auth/jwt.go). The revision of users and roles in it
// stays 0: it is good for the status, and for no key.
func (c *Client) openByToken(ctx context.Context) (*clientv3.Client, error) {
	claims := jwt.MapClaims{"username": model.RootUser, "revision": 0, "exp": time.Now().Add(tokenLife).Unix()}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(c.cfg.SigningKey))
	if err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	return c.open(ctx, "", token)
}

// asRoot runs a call that only root may make. A connection from before authentication was on has no token, and etcd
// then goes by the name in the certificate, which may be anybody's; one from before the password changed has another
// password. Either is made anew once.
func (c *Client) asRoot(ctx context.Context, call func(*clientv3.Client) error) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	err = call(conn)
	if c.cfg.Password == "" || IsRoot(c.cfg.TLS) || !denied(err) {
		return err
	}
	_ = c.Close() // The connection is of no use.
	if conn, err = c.connect(ctx); err != nil {
		return err
	}
	return call(conn)
}

func denied(err error) bool {
	for _, e := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserNotFound, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthFailed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (c *Client) open(ctx context.Context, password, token string) (*clientv3.Client, error) {
	scheme := "http"
	var secure *tls.Config
	if c.cfg.TLS != nil {
		scheme = "https"
		secure = c.cfg.TLS.Clone()
		secure.ServerName = c.cfg.Host
	}
	cfg := clientv3.Config{
		Endpoints:   []string{model.ClientURL(scheme, c.cfg.Host)},
		TLS:         secure,
		Token:       token,
		DialTimeout: timeLeft(ctx),
		// Otherwise a connection is believed in as long after the network has healed as it was broken before: a client is kept between passes.
		DialKeepAliveTime: silence, DialKeepAliveTimeout: silence / 2,
		Logger: zap.NewNop(), // Errors are returned; retries are not worth a line each.
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(c.cfg.dial),
			grpc.WithChainUnaryInterceptor(c.cfg.unary),
			// A member that comes back must not have to wait for the back-off of its bad days.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
				MinConnectTimeout: time.Second,
			}),
			grpc.WithNoProxy(),
			// A client of every member is kept between passes. What they say is short.
			grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize),
		},
	}
	if password != "" {
		cfg.Username, cfg.Password = model.RootUser, password
	}
	conn, err := NewBounded(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.cfg.Host, err)
	}
	return conn, nil
}

// timeLeft turns a deadline into the time limit that the client wants for its first authentication.
func timeLeft(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(time.Until(at), time.Millisecond)
	}
	return 2 * time.Second
}
