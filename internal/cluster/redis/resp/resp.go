// Package resp bounds what a Redis or Valkey server can make its client allocate. It follows the
// framing of RESP2 and RESP3 while bytes pass and decodes no values.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
)

// ErrRefused is wrapped by the error of every reply that is malformed or exceeds a limit.
var ErrRefused = errors.New("reply of the server is refused")

// maxLine bounds a line in bytes: a header, a number, a simple string or an error.
const maxLine = 64 << 10

// Limits of what a server may send between two writes to it, which is one command or pipeline.
type Limits struct {
	// Bytes received, the announced length of bulk strings included.
	Bytes int64
	// Elements announced by arrays, sets, pushes, maps (two for each entry) and attributes.
	Elements int64
	// Depth of nesting.
	Depth int
	// Budget that all connections with it share; nil: none.
	Budget *Budget
}

// Budget bounds what several connections receive together, in bytes.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a Budget of that many bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{}
	b.left.Store(bytes)
	return b
}

// Add adds bytes to the budget.
func (b *Budget) Add(bytes int64) { b.left.Add(bytes) }

// spend takes bytes from the budget, and reports whether it had them.
func (b *Budget) spend(bytes int64) bool { return b == nil || b.left.Add(-bytes) >= 0 }

// elementCost is what an announced element takes from a Budget: the client allocates an interface
// value for it before it arrives.
const elementCost = 16

// Manager returns the limits of the manager. The largest legitimate reply is CLUSTER SLOT-STATS of
// all slots with about 250,000 elements; CLUSTER NODES of 1,000 servers has about 170 KiB.
func Manager() Limits { return Limits{Bytes: 16 << 20, Elements: 512 << 10, Depth: 32} }

// Agent returns the limits of a Job or start gate, which works for one cluster and has a memory
// limit of its own. Its largest legitimate replies are keys, which have up to 512 MiB in theory.
func Agent() Limits { return Limits{Bytes: 256 << 20, Elements: 1 << 20, Depth: 32} }

// Bound returns a connection whose Read fails and closes it before a header that breaks a limit is
// complete for the caller. A client allocates by the length in a header, before the data arrives.
func Bound(conn net.Conn, limits Limits) net.Conn {
	return &bounded{Conn: conn, parser: parser{limits: limits}}
}

type bounded struct {
	net.Conn
	parser parser
	wrote  atomic.Bool
}

func (b *bounded) Write(p []byte) (int, error) {
	b.wrote.Store(true)
	return b.Conn.Write(p)
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if b.wrote.Swap(false) {
		b.parser.bytes, b.parser.elements = 0, 0
	}
	if refused := b.parser.feed(p[:n]); refused != nil {
		_ = b.Close() // The refusal is the error that counts.
		return 0, refused
	}
	return n, err
}

// parser is the position in the framing. It keeps a refusal: the position is lost with it.
type parser struct {
	limits          Limits
	bytes, elements int64
	// skip is how many bytes of a bulk string are left, its CRLF included.
	skip int64
	// line is the start of a line whose end has not arrived.
	line []byte
	// open has the number of missing elements of each aggregate around the position.
	open []int64
	err  error
}

func (p *parser) feed(b []byte) error {
	for len(b) > 0 && p.err == nil {
		if p.skip > 0 {
			n := min(p.skip, int64(len(b)))
			p.skip, b = p.skip-n, b[n:]
			if p.skip == 0 {
				p.complete()
			}
			continue
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			end = len(b)
		}
		p.err = p.part(b[:end])
		b = b[end:]
	}
	return p.err
}

// part takes the next bytes of a line, of which only the last may be a line feed.
func (p *parser) part(b []byte) error {
	p.bytes += int64(len(b))
	if p.bytes > p.limits.Bytes {
		return p.refuse("more than %d bytes", p.limits.Bytes)
	}
	if !p.limits.Budget.spend(int64(len(b))) {
		return p.overspent()
	}
	if len(p.line)+len(b) > maxLine {
		return p.refuse("a line of more than %d bytes", maxLine)
	}
	if b[len(b)-1] != '\n' {
		p.line = append(p.line, b...)
		return nil
	}
	if len(p.line) > 0 {
		b = append(p.line, b...)
		p.line = p.line[:0]
	}
	if len(b) < 3 || b[len(b)-2] != '\r' {
		return p.refuse("a line that does not end with CRLF, or is empty")
	}
	return p.header(b[0], b[1:len(b)-2])
}

func (p *parser) header(kind byte, rest []byte) error {
	switch kind {
	case '+', '-', ':', ',', '#', '(', '_':
		p.complete()
		return nil
	case '$', '!', '=', '*', '~', '>', '%', '|':
	default:
		return p.refuse("the unknown type %q", kind)
	}
	n, err := strconv.ParseInt(string(rest), 10, 64)
	if n == -1 && err == nil && (kind == '$' || kind == '*') { // Null of RESP2.
		p.complete()
		return nil
	}
	if err != nil || n < 0 {
		return p.refuse("the length %.40q", rest)
	}
	if kind == '$' || kind == '!' || kind == '=' {
		return p.bulk(n)
	}
	return p.aggregate(kind, n)
}

func (p *parser) bulk(n int64) error {
	if n > p.limits.Bytes-p.bytes {
		return p.refuse("a string of %d bytes, which makes more than %d", n, p.limits.Bytes)
	}
	if !p.limits.Budget.spend(n) {
		return p.overspent()
	}
	p.bytes += n
	p.skip = n + 2
	return nil
}

func (p *parser) aggregate(kind byte, n int64) error {
	if n > p.limits.Elements { // Before it is doubled.
		return p.refuse("an aggregate of %d elements", n)
	}
	if kind == '%' || kind == '|' {
		n *= 2
	}
	p.elements += n
	if p.elements > p.limits.Elements {
		return p.refuse("more than %d elements", p.limits.Elements)
	}
	if !p.limits.Budget.spend(n * elementCost) {
		return p.overspent()
	}
	if kind == '|' {
		n++ // The value that the attribute describes follows, in the place of both.
	}
	if n == 0 {
		p.complete()
		return nil
	}
	if len(p.open) >= p.limits.Depth {
		return p.refuse("more than %d levels", p.limits.Depth)
	}
	p.open = append(p.open, n)
	return nil
}

// complete counts a value, and each aggregate whose last element it is.
func (p *parser) complete() {
	for len(p.open) > 0 {
		last := len(p.open) - 1
		p.open[last]--
		if p.open[last] > 0 {
			return
		}
		p.open = p.open[:last]
	}
}

func (*parser) overspent() error {
	return fmt.Errorf("%w: the servers of the cluster send more than expected of all of them", ErrRefused)
}

func (*parser) refuse(format string, args ...any) error {
	return fmt.Errorf("%w: it has %s", ErrRefused, fmt.Sprintf(format, args...))
}
