package redisdump

import "bytes"

// SlotCount is the number of hash slots of every cluster.
const SlotCount = 16384

// crc16Table is that of CRC-16/XMODEM, by which keys are hashed.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
var crc16Table = func() (t [256]uint16) {
	for b := range t {
		crc := uint16(b) << 8
		for range 8 {
			bit := crc >> 15
			crc <<= 1
			if bit == 1 {
				crc ^= 0x1021
			}
		}
		t[b] = crc
	}
	return t
}()

// Slot is the hash slot of a key: that of its hash tag, if there is one.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func Slot(key []byte) int {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for _, b := range key {
		crc = crc<<8 ^ crc16Table[byte(crc>>8)^b]
	}
	return int(crc) % SlotCount
}
