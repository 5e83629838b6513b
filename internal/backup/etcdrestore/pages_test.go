package etcdrestore_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/quorate/quorate/internal/backup/etcdrestore"
)

const boltPage = 4096

// boltFile is a database with the buckets of etcd and n changes. synced has it store the list of free pages, as etcd does not.
func boltFile(tb testing.TB, n int, synced bool) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: boltPage, NoFreelistSync: !synced})
	if err != nil {
		tb.Fatal(err)
	}
	for round := range 2 { // The second transaction frees pages.
		err := db.Update(func(tx *bolt.Tx) error {
			var all error
			for _, name := range []string{"key", "meta", "cluster", "members", "members_removed", "alarm", "lease"} {
				_, err := tx.CreateBucketIfNotExists([]byte(name))
				all = errors.Join(all, err)
			}
			for i := range n {
				key := binary.BigEndian.AppendUint64(nil, uint64(2+i+round*n))
				key = binary.BigEndian.AppendUint64(append(key, '_'), 0)
				name := fmt.Sprintf("k%d", i)
				value := append([]byte{0x0a, byte(len(name))}, name...)
				value = append(value, 0x20, 1) // Version 1.
				value = append(value, 0x2a, 100)
				all = errors.Join(all, tx.Bucket([]byte("key")).Put(key, append(value, bytes.Repeat([]byte("v"), 100)...)))
			}
			return all
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// branches are the offsets of the branch pages in a database that refer to a page each.
func branches(raw []byte) (at []int) {
	for i := 2 * boltPage; i+boltPage <= len(raw); i += boltPage {
		if binary.NativeEndian.Uint16(raw[i+8:]) == 1 && binary.NativeEndian.Uint16(raw[i+10:]) > 1 {
			at = append(at, i)
		}
	}
	return at
}

// readBack writes a database to a file and reads it.
func readBack(tb testing.TB, raw []byte) (etcdrestore.State, error) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		tb.Fatal(err)
	}
	return etcdrestore.Verify(tb.Context(), path)
}

func TestADatabaseWithOrWithoutAListOfFreePagesIsRead(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{"synced": boltFile(t, 500, true), "not synced": boltFile(t, 500, false), "small": boltFile(t, 1, true)} {
		if s, err := readBack(t, raw); err != nil || s.Records == 0 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// bbolt follows all of these without end, or ends the process.
func TestAPageTreeThatIsNoTreeIsDamage(t *testing.T) {
	t.Parallel()
	whole := boltFile(t, 500, true)
	at := branches(whole)
	if len(at) == 0 {
		t.Fatal("the database has no branch page")
	}
	const firstChild, secondChild = 16 + 8, 16 + 16 + 8
	number := binary.NativeEndian
	for name, harm := range map[string]func(page []byte, id uint64){
		"a page that leads to itself":      func(p []byte, id uint64) { number.PutUint64(p[firstChild:], id) },
		"a page that is referred to twice": func(p []byte, _ uint64) { number.PutUint64(p[secondChild:], number.Uint64(p[firstChild:])) },
		"children in the wrong order": func(p []byte, _ uint64) {
			first, second := number.Uint64(p[firstChild:]), number.Uint64(p[secondChild:])
			number.PutUint64(p[firstChild:], second)
			number.PutUint64(p[secondChild:], first)
		},
		"a page beyond the file":         func(p []byte, _ uint64) { number.PutUint64(p[firstChild:], 1<<40) },
		"a meta page":                    func(p []byte, _ uint64) { number.PutUint64(p[firstChild:], 0) },
		"a page that says it is another": func(p []byte, id uint64) { number.PutUint64(p, id+1) },
		"a page of no kind":              func(p []byte, _ uint64) { number.PutUint16(p[8:], 3) },
		"more pages than there are":      func(p []byte, _ uint64) { number.PutUint32(p[12:], 1<<30) },
		"more elements than fit":         func(p []byte, _ uint64) { number.PutUint16(p[10:], 60_000) },
		"no elements":                    func(p []byte, _ uint64) { number.PutUint16(p[10:], 0) },
		"a key outside of its page":      func(p []byte, _ uint64) { number.PutUint32(p[16:], 1<<31) },
		"keys out of order": func(p []byte, _ uint64) {
			var first [16]byte
			copy(first[:], p[16:32])
			copy(p[16:32], p[32:48])
			copy(p[32:48], first[:])
		},
	} {
		raw := bytes.Clone(whole)
		for _, i := range at {
			harm(raw[i:i+boltPage], uint64(i/boltPage))
		}
		if s, err := readBack(t, raw); !errors.Is(err, etcdrestore.ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// Offsets in a meta page, after its header of 16 bytes.
const metaRoot, metaFree, metaPages = 16, 32, 40

// withMeta returns a database whose meta pages are changed and have valid checksums.
func withMeta(raw []byte, change func(meta []byte)) []byte {
	raw = bytes.Clone(raw)
	for _, at := range []int{16, boltPage + 16} {
		meta := raw[at : at+64]
		change(meta)
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:56]) // A hash never fails.
		binary.NativeEndian.PutUint64(meta[56:], sum.Sum64())
	}
	return raw
}

// newestMeta returns the meta page with the higher transaction.
func newestMeta(raw []byte) []byte {
	first, second := raw[16:80], raw[boltPage+16:boltPage+80]
	if binary.NativeEndian.Uint64(second[48:]) > binary.NativeEndian.Uint64(first[48:]) {
		return second
	}
	return first
}

// deep returns a database with n branch pages of one child each above its root.
func deep(raw []byte, n int) []byte {
	number := binary.NativeEndian
	root, first := number.Uint64(newestMeta(raw)[metaRoot:]), uint64(len(raw)/boltPage)
	out := bytes.Clone(raw)
	for i := range n {
		page := make([]byte, boltPage)
		id, child := first+uint64(i), first+uint64(i)+1
		if i == n-1 {
			child = root
		}
		number.PutUint64(page, id)
		number.PutUint16(page[8:], 1)  // A branch page
		number.PutUint16(page[10:], 1) // of one element,
		number.PutUint32(page[16:], 16)
		number.PutUint64(page[24:], child) // whose key is empty.
		out = append(out, page...)
	}
	return withMeta(out, func(meta []byte) {
		number.PutUint64(meta[metaRoot:], first)
		number.PutUint64(meta[metaFree:], ^uint64(0)) // No list of free pages.
		number.PutUint64(meta[metaPages:], first+uint64(n))
	})
}

func TestMetaPagesAndFreePagesAreChecked(t *testing.T) {
	t.Parallel()
	number := binary.NativeEndian
	whole := boltFile(t, 500, true)
	free := int(number.Uint64(newestMeta(whole)[metaFree:])) * boltPage
	if number.Uint16(whole[free+10:]) == 0 {
		t.Fatal("the database has no free page")
	}
	withFree := func(id uint64) []byte {
		raw := bytes.Clone(whole)
		number.PutUint64(raw[free+16:], id)
		return raw
	}
	if s, err := readBack(t, deep(whole, 10)); err != nil || s.Records == 0 {
		t.Fatalf("a tree of a few more levels: %+v, %v", s, err)
	}
	// The walk must end on the way down: bbolt needs stack for each level.
	if _, err := readBack(t, deep(whole, 70)); !errors.Is(err, etcdrestore.ErrDamaged) || !strings.Contains(err.Error(), "deeper than 64") {
		t.Errorf("a tree that is too deep: %v", err)
	}
	for name, raw := range map[string][]byte{
		"more pages than the file has":   withMeta(whole, func(m []byte) { number.PutUint64(m[metaPages:], 1<<40) }),
		"a meta page among the free":     withFree(0),
		"a free page beyond the file":    withFree(1 << 40),
		"a page in use among the free":   withFree(number.Uint64(newestMeta(whole)[metaRoot:])),
		"a list of free pages elsewhere": withMeta(whole, func(m []byte) { number.PutUint64(m[metaFree:], number.Uint64(m[metaRoot:])) }),
	} {
		if s, err := readBack(t, raw); !errors.Is(err, etcdrestore.ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// meta changes one meta page of a database, and gives it a valid checksum.
func meta(raw []byte, at int, change func(meta []byte)) []byte {
	raw = bytes.Clone(raw)
	m := raw[at+16 : at+80]
	change(m)
	sum := fnv.New64a()
	_, _ = sum.Write(m[:56]) // A hash never fails.
	binary.NativeEndian.PutUint64(m[56:], sum.Sum64())
	return raw
}

// check reads a database, and insists on an error with these words; with none, that it is read.
func check(t *testing.T, name string, raw []byte, words string) {
	t.Helper()
	s, err := readBack(t, raw)
	switch {
	case words == "" && (err != nil || s.Records == 0):
		t.Errorf("%s: %+v, %v", name, s, err)
	case words != "" && (!errors.Is(err, etcdrestore.ErrDamaged) || !strings.Contains(err.Error(), words)):
		t.Errorf("%s: %v, want %q", name, err, words)
	}
}

func TestTheNewestValidMetaPageCounts(t *testing.T) {
	t.Parallel()
	number := binary.NativeEndian
	whole := boltFile(t, 500, true)
	older, newer := 0, boltPage
	if number.Uint64(whole[16+48:]) > number.Uint64(whole[boltPage+16+48:]) {
		older, newer = newer, older
	}
	damage := func(raw []byte, at int) []byte {
		raw = bytes.Clone(raw)
		raw[at+16+metaRoot]++ // The checksum is wrong now.
		return raw
	}
	astray := func(m []byte) { number.PutUint64(m[metaRoot:], 1<<40) }
	for name, tc := range map[string]struct {
		raw   []byte
		words string // of the error; empty: it is read
	}{
		"the older one leads astray":     {meta(whole, older, astray), ""},
		"the newer one leads astray":     {meta(whole, newer, astray), "page 1099511627776 is referred to"},
		"the older one is damaged":       {damage(whole, older), ""},
		"the first one is another size":  {meta(whole, 0, func(m []byte) { number.PutUint32(m[8:], 2*boltPage) }), "says that it is page 0"},
		"the second one is another size": {meta(whole, boltPage, func(m []byte) { number.PutUint32(m[8:], 2*boltPage) }), "its meta pages differ in the size"},
		"both are damaged":               {damage(damage(whole, older), newer), "no valid meta page, or pages of 0 bytes"},
		"no magic number":                {withMeta(whole, func(m []byte) { m[0]++ }), "no valid meta page"},
		"another version":                {withMeta(whole, func(m []byte) { m[4]++ }), "no valid meta page"},
		"pages that are too small":       {withMeta(whole, func(m []byte) { number.PutUint32(m[8:], 512) }), "pages of 512 bytes"},
		"pages that are too large":       {withMeta(whole, func(m []byte) { number.PutUint32(m[8:], 1<<26) }), "pages of 67108864 bytes"},
		"pages of an odd size":           {withMeta(whole, func(m []byte) { number.PutUint32(m[8:], 5000) }), "pages of 5000 bytes"},
		"no second page":                 {whole[:boltPage], "has only 4096 bytes"},
		"no page":                        {whole[:1000], "a database of 1000 bytes"},
	} {
		check(t, name, tc.raw, tc.words)
	}
}

func TestBucketsAndTheListOfFreePagesAreChecked(t *testing.T) {
	t.Parallel()
	number := binary.NativeEndian
	whole := boltFile(t, 1, true)
	root, free := int(number.Uint64(newestMeta(whole)[metaRoot:]))*boltPage, int(number.Uint64(newestMeta(whole)[metaFree:]))*boltPage
	const element, flags, valueSize = 16, 16, 16 + 12 // The first element of the root is an inline bucket.
	if number.Uint32(whole[root+flags:]) != 1 {
		t.Fatal("the root does not begin with a bucket")
	}
	value := root + element + int(number.Uint32(whole[root+element+4:])) + int(number.Uint32(whole[root+element+8:]))
	if number.Uint64(whole[value:]) != 0 {
		t.Fatal("the first bucket is not inline")
	}
	harmed := func(harm func(raw []byte)) []byte {
		raw := bytes.Clone(whole)
		harm(raw)
		return raw
	}
	overflow := func(count uint64) func(raw []byte) {
		return func(raw []byte) {
			n := number.Uint16(raw[free+10:])
			copy(raw[free+24:], bytes.Clone(raw[free+16:free+16+8*int(n)]))
			number.PutUint16(raw[free+10:], 0xFFFF)
			number.PutUint64(raw[free+16:], cmp.Or(count, uint64(n)))
		}
	}
	for name, tc := range map[string]struct {
		raw   []byte
		words string // of the error; empty: it is read
	}{
		"a bucket without a header":    {harmed(func(raw []byte) { number.PutUint32(raw[root+valueSize:], 15) }), "has 15 bytes"},
		"a bucket without a page":      {harmed(func(raw []byte) { number.PutUint32(raw[root+valueSize:], 31) }), "has 31 bytes"},
		"a bucket that is no leaf":     {harmed(func(raw []byte) { number.PutUint16(raw[value+16+8:], 1) }), "is of the kind 0x1"},
		"a bucket with a number":       {harmed(func(raw []byte) { number.PutUint64(raw[value+16:], 7) }), "is of the kind 0x2"},
		"a bucket that is a free page": {harmed(func(raw []byte) { number.PutUint64(raw[value:], uint64(free/boltPage)) }), "is of the kind 0x10"},
		"a list of another kind":       {harmed(func(raw []byte) { number.PutUint16(raw[free+8:], 2) }), "with the free pages is of the kind 0x2"},
		"a list beyond its page":       {harmed(func(raw []byte) { number.PutUint16(raw[free+10:], 511) }), "has no room for 511 free pages"},
		"a long list":                  {harmed(overflow(0)), ""},
		"a long list beyond its page":  {harmed(overflow(510)), "has no room for 510 free pages"},
	} {
		check(t, name, tc.raw, tc.words)
	}
}

func TestTheWalkOverPagesEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, boltFile(t, 50_000, false), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := etcdrestore.Verify(ctx, path); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}

// FuzzSnapshot reads databases that were not written by bbolt: the answer is ErrDamaged or a State, in bounded time and memory.
func FuzzSnapshot(f *testing.F) {
	for _, synced := range []bool{true, false} {
		raw := boltFile(f, 60, synced)
		f.Add(raw)
		for _, i := range branches(raw) {
			loop := bytes.Clone(raw)
			binary.NativeEndian.PutUint64(loop[i+24:], uint64(i/boltPage))
			f.Add(loop)
		}
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := readBack(t, raw); err != nil && !errors.Is(err, etcdrestore.ErrDamaged) {
			t.Errorf("%v is none of the errors that callers know", err)
		}
	})
}
