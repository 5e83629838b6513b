package model

import (
	"regexp"
	"strings"
)

// fatalWords are what Redis and Valkey say when they cannot read the data that they find, however often they try, and what the start gate says
// then. From aof.c, rdb.c and the reader of nodes.conf in Redis 7.0.15, 8.0.2 and Valkey 8.1.1, 9.1.2. A full disk, missing memory and a disk that
// cannot be read are not among them.
var fatalWords = regexp.MustCompile(strings.Join([]string{
	`Bad file format reading the append only file \S+\.incr\.aof`, `Unexpected end of file reading the append only file \S+\.aof`,
	`the truncated file is not the last file`,
	`can't open the append log file \S+ for reading: No such file or directory`, `Unable to obtain the AOF file \S+ length\. stat: No such file or directory`,
	`FATAL AOF MANIFEST FILE ERROR`, `Found an empty AOF manifest`,
	`Wrong signature trying to load DB`, `Wrong RDB checksum`, `Internal error in RDB reading offset`, `Unexpected EOF reading RDB file`,
	`Unknown type or opcode when loading DB`,
	`corrupted cluster config file`, regexp.QuoteMeta(NoIdentity), regexp.QuoteMeta(BadIdentity),
}, "|"))

// otherWords are said beside those above where the data on the disk may be whole: a later version has written it (what Valkey 9 has written as the
// base of a log is a bad format for all before it); what cannot be read came from the primary; the disk does not answer; or memory is short.
var otherWords = regexp.MustCompile(strings.Join([]string{
	`Can't handle RDB format version`, `<-> REPLICA sync`,
	`Input/output error`, `Permission denied`, `Read-only file system`, `Stale file handle`, `Transport endpoint is not connected`,
	`Cannot allocate memory`, `failed allocating`,
}, "|"))

// FatalStart returns the words for which a server will never start from its data, out of what it or its gate said at its end; empty when
// there are none.
func FatalStart(lastWords string) string {
	if otherWords.MatchString(lastWords) {
		return ""
	}
	return fatalWords.FindString(lastWords)
}

// What the gate says of a volume that no server will ever start from, see FatalStart.
const (
	NoIdentity  = "there is data but no " + NodesFile
	BadIdentity = NodesFile + " cannot be read"
)
