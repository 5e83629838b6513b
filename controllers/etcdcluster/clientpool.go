package etcdcluster

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// clientIdle is how long a client is kept that no pass uses: several polls of a settled cluster.
const clientIdle = time.Minute

// MemberClient talks to a member about its cluster, and about the users.
type MemberClient interface {
	model.Client
	users.Client
}

// clientKey tells clients apart by everything that they were made from.
type clientKey struct {
	pod    types.UID
	ip     string
	access [sha256.Size]byte
}

// clientPool keeps the clients of members between passes, so that a settled cluster costs no handshakes.
type clientPool struct {
	mu   sync.Mutex
	idle time.Duration
	open map[clientKey]*pooledClient
}

type pooledClient struct {
	client MemberClient
	// users are the passes that were given the client and have not ended.
	users int
	// expiry closes the client when no pass has used it for long enough.
	expiry *time.Timer
}

func newClientPool(idle time.Duration) *clientPool {
	return &clientPool{idle: idle, open: map[clientKey]*pooledClient{}}
}

// get returns the client for a key, made by open when there is none. It stays open while ctx is not
// done, however long a call takes.
func (p *clientPool) get(ctx context.Context, key clientKey, open func() MemberClient) MemberClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.open[key]
	if !ok {
		c = &pooledClient{client: open()}
		p.open[key] = c
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.users++
	context.AfterFunc(ctx, func() { p.release(key, c) })
	return c.client
}

// release starts to wait for the next user of a client, when its last one has ended.
func (p *clientPool) release(key clientKey, c *pooledClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users == 0 {
		c.expiry = time.AfterFunc(p.idle, func() { p.expire(key, c) })
	}
}

// expire closes and forgets a client, unless it was given to a pass after all.
func (p *clientPool) expire(key clientKey, c *pooledClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users > 0 || p.open[key] != c {
		return
	}
	delete(p.open, key)
	_ = c.client.Close() // Nothing is lost with a connection that nobody uses.
}
