package controllers

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// clientIdle is how long a client that nobody asks for is kept: several polls of a settled cluster.
const clientIdle = time.Minute

// clientKey tells clients apart by everything that they were made from.
type clientKey struct {
	pod    types.UID
	ip     string
	access [sha256.Size]byte
}

// clientPool keeps the clients of members between passes, so that a settled cluster costs no handshakes.
type clientPool struct {
	mu   sync.Mutex
	open map[clientKey]*pooledClient
}

type pooledClient struct {
	client etcd.Client
	used   time.Time
}

// get returns the client for a key, made by open when there is none.
func (p *clientPool) get(key clientKey, now time.Time, open func() etcd.Client) etcd.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[clientKey]*pooledClient{}
	}
	c, ok := p.open[key]
	if !ok {
		c = &pooledClient{client: open()}
		p.open[key] = c
	}
	c.used = now
	return c.client
}

// sweep closes the clients that nobody has asked for.
func (p *clientPool) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, c := range p.open {
		if now.Sub(c.used) > clientIdle {
			_ = c.client.Close() // Nothing is lost with a connection that nobody uses.
			delete(p.open, key)
		}
	}
}
