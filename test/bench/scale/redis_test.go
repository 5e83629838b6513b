package scale

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// most of the time that passes for servers in memory between two commands: whatever they were about to do is done by then.
const most = 20

// redisCluster is the servers of one cluster. For them time passes only when one of them is asked.
type redisCluster struct {
	mu      sync.Mutex
	net     *redisfake.Network
	asked   time.Time
	servers map[string]*redisfake.Server
	// secrets are what the auth Secret has, fingerprint is that of the certificate.
	secrets     map[string]string
	fingerprint string
}

func newRedisCluster(seed uint64) *redisCluster {
	c := &redisCluster{servers: map[string]*redisfake.Server{}, asked: time.Now()}
	c.net = redisfake.NewNetwork(15*time.Second, rand.New(rand.NewPCG(seed, 1))) // It is to be repeatable.
	c.net.Gate = func(s *redisfake.Server) []acl.User {
		pod, _, _ := strings.Cut(s.Host, ".")
		s.ReplicationPassword = acl.Hash(acl.ShardPassword(c.secrets[acl.PasswordReplication], pod))
		users, err := acl.Access{Passwords: c.secrets}.Users(pod, software.Release{Engine: "redis", Version: s.Version})
		if err != nil {
			panic(err) // The pod is started when the Secret is complete.
		}
		return users
	}
	c.net.Mounted = func(*redisfake.Server) string { return c.fingerprint }
	return c
}

// pass lets time pass.
func (c *redisCluster) pass() {
	for range min(int(time.Since(c.asked)/redisfake.Cron), most) {
		c.net.Tick()
	}
	c.asked = time.Now()
}

// redisConn is one connection to a server.
type redisConn struct {
	cluster *redisCluster
	server  *redisfake.Server
	// masterauth is the password that the server copies with, when it was told one.
	masterauth *string

	in  *bufio.Reader
	out *bufio.Writer
	// user is who has logged in.
	user string
	// queued are the commands of a transaction that has begun.
	queued  [][]string
	queuing bool
}

// serveRedis answers the commands of one connection, until it ends.
func serveRedis(cluster *redisCluster, server *redisfake.Server, masterauth *string) func(net.Conn) {
	return func(conn net.Conn) {
		c := &redisConn{cluster: cluster, server: server, masterauth: masterauth, in: bufio.NewReader(conn), out: bufio.NewWriter(conn)}
		for {
			args, err := c.read()
			if err != nil {
				return
			}
			c.answer(args)
			if c.in.Buffered() == 0 && c.out.Flush() != nil {
				return
			}
		}
	}
}

// read reads a command: an array of strings. https://redis.io/docs/latest/develop/reference/protocol-spec/
func (c *redisConn) read() ([]string, error) {
	n, err := c.length('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := c.length('$')
		if err != nil {
			return nil, err
		}
		raw := make([]byte, size+2)
		if _, err := io.ReadFull(c.in, raw); err != nil {
			return nil, err
		}
		args[i] = string(raw[:size])
	}
	return args, nil
}

func (c *redisConn) length(kind byte) (int, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q is no %q", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func (c *redisConn) say(format string, args ...any) { _, _ = fmt.Fprintf(c.out, format, args...) }

func (c *redisConn) text(s string) { c.say("$%d\r\n%s\r\n", len(s), s) }

func (c *redisConn) done(err error) {
	if err != nil {
		c.say("-%s\r\n", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	c.say("+OK\r\n")
}

// answer carries out a command. Those of a transaction are answered together.
func (c *redisConn) answer(args []string) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.cluster.pass()
	switch name := strings.ToUpper(args[0]); {
	case name == "MULTI":
		c.queuing, c.queued = true, nil
		c.say("+OK\r\n")
	case name == "EXEC":
		c.queuing = false
		c.say("*%d\r\n", len(c.queued))
		for _, each := range c.queued {
			c.command(each)
		}
	case c.queuing:
		c.queued = append(c.queued, args)
		c.say("+QUEUED\r\n")
	case c.user == "" && name != "HELLO":
		c.say("-NOAUTH Authentication required.\r\n")
	default:
		c.command(args)
	}
}

// command answers one command that the operator sends. One that it does not send is unknown.
func (c *redisConn) command(args []string) {
	name := strings.ToUpper(args[0])
	if len(args) > 1 && slices.Contains([]string{"CLUSTER", "ACL", "CONFIG"}, name) {
		name += " " + strings.ToUpper(args[1])
		args = args[1:]
	}
	if run := commands[name]; run != nil {
		run(c, args[1:])
		return
	}
	c.say("-ERR unknown subcommand '%s'\r\n", name)
}

var commands map[string]func(c *redisConn, args []string)

func init() {
	ctx := context.Background()
	commands = map[string]func(c *redisConn, args []string){
		"HELLO":        (*redisConn).hello,
		"INFO":         func(c *redisConn, _ []string) { c.about(func(n *model.Node) { c.text(infoText(n)) }) },
		"ROLE":         func(c *redisConn, _ []string) { c.role() },
		"CLUSTER MYID": func(c *redisConn, _ []string) { c.text(c.server.ID) },
		"CLUSTER NODES": func(c *redisConn, _ []string) {
			c.about(func(n *model.Node) { c.text(nodesText(n, time.Since(c.cluster.net.Now()))) })
		},
		"CLUSTER INFO": func(c *redisConn, _ []string) {
			c.text("cluster_state:" + map[bool]string{true: "ok", false: "fail"}[c.server.StateOK()] + "\r\n")
		},
		"ACL GETUSER": func(c *redisConn, _ []string) {
			c.about(func(n *model.Node) {
				state := map[model.Admission][2]string{
					model.AdmitsNobody: {"off", ""}, model.AdmitsForNow: {"on", ""}, model.AdmitsForGood: {"on", acl.AdmitsMark},
				}[n.Admits]
				c.say("%%2\r\n+flags\r\n*1\r\n+%s\r\n+channels\r\n+%s\r\n", state[0], state[1])
			})
		},
		"ACL LIST": (*redisConn).users,
		"ACL SETUSER": func(c *redisConn, args []string) {
			if args[0] == acl.UserReplication && len(args) <= 4 {
				switch {
				case args[1] == "off":
					c.say("+OK\r\n") // It is off in the file, as those are that SetUsers writes.
				case slices.Contains(args, acl.AdmitsMark):
					c.done(c.server.AdmitReplicas(ctx, model.AdmitsForGood))
				default:
					c.done(c.server.AdmitReplicas(ctx, model.AdmitsForNow))
				}
				return
			}
			users, err := acl.ParseUsers([]string{"user " + strings.Join(args, " ")})
			if err == nil {
				err = c.server.SetUsers(ctx, users, model.AdmitsNobody)
			}
			c.done(err)
		},
		"ACL SAVE":   func(c *redisConn, _ []string) { c.say("+OK\r\n") },
		"CONFIG GET": (*redisConn).configGet,
		"CONFIG SET": (*redisConn).configSet,
		"CLUSTER SET-CONFIG-EPOCH": func(c *redisConn, args []string) {
			epoch, err := strconv.ParseUint(args[0], 10, 64)
			if err == nil {
				err = c.server.SetConfigEpoch(ctx, epoch)
			}
			c.done(err)
		},
		"CLUSTER MEET": func(c *redisConn, args []string) {
			port, err := strconv.Atoi(args[1])
			if err == nil {
				err = c.server.Meet(ctx, model.Address{IP: args[0], Port: port}, 0)
			}
			c.done(err)
		},
		"CLUSTER ADDSLOTSRANGE": func(c *redisConn, args []string) {
			var slots []redisslots.Range
			for pair := range slices.Chunk(args, 2) {
				r, err := redisslots.ParseRange(strings.Join(pair, "-"))
				if err != nil {
					c.done(err)
					return
				}
				slots = append(slots, r)
			}
			c.done(c.server.AddSlots(ctx, redisslots.New(slots...)))
		},
		"CLUSTER REPLICATE": func(c *redisConn, args []string) { c.done(c.server.Replicate(ctx, args[0])) },
		"CLUSTER FORGET":    func(c *redisConn, args []string) { c.done(c.server.Forget(ctx, args[0])) },
		"CLUSTER FAILOVER": func(c *redisConn, args []string) {
			c.done(c.server.Failover(ctx, steps.FailoverMode(strings.Join(args, ""))))
		},
	}
}

// hello logs in: HELLO 3 AUTH user password.
func (c *redisConn) hello(args []string) {
	if i := slices.Index(args, "auth"); i >= 0 && len(args) > i+2 && lets(c.server, args[i+1], args[i+2]) {
		c.user = args[i+1]
		c.say("%%1\r\n+proto\r\n:3\r\n")
		return
	}
	c.say("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
}

func lets(s *redisfake.Server, user, password string) bool {
	return slices.ContainsFunc(s.Users, func(u acl.User) bool {
		return u.Name == user && (u.NoPassword || slices.Contains(u.Passwords, acl.Hash(password)))
	})
}

// about reads what the server says of itself.
func (c *redisConn) about(say func(*model.Node)) {
	n, err := c.server.Read(context.Background())
	if err != nil {
		c.done(err)
		return
	}
	say(n)
}

func (c *redisConn) role() {
	role := "master"
	if c.server.Primary() != "" {
		role = "slave"
	}
	c.say("*1\r\n+%s\r\n", role)
}

func (c *redisConn) users([]string) {
	lines := strings.Split(strings.TrimSpace(acl.UsersText(c.server.Users, false)), "\n")
	c.say("*%d\r\n", len(lines))
	for _, line := range lines {
		c.text(line)
	}
}

func (c *redisConn) configGet(names []string) {
	have := map[string]string{}
	for _, name := range names {
		switch value, ok := c.server.Config[name]; {
		case name == "masteruser":
			have[name] = acl.UserReplication
		case name == "masterauth":
			have[name] = *c.masterauth
		case slices.Contains(model.AnnounceParameters, name):
			have[name] = c.server.Announces[name]
		case ok:
			have[name] = value
		}
	}
	c.say("%%%d\r\n", len(have))
	for name, value := range have {
		c.text(name)
		c.text(value)
	}
}

func (c *redisConn) configSet(args []string) {
	values := map[string]string{}
	for pair := range slices.Chunk(args, 2) {
		switch pair[0] {
		case "masteruser", "tls-cert-file", "tls-key-file", "tls-ca-cert-file":
		case "masterauth":
			*c.masterauth = pair[1]
			c.server.ReplicationPassword = acl.Hash(pair[1])
		default:
			values[pair[0]] = pair[1]
		}
	}
	c.done(c.server.Configure(context.Background(), values))
}

// infoText is the answer to INFO.
func infoText(n *model.Node) string {
	var b strings.Builder
	say := func(key string, value any) { _, _ = fmt.Fprintf(&b, "%s:%v\r\n", key, value) }
	say("redis_version", n.Version)
	say("run_id", n.Process)
	say("server_time_usec", time.Now().UnixMicro())
	say("loading", 0)
	for key, value := range map[string]int{"aof_enabled": 1, "aof_rewrite_in_progress": 0, "aof_rewrite_scheduled": 0} {
		say(key, value)
	}
	say("aof_last_bgrewrite_status", map[bool]string{true: "ok", false: "err"}[n.OnDisk])
	say("used_memory", 2<<20)
	say("used_memory_startup", 1<<20)
	say("used_memory_rss", 8<<20)
	say("maxmemory", 0)
	say("maxmemory_policy", "noeviction")
	say("total_commands_processed", 1)
	say("master_repl_offset", n.Offset)
	if self := n.Self(); self.Replica {
		say("role", "slave")
		say("slave_repl_offset", n.Offset)
		say("master_link_status", map[bool]string{true: "up", false: "down"}[n.LinkUp])
		if i := slices.IndexFunc(n.Peers, func(p model.Peer) bool { return p.ID == self.PrimaryID }); i >= 0 {
			say("master_host", n.Peers[i].Addr.IP)
			say("master_port", n.Peers[i].Addr.Port)
		}
		if !n.LinkUp {
			down := -1
			if n.EverLinked {
				down = int(n.LinkDown.Seconds())
			}
			say("master_link_down_since_seconds", down)
		}
	} else {
		say("role", "master")
		for i := range n.Copies {
			say("slave"+strconv.Itoa(i), "ip=127.0.0.1,port=6379,state=online,offset=1,lag=0")
		}
	}
	if n.Keys > 0 {
		say("db0", fmt.Sprintf("keys=%d,expires=0,avg_ttl=0", n.Keys))
	}
	return b.String()
}

// nodesText is the answer to CLUSTER NODES. Times of the network are that much before those of the clock.
func nodesText(n *model.Node, before time.Duration) string {
	var b strings.Builder
	for _, p := range n.Peers {
		flags := []string{map[bool]string{true: "slave", false: "master"}[p.Replica]}
		for flag, is := range map[string]bool{"myself": p.Myself, "fail?": p.Failing, "fail": p.Failed, "handshake": p.Handshake, "noaddr": p.NoAddr} {
			if is {
				flags = append(flags, flag)
			}
		}
		primary, pong := p.PrimaryID, int64(0)
		if primary == "" {
			primary = "-"
		}
		if !p.Answered.IsZero() {
			pong = p.Answered.Add(before).UnixMilli()
		}
		_, _ = fmt.Fprintf(&b, "%s %s:%d@%d,%s %s %s 0 %d %d connected", p.ID, p.Addr.IP, p.Addr.Port, p.Addr.Port+10000, p.Host,
			strings.Join(flags, ","), primary, pong, p.Epoch)
		for _, r := range p.Slots {
			_, _ = fmt.Fprintf(&b, " %d-%d", r.From, r.To)
		}
		b.WriteString("\n")
	}
	return b.String()
}
