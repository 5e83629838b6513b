package redisclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// puller makes servers of Redis 8.0 look to the operator as if they had CLUSTER MIGRATION of Redis 8.4, of which there is no binary
// here. It stands in front of them and answers that command itself, in the words of the server's source (cluster_asm.c): a task stays
// in the books of the two processes until they end, its states go by, one that has failed begins anew every second until its target is
// told to stop, and no server takes part in two. What it moves it moves for real, at the end, and hides meanwhile that slots are open.
type puller struct {
	w  *world
	mu sync.Mutex
	// books are the tasks that processes know of, the last one first, by run id.
	books map[string][]*task
	// fail says how an attempt breaks, by its number from 0; nil: it does not.
	fail func(attempt int) string
	// held keeps tasks from the end until it is closed.
	held chan struct{}
	// moving counts the tasks whose slots are open.
	moving atomic.Int32
	ended  sync.WaitGroup
}

// task is one entry in the books of one process.
type task struct {
	id, source, dest, operation, state, lastError string
	slots                                         slots.Set
	retries                                       int
	created, started, end                         time.Time
}

// pull puts a puller in front of the servers.
func (w *world) pull() *puller {
	x := &puller{w: w, books: map[string][]*task{}, held: make(chan struct{})}
	close(x.held)
	w.front = x.serve
	w.t.Cleanup(x.ended.Wait)
	return x
}

// serve forwards commands to a server, and answers CLUSTER MIGRATION.
func (x *puller) serve(p *process, server net.Conn) net.Conn {
	client, own := net.Pipe()
	go func() {
		defer func() { _, _ = own.Close(), server.Close() }()
		commands, replies := bufio.NewReaderSize(own, 1<<20), bufio.NewReader(server)
		for {
			args, raw, err := readCommand(commands)
			if err != nil {
				return
			}
			var reply []byte
			if len(args) > 3 && strings.EqualFold(args[0]+" "+args[1], "CLUSTER MIGRATION") {
				reply = []byte(x.answer(p, args[2:]))
			} else {
				if _, err := server.Write(raw); err != nil {
					return
				}
				if reply, err = readReply(replies); err != nil {
					return
				}
				if x.moving.Load() > 0 && strings.EqualFold(strings.Join(args, " "), "CLUSTER NODES") {
					reply = hideOpen(reply)
				}
			}
			if _, err := own.Write(reply); err != nil {
				return
			}
		}
	}()
	return client
}

// readCommand reads an array of strings.
func readCommand(r *bufio.Reader) (args []string, raw []byte, err error) {
	if raw, err = readReply(r); err != nil {
		return nil, nil, err
	}
	lines := strings.Split(string(raw), "\r\n")
	for i := 2; i < len(lines); i += 2 {
		args = append(args, lines[i])
	}
	return args, raw, nil
}

// readReply reads one value of RESP3, with all that is in it.
func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return line, nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return append(line, text...), err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return line, nil
	}
	for range n {
		item, err := readReply(r)
		if err != nil {
			return nil, err
		}
		line = append(line, item...)
	}
	return line, nil
}

var openSlot = regexp.MustCompile(` \[\d+-[<>]-[0-9a-f]+\]`)

// hideOpen takes the slots that are on their way out of an answer to CLUSTER NODES, which is a string with its length before it.
func hideOpen(reply []byte) []byte {
	head, text, _ := bytes.Cut(reply, []byte("\r\n"))
	if head[0] != '$' && head[0] != '=' {
		return reply
	}
	text = openSlot.ReplaceAll(bytes.TrimSuffix(text, []byte("\r\n")), nil)
	return fmt.Appendf(nil, "%c%d\r\n%s\r\n", head[0], len(text), text)
}

// answer is that to CLUSTER MIGRATION.
func (x *puller) answer(p *process, args []string) string {
	m := x.w.mover(p)
	defer func() { _ = m.Close() }()
	process, err := m.Process(context.Background()) //nolint:usetesting // runs while the test is cleaned up, too
	if err != nil {
		return "-ERR " + err.Error() + "\r\n"
	}
	switch verb, what := strings.ToUpper(args[0]), strings.ToUpper(args[1]); {
	case verb == "IMPORT" && len(args)%2 == 1:
		id, err := x.begin(p, process, args[1:])
		if err != nil {
			return "-ERR " + err.Error() + "\r\n"
		}
		return bulk(id)
	case verb == "STATUS" && (what == "ALL" && len(args) == 2 || what == "ID" && len(args) == 3):
		return x.status(process, args[2:])
	case verb == "CANCEL" && (what == "ALL" && len(args) == 2 || what == "ID" && len(args) == 3):
		return fmt.Sprintf(":%d\r\n", x.cancel(process, args[2:]))
	}
	return "-ERR unknown argument\r\n"
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func (x *puller) status(process string, ids []string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, out := 0, ""
	for _, t := range x.books[process] {
		if len(ids) == 0 || ids[0] == t.id {
			n, out = n+1, out+t.resp()
		}
	}
	return fmt.Sprintf("*%d\r\n%s", n, out)
}

func (t *task) resp() string {
	millis := func(at time.Time) string {
		if at.IsZero() {
			return ":-1\r\n"
		}
		return fmt.Sprintf(":%d\r\n", at.UnixMilli())
	}
	return "%12\r\n" + bulk("id") + bulk(t.id) + bulk("slots") + bulk(strings.ReplaceAll(t.slots.String(), ",", " ")) +
		bulk("source") + bulk(t.source) + bulk("dest") + bulk(t.dest) + bulk("operation") + bulk(t.operation) + bulk("state") + bulk(t.state) +
		bulk("last_error") + bulk(t.lastError) + bulk("retries") + fmt.Sprintf(":%d\r\n", t.retries) + bulk("create_time") + millis(t.created) +
		bulk("start_time") + millis(t.started) + bulk("end_time") + millis(t.end) + bulk("write_pause_ms") + ":0\r\n"
}

func (t *task) over() bool { return t.state == "completed" || t.state == "canceled" }

// cancel ends the tasks of a process that are not over, or the one with the id.
func (x *puller) cancel(process string, ids []string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, t := range x.books[process] {
		if !t.over() && (len(ids) == 0 || ids[0] == t.id) {
			t.state, t.lastError, t.end = "canceled", "Cancelled due to user request", time.Now()
			n++
		}
	}
	return n
}

// entered puts a task into the books of a process, which is to have no other; one that has failed makes way.
func (x *puller) entered(process string, t *task) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	books := x.books[process]
	for _, other := range books {
		switch {
		case other.id == t.id || other.over():
		case other.state == "failed":
			other.state, other.end = "canceled", time.Now()
		default:
			return errors.New("another ASM task is already in progress")
		}
	}
	if i := slices.IndexFunc(books, func(o *task) bool { return o.id == t.id }); i >= 0 {
		t.retries = books[i].retries + 1
		books = slices.Delete(slices.Clone(books), i, i+1)
	}
	x.books[process] = append([]*task{t}, books...)
	return nil
}

// begin begins a task at its target.
func (x *puller) begin(p *process, process string, args []string) (string, error) {
	var ranges []slots.Range
	for i := 0; i+1 < len(args); i += 2 {
		r, err := slots.ParseRange(args[i] + "-" + args[i+1])
		if err != nil {
			return "", err
		}
		ranges = append(ranges, r)
	}
	id := make([]byte, 20)
	_, _ = rand.Read(id)
	dest := &task{id: hex.EncodeToString(id), slots: slots.New(ranges...), operation: "import", state: "none", created: time.Now()}
	source, err := x.ownerOf(p, dest)
	if err != nil {
		return "", err
	}
	if err := x.entered(process, dest); err != nil {
		return "", err
	}
	x.ended.Go(func() { x.carry(p, process, source, dest) })
	return dest.id, nil
}

// ownerOf finds who has the slots of a task, as its target sees it.
func (x *puller) ownerOf(p *process, t *task) (*process, error) {
	c := x.w.connect(p)
	defer func() { _ = c.Close() }()
	n, err := c.Read(context.Background()) //nolint:usetesting // runs while the test is cleaned up, too
	if err != nil {
		return nil, err
	}
	if len(n.Self().Open) > 0 {
		return nil, errors.New("all slot states must be STABLE to start a slot migration task")
	}
	for peer := range n.All() {
		name, _, _ := strings.Cut(peer.Host, ".")
		if len(t.slots.Minus(peer.Slots)) == 0 && !peer.Myself {
			t.source, t.dest = peer.ID, n.ID
			return x.w.pods[name], nil
		}
	}
	return nil, errors.New("slots belong to different source nodes")
}

// carry tries until the task is over, or its target has ended.
func (x *puller) carry(p *process, process string, source *process, dest *task) {
	for attempt := 0; x.w.t.Context().Err() == nil; attempt++ {
		err := x.try(p, process, source, dest, attempt)
		x.mu.Lock()
		if err != nil && !dest.over() {
			dest.state, dest.lastError = "failed", err.Error()
		}
		over := dest.over()
		x.mu.Unlock()
		pause(x.w.t.Context(), time.Second)
		if m := x.w.mover(p); over || !x.same(m, process) {
			_ = m.Close()
			return
		}
		x.mu.Lock()
		if over = dest.over(); !over {
			dest.retries++
		}
		x.mu.Unlock()
		if over {
			return
		}
	}
}

// same tells whether a process is the one that it was.
func (x *puller) same(m steps.Mover, process string) bool {
	now, err := m.Process(context.Background()) //nolint:usetesting // runs while the test is cleaned up, too
	return err == nil && now == process
}

// try is one attempt.
func (x *puller) try(p *process, process string, source *process, dest *task, attempt int) error {
	ctx := context.Background() //nolint:usetesting // what is begun is brought to an end
	from, to := x.w.mover(source), x.w.mover(p)
	defer func() { _, _ = from.Close(), to.Close() }()
	sender, err := from.Process(ctx)
	if err != nil {
		return fmt.Errorf("Main channel - Failed to connect to source node: %w", err)
	}
	x.mu.Lock()
	own := *dest
	x.mu.Unlock()
	own.operation, own.state, own.started = "migrate", "send-bulk-and-stream", time.Now()
	if err := x.entered(sender, &own); err != nil {
		return fmt.Errorf("Error reply to CLUSTER SYNCSLOTS SYNC from the source: -ERR %w", err)
	}
	x.set(dest, "accumulate-buffer")
	err = x.wait(from, sender, to, process, dest, &own)
	if err == nil && x.fail != nil && x.fail(attempt) != "" {
		err = errors.New(x.fail(attempt))
	}
	if err == nil {
		err = x.owns(source, dest)
	}
	if err == nil {
		x.moving.Add(1)
		err = hand(ctx, from, to, dest, x.w.address(p))
		x.moving.Add(-1)
	}
	if err != nil {
		x.set(&own, "failed")
		return err
	}
	x.set(&own, "completed")
	x.set(dest, "completed")
	return nil
}

// owns tells whether the source still has the slots of a task.
func (x *puller) owns(source *process, t *task) error {
	c := x.w.connect(source)
	defer func() { _ = c.Close() }()
	n, err := c.Read(context.Background()) //nolint:usetesting // what is begun is brought to an end
	if err == nil && len(t.slots.Minus(n.Self().Slots)) > 0 {
		err = errors.New("Main channel - the slots are not served by this node")
	}
	return err
}

func (x *puller) set(t *task, state string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t.over() {
		return
	}
	t.state = state
	if t.started.IsZero() {
		t.started = time.Now()
	}
	if t.over() {
		t.end, t.lastError = time.Now(), ""
	}
}

// wait is the time in which the source sends its snapshot. It ends well only when both processes are seen after it was let go.
func (x *puller) wait(from steps.Mover, sender string, to steps.Mover, process string, dest, own *task) error {
	pause(x.w.t.Context(), 100*time.Millisecond)
	for {
		x.mu.Lock()
		cancelled, held := dest.over() || own.over(), x.held
		x.mu.Unlock()
		released := false
		select {
		case <-held:
			released = true
		case <-x.w.t.Context().Done():
			return x.w.t.Context().Err()
		case <-time.After(20 * time.Millisecond):
		}
		switch {
		case cancelled:
			return errors.New("Main channel - Connection is closed")
		case !x.same(from, sender) || !x.same(to, process):
			return errors.New("RDB channel - Connection is closed")
		case released:
			return nil
		}
	}
}

// hold keeps tasks from the end, until the function that is returned is called.
func (x *puller) hold() (release func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	held := make(chan struct{})
	x.held = held
	return sync.OnceFunc(func() { close(held) })
}

// handed is how many slots change hands in a row. The target tells all servers of each of them, one by one, and those of a whole task
// keep servers that share two cores silent for longer than the node timeout.
const handed = 64

// hand moves the slots of a task with all of their keys.
func hand(ctx context.Context, from, to steps.Mover, t *task, addr model.Address) error {
	if err := errors.Join(to.SetSlots(ctx, t.slots, steps.SlotImporting, t.source), from.SetSlots(ctx, t.slots, steps.SlotMigrating, t.dest)); err != nil {
		return err
	}
	for {
		keys, err := from.Keys(ctx, t.slots, 200)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, batch := range keys {
			if _, err := from.Send(ctx, addr, [][]model.Key{batch}, true, time.Second); err != nil {
				return err
			}
		}
	}
	for left := t.slots; len(left) > 0; pause(ctx, 20*time.Millisecond) {
		part := left.First(handed)
		left = left.Minus(part)
		if err := to.SetSlots(ctx, part, steps.SlotOwner, t.dest); err != nil {
			return err
		}
		if err := from.SetSlots(ctx, part, steps.SlotOwner, t.dest); err != nil {
			return err
		}
	}
	return nil
}
