package redisdump

// Types of serialized values, as far as they are named below (src/rdb.h of Redis and of Valkey).
const (
	typeModule = 7
	typeHashEx = 22
)

// skipping passes over one part of a serialized value.
type skipping = func(*buffer) error

// commonValues are how values of each type are made up, up to RDB 11, which both engines write alike.
var commonValues = map[byte]skipping{
	0:          (*buffer).skipString,                                // string
	1:          counted((*buffer).skipString),                       // list
	2:          counted((*buffer).skipString),                       // set
	3:          counted((*buffer).skipString, skipScore),            // sorted set, scores in decimal
	4:          counted((*buffer).skipString, (*buffer).skipString), // hash
	5:          counted((*buffer).skipString, fixed(8)),             // sorted set
	typeModule: func(b *buffer) error { _, err := skipModule(b); return err },
	9:          (*buffer).skipString,                                // hash as a zipmap
	10:         (*buffer).skipString,                                // list as a ziplist
	11:         (*buffer).skipString,                                // set as an intset
	12:         (*buffer).skipString,                                // sorted set as a ziplist
	13:         (*buffer).skipString,                                // hash as a ziplist
	14:         counted((*buffer).skipString),                       // list of ziplists
	15:         stream(1),                                           // Redis 5
	16:         (*buffer).skipString,                                // hash as a listpack
	17:         (*buffer).skipString,                                // sorted set as a listpack
	18:         counted((*buffer).skipNumber, (*buffer).skipString), // list of listpacks and plain nodes
	19:         stream(2),                                           // Redis 7.0
	20:         (*buffer).skipString,                                // set as a listpack
	21:         stream(3),                                           // Redis 7.2
}

// Hashes whose fields expire are written differently by the two.
var (
	redisValues = with(commonValues, map[byte]skipping{
		// Release candidates of Redis 7.4 wrote these.
		typeHashEx: counted((*buffer).skipNumber, (*buffer).skipString, (*buffer).skipString),
		23:         (*buffer).skipString,
		// The earliest expiry, then for each field how much later it expires, its name and its value; or all that as a listpack.
		24: inTurn(fixed(8), counted((*buffer).skipNumber, (*buffer).skipString, (*buffer).skipString)),
		25: inTurn(fixed(8), (*buffer).skipString),
	})
	valkeyValues = with(commonValues, map[byte]skipping{
		// Each field's name, value and expiry.
		typeHashEx: counted((*buffer).skipString, (*buffer).skipString, fixed(8)),
	})
)

func with(a, b map[byte]skipping) map[byte]skipping {
	out := make(map[byte]skipping, len(a)+len(b))
	for _, m := range []map[byte]skipping{a, b} {
		for kind, skip := range m {
			out[kind] = skip
		}
	}
	return out
}

// typeName says what a type is that is not supported.
func typeName(kind byte) string {
	name := map[byte]string{
		6: "value of a module, before Redis 4.0", 23: "path hash of Valkey 9.2", 26: "stream of Redis 8.6", 27: "stream of Redis 8.8",
		28: "array of Redis 8.8",
	}[kind]
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

func (b *buffer) skipNumber() error {
	_, err := b.number()
	return err
}

// fixed passes over so many bytes.
func fixed(n uint64) skipping {
	return func(b *buffer) error { return b.skip(n) }
}

// inTurn passes over several parts.
func inTurn(parts ...skipping) skipping {
	return func(b *buffer) error {
		for _, skip := range parts {
			if err := skip(b); err != nil {
				return err
			}
		}
		return nil
	}
}

// counted passes over a number, and over the parts as often as that says. Every part takes at least a byte, so that it ends with the data
// whatever the number is.
func counted(parts ...skipping) skipping {
	return func(b *buffer) error {
		n, err := b.number()
		if err != nil {
			return err
		}
		for range n {
			for _, skip := range parts {
				if err := skip(b); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// skipScore passes over a score in decimal: the number of its digits and they, or one byte that says that it is no number or infinite.
func skipScore(b *buffer) error {
	n, err := b.byte()
	if err != nil || n >= 253 {
		return err
	}
	return b.skip(uint64(n))
}

// stream passes over a stream: its entries, in listpacks by the identifier of their first one, their number and what identifiers it has
// seen, and its groups with what is pending in them. Version 2 knows more identifiers, version 3 more of each consumer.
func stream(version int) skipping {
	number := (*buffer).skipNumber
	seen := inTurn(number, number, number)
	group := []skipping{(*buffer).skipString, number, number}
	consumer := []skipping{(*buffer).skipString, fixed(8)}
	if version >= 2 {
		seen = inTurn(seen, number, number, number, number, number)
		group = append(group, number)
	}
	if version >= 3 {
		consumer = append(consumer, fixed(8))
	}
	group = append(group, counted(fixed(16), fixed(8), number), counted(append(consumer, counted(fixed(16)))...))
	return inTurn(counted((*buffer).skipString, (*buffer).skipString), seen, counted(group...))
}

// Parts of what a module has serialized (RDB_MODULE_OPCODE in src/rdb.h).
const (
	moduleEnd = iota
	moduleSigned
	moduleUnsigned
	moduleFloat
	moduleDouble
	moduleString
)

// skipModule passes over what a module has serialized, a value or data besides its values, and returns the name of the type.
func skipModule(b *buffer) (string, error) {
	id, err := b.number()
	if err != nil {
		return "", err
	}
	for {
		part, err := b.number()
		if err != nil {
			return "", err
		}
		switch part {
		case moduleEnd:
			return moduleName(id), nil
		case moduleSigned, moduleUnsigned:
			err = b.skipNumber()
		case moduleFloat:
			err = b.skip(4)
		case moduleDouble:
			err = b.skip(8)
		case moduleString:
			err = b.skipString()
		default:
			err = b.damaged("a part %d of a module", part)
		}
		if err != nil {
			return "", err
		}
	}
}

// moduleName decodes the identifier of a module's type: nine characters of six bits, and ten bits for a version.
// https://redis.io/docs/latest/develop/reference/modules/modules-native-types/
func moduleName(id uint64) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var name [9]byte
	id >>= 10
	for i := len(name) - 1; i >= 0; i-- {
		name[i] = alphabet[id&63]
		id >>= 6
	}
	return string(name[:])
}
