package redisdump

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Digest tells whether servers hold the same: of two digests the sums are equal if and only if the keys are, with their types, values and
// expiries, whatever the encodings, the order and the distribution over servers. What a stream's group knows of the times at which
// consumers were seen is left out.
type Digest struct {
	// Keys is the number of keys.
	Keys int64
	// Sum is of the SHA-256 of each key with its value, modulo 2^64 in each of four parts.
	Sum [4]uint64
}

// Add joins what two servers hold.
func (d *Digest) Add(o Digest) {
	d.Keys += o.Keys
	for i := range d.Sum {
		d.Sum[i] += o.Sum[i]
	}
}

// String has all of it in hexadecimal.
func (d Digest) String() string {
	var raw []byte
	for _, part := range d.Sum {
		raw = binary.BigEndian.AppendUint64(raw, part)
	}
	return fmt.Sprintf("%d keys %s", d.Keys, hex.EncodeToString(raw))
}

// DigestOf reads the database that a client of one server is connected to. Nobody should write meanwhile. It reads each value as a whole,
// and is for tests and for the verification of a backup in a server of its own.
func DigestOf(ctx context.Context, c *goredis.Client) (Digest, error) {
	var d Digest
	seen := map[string]bool{} // SCAN may tell a key twice.
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, "*", 1000).Result()
		if err != nil {
			return d, fmt.Errorf("scan: %w", err)
		}
		for _, key := range keys {
			if seen[key] {
				continue
			}
			seen[key] = true
			if err := d.key(ctx, c, key); err != nil {
				return d, fmt.Errorf("read the key %.100q: %w", key, err)
			}
		}
		if cursor = next; cursor == 0 {
			return d, nil
		}
	}
}

func (d *Digest) key(ctx context.Context, c *goredis.Client, key string) error {
	kind, err := c.Type(ctx, key).Result()
	if err != nil {
		return err
	}
	expiry, err := c.Do(ctx, "PEXPIRETIME", key).Int64()
	if err != nil || expiry == -2 { // It has just expired.
		return err
	}
	h := sha256.New()
	write(h, key, kind, fmt.Sprint(expiry))
	read := map[string]func(context.Context, *goredis.Client, string, io.Writer) error{
		"string": readString, "list": readList, "set": readSet, "zset": readSortedSet, "hash": readHash, "stream": readStream,
	}[kind]
	if read == nil {
		return fmt.Errorf("%w: the type %s", ErrUnsupported, kind)
	}
	if err := read(ctx, c, key, h); err != nil {
		return err
	}
	one, sum := Digest{Keys: 1}, h.Sum(nil)
	for i := range one.Sum {
		one.Sum[i] = binary.BigEndian.Uint64(sum[8*i:])
	}
	d.Add(one)
	return nil
}

// write appends words so that their limits are part of what is hashed. A hash never fails.
func write(h io.Writer, words ...string) {
	for _, w := range words {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(w), w)
	}
}

func readString(ctx context.Context, c *goredis.Client, key string, h io.Writer) error {
	v, err := c.Get(ctx, key).Result()
	write(h, v)
	return err
}

func readList(ctx context.Context, c *goredis.Client, key string, h io.Writer) error {
	v, err := c.LRange(ctx, key, 0, -1).Result()
	write(h, v...)
	return err
}

func readSet(ctx context.Context, c *goredis.Client, key string, h io.Writer) error {
	v, err := c.SMembers(ctx, key).Result()
	slices.Sort(v)
	write(h, v...)
	return err
}

// readSortedSet relies on the order of members with the same score, which is that of their bytes.
func readSortedSet(ctx context.Context, c *goredis.Client, key string, h io.Writer) error {
	v, err := c.ZRangeWithScores(ctx, key, 0, -1).Result()
	for _, z := range v {
		write(h, fmt.Sprint(z.Member), fmt.Sprint(z.Score))
	}
	return err
}

// readHash also reads when fields expire, of servers that know of that (Redis 7.4, Valkey 9.0).
func readHash(ctx context.Context, c *goredis.Client, key string, h io.Writer) error {
	v, err := c.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	fields := make([]string, 0, len(v))
	for f := range v {
		fields = append(fields, f)
	}
	slices.Sort(fields)
	for part := range slices.Chunk(fields, 1000) {
		expiries, err := c.HPExpireTime(ctx, key, part...).Result()
		if err != nil && !strings.Contains(err.Error(), "unknown command") {
			return err
		}
		for i, f := range part {
			at := int64(-1)
			if i < len(expiries) {
				at = expiries[i]
			}
			write(h, f, v[f], fmt.Sprint(at))
		}
	}
	return nil
}

// readStream reads entries, what the stream knows of entries that are gone, and of each group where it is and what is pending.
func readStream(ctx context.Context, c *goredis.Client, key string, h io.Writer) error {
	s, err := c.XInfoStreamFull(ctx, key, 0).Result()
	if err != nil {
		return err
	}
	write(h, fmt.Sprint(s.Length), s.LastGeneratedID, s.MaxDeletedEntryID, fmt.Sprint(s.EntriesAdded))
	messages, err := c.Do(ctx, "XRANGE", key, "-", "+").Slice() // Fields may come more than once, and in any order.
	if err != nil && !errors.Is(err, goredis.Nil) {
		return err
	}
	write(h, fmt.Sprintf("%q", messages))
	slices.SortFunc(s.Groups, func(a, b goredis.XInfoStreamGroup) int { return strings.Compare(a.Name, b.Name) })
	for _, g := range s.Groups {
		write(h, g.Name, g.LastDeliveredID, fmt.Sprint(g.EntriesRead, g.PelCount))
		for _, p := range g.Pending {
			write(h, p.ID, p.Consumer, fmt.Sprint(p.DeliveryTime.UnixMilli(), p.DeliveryCount))
		}
		slices.SortFunc(g.Consumers, func(a, b goredis.XInfoStreamConsumer) int { return strings.Compare(a.Name, b.Name) })
		for _, consumer := range g.Consumers {
			write(h, consumer.Name, fmt.Sprint(consumer.PelCount))
		}
	}
	return nil
}
