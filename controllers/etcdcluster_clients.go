package controllers

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// clientIdle is how long a client that nobody asks for is kept: several polls of a settled cluster, and far longer than
// any call.
const clientIdle = time.Minute

// memberClient talks to a member about its cluster, and about the users.
type memberClient interface {
	etcd.Client
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
	client memberClient
	// expiry closes the client when nobody has asked for it for long enough.
	expiry *time.Timer
}

func newClientPool(idle time.Duration) *clientPool {
	return &clientPool{idle: idle, open: map[clientKey]*pooledClient{}}
}

// get returns the client for a key, made by open when there is none.
func (p *clientPool) get(key clientKey, open func() memberClient) memberClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.open[key]
	if !ok || !c.expiry.Stop() {
		c = &pooledClient{client: open()}
		c.expiry = time.AfterFunc(p.idle, func() { p.expire(key, c) })
		p.open[key] = c
		return c.client
	}
	c.expiry.Reset(p.idle)
	return c.client
}

// expire closes a client, and forgets it unless another has taken its place.
func (p *clientPool) expire(key clientKey, c *pooledClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[key] == c {
		delete(p.open, key)
	}
	_ = c.client.Close() // Nothing is lost with a connection that nobody uses.
}
