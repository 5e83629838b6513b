package redisclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// moveTimeout bounds one round trip of a Mover, in which keys may be on their way.
	moveTimeout = 2 * time.Minute
	// askTimeout bounds one in which none are.
	askTimeout = 10 * time.Second
	// replicasWait is how long Valkey may wait for its replicas, with every slot.
	replicasWait = 2 * time.Second
	// sends is how many MIGRATEs are on their way to a source at the same time: with two it need not wait for the operator. More would
	// all be in its hands when the target hangs, and it would wait for one after the other, for they cannot be taken back.
	sends = 2
	// lanes is how many slots are set at the same time. Valkey answers only when the replicas have heard of it, too.
	lanes = 16
	// asked is how many commands are sent in a row that only ask for something.
	asked = 2000
	// inHand is of how many slots all keys are held in memory.
	inHand = 8
)

var _ steps.Mover = (*Client)(nil)

// NewMover returns a client that moves keys. It connects with the first command.
func NewMover(o Options) *Client {
	o.timeout, o.connections = moveTimeout, lanes
	return New(o)
}

// SetSlots sends CLUSTER SETSLOT for every slot.
func (c *Client) SetSlots(ctx context.Context, slots redisslots.Set, state model.SlotState, id string) error {
	count := slots.Count()
	each := (count + lanes - 1) / lanes
	var parts []redisslots.Set
	for len(slots) > 0 {
		part := slots.First(each)
		slots = slots.Minus(part)
		parts = append(parts, part)
	}
	errs := goroutine.Each(len(parts), func(i int) error { return c.setSlots(ctx, parts[i], state, id) })
	if err := distinct(errs); err != nil {
		return fmt.Errorf("CLUSTER SETSLOT %s of %d slots: %w", state, count, err)
	}
	return nil
}

// distinct joins errors, those that say the same once.
func distinct(errs []error) error {
	said := map[string]bool{}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool {
		if err == nil || said[err.Error()] {
			return true
		}
		said[err.Error()] = true
		return false
	})...)
}

func (c *Client) setSlots(ctx context.Context, slots redisslots.Set, state model.SlotState, id string) error {
	ctx, cancel := timeout(ctx, "CLUSTER SETSLOT", max(askTimeout, time.Duration(slots.Count())*replicasWait))
	defer cancel()
	pipe := c.rdb.Pipeline()
	for slot := range slots.All() {
		args := []any{"CLUSTER", "SETSLOT", slot, string(state)}
		if id != "" {
			args = append(args, id)
		}
		pipe.Do(ctx, args...)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// Keys sends CLUSTER GETKEYSINSLOT for every slot, and MEMORY USAGE for every key.
func (c *Client) Keys(ctx context.Context, slots redisslots.Set, limit int) (map[int][]model.Key, error) {
	pipe := c.rdb.Pipeline()
	wait := askTimeout
	if limit == math.MaxInt32 {
		wait = moveTimeout
	}
	short, cancel := timeout(ctx, "CLUSTER GETKEYSINSLOT", wait)
	defer cancel()
	answers := map[int]*goredis.StringSliceCmd{}
	for slot := range slots.All() {
		answers[slot] = pipe.ClusterGetKeysInSlot(short, slot, limit)
	}
	if _, err := pipe.Exec(short); err != nil {
		return nil, fmt.Errorf("CLUSTER GETKEYSINSLOT: %w", err)
	}
	out := map[int][]model.Key{}
	var all []*model.Key
	for slot := range slots.All() {
		names := answers[slot].Val()
		if len(names) == 0 {
			continue
		}
		keys := make([]model.Key, len(names))
		for i, name := range names {
			keys[i].Name = name
			all = append(all, &keys[i])
		}
		out[slot] = keys
	}
	for len(all) > 0 {
		n := min(len(all), asked)
		if err := c.measure(ctx, all[:n]); err != nil {
			return nil, err
		}
		all = all[n:]
	}
	return out, nil
}

// Process reads the run id out of INFO.
func (c *Client) Process(ctx context.Context) (string, error) {
	ctx, cancel := timeout(ctx, "INFO", askTimeout)
	defer cancel()
	info, err := c.rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("INFO: %w", err)
	}
	return model.ParseProcess(info), nil
}

// Sees reads the line of the node out of CLUSTER NODES.
func (c *Client) Sees(ctx context.Context, id string) (model.Peer, error) {
	ctx, cancel := timeout(ctx, "CLUSTER NODES", askTimeout)
	defer cancel()
	text, err := c.rdb.ClusterNodes(ctx).Result()
	if err != nil {
		return model.Peer{}, fmt.Errorf("CLUSTER NODES: %w", err)
	}
	peers, err := model.ParseNodes(text)
	if err != nil {
		return model.Peer{}, fmt.Errorf("CLUSTER NODES: %w", err)
	}
	i := slices.IndexFunc(peers, func(p model.Peer) bool { return p.ID == id })
	if i < 0 {
		return model.Peer{}, fmt.Errorf("it does not know node %s", id)
	}
	return peers[i], nil
}

// Large looks at all keys of some of the slots at a time.
func (c *Client) Large(ctx context.Context, slots redisslots.Set, bytes int64) (map[int]model.Key, error) {
	out := map[int]model.Key{}
	for len(slots) > 0 {
		some := slots.First(inHand)
		slots = slots.Minus(some)
		found, err := c.Keys(ctx, some, math.MaxInt32)
		if err != nil {
			return nil, err
		}
		for slot, keys := range found {
			for _, key := range keys {
				if key.Bytes > max(bytes, out[slot].Bytes) {
					out[slot] = key
				}
			}
		}
	}
	return out, nil
}

// measure asks how large keys are. One that has expired meanwhile is not.
func (c *Client) measure(ctx context.Context, keys []*model.Key) error {
	ctx, cancel := timeout(ctx, "MEMORY USAGE", askTimeout)
	defer cancel()
	pipe := c.rdb.Pipeline()
	sizes := make([]*goredis.IntCmd, len(keys))
	for i, key := range keys {
		sizes[i] = pipe.MemoryUsage(ctx, key.Name)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) {
		return fmt.Errorf("MEMORY USAGE: %w", err)
	}
	for i, key := range keys {
		if err := sizes[i].Err(); err != nil && !errors.Is(err, goredis.Nil) {
			return fmt.Errorf("MEMORY USAGE: %w", err)
		}
		key.Bytes = sizes[i].Val()
	}
	return nil
}

// Send sends MIGRATE for every batch. The target is told the same user and password that this connection has.
func (c *Client) Send(ctx context.Context, to model.Address, batches [][]model.Key, replace bool, patience time.Duration) (busy [][]model.Key, err error) {
	errs := make([]error, len(batches))
	var next atomic.Int64
	var failed atomic.Bool
	var hands sync.RWMutex
	send := func(batch []model.Key) error {
		wait := max(patience, steps.HeldUp(batch))
		if wait > patience {
			hands.Lock() // What takes long has the source for itself.
			defer hands.Unlock()
		} else {
			hands.RLock()
			defer hands.RUnlock()
		}
		if failed.Load() {
			return nil
		}
		// The source waits no longer than that for its target, and answers then unless it hangs itself.
		ctx, cancel := timeout(ctx, "MIGRATE", callTimeout+5*wait)
		defer cancel()
		err := c.rdb.Do(ctx, c.migrate(to, batch, replace, wait)...).Err()
		if err != nil && (replace || !isBusy(err)) {
			failed.Store(true)
		}
		return err
	}
	panics := goroutine.Each(min(sends, len(batches)), func(int) error {
		for i := int(next.Add(1)) - 1; i < len(batches) && !failed.Load(); i = int(next.Add(1)) - 1 {
			errs[i] = send(batches[i])
		}
		return nil
	})
	for i, err := range errs {
		if err != nil && isBusy(err) && !replace {
			busy, errs[i] = append(busy, batches[i]), nil
		}
	}
	if err := distinct(slices.Concat(errs, panics)); err != nil {
		return busy, fmt.Errorf("MIGRATE: %w", err)
	}
	return busy, nil
}

// isBusy tells whether a target has a key already.
func isBusy(err error) bool { return strings.Contains(err.Error(), "BUSYKEY") }

func (c *Client) migrate(to model.Address, batch []model.Key, replace bool, wait time.Duration) []any {
	args := []any{"MIGRATE", to.IP, to.Port, "", 0, wait.Milliseconds()}
	if replace {
		args = append(args, "REPLACE")
	}
	if l := c.options.login(); l.Password != "" {
		args = append(args, "AUTH2", l.Username, l.Password)
	}
	args = append(args, "KEYS")
	for _, key := range batch {
		args = append(args, key.Name)
	}
	return args
}
