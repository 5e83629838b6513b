package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Files in the directory of passwords of an external cluster.
const (
	fileUsername = "username"
	filePassword = "password"
)

// secureExternal goes by the scheme of the URLs, whatever else there is.
func (s *redisServers) secureExternal() {
	switch {
	case s.external[0].Scheme == "redis":
		s.secure = nil
	case s.secure == nil: // The authorities of the system are to know the certificates.
		s.secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
}

// word is what one of the files says.
func (s *redisServers) word(file string) string {
	return strings.TrimRight(s.access.Passwords[file], "\r\n")
}

// copies is who copies a server.
func (s *redisServers) copies(from redisServer) (username, password string) {
	if len(s.external) > 0 {
		return s.word(fileUsername), s.word(filePassword)
	}
	return acl.UserReplication, s.access.ReplicationPassword(from.pod)
}

// discover finds the servers of an external cluster: in cluster mode by what the first one says that answers, otherwise they are those
// that the URLs name.
func (s *redisServers) discover(ctx context.Context) error {
	s.servers = nil
	var errs []error
	for _, u := range s.external {
		told, err := s.askExternal(ctx, redisServer{pod: u.Host, addr: u.Host})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", u.Host, err))
		case told.node.Replication == nil:
			s.replicated = false
			return s.follow(u.Hostname(), slices.Collect(told.node.All()))
		default:
			s.replicated = true
			s.servers = append(s.servers, redisServer{pod: u.Host, addr: u.Host})
		}
	}
	if len(s.servers) == 0 {
		return fmt.Errorf("no server answers: %w", errors.Join(errs...))
	}
	return nil
}

// follow notes the servers of a cluster, as one of them knows them that was reached as host. Shards are numbered in the order of their slots.
func (s *redisServers) follow(host string, peers []model.Peer) error {
	s.servers, s.names = nil, map[string]string{}
	owners := slices.DeleteFunc(slices.Clone(peers), func(p model.Peer) bool { return p.Replica || len(p.Slots) == 0 })
	slices.SortFunc(owners, func(a, b model.Peer) int { return cmp.Compare(a.Slots[0].From, b.Slots[0].From) })
	for _, p := range peers {
		owner := p.ID
		if p.Replica {
			owner = p.PrimaryID
		}
		shard := slices.IndexFunc(owners, func(o model.Peer) bool { return o.ID == owner })
		if shard < 0 || p.NoAddr || p.Handshake || p.Failed {
			continue
		}
		addr := net.JoinHostPort(cmp.Or(p.Addr.IP, host), strconv.Itoa(p.Addr.Port)) // One that nobody has met does not know its own.
		s.names[addr] = cmp.Or(p.Host, host)
		s.servers = append(s.servers, redisServer{shard: shard, pod: addr, addr: addr})
	}
	if len(s.servers) == 0 {
		return errors.New("no server owns any slot")
	}
	return nil
}

// askExternal asks a server that the operator knows nothing of, and has no users of its own in.
func (s *redisServers) askExternal(ctx context.Context, server redisServer) (redisView, error) {
	v := redisView{redisServer: server}
	c := s.client(server.addr, s.word(fileUsername), s.word(filePassword))
	defer func() { _ = c.Close() }()
	info, err := c.Info(ctx).Result()
	if err != nil {
		return redisView{}, fmt.Errorf("ask for its state: %w", err)
	}
	if v.candidate, err = redisdump.ParseCandidate(server.pod, info); err != nil {
		return redisView{}, err
	}
	if strings.Contains(info, "cluster_enabled:1") {
		v.node, err = askClustered(ctx, c, info)
	} else {
		v.node, err = model.ParseReplicated(server.pod, info)
	}
	if err != nil {
		return redisView{}, err
	}
	users, err := c.ACLList(ctx).Result()
	if err != nil && !goredis.HasErrorPrefix(err, "NOPERM") {
		return redisView{}, fmt.Errorf("ask for its users: %w", err)
	}
	v.users = acl.PublicUsers(users)
	return v, nil
}

func askClustered(ctx context.Context, c *goredis.Client, info string) (*model.Node, error) {
	pipe := c.Pipeline()
	id, nodes, state := pipe.ClusterMyID(ctx), pipe.ClusterNodes(ctx), pipe.ClusterInfo(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("ask for the cluster: %w", err)
	}
	return model.ParseNode(id.Val(), nodes.Val(), state.Val(), info)
}
