package redisdump

import "encoding/binary"

// MaxBytes is what a server takes as one string unless its proto-max-bulk-len is changed, and the limit of a value where none is given.
// https://redis.io/docs/latest/commands/set/
const MaxBytes = 512 << 20

// Entry is a key as it is in an RDB. What it refers to is valid until the function returns that it is given to.
type Entry struct {
	// DB is the number of the database, 0 in clusters unless Valkey 9 is given more of them.
	DB  int
	Key []byte
	// Slot is the key's hash slot, also where there is no cluster.
	Slot int
	// ExpireAt is in Unix milliseconds, 0 for a key without expiry.
	ExpireAt int64
	// Idle is the number of seconds that the key was not used, -1 if the server has no LRU policy.
	Idle int64
	// Freq is the logarithmic counter of its use, -1 if the server has no LFU policy.
	Freq int
	// Type of the serialized value, one of the RDB's and not of those that TYPE tells.
	Type byte
	// Value is the serialized value, nil where only keys are asked for.
	Value []byte

	version int
	buffer  *buffer
}

// FieldsExpire tells whether the value is a hash of which fields expire: all types are that from the first of them on. Such a key can be
// gone, once its last field is, without that it has expired itself.
func (e *Entry) FieldsExpire() bool { return e.Type >= typeHashEx }

// footerBytes end a DUMP payload: the version of RDB and a checksum.
const footerBytes = 2 + 8

// AppendPayload appends what RESTORE takes: the type, the value, the version of RDB in two bytes and the CRC64 of all before it in
// eight, both little endian. https://redis.io/docs/latest/commands/dump/
func (e *Entry) AppendPayload(dst []byte) []byte {
	start := len(dst)
	return e.sign(append(append(dst, e.Type), e.Value...), start)
}

// takePayload is the payload in memory of its own. A large value is not copied for it.
func (e *Entry) takePayload() []byte { return e.sign(e.buffer.take(e.Value), 0) }

func (e *Entry) sign(payload []byte, start int) []byte {
	payload = binary.LittleEndian.AppendUint16(payload, uint16(e.version)) //nolint:gosec // Versions have four digits.
	return binary.LittleEndian.AppendUint64(payload, checksum(0, payload[start:]))
}

// Summary is what is known of an RDB when it was read to its end.
type Summary struct {
	// Version of the format.
	Version int
	// Engine and ServerVersion are those of the server that wrote it, as far as it says.
	Engine, ServerVersion string
	// Aux are the fields that describe the RDB itself, such as ctime, used-mem and repl-offset.
	Aux map[string]string
	// Functions is the number of libraries of functions.
	Functions int
	// Keys and Expires are the number of keys, and of those with an expiry.
	Keys, Expires int64
	// KeysPerSlot has SlotCount elements.
	KeysPerSlot []int64
	// Modules are the names of the module types of values, and how many values they have: a server without the module cannot load them.
	Modules map[string]int64
	// LargestValue is the size in bytes of the largest serialized value.
	LargestValue int64
	// Bytes is the size of the RDB with its checksum, and CRC64 that checksum.
	Bytes int64
	CRC64 uint64
	// Checked says that there is a checksum and that it is right. Without rdbchecksum a server writes none.
	Checked bool
}
