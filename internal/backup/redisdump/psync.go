package redisdump

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Reasons for which a server sends no data, or takes none. Behind them is what the server says.
var (
	// ErrNoPrimaryLink: the server is a replica that is not connected to its primary.
	ErrNoPrimaryLink = errors.New("the replica is not connected to its primary")
	// ErrLoading: the server still loads its own data.
	ErrLoading = errors.New("the server loads its data")
	// ErrBusy: the server runs a script, or has too many clients.
	ErrBusy = errors.New("the server is busy")
	// ErrWrongPassword: the server does not know the user or the password, or wants one.
	ErrWrongPassword = errors.New("the server refuses the user or password")
	// ErrNoPermission: the user may not do it. To copy takes +psync +replconf +ping.
	ErrNoPermission = errors.New("the user lacks a permission")
	// ErrRefused: anything else that a server answers.
	ErrRefused = errors.New("the server refuses")
	// ErrInterrupted: the connection was lost before the end.
	ErrInterrupted = errors.New("the server was lost in the middle")
	// ErrStalled: nothing came for too long.
	ErrStalled = errors.New("the server sends nothing any more")
)

// refusals are by what the answer of a server begins with.
var refusals = []struct {
	prefix string
	err    error
}{
	{"NOMASTERLINK", ErrNoPrimaryLink},
	{"MASTERDOWN", ErrNoPrimaryLink},
	{"LOADING", ErrLoading},
	{"BUSY", ErrBusy},
	{"ERR max number of clients", ErrBusy},
	{"WRONGPASS", ErrWrongPassword},
	{"NOAUTH", ErrWrongPassword},
	{"ERR AUTH", ErrWrongPassword},
	{"NOPERM", ErrNoPermission},
}

// DefaultStall is how long a server may send nothing, where no limit is given. While it forks and waits for further replicas
// (repl-diskless-sync-delay) it sends a sign of life every second.
const DefaultStall = time.Minute

// Source is a server whose data is to be taken, be it a replica or a primary. It sees a replica that wants nothing but its data
// ("REPLCONF rdb-only"): it keeps nothing for it meanwhile, and the copy is never one that WAIT or min-replicas-to-write count.
//
// Nothing has to be sent to it while data flows: acknowledgements are asked only of replicas that have got everything. But it ends the
// connection to one that takes nothing for repl-timeout, 60 s by default.
type Source struct {
	// Dial opens the connection, with TLS where it is wanted.
	Dial func(ctx context.Context) (net.Conn, error)
	// Username and Password; without a password none is sent. The user needs +psync +replconf +ping and no keys.
	Username, Password string
	// Stall is how long the server may send nothing; zero: DefaultStall.
	Stall time.Duration
	// Now is the time; nil: time.Now.
	Now func() time.Time
	// Started is called when the server has said what it is going to send, nil: nothing is.
	Started func(Transfer)
}

// Transfer is what was sent.
type Transfer struct {
	// ReplicationID and Offset are the position in the stream of writes that the data is at.
	ReplicationID string
	Offset        int64
	// Bytes is the size of the RDB.
	Bytes int64
	// Began is when it was asked for, and Ended when the last byte had come.
	Began, Ended time.Time
}

// String has the position in it.
func (t Transfer) String() string {
	return fmt.Sprintf("%d bytes at %s:%d", t.Bytes, t.ReplicationID, t.Offset)
}

// Copy writes the server's data to w, as an RDB. It ends when the connection to it is closed: the server is left alone afterwards.
// What was written is whole only if there is no error. Errors: see above, that of ctx, and those of w.
func (s Source) Copy(ctx context.Context, w io.Writer) (Transfer, error) {
	now := s.Now
	if now == nil {
		now = time.Now
	}
	t := Transfer{Began: now()}
	dialed, err := s.Dial(ctx)
	if err != nil {
		return t, fmt.Errorf("connect to the server: %w", err)
	}
	l := newLink(ctx, dialed, s.Stall)
	defer l.close()
	if err := l.introduce(s.Username, s.Password); err != nil {
		return t, l.explain(err)
	}
	if t.ReplicationID, t.Offset, err = l.ask(); err != nil {
		return t, l.explain(err)
	}
	if s.Started != nil {
		s.Started(t)
	}
	t.Bytes, err = l.receive(w)
	t.Ended = now()
	return t, l.explain(err)
}

// link is a connection to a server that is closed when ctx ends, or when the server is silent for too long.
type link struct {
	ctx     context.Context
	conn    net.Conn
	in      *bufio.Reader
	stall   time.Duration
	silence *time.Timer
	cancel  context.CancelCauseFunc
}

func newLink(ctx context.Context, conn net.Conn, stall time.Duration) *link {
	if stall <= 0 {
		stall = DefaultStall
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l := &link{ctx: ctx, conn: conn, stall: stall, cancel: cancel}
	l.in = bufio.NewReaderSize(readerFunc(l.read), bufferBytes)
	l.silence = time.AfterFunc(stall, func() { cancel(fmt.Errorf("%w, for %s", ErrStalled, stall)) })
	l.silence.Stop()
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return l
}

// close also ends what waits for the end of ctx.
func (l *link) close() {
	l.silence.Stop()
	l.cancel(nil)
	_ = l.conn.Close() // Nothing is left to be sent.
}

type readerFunc func(p []byte) (int, error)

// Read calls the function.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// read takes what comes. Only the server's silence counts, not the time that somebody takes to write down what it said.
func (l *link) read(p []byte) (int, error) {
	l.silence.Reset(l.stall)
	n, err := l.conn.Read(p)
	l.silence.Stop()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	return n, err
}

// explain finds the reason for which the connection was closed, if it was on this side.
func (l *link) explain(err error) error {
	if cause := context.Cause(l.ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// introduce makes the connection that of a replica.
func (l *link) introduce(username, password string) error {
	switch {
	case password == "":
	case username == "":
		if err := l.command("AUTH", password); err != nil {
			return err
		}
	default:
		if err := l.command("AUTH", username, password); err != nil {
			return err
		}
	}
	for _, c := range [][]string{
		{"PING"},
		// There is no port: nobody can connect to this replica.
		{"REPLCONF", "listening-port", "0"},
		// eof: the data may come as it is made, without a file on the server's disk.
		{"REPLCONF", "capa", "eof", "capa", "psync2"},
		{"REPLCONF", "rdb-only", "1"},
	} {
		if err := l.command(c...); err != nil {
			return err
		}
	}
	// Valkey 9 writes RDB 11 for a replica that does not say what it understands, and fails at hashes whose fields expire. Others do not
	// know the option, and Redis 7.0 says so.
	if err := l.command("REPLCONF", "version", understood); err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

// understood is a version of Valkey that writes the newest RDB which is read here.
const understood = "9.1.0"

// send writes a command as clients do.
func (l *link) send(words ...string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := l.conn.Write(b.Bytes()); err != nil {
		return fmt.Errorf("%w: send %s: %w", ErrInterrupted, words[0], err)
	}
	return nil
}

// command sends one and expects that it is agreed to.
func (l *link) command(words ...string) error {
	if err := l.send(words...); err != nil {
		return err
	}
	answer, err := l.line()
	if err != nil {
		return fmt.Errorf("the answer to %s: %w", words[0], err)
	}
	if err := refused(words[0], answer); err != nil {
		return err
	}
	if !strings.HasPrefix(answer, "+") {
		return fmt.Errorf("%w: it answers %s with %.100q", ErrRefused, words[0], answer)
	}
	return nil
}

// refused is the error that an answer is, if it is one. What servers say of passwords and users is no secret.
func refused(command, answer string) error {
	if !strings.HasPrefix(answer, "-") {
		return nil
	}
	reason := ErrRefused
	for _, r := range refusals {
		if strings.HasPrefix(answer[1:], r.prefix) {
			reason = r.err
			break
		}
	}
	return fmt.Errorf("%w: it answers %s with %.200q", reason, command, answer[1:])
}

// lineBytes bounds a line of a server's.
const lineBytes = 4 << 10

// line reads the next line that is not empty: empty ones are signs of life.
func (l *link) line() (string, error) {
	var line []byte
	for {
		b, err := l.in.ReadByte()
		if err != nil {
			return "", err
		}
		if b != '\n' {
			if line = append(line, b); len(line) > lineBytes {
				return "", fmt.Errorf("%w: a line of more than %d bytes", ErrRefused, lineBytes)
			}
			continue
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			return string(line), nil
		}
	}
}

// ask asks for everything.
func (l *link) ask() (id string, offset int64, err error) {
	if err := l.send("PSYNC", "?", "-1"); err != nil {
		return "", 0, err
	}
	answer, err := l.line()
	if err != nil {
		return "", 0, fmt.Errorf("the answer to PSYNC: %w", err)
	}
	if err := refused("PSYNC", answer); err != nil {
		return "", 0, err
	}
	words := strings.Fields(answer)
	if len(words) == 3 && words[0] == "+FULLRESYNC" {
		if offset, err = strconv.ParseInt(words[2], 10, 64); err == nil {
			return words[1], offset, nil
		}
	}
	return "", 0, fmt.Errorf("%w: it answers PSYNC with %.100q", ErrRefused, answer)
}

// markBytes is the length of the random mark that ends an RDB whose size the server does not know beforehand.
const markBytes = 40

// receive copies the RDB, which is announced as "$<bytes>" or as "$EOF:<mark>".
func (l *link) receive(w io.Writer) (int64, error) {
	head, err := l.line()
	if err != nil {
		return 0, fmt.Errorf("wait for the data: %w", err)
	}
	if err := refused("PSYNC", head); err != nil {
		return 0, err
	}
	out := &output{to: w}
	if mark, found := strings.CutPrefix(head, "$EOF:"); found && len(mark) == markBytes {
		err = copyUntil(out, l.in, []byte(mark))
		return out.bytes, err
	}
	size, err := strconv.ParseInt(strings.TrimPrefix(head, "$"), 10, 64)
	if head[0] != '$' || err != nil || size < 0 {
		return 0, fmt.Errorf("%w: it announces its data with %.100q", ErrRefused, head)
	}
	_, err = io.CopyN(out, l.in, size)
	return out.bytes, err
}

type output struct {
	to    io.Writer
	bytes int64
}

// Write counts.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	o.bytes += int64(n)
	if err != nil {
		err = fmt.Errorf("write the dump, after %d bytes: %w", o.bytes, err)
	}
	return n, err
}

// copyUntil copies up to a mark that ends what the server sends. It is compared with the last bytes only, as servers do: nothing follows
// it, so that data which happens to hold the same bytes is no end.
func copyUntil(w io.Writer, r io.Reader, mark []byte) error {
	data := make([]byte, bufferBytes)
	held := 0
	for {
		n, err := r.Read(data[held:])
		if err != nil {
			return err
		}
		held += n
		if held < len(mark) {
			continue
		}
		send := held - len(mark)
		if _, err := w.Write(data[:send]); err != nil {
			return err
		}
		held = copy(data, data[send:held])
		if bytes.Equal(data[:held], mark) {
			return nil
		}
	}
}
