package redisdump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// bufferBytes is how much is read at a time, and all memory that is taken, but for keys and values.
const bufferBytes = 256 << 10

// buffer reads a stream once, sums it up, and keeps what is captured.
type buffer struct {
	src  io.Reader
	data []byte
	// data[r:w] is read and not yet consumed.
	r, w int
	// base is where data[0] is in the stream.
	base int64
	// crc is the checksum of all before data[summed].
	crc    uint64
	summed int
	// mark is where what is captured begins in data, behind what is in spill; -1: nothing is captured. The first byte of spill is not
	// part of it: it is what the capture began with.
	mark  int
	spill []byte
	// limit of what is captured or read as one string, in bytes.
	limit int64
	// grow gives the memory for a large value; nil: it is as any other.
	grow func() (*arena, error)
	// large is where what is captured goes instead of spill, if it is large, and joined all of it afterwards.
	large  *arena
	joined []byte
	// text is the last string that was read.
	text []byte
}

// largeBytes is from when on a value is large: several of them at a time would be felt in the memory of a small container.
const largeBytes = 1 << 20

func newBuffer(src io.Reader, limit int64) *buffer {
	return &buffer{src: src, data: make([]byte, bufferBytes), mark: -1, limit: limit}
}

// offset in the stream of the next byte.
func (b *buffer) offset() int64 { return b.base + int64(b.r) }

func (b *buffer) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format+", at byte %d", append(append([]any{ErrDamaged}, args...), b.offset())...)
}

// more makes room for what is consumed and reads at least one byte.
func (b *buffer) more() error {
	b.sum()
	if b.mark >= 0 {
		if err := b.keep(); err != nil {
			return err
		}
		b.mark = 0
	}
	b.w = copy(b.data, b.data[b.r:b.w])
	b.base += int64(b.r)
	b.r, b.summed = 0, 0
	n, err := io.ReadAtLeast(b.src, b.data[b.w:], 1)
	b.w += n
	switch {
	case n > 0: // An error comes again, and then there is nothing else.
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends after %d bytes, in the middle", ErrDamaged, b.base+int64(b.w))
	default:
		return fmt.Errorf("read the dump, after %d bytes: %w", b.base+int64(b.w), err)
	}
}

// sum brings the checksum up to what is consumed.
func (b *buffer) sum() {
	b.crc = checksum(b.crc, b.data[b.summed:b.r])
	b.summed = b.r
}

// keep takes what is captured out of the buffer. There is never more memory than data that was really there.
func (b *buffer) keep() error {
	piece, size := b.data[b.mark:b.r], len(b.spill)
	if b.large != nil {
		size = b.large.size
	}
	size += len(piece)
	if int64(size) > b.limit {
		return b.tooLarge()
	}
	if b.large == nil && b.grow != nil && size > largeBytes {
		var err error
		if b.large, err = b.grow(); err != nil {
			return err
		}
		b.large.reset()
		b.large.add(b.spill)
	}
	if b.large != nil {
		b.large.add(piece)
	} else {
		b.spill = append(b.spill, piece...)
	}
	return nil
}

func (b *buffer) tooLarge() error {
	return fmt.Errorf("%w of %d bytes, at byte %d", ErrTooLarge, b.limit, b.offset())
}

// capture begins to keep what is consumed, behind a first byte.
func (b *buffer) capture(first byte) {
	if cap(b.spill) > largeBytes {
		b.spill = nil // The next one is hardly as large.
	}
	b.joined = nil
	b.mark, b.spill = b.r, append(b.spill[:0], first)
}

// captured ends it. It is valid until the next read.
func (b *buffer) captured() ([]byte, error) {
	if len(b.spill) > 1 || b.large != nil {
		if err := b.keep(); err != nil {
			return nil, err
		}
		b.mark = -1
		if b.large == nil {
			return b.spill[1:], nil
		}
		b.joined = b.large.join(footerBytes)
		b.large = nil
		return b.joined[1:], nil
	}
	value := b.data[b.mark:b.r]
	b.mark = -1
	if int64(len(value)) > b.limit {
		return nil, b.tooLarge()
	}
	return value, nil
}

// take is what was captured with its first byte and room for a footer. It may be kept; if it is large, as long as its memory is
// given to nobody else.
func (b *buffer) take(value []byte) []byte {
	if b.joined != nil {
		return b.joined
	}
	own := make([]byte, 0, 1+len(value)+footerBytes)
	return append(append(own, b.spill[0]), value...)
}

// next consumes n bytes, which are valid until the next read. They have to fit into the buffer.
func (b *buffer) next(n int) ([]byte, error) {
	for b.w-b.r < n {
		if err := b.more(); err != nil {
			return nil, err
		}
	}
	b.r += n
	return b.data[b.r-n : b.r], nil
}

func (b *buffer) byte() (byte, error) {
	if b.r < b.w {
		b.r++
		return b.data[b.r-1], nil
	}
	p, err := b.next(1)
	if err != nil {
		return 0, err
	}
	return p[0], nil
}

// skip consumes n bytes.
func (b *buffer) skip(n uint64) error {
	for {
		there := uint64(b.w - b.r) //nolint:gosec // w is never below r.
		if n <= there {
			b.r += int(n) //nolint:gosec // It is not more than is in the buffer.
			return nil
		}
		b.r = b.w
		n -= there
		if err := b.more(); err != nil {
			return err
		}
	}
}

// Encodings of a length, in its two upper bits, or in all of them.
const (
	length6  = 0
	length14 = 1
	length32 = 0x80
	length64 = 0x81
	encoded  = 3
)

// Encodings of a string, where a length says that there is none.
const (
	encodedInt8 = iota
	encodedInt16
	encodedInt32
	encodedLZF
)

// length reads a number of 1 to 9 bytes. If special is true, it is the encoding of a string instead.
func (b *buffer) length() (n uint64, special bool, err error) {
	first, err := b.byte()
	if err != nil {
		return 0, false, err
	}
	switch first >> 6 {
	case length6:
		return uint64(first), false, nil
	case length14:
		second, err := b.byte()
		return uint64(first&0x3f)<<8 | uint64(second), false, err
	case encoded:
		return uint64(first & 0x3f), true, nil
	}
	size := 4
	switch first {
	case length32:
	case length64:
		size = 8
	default:
		return 0, false, b.damaged("a length that begins with %#x", first)
	}
	p, err := b.next(size)
	if err != nil {
		return 0, false, err
	}
	if size == 4 {
		return uint64(binary.BigEndian.Uint32(p)), false, nil
	}
	return binary.BigEndian.Uint64(p), false, nil
}

// number reads a length that has to be one.
func (b *buffer) number() (uint64, error) {
	n, special, err := b.length()
	if err == nil && special {
		err = b.damaged("the encoding of a string where a number belongs")
	}
	return n, err
}

// lzfSizes reads the lengths that precede compressed data.
func (b *buffer) lzfSizes() (compressed, plain uint64, err error) {
	if compressed, err = b.number(); err != nil {
		return 0, 0, err
	}
	plain, err = b.number()
	return compressed, plain, err
}

// string reads a string. It is valid until the next one is read.
func (b *buffer) string() ([]byte, error) {
	n, special, err := b.length()
	if err != nil {
		return nil, err
	}
	if b.text = b.text[:0]; cap(b.text) > largeBytes {
		b.text = nil
	}
	if !special {
		err = b.plain(n)
		return b.text, err
	}
	if n == encodedLZF {
		err = b.expand()
		return b.text, err
	}
	if n > encodedInt32 {
		return nil, b.damaged("a string in an encoding %d", n)
	}
	p, err := b.next(1 << n)
	if err != nil {
		return nil, err
	}
	var value int64
	switch n {
	case encodedInt8:
		value = int64(int8(p[0])) //nolint:gosec // Numbers are signed.
	case encodedInt16:
		value = int64(int16(binary.LittleEndian.Uint16(p))) //nolint:gosec // Numbers are signed.
	default:
		value = int64(int32(binary.LittleEndian.Uint32(p))) //nolint:gosec // Numbers are signed.
	}
	b.text = strconv.AppendInt(b.text, value, 10)
	return b.text, nil
}

// plain appends n bytes to the text, in pieces: a length that lies costs no memory.
func (b *buffer) plain(n uint64) error {
	for n > 0 {
		p, err := b.next(int(min(n, bufferBytes/4)))
		if err != nil {
			return err
		}
		if int64(len(b.text)+len(p)) > b.limit {
			return b.tooLarge()
		}
		b.text = append(b.text, p...)
		n -= uint64(len(p))
	}
	return nil
}

// expand reads a compressed string.
func (b *buffer) expand() error {
	compressed, size, err := b.lzfSizes()
	if err != nil {
		return err
	}
	if err := b.plain(compressed); err != nil {
		return err
	}
	if size > uint64(b.limit) && size <= lzfRatio*uint64(len(b.text)) { //nolint:gosec // The limit is positive.
		return b.tooLarge()
	}
	out, err := lzfExpand(nil, b.text, size)
	if err != nil {
		return err
	}
	b.text = out
	return nil
}

// skipString consumes a string without looking at it.
func (b *buffer) skipString() error {
	n, special, err := b.length()
	switch {
	case err != nil:
		return err
	case !special:
		return b.skip(n)
	case n == encodedLZF:
		compressed, _, err := b.lzfSizes()
		if err != nil {
			return err
		}
		return b.skip(compressed)
	case n <= encodedInt32:
		return b.skip(1 << n)
	}
	return b.damaged("a string in an encoding %d", n)
}
