package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// askServerTimeout bounds the question to one server.
	askServerTimeout = 5 * time.Second
	// valueTimeout bounds one command that loads values, of which one may be half a gigabyte.
	valueTimeout = time.Minute
)

// redisServers are the servers of a cluster, and what it takes to be let in.
type redisServers struct {
	servers         []redisServer
	replicated      bool
	tlsDir, authDir string
	// external are the URLs of some servers of a cluster that the operator does not run: see external_redis.go.
	external []*url.URL

	secure *tls.Config
	access acl.Access
	// names in certificates, by addresses that are not.
	names map[string]string
}

// redisServer is one of them.
type redisServer struct {
	shard     int
	pod, addr string
}

// redisView is what a server said of itself.
type redisView struct {
	redisServer
	node      *model.Node
	candidate redisdump.Candidate
	// users are those that clients connect as, in the terms of ACL LIST, without passwords.
	users []string
}

func (s *redisServers) flags(fs *flag.FlagSet) {
	fs.Func("server", "shard/host:port of a server; repeat for every one", func(text string) error {
		shard, addr, ok := strings.Cut(text, "/")
		n, err := strconv.Atoi(shard)
		if !ok || err != nil {
			return errors.New("write shard/host:port")
		}
		pod, _, _ := strings.Cut(addr, ".")
		s.servers = append(s.servers, redisServer{n, pod, addr})
		return nil
	})
	fs.BoolVar(&s.replicated, "replicated", false, "whether there is one primary and no cluster protocol")
	fs.Func("external", "rediss://host:port or redis://host:port of a server that the operator does not run; repeat for more", func(text string) error {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		s.external = append(s.external, u)
		return nil
	})
	fs.StringVar(&s.tlsDir, "tls-dir", job.AccessTLSDir, "directory with ca.crt, and tls.crt and tls.key of a client, if there are any")
	fs.StringVar(&s.authDir, "auth-dir", job.AccessAuthDir, "directory with the passwords, and the name of the user of an external cluster")
}

// prepare reads the passwords and the certificate authority.
func (s *redisServers) prepare() error {
	if len(s.servers)+len(s.external) == 0 {
		return finalError{errors.New("at least one --server or --external is needed")}
	}
	passwords, err := readPasswords(s.authDir)
	if err != nil {
		return err
	}
	s.access = acl.Access{Passwords: passwords, Replicated: s.replicated}
	s.secure, err = clientTLS(s.tlsDir)
	if err == nil && len(s.external) > 0 {
		s.secureExternal()
	}
	return err
}

// dial connects to a server.
func (s *redisServers) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: askServerTimeout}
	if s.secure == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	cfg := s.secure.Clone()
	cfg.ServerName = s.names[addr] // Empty: what the address says.
	return (&tls.Dialer{NetDialer: &d, Config: cfg}).DialContext(ctx, "tcp", addr)
}

// client of a server, as one of the operator's users.
func (s *redisServers) client(addr, user, password string) *goredis.Client {
	return redisclient.NewBounded(goredis.Options{
		Addr: addr, Username: user, Password: password, DisableIdentity: true, ContextTimeoutEnabled: true,
		Dialer:      func(ctx context.Context, _, addr string) (net.Conn, error) { return s.dial(ctx, addr) },
		DialTimeout: askServerTimeout, ReadTimeout: valueTimeout, WriteTimeout: valueTimeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, resp.Agent())
}

// look asks all servers at the same time. It is an error when one does not answer, unless others of its shard do, or the shard has no slots: it is
// on its way in or out.
func (s *redisServers) look(ctx context.Context) ([]redisView, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*askServerTimeout, errors.New("it did not answer in time"))
	defer cancel()
	views := make([]redisView, len(s.servers))
	errs := goroutine.Each(len(s.servers), func(i int) (err error) {
		views[i], err = s.ask(ctx, s.servers[i])
		return err
	})
	var out []redisView
	for i, v := range views {
		if errs[i] == nil {
			out = append(out, v)
		} else {
			fmt.Printf("%s: %v\n", s.servers[i].pod, errs[i])
		}
	}
	for i, server := range s.servers {
		answered := func(v redisView) bool { return v.shard == server.shard }
		if errs[i] != nil && !slices.ContainsFunc(out, answered) && !haveAllSlots(out) {
			return nil, fmt.Errorf("no server of shard %d answers; %s: %w", server.shard, server.pod, errs[i])
		}
	}
	return out, nil
}

// haveAllSlots reports whether the servers have all slots, and none of them knows of another one that has any.
func haveAllSlots(views []redisView) bool {
	var owned []slots.Set
	for _, v := range views {
		owned = append(owned, v.node.Self().Slots)
		for p := range v.node.All() {
			if len(p.Slots) > 0 && !slices.ContainsFunc(views, func(v redisView) bool { return v.node.ID == p.ID }) {
				return false
			}
		}
	}
	return len(slots.Union(owned...).Missing()) == 0
}

func (s *redisServers) ask(ctx context.Context, server redisServer) (redisView, error) {
	if len(s.external) > 0 {
		return s.askExternal(ctx, server)
	}
	v := redisView{redisServer: server}
	var logins []redisclient.Login
	for _, p := range s.access.Works(acl.PasswordOperator) {
		logins = append(logins, redisclient.Login{Username: acl.UserOperator, Password: p})
	}
	options := redisclient.Options{
		Logins: logins, Replicated: s.replicated,
		Dial: func(ctx context.Context) (net.Conn, error) {
			d := net.Dialer{Timeout: askServerTimeout}
			return d.DialContext(ctx, "tcp", server.addr)
		},
	}
	if s.secure != nil {
		options.TLS = s.secure.Clone()
		options.TLS.ServerName, _, _ = net.SplitHostPort(server.addr)
	}
	c := redisclient.New(options)
	defer func() { _ = c.Close() }()
	var err error
	if v.node, err = c.Read(ctx); err != nil {
		return redisView{}, err
	}
	info := s.client(server.addr, acl.UserOperator, logins[0].Password)
	defer func() { _ = info.Close() }()
	text, err := info.Info(ctx).Result()
	if err != nil {
		return redisView{}, fmt.Errorf("ask for its replication: %w", err)
	}
	if v.candidate, err = redisdump.ParseCandidate(server.pod, text); err != nil {
		return redisView{}, err
	}
	users, err := info.ACLList(ctx).Result()
	if err != nil && !goredis.HasErrorPrefix(err, "NOPERM") { // A server that an earlier version of the operator started may not tell.
		return redisView{}, fmt.Errorf("ask for its users: %w", err)
	}
	v.users = acl.PublicUsers(users)
	return v, nil
}
