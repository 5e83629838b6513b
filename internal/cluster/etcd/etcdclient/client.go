// Package etcdclient implements etcd.Client with the official Go client. It translates calls and answers, and decides
// nothing.
package etcdclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/login"
)

// bufferSize of a connection, each way, in bytes. gRPC takes 32 KiB by default.
const bufferSize = 4 << 10

// maxMembers bounds the member list: the planner compares members with each other. etcd recommends
// seven, and the API allows nine.
const maxMembers = 64

// silence is after which time without a word a member that is to answer is asked whether it is there. That is waited for half as long.
const silence = 10 * time.Second

// tokenLife is how long a token of ours is good for: as long as those of the members.
const tokenLife = time.Hour

// errLearner is what a learner answers to all but questions for its status and for what it has itself.
var errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// Config says how to reach one member and as whom.
type Config struct {
	// Host is the name in the member's certificate.
	Host string
	// TLS is nil for plain text. The server name is filled in.
	TLS *tls.Config
	// Password of root. It is not used when the certificate in TLS is root's own: that needs no quorum, and works
	// whether authentication is on or not.
	Password string
	// Former password of root, used where Password is refused: etcd may not have got the new one yet. Empty: there is none.
	Former string
	// SigningKey is what members sign tokens with. A learner lets nobody log in, and whoever has only the password is let in there
	// by a token. Empty: there is none.
	SigningKey string
	// Dial connects to the client port of the member.
	Dial func(ctx context.Context) (net.Conn, error)
	// Called is told of every RPC by its name, and of every connection as dial: how long it took, and with which error it ended.
	// Nil: nobody wants to know.
	Called func(call string, took time.Duration, err error)
	// Now is the clock by which a refused password is held back. Nil: that of the machine.
	Now func() time.Time
}

// called is told how a call went that began at a time.
func (c Config) called(call string, began time.Time, err error) {
	if c.Called != nil {
		c.Called(call, time.Since(began), err)
	}
}

// dial connects.
func (c Config) dial(ctx context.Context, _ string) (net.Conn, error) {
	began := time.Now()
	conn, err := c.Dial(ctx)
	c.called("dial", began, err)
	return conn, err
}

// unary makes one RPC. The name of its method is the last part of what gRPC calls it.
func (c Config) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	began := time.Now()
	err := invoke(ctx, method, request, reply, conn, opts...)
	c.called(path.Base(method), began, err)
	return err
}

// Client talks to one member. Connections are made at the first call.
type Client struct {
	cfg Config
	// refusals holds back what the member refused. With TLS it holds nothing: the member proves its identity first.
	refusals login.Server

	mu   sync.Mutex
	conn *clientv3.Client
	// byToken says that the connection was made with a token.
	byToken bool
}

var _ model.Client = (*Client)(nil)

// New returns a client. It connects lazily, so it cannot fail.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg}
	if cfg.Now == nil {
		c.cfg.Now = time.Now
	}
	if cfg.TLS == nil {
		c.refusals = login.Server{Refusals: &login.Refusals{}, Process: cfg.Host, Now: c.cfg.Now}
	}
	return c
}

// IsRoot reports whether the certificate of a TLS configuration makes its holder etcd's root.
func IsRoot(cfg *tls.Config) bool {
	return cfg != nil && len(cfg.Certificates) > 0 && cfg.Certificates[0].Leaf != nil &&
		cfg.Certificates[0].Leaf.Subject.CommonName == model.RootUser
}

// Close releases the connection.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn, c.byToken = nil, false
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
