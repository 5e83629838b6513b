// Package redisclient talks to one Redis or Valkey server through github.com/redis/go-redis. It carries out what it is
// told and decides nothing.
package redisclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/login"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
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
	Topology *redis.Topology
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

var _ redis.Client = (*Client)(nil)

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

// Read asks everything in one round trip, as the first user that the server lets in. It ends with redis.ErrHangs when the server takes the
// connection and does not answer in time.
func (c *Client) Read(ctx context.Context) (*redis.Node, error) {
	began := time.Now()
	n, err := c.readAsSomebody(ctx)
	if err != nil && c.hangs(err, time.Since(began)) {
		return nil, fmt.Errorf("%w: %w", redis.ErrHangs, err)
	}
	return n, err
}

// hangs tells whether an error is the server's own slowness: it has had the connection for a while, and this process was in time itself.
func (c *Client) hangs(err error, took time.Duration) bool {
	connected := c.seen.connected.Load()
	return TimedOut(err) && connected != nil && time.Since(*connected) >= callTimeout/2 && took < callTimeout*3/2
}

// TimedOut tells whether an error is that nothing came in time.
func TimedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func (c *Client) readAsSomebody(ctx context.Context) (*redis.Node, error) {
	n, err := c.read(ctx)
	for errors.Is(err, ErrPassword) && len(c.options.Logins) > 1 {
		o := c.options
		o.Logins = o.Logins[1:]
		_ = c.rdb.Close() // It has done nothing.
		*c = *New(o)
		n, err = c.read(ctx)
	}
	return n, err
}

func (c *Client) read(ctx context.Context) (*redis.Node, error) {
	ctx, cancel := timeout(ctx, "read", callTimeout)
	defer cancel()
	pipe := c.rdb.Pipeline()
	identity := identify(ctx, pipe, c.options.Replicated, cmp.Or(c.options.Topology, redis.NewTopology()))
	user := pipe.Do(ctx, "ACL", "GETUSER", redis.UserReplication)
	users := pipe.Do(ctx, "ACL", "LIST")
	config := goredis.NewMapStringStringCmd(ctx, configGet...)
	_ = pipe.Process(ctx, config) // It is only put in line; what becomes of it is in the command.
	auth := goredis.NewMapStringStringCmd(ctx, "CONFIG", "GET", "masteruser", "masterauth")
	_ = pipe.Process(ctx, auth)
	announces := goredis.NewMapStringStringCmd(ctx, announceGet...)
	var migrations func() ([]redis.Migration, bool, error)
	if !c.options.Replicated {
		_ = pipe.Process(ctx, announces)
		migrations = askMigrations(ctx, pipe)
	}
	if _, err := pipe.Exec(ctx); err != nil && !denied(err) && !unknown(err) {
		return nil, fmt.Errorf("read server: %w", err)
	}
	n, err := identity()
	if err != nil {
		return nil, err
	}
	for name, value := range config.Val() {
		if n.Config == nil {
			n.Config = map[string]string{}
		}
		n.Config[name] = redis.Normal(name, value)
	}
	n.Announces = announces.Val()
	n.Certificate = ptr.Deref(c.seen.certificate.Load(), "")
	if n.Admits, err = admissionOf(user); err != nil {
		return nil, err
	}
	if n.Users, err = listed(users); err != nil {
		return nil, err
	}
	if n.ReplicationUser, n.ReplicationPassword, err = replicates(auth); err != nil {
		return nil, err
	}
	if migrations != nil {
		n.Migrations, n.Pulls, err = migrations()
	}
	return n, err
}

// configGet asks for the parameters that take effect in a running server, and announceGet for where it says that it is reached.
var (
	configGet   = getAll(append(redis.LiveParameters(), redis.SlotStatsParameter))
	announceGet = getAll(redis.AnnounceParameters)
)

func getAll(names []string) []any {
	args := []any{"CONFIG", "GET"}
	for _, name := range names {
		args = append(args, name)
	}
	return args
}

// denied tells whether the server was started when the operator's user might not ask for everything yet: the rest is known then.
func denied(err error) bool { return strings.HasPrefix(err.Error(), "NOPERM") }

// unknown tells whether the server does not have a command.
func unknown(err error) bool { return strings.HasPrefix(err.Error(), "ERR unknown subcommand") }

// listed reads the answer to ACL LIST. A user of an earlier version of the operator may not ask for it.
func listed(users *goredis.Cmd) ([]redis.User, error) {
	if err := users.Err(); err != nil && denied(err) {
		return nil, nil
	}
	lines, err := users.StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read answer to ACL LIST: %w", err)
	}
	return redis.ParseUsers(lines)
}

// admissionOf reads the flags, with "on" or "off" among them, and the channels out of the answer to ACL GETUSER.
func admissionOf(user *goredis.Cmd) (redis.Admission, error) {
	answer, ok := user.Val().(map[any]any)
	if !ok {
		return 0, fmt.Errorf("read answer to ACL GETUSER: it is a %T", user.Val())
	}
	flags, ok := answer["flags"].([]any)
	if !ok {
		return 0, fmt.Errorf("read answer to ACL GETUSER: the flags are a %T", answer["flags"])
	}
	channels, ok := answer["channels"].(string)
	switch {
	case !ok:
		return 0, fmt.Errorf("read answer to ACL GETUSER: the channels are a %T", answer["channels"])
	case !slices.Contains(flags, any("on")):
		return redis.AdmitsNobody, nil
	case slices.Contains(strings.Fields(channels), redis.AdmitsMark):
		return redis.AdmitsForGood, nil
	}
	return redis.AdmitsForNow, nil
}

// replicates reads user and password out of the answer to CONFIG GET, which a user of an earlier version of the operator may not ask for.
func replicates(auth *goredis.MapStringStringCmd) (user, password string, err error) {
	values, err := auth.Result()
	if err != nil && denied(err) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read answer to CONFIG GET: %w", err)
	}
	if _, ok := values["masterauth"]; !ok {
		return "", "", errors.New("the server has no masterauth")
	}
	return values["masteruser"], redis.Hash(values["masterauth"]), nil
}

// SetConfigEpoch sends CLUSTER SET-CONFIG-EPOCH.
func (c *Client) SetConfigEpoch(ctx context.Context, epoch uint64) error {
	return c.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", epoch)
}

// Meet sends CLUSTER MEET. Without a bus port the server takes the one that is 10000 above the other.
func (c *Client) Meet(ctx context.Context, a redis.Address, bus int) error {
	args := []any{"CLUSTER", "MEET", a.IP, a.Port}
	if bus > 0 {
		args = append(args, bus)
	}
	return c.do(ctx, args...)
}

// AddSlots sends CLUSTER ADDSLOTSRANGE.
func (c *Client) AddSlots(ctx context.Context, slots redis.Slots) error {
	args := []any{"CLUSTER", "ADDSLOTSRANGE"}
	for _, r := range slots {
		args = append(args, r.From, r.To)
	}
	return c.do(ctx, args...)
}

// AdmitReplicas switches the replication user on, and for good with ACL SAVE.
func (c *Client) AdmitReplicas(ctx context.Context, how redis.Admission) error {
	if how == redis.AdmitsForGood {
		return c.save(ctx, nil, how)
	}
	return c.do(ctx, "ACL", "SETUSER", redis.UserReplication, "on")
}

// SetUsers sends ACL SETUSER for each user and ACL SAVE, as one transaction: nobody meets a server between two of them, and
// what is in memory is in the file. The operator's own user comes first: that of an earlier version may not begin a transaction.
func (c *Client) SetUsers(ctx context.Context, users []redis.User, admits redis.Admission) error {
	for _, u := range users {
		if u.Name != redis.UserOperator {
			continue
		}
		if err := c.do(ctx, setUser(u)...); err != nil {
			return err
		}
	}
	var commands [][]any
	for _, u := range users {
		commands = append(commands, setUser(u))
	}
	return c.save(ctx, commands, admits)
}

// DeleteUsers sends ACL DELUSER, and ACL SAVE with it.
func (c *Client) DeleteUsers(ctx context.Context, names []string, admits redis.Admission) error {
	args := []any{"ACL", "DELUSER"}
	for _, name := range names {
		args = append(args, name)
	}
	return c.save(ctx, [][]any{args}, admits)
}

// save changes users and writes them to the file of the server, in one transaction. The replication user is off there unless it is on for
// good.
func (c *Client) save(ctx context.Context, commands [][]any, admits redis.Admission) error {
	ctx, cancel := timeout(ctx, "ACL SAVE", callTimeout)
	defer cancel()
	var saved *goredis.Cmd
	_, err := c.rdb.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		for _, args := range commands {
			pipe.Do(ctx, args...)
		}
		filed := []any{"off", "resetchannels"}
		if admits == redis.AdmitsForGood {
			filed = []any{"on", "resetchannels", redis.AdmitsMark}
		}
		pipe.Do(ctx, append([]any{"ACL", "SETUSER", redis.UserReplication}, filed...)...)
		saved = pipe.Do(ctx, "ACL", "SAVE")
		if admits == redis.AdmitsForNow {
			pipe.Do(ctx, "ACL", "SETUSER", redis.UserReplication, "on")
		}
		return nil
	})
	if err != nil {
		if admits == redis.AdmitsForGood && saved.Err() != nil { // Nothing that fails in a transaction undoes the rest of it, and the file may not say so.
			_ = c.rdb.Do(ctx, "ACL", "SETUSER", redis.UserReplication, "resetchannels").Err()
		}
		return fmt.Errorf("set users: %w", err)
	}
	return nil
}

func setUser(u redis.User) []any {
	args := []any{"ACL", "SETUSER", u.Name}
	for _, rule := range u.Rules() {
		args = append(args, rule)
	}
	return args
}

// SetReplicationPassword sends CONFIG SET masteruser and masterauth.
func (c *Client) SetReplicationPassword(ctx context.Context, password string) error {
	return c.do(ctx, "CONFIG", "SET", "masteruser", redis.UserReplication, "masterauth", password)
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

// Failover sends CLUSTER FAILOVER [FORCE|TAKEOVER] and watches the role until the replica is primary. The command only begins the
// failover, and sending it again would begin it anew.
func (c *Client) Failover(ctx context.Context, how redis.FailoverMode) error {
	limit, args := failoverTimeout, []any{"CLUSTER", "FAILOVER"}
	if how == redis.FailoverPlanned {
		limit = plannedTimeout
	} else {
		args = append(args, string(how))
	}
	ctx, cancel := timeout(ctx, "failover", limit)
	defer cancel()
	var refused goredis.Error
	var network *net.OpError
	switch err := c.do(ctx, args...); {
	case errors.As(err, &refused), errors.As(err, &network) && network.Op == "dial": // It was not begun.
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", redis.ErrUndecided, err)
	}
	tick := time.NewTicker(failoverPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the replica was not promoted: %w: %w", redis.ErrUndecided, context.Cause(ctx))
		case <-tick.C:
		}
		leads, err := c.Leads(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", redis.ErrUndecided, err)
		case leads:
			return nil
		}
	}
}

// Leads asks for the ROLE.
func (c *Client) Leads(ctx context.Context) (bool, error) {
	ctx, cancel := timeout(ctx, "ROLE", callTimeout)
	defer cancel()
	role, err := c.rdb.Do(ctx, "ROLE").Slice()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return false, fmt.Errorf("ROLE: %w: %w", redis.ErrNotRunning, err)
	case err != nil:
		return false, fmt.Errorf("ROLE: %w", err)
	}
	return len(role) > 0 && role[0] == "master", nil
}

// HoldWrites sends CLIENT PAUSE.
func (c *Client) HoldWrites(ctx context.Context, d time.Duration) error {
	return c.do(ctx, "CLIENT", "PAUSE", d.Milliseconds(), "WRITE")
}

// ReleaseWrites sends CLIENT UNPAUSE.
func (c *Client) ReleaseWrites(ctx context.Context) error { return c.do(ctx, "CLIENT", "UNPAUSE") }

// Uphold sends CLUSTER BUMPEPOCH.
func (c *Client) Uphold(ctx context.Context) error { return c.do(ctx, "CLUSTER", "BUMPEPOCH") }

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
