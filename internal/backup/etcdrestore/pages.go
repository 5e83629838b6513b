package etcdrestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"os"
	"syscall"
)

// The file format of bbolt (internal/common of go.etcd.io/bbolt), in the byte order of the machine.
const (
	boltMagic, boltVersion   = 0xED0CDAED, 2
	pageHeader, pageElement  = 16, 16
	bucketHeader             = 16
	metaSize, metaSumAt      = 64, 56
	flagBranch, flagLeaf     = 0x01, 0x02
	flagFreelist, flagBucket = 0x10, 0x01
	noFreelist               = ^uint64(0)
	minPageSize, maxPageSize = 1 << 10, 1 << 25
	freelistOverflow         = 0xFFFF
	firstPage                = 2 // The first two are the meta pages.
	// maxDepth of a page tree, nested buckets included. A branch page has at least two children, so a tree of 2^63 bytes is less deep.
	maxDepth = 64
)

// checkPages walks the page tree of a database before bbolt reads it. bbolt trusts the tree: a page that leads to itself makes it allocate
// without end, a deep one overflows its stack, and it checks some of the rest in goroutines whose panics end the process. Every page is
// in the file and visited once, so the walk ends. It takes a bit of memory for each page. The error is ErrDamaged.
func checkPages(ctx context.Context, path string) (err error) {
	f, err := os.Open(path) //nolint:gosec // The path is the caller's to choose.
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	if info.Size() < 2*minPageSize {
		return fmt.Errorf("%w: a database of %d bytes", ErrDamaged, info.Size())
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the database: %w", err)
	}
	defer func() { err = errors.Join(err, syscall.Munmap(data)) }()
	return guarded(func() error {
		w, err := newPageWalk(ctx, data)
		if err != nil {
			return err
		}
		return w.all()
	})
}

// pageWalk is the state of one walk.
type pageWalk struct {
	ctx context.Context // The walk is recursive.
	// data is the file, size that of a page, and pages how many there are.
	data        []byte
	size, pages uint64
	root, free  uint64
	// seen has a bit for each page.
	seen  []uint64
	steps int
}

func newPageWalk(ctx context.Context, data []byte) (*pageWalk, error) {
	w := &pageWalk{ctx: ctx, data: data}
	meta, err := w.meta()
	if err != nil {
		return nil, err
	}
	number := binary.NativeEndian.Uint64
	w.root, w.free = number(meta[16:]), number(meta[32:])
	if w.pages = number(meta[40:]); w.pages > uint64(len(data))/w.size {
		return nil, fmt.Errorf("%w: a database of %d pages of %d bytes has only %d bytes", ErrDamaged, w.pages, w.size, len(data))
	}
	w.seen = make([]uint64, w.pages/64+1)
	return w, nil
}

// meta finds the valid meta page with the higher transaction, as bbolt does, and with it the size of pages.
func (w *pageWalk) meta() ([]byte, error) {
	first := validMeta(w.data, 0)
	if w.size = sizeOfPages(w.data, first); w.size < minPageSize || w.size > maxPageSize || bits.OnesCount64(w.size) != 1 {
		return nil, fmt.Errorf("%w: no valid meta page, or pages of %d bytes", ErrDamaged, w.size)
	}
	second := validMeta(w.data, w.size)
	for _, m := range [][]byte{first, second} {
		if m != nil && uint64(binary.NativeEndian.Uint32(m[8:])) != w.size {
			return nil, fmt.Errorf("%w: its meta pages differ in the size of pages", ErrDamaged)
		}
	}
	const transaction = 48
	switch {
	case second == nil && first == nil:
		return nil, fmt.Errorf("%w: no valid meta page", ErrDamaged)
	case first == nil:
		return second, nil
	case second == nil || binary.NativeEndian.Uint64(second[transaction:]) <= binary.NativeEndian.Uint64(first[transaction:]):
		return first, nil
	}
	return second, nil
}

// sizeOfPages reads the size of pages from the first meta page, or from a second one where bbolt looks for
// it; 0: there is none.
func sizeOfPages(data, first []byte) uint64 {
	if first != nil {
		return uint64(binary.NativeEndian.Uint32(first[8:]))
	}
	for size := uint64(minPageSize); size <= maxPageSize; size *= 2 {
		if m := validMeta(data, size); m != nil {
			if found := uint64(binary.NativeEndian.Uint32(m[8:])); found != 0 {
				return found
			}
		}
	}
	return 0
}

// validMeta returns the meta at the page that begins at an offset, nil if it is not valid.
func validMeta(data []byte, at uint64) []byte {
	if at+pageHeader+metaSize > uint64(len(data)) {
		return nil
	}
	m := data[at+pageHeader : at+pageHeader+metaSize]
	sum := fnv.New64a()
	_, _ = sum.Write(m[:metaSumAt]) // A hash never fails.
	if binary.NativeEndian.Uint32(m) != boltMagic || binary.NativeEndian.Uint32(m[4:]) != boltVersion ||
		binary.NativeEndian.Uint64(m[metaSumAt:]) != sum.Sum64() {
		return nil
	}
	return m
}

func (w *pageWalk) all() error {
	if _, err := w.tree(w.root, 0, nil, nil); err != nil {
		return err
	}
	if w.free == noFreelist {
		return nil
	}
	p, err := w.page(w.free)
	if err != nil {
		return err
	}
	return w.freelist(p)
}

// boltPage is a page with all pages that it overflows into, or the inline page of a bucket.
type boltPage struct {
	id    uint64
	flags uint16
	count int
	raw   []byte
}

func parsePage(raw []byte) boltPage {
	return boltPage{
		id: binary.NativeEndian.Uint64(raw), flags: binary.NativeEndian.Uint16(raw[8:]), count: int(binary.NativeEndian.Uint16(raw[10:])), raw: raw,
	}
}

// page visits a page.
func (w *pageWalk) page(id uint64) (boltPage, error) {
	if w.steps++; w.steps%1024 == 0 && w.ctx.Err() != nil {
		return boltPage{}, fmt.Errorf("check the pages of the database: %w", context.Cause(w.ctx))
	}
	if id < firstPage || id >= w.pages {
		return boltPage{}, fmt.Errorf("%w: page %d is referred to, and there are %d", ErrDamaged, id, w.pages)
	}
	p := parsePage(w.data[id*w.size : (id+1)*w.size])
	overflow := uint64(binary.NativeEndian.Uint32(p.raw[12:]))
	if p.id != id || id+overflow >= w.pages {
		return p, fmt.Errorf("%w: page %d says that it is page %d with %d more", ErrDamaged, id, p.id, overflow)
	}
	for n := id; n <= id+overflow; n++ {
		if err := w.visit(n); err != nil {
			return p, err
		}
	}
	p.raw = w.data[id*w.size : (id+overflow+1)*w.size]
	return p, nil
}

func (w *pageWalk) visit(id uint64) error {
	if w.seen[id/64]&(1<<(id%64)) != 0 {
		return fmt.Errorf("%w: page %d is referred to twice", ErrDamaged, id)
	}
	w.seen[id/64] |= 1 << (id % 64)
	return nil
}

// tree visits the pages of a bucket from one on. All keys are at least from, and less than to, where these are not nil. It returns the
// last key.
func (w *pageWalk) tree(id uint64, depth int, from, to []byte) (last []byte, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: its page tree is deeper than %d", ErrDamaged, maxDepth)
	}
	p, err := w.page(id)
	if err != nil {
		return nil, err
	}
	switch p.flags {
	case flagBranch:
		return w.branch(p, depth, from, to)
	case flagLeaf:
		return w.leaf(p, depth, from, to)
	}
	return nil, fmt.Errorf("%w: page %d is of the kind %#x", ErrDamaged, id, p.flags)
}

func (w *pageWalk) branch(p boltPage, depth int, from, to []byte) (last []byte, err error) {
	if p.count == 0 {
		return nil, fmt.Errorf("%w: branch page %d is empty", ErrDamaged, p.id)
	}
	for i := range p.count {
		key, _, err := p.element(i, 0, 4, -1)
		if err != nil {
			return nil, err
		}
		if err := p.ordered(i, last, key, from, to); err != nil {
			return nil, err
		}
		end := to
		if i+1 < p.count {
			if end, _, err = p.element(i+1, 0, 4, -1); err != nil {
				return nil, err
			}
		}
		child := binary.NativeEndian.Uint64(p.raw[pageHeader+i*pageElement+8:])
		if last, err = w.tree(child, depth+1, key, end); err != nil {
			return nil, err
		}
	}
	return last, nil
}

func (w *pageWalk) leaf(p boltPage, depth int, from, to []byte) (last []byte, err error) {
	for i := range p.count {
		key, value, err := p.element(i, 4, 8, 12)
		if err != nil {
			return nil, err
		}
		if err := p.ordered(i, last, key, from, to); err != nil {
			return nil, err
		}
		last = key
		if binary.NativeEndian.Uint32(p.raw[pageHeader+i*pageElement:])&flagBucket == 0 {
			continue
		}
		if err := w.bucket(p, value, depth); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// bucket visits a bucket, which has pages of its own or a single one in its value.
func (w *pageWalk) bucket(p boltPage, value []byte, depth int) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("%w: a bucket in page %d has %d bytes", ErrDamaged, p.id, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		_, err := w.tree(root, depth+1, nil, nil)
		return err
	}
	if len(value) < bucketHeader+pageHeader || depth > maxDepth {
		return fmt.Errorf("%w: a bucket in page %d has %d bytes", ErrDamaged, p.id, len(value))
	}
	inline := parsePage(value[bucketHeader:])
	if inline.flags != flagLeaf || inline.id != 0 {
		return fmt.Errorf("%w: a bucket in page %d is of the kind %#x", ErrDamaged, p.id, inline.flags)
	}
	_, err := w.leaf(inline, depth+1, nil, nil)
	return err
}

// element returns the key and the value of an element, whose fields are at these offsets; valueAt -1: there is none.
func (p boltPage) element(i, posAt, keyAt, valueAt int) (key, value []byte, err error) {
	at := uint64(pageHeader + i*pageElement) //nolint:gosec // It is not negative.
	if at+pageElement <= uint64(len(p.raw)) {
		e := p.raw[at : at+pageElement]
		begin := at + uint64(binary.NativeEndian.Uint32(e[posAt:]))
		middle := begin + uint64(binary.NativeEndian.Uint32(e[keyAt:]))
		end := middle
		if valueAt >= 0 {
			end += uint64(binary.NativeEndian.Uint32(e[valueAt:]))
		}
		if begin >= at+pageElement && end <= uint64(len(p.raw)) {
			return p.raw[begin:middle], p.raw[middle:end], nil
		}
	}
	return nil, nil, fmt.Errorf("%w: element %d of page %d is not in it", ErrDamaged, i, p.id)
}

// ordered checks that a key comes after the one before it, in its page and in the tree.
func (p boltPage) ordered(i int, last, key, from, to []byte) error {
	if i > 0 && bytes.Compare(last, key) >= 0 || from != nil && bytes.Compare(key, from) < 0 || to != nil && bytes.Compare(key, to) >= 0 {
		return fmt.Errorf("%w: the keys of page %d are not in order", ErrDamaged, p.id)
	}
	return nil
}

// freelist checks the page of free pages: no page of the tree is among them.
func (w *pageWalk) freelist(p boltPage) error {
	if p.flags != flagFreelist {
		return fmt.Errorf("%w: page %d with the free pages is of the kind %#x", ErrDamaged, p.id, p.flags)
	}
	ids, count := p.raw[pageHeader:], uint64(p.count) //nolint:gosec // It is not negative.
	if p.count == freelistOverflow {
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return fmt.Errorf("%w: page %d has no room for %d free pages", ErrDamaged, p.id, count)
	}
	for i := range count {
		id := binary.NativeEndian.Uint64(ids[i*8:])
		if id < firstPage || id >= w.pages {
			return fmt.Errorf("%w: page %d is free, and there are %d", ErrDamaged, id, w.pages)
		}
		if err := w.visit(id); err != nil {
			return err
		}
	}
	return nil
}
