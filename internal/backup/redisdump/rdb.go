// Package redisdump takes the data of Redis and Valkey servers over the replication protocol, reads what they send, which is the RDB that
// they also save on disk, and loads it into servers of any number of shards. Values are never interpreted: what a server has serialized
// goes to another server as it is, by RESTORE. The package decides neither when nor where anything is kept, and knows readers and writers
// only; memory use does not depend on the size of the data, but for the largest single value while it is loaded.
package redisdump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

var (
	// ErrDamaged is returned for data that is not a whole RDB as a server writes it.
	ErrDamaged = errors.New("the dump is damaged")
	// ErrUnsupported is returned for an RDB of a version, or with a type or part, that this package does not know.
	ErrUnsupported = errors.New("the dump is not supported")
	// ErrTooLarge is returned for a key or value that is larger than a limit.
	ErrTooLarge = errors.New("a key or value is larger than the limit")
)

// Engines, as they write themselves.
const (
	EngineRedis  = "redis"
	EngineValkey = "valkey"
)

// Highest versions of RDB that are known, by what its first bytes say. Versions 12 to 79 are Redis's, from 80 on they are Valkey's
// (src/rdb.h of Valkey). Redis 8.6 writes 13 and 8.8 writes 14: all but their new types are as before.
const (
	newestRedis  = 14
	newestValkey = 80
	oldest       = 5 // The first with a checksum.
)

// Scan reads an RDB to its end and gives every key to a function; an error of that ends it. The reader has to end with the RDB.
// Errors: ErrDamaged, ErrUnsupported, ErrTooLarge (MaxBytes), and those of the reader and the function.
func Scan(r io.Reader, each func(Entry) error) (Summary, error) {
	d := newDecoder(r, MaxBytes)
	d.each = func(e *Entry) error { return each(*e) }
	return d.run()
}

// Count reads an RDB as Scan does, without its values.
func Count(r io.Reader) (Summary, error) { return newDecoder(r, MaxBytes).run() }

// decoder reads an RDB.
type decoder struct {
	*buffer
	summary Summary
	values  map[byte]func(*buffer) error
	// each is given every key, nil: they are counted only.
	each func(*Entry) error
	// function is given the code of every library, nil: they are counted only.
	function func(code []byte) error
	// entry is the next key as far as it is known, and key its memory.
	entry Entry
	key   []byte
}

func newDecoder(r io.Reader, limit int64) *decoder {
	d := &decoder{buffer: newBuffer(r, limit)}
	d.summary = Summary{Aux: map[string]string{}, KeysPerSlot: make([]int64, SlotCount), Modules: map[string]int64{}}
	return d
}

func (d *decoder) run() (Summary, error) {
	if err := d.header(); err != nil {
		return d.summary, err
	}
	return d.summary, d.body()
}

// magicLength is that of "REDIS0011" and "VALKEY080".
const magicLength = 9

// VersionOf returns the version of RDB of a dump, which may be cut off behind its first nine bytes.
func VersionOf(head []byte) (int, error) {
	_, version, err := readMagic(head[:min(magicLength, len(head))])
	return version, err
}

// readMagic returns the engine and the version of RDB out of the first nine bytes of a dump.
func readMagic(magic []byte) (engine string, version int, err error) {
	digits := bytes.TrimPrefix(magic, []byte("REDIS"))
	engine = EngineRedis
	if rest, ok := bytes.CutPrefix(magic, []byte("VALKEY")); ok {
		digits, engine = rest, EngineValkey
	} else if len(digits) == len(magic) {
		return "", 0, fmt.Errorf("%w: it does not begin as an RDB", ErrDamaged)
	}
	n, err := strconv.ParseUint(string(digits), 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%w: its version is %q", ErrDamaged, digits)
	}
	return engine, int(n), nil
}

// header reads the magic word and the version, "REDIS0011" or "VALKEY080".
func (d *decoder) header() error {
	magic, err := d.next(magicLength)
	if err != nil {
		return err
	}
	if d.summary.Engine, d.summary.Version, err = readMagic(magic); err != nil {
		return err
	}
	newest := newestRedis
	d.values = redisValues
	if d.summary.Engine == EngineValkey {
		newest, d.values = newestValkey, valkeyValues
	}
	if d.summary.Version < oldest || d.summary.Version > newest {
		return fmt.Errorf("%w: RDB version %d of %s is not between %d and %d", ErrUnsupported, d.summary.Version, d.summary.Engine, oldest, newest)
	}
	d.forget()
	return nil
}

// forget prepares for the next key.
func (d *decoder) forget() {
	d.entry = Entry{DB: d.entry.DB, Idle: -1, Freq: -1, version: d.summary.Version, buffer: d.buffer}
}

// Parts of an RDB that are no keys (src/rdb.h of Redis and of Valkey).
const (
	partSlotImport   = 243 // Valkey 9
	partSlotInfo     = 244 // Redis 7.4
	partFunction     = 245
	partModuleAux    = 247
	partIdle         = 248
	partFreq         = 249
	partAux          = 250
	partSizes        = 251
	partExpireMillis = 252
	partExpire       = 253
	partDB           = 254
	partEnd          = 255
	// firstPart is the lowest number that is not a type; numbers between are used by nobody.
	firstPart = 240
)

func (d *decoder) body() error {
	for {
		part, err := d.byte()
		if err != nil {
			return err
		}
		switch {
		case part == partEnd:
			return d.end()
		case part >= firstPart:
			err = d.part(part)
		default:
			err = d.pair(part)
		}
		if err != nil {
			return err
		}
	}
}

func (d *decoder) part(part byte) (err error) {
	switch part {
	case partAux:
		return d.aux()
	case partFunction:
		return d.library()
	case partModuleAux:
		_, err = skipModule(d.buffer)
		return err
	case partSlotInfo:
		return d.numbers(3)
	case partSlotImport:
		return d.slotImport()
	case partSizes:
		return d.numbers(2)
	case partDB:
		var n uint64
		if n, err = d.number(); err == nil && n > 1<<31 {
			err = d.damaged("a database %d", n)
		}
		d.entry.DB = int(n) //nolint:gosec // It was just checked.
		return err
	case partIdle, partFreq, partExpire, partExpireMillis:
		return d.attribute(part)
	}
	return fmt.Errorf("%w: part %d of RDB version %d of %s, at byte %d", ErrUnsupported, part, d.summary.Version, d.summary.Engine, d.offset()-1)
}

func (d *decoder) numbers(n int) error {
	for range n {
		if _, err := d.number(); err != nil {
			return err
		}
	}
	return nil
}

// slotImport passes over slots that were being imported: the name of the job and ranges of them.
func (d *decoder) slotImport() error {
	if d.summary.Engine != EngineValkey { // Redis 8.6 uses the number for metadata that modules attach to keys.
		return fmt.Errorf("%w: metadata of keys in RDB version %d", ErrUnsupported, d.summary.Version)
	}
	if err := d.skipString(); err != nil {
		return err
	}
	return counted((*buffer).skipNumber, (*buffer).skipNumber)(d.buffer)
}

// attribute reads what is known of the next key.
func (d *decoder) attribute(part byte) error {
	switch part {
	case partIdle:
		n, err := d.number()
		d.entry.Idle = int64(min(n, 1<<40))
		return err
	case partFreq:
		n, err := d.byte()
		d.entry.Freq = int(n)
		return err
	case partExpire:
		p, err := d.next(4)
		if err == nil {
			d.entry.ExpireAt = int64(int32(binary.LittleEndian.Uint32(p))) * 1000 //nolint:gosec // It is signed there.
		}
		return err
	}
	p, err := d.next(8)
	if err == nil {
		d.entry.ExpireAt = int64(binary.LittleEndian.Uint64(p)) //nolint:gosec // It is signed there.
	}
	return err
}

// auxFields are those that are kept. There may be one for each slot besides.
var auxFields = map[string]bool{
	"redis-ver": true, "valkey-ver": true, "redis-bits": true, "ctime": true, "used-mem": true, "aof-base": true,
	"repl-stream-db": true, "repl-id": true, "repl-offset": true,
}

func (d *decoder) aux() error {
	p, err := d.string()
	if err != nil {
		return err
	}
	if len(p) > 64 || !auxFields[string(p)] {
		return d.skipString()
	}
	name := string(p)
	if p, err = d.string(); err != nil {
		return err
	}
	value := string(p[:min(len(p), 256)])
	d.summary.Aux[name] = value
	switch name {
	case "redis-ver":
		d.summary.ServerVersion = value
	case "valkey-ver":
		d.summary.Engine, d.summary.ServerVersion = EngineValkey, value
	}
	return nil
}

func (d *decoder) library() error {
	d.summary.Functions++
	if d.function == nil {
		return d.skipString()
	}
	code, err := d.string()
	if err != nil {
		return err
	}
	return d.function(code)
}

// pair reads a key and passes over its value.
func (d *decoder) pair(kind byte) error {
	skip := d.values[kind]
	if skip == nil {
		return fmt.Errorf("%w: type %d%s in RDB version %d of %s, at byte %d",
			ErrUnsupported, kind, typeName(kind), d.summary.Version, d.summary.Engine, d.offset()-1)
	}
	key, err := d.string()
	if err != nil {
		return err
	}
	e := &d.entry
	e.Type, e.Slot = kind, Slot(key)
	if d.each != nil {
		d.key = append(d.key[:0], key...)
		e.Key = d.key
		d.capture(kind)
	}
	began := d.offset()
	if kind == typeModule {
		err = d.module()
	} else {
		err = skip(d.buffer)
	}
	if err != nil {
		return err
	}
	s := &d.summary
	s.Keys++
	s.KeysPerSlot[e.Slot]++
	if e.ExpireAt != 0 {
		s.Expires++
	}
	s.LargestValue = max(s.LargestValue, d.offset()-began)
	if d.each != nil {
		if e.Value, err = d.captured(); err != nil {
			return err
		}
		if err := d.each(e); err != nil {
			return err
		}
	}
	d.forget()
	return nil
}

func (d *decoder) module() error {
	name, err := skipModule(d.buffer)
	if _, known := d.summary.Modules[name]; err == nil && (known || len(d.summary.Modules) < 100) {
		d.summary.Modules[name]++
	}
	return err
}

// end compares the checksum, and takes care that nothing follows.
func (d *decoder) end() error {
	d.sum()
	crc := d.crc
	p, err := d.next(8)
	if err != nil {
		return err
	}
	want := binary.LittleEndian.Uint64(p)
	d.summary.Bytes, d.summary.CRC64 = d.offset(), want
	if want != 0 && want != crc {
		return fmt.Errorf("%w: its checksum is %016x, and that of what arrived is %016x", ErrDamaged, want, crc)
	}
	d.summary.Checked = want != 0
	return d.nothingFollows()
}

// markSize is the length of the mark in hexadecimal digits that ends an RDB of diskless replication (CONFIG_RUN_ID_SIZE of Redis).
const markSize = 40

func (d *decoder) nothingFollows() error {
	rest := bytes.Clone(d.data[d.r:d.w])
	if len(rest) <= markSize {
		more, err := io.ReadAll(io.LimitReader(d.src, int64(markSize+1-len(rest))))
		if err != nil {
			return fmt.Errorf("read the dump, behind its end: %w", err)
		}
		rest = append(rest, more...)
	}
	switch {
	case len(rest) == 0:
		return nil
	case len(rest) == markSize && len(bytes.Trim(rest, "0123456789abcdef")) == 0:
		return d.damaged("the mark of diskless replication follows its end, %d bytes that are not part of an RDB: remove them with head -c -%d", markSize, markSize)
	}
	return d.damaged("something follows its end")
}
