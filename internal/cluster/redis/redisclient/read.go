package redisclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// Read asks everything in one round trip, as the first user that the server lets in. It ends with redis.ErrHangs when the server takes the
// connection and does not answer in time.
func (c *Client) Read(ctx context.Context) (*model.Node, error) {
	began := time.Now()
	n, err := c.readAsSomebody(ctx)
	if err != nil && c.hangs(err, time.Since(began)) {
		return nil, fmt.Errorf("%w: %w", steps.ErrHangs, err)
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

func (c *Client) readAsSomebody(ctx context.Context) (*model.Node, error) {
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

func (c *Client) read(ctx context.Context) (*model.Node, error) {
	ctx, cancel := timeout(ctx, "read", callTimeout)
	defer cancel()
	pipe := c.rdb.Pipeline()
	identity := identify(ctx, pipe, c.options.Replicated, cmp.Or(c.options.Topology, model.NewTopology()))
	user := pipe.Do(ctx, "ACL", "GETUSER", acl.UserReplication)
	users := pipe.Do(ctx, "ACL", "LIST")
	config := goredis.NewMapStringStringCmd(ctx, configGet...)
	_ = pipe.Process(ctx, config) // It is only put in line; what becomes of it is in the command.
	auth := goredis.NewMapStringStringCmd(ctx, "CONFIG", "GET", "masteruser", "masterauth")
	_ = pipe.Process(ctx, auth)
	announces := goredis.NewMapStringStringCmd(ctx, announceGet...)
	var migrations func() ([]model.Migration, bool, error)
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
		n.Config[name] = redisconfig.Normal(name, value)
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
	configGet   = getAll(append(redisconfig.LiveParameters(), redisconfig.SlotStatsParameter))
	announceGet = getAll(model.AnnounceParameters)
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
func listed(users *goredis.Cmd) ([]acl.User, error) {
	if err := users.Err(); err != nil && denied(err) {
		return nil, nil
	}
	lines, err := users.StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read answer to ACL LIST: %w", err)
	}
	return acl.ParseUsers(lines)
}

// admissionOf reads the flags, with "on" or "off" among them, and the channels out of the answer to ACL GETUSER.
func admissionOf(user *goredis.Cmd) (model.Admission, error) {
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
		return model.AdmitsNobody, nil
	case slices.Contains(strings.Fields(channels), acl.AdmitsMark):
		return model.AdmitsForGood, nil
	}
	return model.AdmitsForNow, nil
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
	return values["masteruser"], acl.Hash(values["masterauth"]), nil
}
