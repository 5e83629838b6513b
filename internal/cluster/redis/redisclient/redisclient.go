// Package redisclient talks to one Redis or Valkey server through github.com/redis/go-redis. It carries out what it is
// told and decides nothing.
package redisclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/login"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

const (
	// callTimeout bounds one command to a server.
	callTimeout = 2 * time.Second
	// failoverTimeout bounds a failover. The servers give up after 5 s themselves.
	failoverTimeout = 6 * time.Second
	// plannedTimeout bounds one that nobody else decides about, see redis.Failover.
	plannedTimeout = 2 * time.Second
	// failoverPoll is how often the role is asked for meanwhile; a failover takes about 50 ms.
	failoverPoll = 20 * time.Millisecond
	// bufferSize of a connection, each way, in bytes. Most connections live for one pass, in which some KiB are said.
	bufferSize = 8 << 10
)

// Options say how to reach a server.
type Options struct {
	// Dial opens the connection.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS wraps the connection; nil: plain text.
	TLS *tls.Config
	// Logins are the users to connect as, the first one unless Read finds that the server does not take it: it started in place
	// with what it knew long ago, or passwords were lost.
	Logins []Login
	// Refusals holds back what the server refused. It is not needed with TLS, where the server proves its identity first.
	Refusals login.Server
	// Replicated says that the server is one of the mode Replicated, which knows no CLUSTER.
	Replicated bool
	// Called is told of every command by its name, of several in one round trip as pipeline and of every connection as dial: how
	// long it took, and with which error it ended. Nil: nobody wants to know.
	Called func(call string, took time.Duration, err error)
	// Topology is what all servers of one observation are read into; nil: each Read has its own.
	Topology *model.Topology
	// Budget of bytes that the server shares with others; nil: each reply is bounded alone.
	Budget *resp.Budget
	// timeout of one command; zero: callTimeout.
	timeout time.Duration
	// connections at a time; zero: one.
	connections int
}

// Login is a user and a password.
type Login struct{ Username, Password string }

// Client is a connection to one server.
type Client struct {
	rdb     *goredis.Client
	options Options
	seen    *seen
}

// seen is what was seen of the server on the way to it: the fingerprint of the certificate that it has shown last, and when it took the last connection.
type seen struct {
	certificate atomic.Pointer[string]
	connected   atomic.Pointer[time.Time]
}

var _ steps.Client = (*Client)(nil)

// quiet drops what go-redis logs by itself: every error it logs is returned as well.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { goredis.SetLogger(quiet{}) })

func (o Options) login() Login {
	if len(o.Logins) == 0 {
		return Login{}
	}
	return o.Logins[0]
}

// New returns a client. It connects with the first command.
func New(o Options) *Client {
	silence()
	seen, as := &seen{}, o.login()
	wait := cmp.Or(o.timeout, callTimeout)
	limits := resp.Manager()
	limits.Budget = o.Budget
	rdb := NewBounded(goredis.Options{
		Addr:     "pod", // Only Dial knows where the pod is.
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return o.dial(ctx, seen) },
		Username: as.Username, Password: as.Password,
		DialTimeout: callTimeout, ReadTimeout: wait, WriteTimeout: wait,
		ContextTimeoutEnabled: true,
		// Whether to try again is for the next pass to decide.
		MaxRetries: -1, DialerRetries: 1,
		PoolSize: max(1, o.connections),
		// Commands that are sent in a row need no connection of their own.
		PipelinePoolSize: -1,
		ReadBufferSize:   bufferSize, WriteBufferSize: bufferSize,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, limits)
	if o.Called != nil {
		rdb.AddHook(meter(o.Called))
	}
	if as.Password != "" {
		rdb.AddHook(refusal{o.Refusals, as.Username, as.Password})
	}
	return &Client{rdb, o, seen}
}

func (o Options) dial(ctx context.Context, seen *seen) (net.Conn, error) {
	conn, err := o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	seen.connected.Store(ptr.To(time.Now()))
	if o.TLS == nil {
		return conn, nil
	}
	secure := tls.Client(conn, o.TLS)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // It is closed where the time was up.
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	seen.certificate.Store(ptr.To(clustertls.FingerprintOf(secure.ConnectionState().PeerCertificates[0].Raw)))
	return secure, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.rdb.Close() }

// SetConfigEpoch sends CLUSTER SET-CONFIG-EPOCH.
func (c *Client) SetConfigEpoch(ctx context.Context, epoch uint64) error {
	return c.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", epoch)
}

// Meet sends CLUSTER MEET. Without a bus port the server takes the one that is 10000 above the other.
func (c *Client) Meet(ctx context.Context, a model.Address, bus int) error {
	args := []any{"CLUSTER", "MEET", a.IP, a.Port}
	if bus > 0 {
		args = append(args, bus)
	}
	return c.do(ctx, args...)
}

// AddSlots sends CLUSTER ADDSLOTSRANGE.
func (c *Client) AddSlots(ctx context.Context, slots slots.Set) error {
	args := []any{"CLUSTER", "ADDSLOTSRANGE"}
	for _, r := range slots {
		args = append(args, r.From, r.To)
	}
	return c.do(ctx, args...)
}

// SetReplicationPassword sends CONFIG SET masteruser and masterauth.
func (c *Client) SetReplicationPassword(ctx context.Context, password string) error {
	return c.do(ctx, "CONFIG", "SET", "masteruser", acl.UserReplication, "masterauth", password)
}

// Configure sends CONFIG SET with all parameters: the server takes all of them or none.
func (c *Client) Configure(ctx context.Context, values map[string]string) error {
	args := []any{"CONFIG", "SET"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		args = append(args, name, values[name])
	}
	return c.do(ctx, args...)
}

// Replicate sends CLUSTER REPLICATE.
func (c *Client) Replicate(ctx context.Context, id string) error {
	return c.do(ctx, "CLUSTER", "REPLICATE", id)
}

// ReloadCertificates sends CONFIG SET with the paths that the server has: these parameters are applied even though they do
// not change (VOLATILE_CONFIG in config.c of the server), and all in one go, because certificate and key belong together.
func (c *Client) ReloadCertificates(ctx context.Context) error {
	ctx, cancel := timeout(ctx, "CONFIG SET", callTimeout)
	defer cancel()
	args := []any{"CONFIG", "SET"}
	for _, name := range []string{"tls-cert-file", "tls-key-file", "tls-ca-cert-file"} {
		path, err := c.rdb.ConfigGet(ctx, name).Result()
		if err != nil {
			return fmt.Errorf("CONFIG GET %s: %w", name, err)
		}
		args = append(args, name, path[name])
	}
	return c.do(ctx, args...)
}

// Forget sends CLUSTER FORGET. That a node is not known any more is what was asked for.
func (c *Client) Forget(ctx context.Context, id string) error {
	err := c.do(ctx, "CLUSTER", "FORGET", id)
	if err != nil && strings.Contains(err.Error(), "Unknown node") {
		return nil
	}
	return err
}

func (c *Client) do(ctx context.Context, args ...any) error {
	ctx, cancel := timeout(ctx, fmt.Sprint(args[1]), callTimeout)
	defer cancel()
	if err := c.rdb.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("%v %v: %w", args[0], args[1], err)
	}
	return nil
}

func timeout(ctx context.Context, what string, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer to %s within %s", what, d))
}
