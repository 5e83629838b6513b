package backup

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Slots is how many slots a Redis or Valkey cluster has.
const Slots = 16384

// SlotRange is a range of slots, both ends included.
type SlotRange struct{ First, Last int }

// ParseSlots reads slots as manifests have them, such as 0-5460,7000. Empty: none.
func ParseSlots(text string) ([]SlotRange, error) {
	if text == "" {
		return nil, nil
	}
	var ranges []SlotRange
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, err := parseSlot(first)
		if err != nil {
			return nil, err
		}
		to, err := parseSlot(last)
		if err != nil {
			return nil, err
		}
		if to < from || (isRange && to == from) {
			return nil, fmt.Errorf("%q are no slots", item)
		}
		ranges = append(ranges, SlotRange{First: from, Last: to})
	}
	return ranges, nil
}

func parseSlot(text string) (int, error) {
	slot, err := strconv.Atoi(text)
	if err != nil || slot < 0 || slot >= Slots || strconv.Itoa(slot) != text {
		return 0, fmt.Errorf("%.20q is no slot from 0 to %d", text, Slots-1)
	}
	return slot, nil
}

// SlotCounts are numbers of keys by slot from 0; trailing zeros may be cut. A []uint32 can be assigned to it.
//
// Most shards serve a third of the slots or less, so the stored form writes zeros as runs: varints of 7 bits (as in protocol buffers), each
// the number of keys of the next slot, and after a 0 how many further slots have none, all of it in base64.
type SlotCounts []uint32

// MarshalText implements encoding.TextMarshaler.
func (c SlotCounts) MarshalText() ([]byte, error) {
	for len(c) > 0 && c[len(c)-1] == 0 {
		c = c[:len(c)-1]
	}
	if len(c) > Slots {
		return nil, fmt.Errorf("there are numbers of keys for %d slots, and only %d slots", len(c), Slots)
	}
	var packed []byte
	for i := 0; i < len(c); i++ {
		packed = binary.AppendUvarint(packed, uint64(c[i]))
		if c[i] != 0 {
			continue
		}
		more := 0
		for ; c[i+1] == 0; i++ { // The last one is not 0.
			more++
		}
		packed = binary.AppendUvarint(packed, uint64(more))
	}
	return base64.RawStdEncoding.AppendEncode(nil, packed), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. There are at most Slots numbers, whatever the text says.
func (c *SlotCounts) UnmarshalText(text []byte) error {
	packed, err := base64.RawStdEncoding.Strict().DecodeString(string(text))
	if err != nil {
		return fmt.Errorf("read the numbers of keys by slot: %w", err)
	}
	var counts []uint32
	for len(packed) > 0 {
		var count, run uint64
		if count, packed, err = cutUvarint(packed); err != nil {
			return err
		}
		if count == 0 {
			if run, packed, err = cutUvarint(packed); err != nil {
				return err
			}
		}
		if count > 1<<32-1 || run >= Slots || len(counts)+1+int(run) > Slots {
			return fmt.Errorf("read the numbers of keys by slot: there are too many, or one is too large")
		}
		counts = append(counts, uint32(count))
		counts = append(counts, make([]uint32, run)...)
	}
	if len(counts) > 0 && counts[len(counts)-1] == 0 {
		return fmt.Errorf("read the numbers of keys by slot: the last one is 0")
	}
	*c = counts
	return nil
}

func cutUvarint(packed []byte) (value uint64, rest []byte, err error) {
	value, n := binary.Uvarint(packed)
	if n <= 0 {
		return 0, nil, fmt.Errorf("read the numbers of keys by slot: they are cut off")
	}
	return value, packed[n:], nil
}
