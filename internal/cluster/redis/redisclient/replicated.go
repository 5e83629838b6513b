package redisclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// announcedHost is the parameter that holds the name of a server's pod. It has no part in the mode Replicated but to tell who
// answers.
const announcedHost = "cluster-announce-hostname"

// identify asks a server who it is and how it stands to the others. What it returns reads the answers.
func identify(ctx context.Context, pipe goredis.Pipeliner, replicated bool, topology *model.Topology) func() (*model.Node, error) {
	info := pipe.Do(ctx, "INFO", "SERVER", "REPLICATION", "PERSISTENCE", "STATS", "KEYSPACE", "MEMORY")
	if replicated {
		host := pipe.ConfigGet(ctx, announcedHost)
		return func() (*model.Node, error) {
			text, err := texts(info)
			if err != nil {
				return nil, err
			}
			if err := host.Err(); err != nil {
				return nil, fmt.Errorf("read answer to CONFIG GET: %w", err)
			}
			return model.ParseReplicated(host.Val()[announcedHost], text[0])
		}
	}
	id := pipe.Do(ctx, "CLUSTER", "MYID")
	nodes := pipe.Do(ctx, "CLUSTER", "NODES")
	clusterInfo := pipe.Do(ctx, "CLUSTER", "INFO")
	return func() (*model.Node, error) {
		text, err := texts(id, nodes, clusterInfo, info)
		if err != nil {
			return nil, err
		}
		return topology.ParseNode(text[0], text[1], text[2], text[3])
	}
}

func texts(commands ...*goredis.Cmd) ([]string, error) {
	out := make([]string, len(commands))
	for i, cmd := range commands {
		var err error
		if out[i], err = cmd.Text(); err != nil {
			return nil, fmt.Errorf("read answer to %s: %w", cmd.Name(), err)
		}
	}
	return out, nil
}

// undecided is for how long a hand-over may go on that nobody waits for any more.
const undecided = 2 * time.Second

// Promote sends REPLICAOF NO ONE to a server that still has the history it was chosen for: one that has another by now has handed over to who leads
// with that. A server that hands over to one that is gone goes on trying: it is told to give up, which makes it the primary as well.
func (c *Client) Promote(ctx context.Context, history string) error {
	for began := time.Now(); time.Since(began) < undecided; pause(ctx, failoverPoll) {
		now, err := c.handingOver(ctx)
		switch {
		case err != nil:
			return err
		case now.Busy:
			continue
		case now.History != history:
			return fmt.Errorf("it has the history %s by now, and was chosen for %s", now.History, history)
		}
		return c.do(ctx, "REPLICAOF", "NO", "ONE")
	}
	return c.do(ctx, "FAILOVER", "ABORT")
}

// ReplicaOf sends REPLICAOF.
func (c *Client) ReplicaOf(ctx context.Context, addr model.Address) error {
	return c.do(ctx, "REPLICAOF", addr.IP, addr.Port)
}

// Replicas say once a second how far they have got, and a primary that hands over holds its clients until it has heard that.
const (
	ackPeriod = time.Second
	ackPoll   = 10 * time.Millisecond
	// ackMargin is how long before the next word of the replica the hand-over begins: the servers keep time to about 100 ms.
	ackMargin = 120 * time.Millisecond
)

// FailoverTo sends FAILOVER TO shortly before the replica says how far it has got, and watches the role until the server is a
// replica. The server holds its clients until the replica has everything, at most as long as a planned failover may take, and
// otherwise goes on as the primary.
// https://redis.io/docs/latest/commands/failover/
func (c *Client) FailoverTo(ctx context.Context, addr model.Address) error {
	if err := c.awaitAck(ctx, addr); err != nil {
		return err
	}
	ctx, cancel := timeout(ctx, "failover", failoverTimeout)
	defer cancel()
	limit := failoverTimeout - time.Second
	if err := c.do(ctx, "FAILOVER", "TO", addr.IP, addr.Port, "TIMEOUT", limit.Milliseconds()); err != nil {
		return err
	}
	tick := time.NewTicker(failoverPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the primary did not hand over: %w", context.Cause(ctx))
		case <-tick.C:
		}
		over, err := c.handedOver(ctx)
		if err != nil || over {
			return err
		}
	}
}

// awaitAck returns when the next word of a replica is due. Where none comes, because nothing is written, it does not wait for it.
func (c *Client) awaitAck(ctx context.Context, addr model.Address) error {
	ctx, cancel := timeout(ctx, "acknowledgement", 2*ackPeriod)
	defer cancel()
	first, began := int64(-1), time.Now()
	for time.Since(began) < ackPeriod {
		text, err := c.rdb.Info(ctx, "REPLICATION").Result()
		if err != nil {
			return fmt.Errorf("INFO: %w", err)
		}
		offset := model.ParseAck(text, addr)
		if first >= 0 && offset != first {
			pause(ctx, ackPeriod-ackMargin)
			return nil
		}
		first = offset
		pause(ctx, ackPoll)
	}
	return nil
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// handedOver tells whether a server that hands over has become a replica; an error when it has given up.
func (c *Client) handedOver(ctx context.Context) (bool, error) {
	now, err := c.handingOver(ctx)
	switch {
	case err != nil || now.Busy:
		return false, err
	case now.Primary:
		return false, errors.New("the primary gave up handing over, and goes on")
	}
	return true, nil
}

func (c *Client) handingOver(ctx context.Context) (model.HandingOver, error) {
	text, err := c.rdb.Info(ctx, "REPLICATION").Result()
	if err != nil {
		return model.HandingOver{}, fmt.Errorf("INFO: %w", err)
	}
	return model.ParseHandOver(text), nil
}
