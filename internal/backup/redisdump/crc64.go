package redisdump

import "encoding/binary"

// jones is the polynomial of the checksum that ends every RDB and every DUMP payload, with its bits reversed: CRC-64/REDIS, nothing
// inverted before or after (src/crc64.c of Redis and Valkey). hash/crc64 inverts, and is a third as fast with a polynomial of its caller's.
const jones = 0x95ac9329ac4bc9b5

// lanes is how many bytes are looked up at a time.
const lanes = 16

// crcTables hold in [n][b] what a byte b contributes that n bytes follow ("slicing-by-16", Kounavis and Berry, 2005).
var crcTables = func() (t [lanes][256]uint64) {
	for b := range 256 {
		crc := uint64(b)
		for range 8 {
			bit := crc & 1
			crc >>= 1
			if bit == 1 {
				crc ^= jones
			}
		}
		t[0][b] = crc
	}
	for n := 1; n < lanes; n++ {
		for b := range 256 {
			before := t[n-1][b]
			t[n][b] = before>>8 ^ t[0][byte(before)]
		}
	}
	return t
}()

// checksum continues a checksum, which begins as zero.
//
//nolint:gosec // Conversions to byte take the lowest eight bits, as is meant.
func checksum(crc uint64, p []byte) uint64 {
	t := &crcTables
	for len(p) >= lanes {
		x, y := crc^binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
		crc = t[15][byte(x)] ^ t[14][byte(x>>8)] ^ t[13][byte(x>>16)] ^ t[12][byte(x>>24)] ^
			t[11][byte(x>>32)] ^ t[10][byte(x>>40)] ^ t[9][byte(x>>48)] ^ t[8][byte(x>>56)] ^
			t[7][byte(y)] ^ t[6][byte(y>>8)] ^ t[5][byte(y>>16)] ^ t[4][byte(y>>24)] ^
			t[3][byte(y>>32)] ^ t[2][byte(y>>40)] ^ t[1][byte(y>>48)] ^ t[0][byte(y>>56)]
		p = p[lanes:]
	}
	for _, b := range p {
		crc = t[0][byte(crc)^b] ^ crc>>8
	}
	return crc
}
