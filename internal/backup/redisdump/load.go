package redisdump

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/quorate/quorate/internal/goroutine"
)

var (
	// ErrNoMemory is returned by Load if a server has reached its maxmemory.
	ErrNoMemory = errors.New("the server has no memory left for the data")
	// ErrNoProgress is returned by Load if servers could not take a key for too long.
	ErrNoProgress = errors.New("the servers do not take the data")
)

// Defaults of LoadOptions.
const (
	// DefaultInFlight is how many bytes are on the way to the servers at most.
	DefaultInFlight = 8 << 20
	// DefaultPatience is how long servers may take nothing.
	DefaultPatience = 2 * time.Minute
)

// A batch is what a server is sent at once.
const (
	batchBytes = 256 << 10
	batchKeys  = 512
	// batchesPerServer are sent to one server at a time: one is on its way while another one is carried out.
	batchesPerServer = 2
	// itemBytes is what a key takes besides its name and payload, about.
	itemBytes = 128
)

// LoadOptions say what is loaded and how. The zero value loads everything.
type LoadOptions struct {
	// Slots tells the slots whose keys are loaded; nil: all.
	Slots func(slot int) bool
	// Asking loads into slots that a server imports.
	Asking bool
	// InFlight bounds the bytes on the way to all servers together; zero: DefaultInFlight. A larger value is sent alone.
	InFlight int64
	// MaxValue is the size of a serialized value in bytes from which on it is refused; zero: MaxBytes, what servers take by default.
	MaxValue int64
	// Patience is how long to go on when servers take nothing, because they load, have no primary or cannot be reached; zero:
	// DefaultPatience.
	Patience time.Duration
	// Now is the time by which keys are expired; nil: time.Now.
	Now func() time.Time
	// Progress is told how many bytes and keys have been loaded so far, by one goroutine at a time; nil: nobody is.
	Progress func(bytes, keys int64)
}

// LoadSummary is what became of the keys.
type LoadSummary struct {
	// Restored keys were not there before. Present ones were, and are left as they are: a client wrote them meanwhile, or an earlier load
	// that was interrupted. If a connection is lost, keys that just arrived may count as present.
	Restored, Present int64
	// Expired keys have expired since they were dumped, and Skipped ones are in slots that are not asked for.
	Expired, Skipped int64
	// Functions is the number of libraries that are new on a server, and FunctionsPresent of those that were on all.
	Functions, FunctionsPresent int
	// Bytes of all payloads of keys that were restored or present.
	Bytes int64
	// KeysPerSlot counts keys that were restored or present. It has SlotCount elements.
	KeysPerSlot []int64
}

// Load reads RDBs, all at the same time, and writes their keys to servers: whatever the shards were that they come from, each goes where
// it belongs now. A key that exists is left alone, so that a load that was interrupted can be repeated, and what a client has written
// meanwhile is not lost. Memory is taken for what is in flight, for 256 KiB of each RDB, and twice the size of the largest value, of which
// only one of more than 1 MiB is read or sent at a time.
// An error tells that something is missing, and the summary what is there.
//
// Errors: ErrIncompatible before anything is loaded if the servers are too old, or later if a module is missing; ErrNoMemory,
// ErrNoProgress, ErrNoPermission, ErrWrongPassword; and those of Scan.
func Load(ctx context.Context, rdbs []io.Reader, to Target, o LoadOptions) (LoadSummary, error) {
	l := newLoader(to, o)
	defer l.databases.close()
	var parts []*part
	for i, r := range rdbs {
		p := &part{loader: l, decoder: newDecoder(r, l.options.MaxValue)}
		p.each, p.function, p.grow = p.take, p.library, p.claim
		if err := p.header(); err != nil {
			return l.summary, fmt.Errorf("RDB %d: %w", i, err)
		}
		parts = append(parts, p)
	}
	if err := l.check(ctx, parts); err != nil {
		return l.summary, err
	}
	l.group, l.ctx = goroutine.NewGroup(ctx)
	for i, p := range parts {
		l.group.Go(func() error {
			if err := p.load(); err != nil {
				return fmt.Errorf("RDB %d: %w", i, err)
			}
			return nil
		})
	}
	err := l.group.Wait()
	return l.summary, err
}

// loader is what the parts of a load share.
type loader struct {
	options   LoadOptions
	to        Target
	databases databases
	group     goroutine.Group
	ctx       context.Context

	// budget is what may be in flight, and oneLarge is held by whoever has a large value in the arena.
	budget, oneLarge *semaphore.Weighted
	arena            arena
	// generation counts how often servers were looked for anew.
	generation atomic.Int64

	mu        sync.Mutex
	summary   LoadSummary
	libraries map[[sha256.Size]byte]bool
	servers   map[database]chan struct{}
}

func newLoader(to Target, o LoadOptions) *loader {
	if o.InFlight <= 0 {
		o.InFlight = DefaultInFlight
	}
	if o.MaxValue <= 0 {
		o.MaxValue = MaxBytes
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &loader{
		options: o, to: to, budget: semaphore.NewWeighted(o.InFlight), oneLarge: semaphore.NewWeighted(1),
		summary:   LoadSummary{KeysPerSlot: make([]int64, SlotCount)},
		libraries: map[[sha256.Size]byte]bool{}, servers: map[database]chan struct{}{},
	}
}

// check asks the servers whether they take RDBs of these versions.
func (l *loader) check(ctx context.Context, parts []*part) error {
	return l.to.primaries(ctx, func(ctx context.Context, c *goredis.Client) error {
		software, err := SoftwareOf(ctx, c)
		if err != nil {
			return err
		}
		for i, p := range parts {
			if err := Compatible(Software{Engine: p.summary.Engine}, p.summary.Version, software); err != nil {
				return fmt.Errorf("RDB %d: %w", i, err)
			}
		}
		return nil
	})
}

// item is a key on its way.
type item struct {
	key, payload []byte
	slot         int
	expireAt     int64
	idle         int64
	freq         int
}

func (i *item) command(ctx context.Context, asking bool) *goredis.StatusCmd {
	verb := "RESTORE"
	if asking {
		verb = "RESTORE-ASKING" // As MIGRATE does: there is nothing between asking and the command.
	}
	args := []any{verb, i.key, i.expireAt, i.payload, "ABSTTL"}
	if i.idle >= 0 {
		args = append(args, "IDLETIME", i.idle)
	}
	if i.freq >= 0 {
		args = append(args, "FREQ", i.freq)
	}
	return goredis.NewStatusCmd(ctx, args...)
}

// batch is what goes to one server at once.
type batch struct {
	database
	items []*item
	bytes int64
	// weight is its share of the budget, and large says that it holds the right to a large value.
	weight int64
	large  bool
}

// part loads one RDB.
type part struct {
	*decoder
	loader  *loader
	batches map[database]*batch
	// holding the right to have a large value in memory.
	holding bool
	// nodes are the servers of slots, as of a generation.
	nodes      []*goredis.Client
	generation int64
}

func (p *part) load() error {
	p.batches = map[database]*batch{}
	if err := p.body(); err != nil {
		return err
	}
	return p.flush()
}

// claim waits until no other part has a large value in memory. What this one has collected is sent before: others may wait for that.
func (p *part) claim() (*arena, error) {
	if err := p.flush(); err != nil {
		return nil, err
	}
	if err := p.loader.oneLarge.Acquire(p.loader.ctx, 1); err != nil {
		return nil, context.Cause(p.loader.ctx)
	}
	p.holding = true
	return &p.loader.arena, nil
}

// take puts a key in line for its server.
func (p *part) take(e *Entry) error {
	l := p.loader
	unwanted := l.options.Slots != nil && !l.options.Slots(e.Slot)
	if expired := e.ExpireAt != 0 && e.ExpireAt <= l.options.Now().UnixMilli(); unwanted || expired {
		p.drop(unwanted)
		return nil
	}
	i := &item{key: append([]byte(nil), e.Key...), slot: e.Slot, expireAt: e.ExpireAt, idle: e.Idle, freq: e.Freq, payload: e.takePayload()}
	size := int64(len(i.key) + len(i.payload) + itemBytes)
	weight := min(size, l.options.InFlight)
	if !l.budget.TryAcquire(weight) {
		if err := p.flush(); err != nil { // What is waited for may be here.
			return err
		}
		if err := l.budget.Acquire(l.ctx, weight); err != nil {
			return context.Cause(l.ctx)
		}
	}
	where := database{number: e.DB}
	var err error
	if where.server, err = p.node(i); err != nil {
		return err
	}
	b := p.batches[where]
	if b == nil {
		b = &batch{database: where}
		p.batches[where] = b
	}
	b.items, b.bytes, b.weight = append(b.items, i), b.bytes+size, b.weight+weight
	if p.holding {
		b.large, p.holding = true, false
	}
	if b.bytes >= batchBytes || len(b.items) >= batchKeys {
		delete(p.batches, where)
		return l.dispatch(b)
	}
	return nil
}

// drop counts a key that is not loaded.
func (p *part) drop(unwanted bool) {
	l := p.loader
	if p.holding {
		p.holding = false
		l.oneLarge.Release(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if unwanted {
		l.summary.Skipped++
	} else {
		l.summary.Expired++
	}
}

// node is the server of a key. Where a slot has none, it is waited for.
func (p *part) node(i *item) (*goredis.Client, error) {
	l := p.loader
	if now := l.generation.Load(); p.nodes == nil || now != p.generation {
		p.nodes, p.generation = make([]*goredis.Client, SlotCount), now
	}
	if known := p.nodes[i.slot]; known != nil {
		return known, nil
	}
	begun := l.options.Now()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		c, err := l.to.node(l.ctx, i.key)
		switch {
		case err == nil:
			p.nodes[i.slot] = c
			return c, nil
		case l.options.Now().Sub(begun) > l.options.Patience:
			return nil, fmt.Errorf("%w: no server has slot %d: %w", ErrNoProgress, i.slot, err)
		}
		if err := pause(l.ctx, wait); err != nil {
			return nil, err
		}
		l.to.refresh(l.ctx)
	}
}

func (p *part) flush() error {
	for where, b := range p.batches {
		delete(p.batches, where)
		if err := p.loader.dispatch(b); err != nil {
			return err
		}
	}
	return nil
}

// dispatch sends a batch when its server has sent the answer to one before.
func (l *loader) dispatch(b *batch) error {
	l.mu.Lock()
	turns := l.servers[b.database]
	if turns == nil {
		turns = make(chan struct{}, batchesPerServer)
		l.servers[b.database] = turns
	}
	l.mu.Unlock()
	select {
	case turns <- struct{}{}:
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
	l.group.Go(func() error {
		defer func() {
			<-turns
			l.budget.Release(b.weight)
			if b.large {
				l.oneLarge.Release(1)
			}
		}()
		return l.deliver(b)
	})
	return nil
}
