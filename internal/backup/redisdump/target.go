package redisdump

import (
	"context"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
)

// Target is what keys are loaded into: IntoCluster or IntoServer.
//
// Its user needs +restore (or +restore-asking), +info, and +function|load where there are functions, for all keys. A value may take its
// server seconds, so that the client's ReadTimeout and WriteTimeout should be a minute; its ContextTimeoutEnabled lets a load that is
// cancelled end at once.
type Target interface {
	// node is the server that takes a key.
	node(ctx context.Context, key []byte) (*goredis.Client, error)
	// primaries calls a function with each server that takes keys.
	primaries(ctx context.Context, each func(ctx context.Context, c *goredis.Client) error) error
	// refresh makes node look again.
	refresh(ctx context.Context)
	// redirected carries out a command that a server has sent on to another one.
	redirected(ctx context.Context, cmd goredis.Cmder) error
}

// IntoCluster loads into the servers of a cluster, each key into the one that has its slot.
func IntoCluster(c *goredis.ClusterClient) Target { return cluster{c} }

// IntoServer loads all keys into one server. That may be one of a cluster, if slots are chosen that it has or imports.
func IntoServer(c *goredis.Client) Target { return server{c} }

type cluster struct{ client *goredis.ClusterClient }

// inSlotZero is a key in the slot of the empty key, for which the client would take any server.
var inSlotZero = sync.OnceValue(func() string {
	for i := 0; ; i++ {
		if key := strconv.Itoa(i); Slot([]byte(key)) == 0 {
			return key
		}
	}
})

func (t cluster) node(ctx context.Context, key []byte) (*goredis.Client, error) {
	if len(key) == 0 {
		return t.client.MasterForKey(ctx, inSlotZero())
	}
	return t.client.MasterForKey(ctx, string(key))
}

func (t cluster) primaries(ctx context.Context, each func(ctx context.Context, c *goredis.Client) error) error {
	return t.client.ForEachMaster(ctx, each)
}

func (t cluster) refresh(ctx context.Context) { t.client.ReloadState(ctx) }

func (t cluster) redirected(ctx context.Context, cmd goredis.Cmder) error {
	return t.client.Process(ctx, cmd)
}

type server struct{ client *goredis.Client }

func (t server) node(context.Context, []byte) (*goredis.Client, error) { return t.client, nil }

func (t server) primaries(ctx context.Context, each func(ctx context.Context, c *goredis.Client) error) error {
	return each(ctx, t.client)
}

func (server) refresh(context.Context) {}

func (t server) redirected(ctx context.Context, cmd goredis.Cmder) error {
	return t.client.Process(ctx, cmd)
}

// databases are clients of other databases than the one that a client was made for. A connection is never switched from one to another:
// if that failed, keys would be written to the wrong one.
type databases struct {
	mu      sync.Mutex
	clients map[database]*goredis.Client
}

type database struct {
	server *goredis.Client
	number int
}

func (d *databases) of(c *goredis.Client, number int) *goredis.Client {
	if c.Options().DB == number {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.clients[database{c, number}]; known != nil {
		return known
	}
	if d.clients == nil {
		d.clients = map[database]*goredis.Client{}
	}
	made := redisclient.ForDatabase(c, number)
	d.clients[database{c, number}] = made
	return made
}

func (d *databases) close() {
	for _, c := range d.clients {
		_ = c.Close() // Nothing is under way any more.
	}
}
