package redisdump

import (
	"bytes"
	"hash/crc64"
	"math/rand/v2"
	"testing"
)

func TestChecksumIsThatOfRedis(t *testing.T) {
	if got := crc64of("123456789"); got != 0xe9c6d914c4b8d9ca { // As src/crc64.c of Redis tests itself.
		t.Errorf("%x", got)
	}
	table, data := crc64.MakeTable(jones), make([]byte, 300)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	for n := range len(data) {
		// The standard library inverts before and after.
		if got, want := crc64of(string(data[:n])), ^crc64.Update(^uint64(0), table, data[:n]); got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
		if got, want := checksum(crc64of(string(data[:n])), data[n:]), crc64of(string(data)); got != want {
			t.Errorf("cut at %d: %x, want %x", n, got, want)
		}
	}
}

func crc64of(s string) uint64 { return checksum(0, []byte(s)) }

func TestLZFExpandsWhatRepeats(t *testing.T) {
	// 3 literals, the last of them again 9 times, all 12 from the start.
	in := []byte{2, 'a', 'b', 'c', 0xe0, 0, 0, 0xe0, 3, 11}
	if got, err := lzfExpand([]byte("x"), in, 24); err != nil || string(got) != "xabccccccccccabcccccccccc" {
		t.Errorf("%q %v", got, err)
	}
	for i := range in {
		if got, err := lzfExpand(nil, in[:i], 24); err == nil {
			t.Errorf("of the first %d bytes: %q", i, got)
		}
	}
	for _, in := range [][]byte{{0x20, 0}, {0, 'a', 0x20, 1}, {0xe0}, {0xe0, 1}, bytes.Repeat([]byte{31}, 10)} {
		if got, err := lzfExpand([]byte("earlier"), in, 3); err == nil {
			t.Errorf("%v: %q", in, got)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	data := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		checksum(0, data)
	}
}
