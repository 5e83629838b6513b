package redis

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// fatalWords are what Redis and Valkey say when they cannot read the data that they find, however often they try, and what the start gate says
// then. From aof.c, rdb.c and the reader of nodes.conf in Redis 7.0.15, 8.0.2 and Valkey 8.1.1, 9.1.2. A full disk, missing memory and data of a
// later version are not among them: what Valkey 9 has written as the base of a log is a bad format for all before it.
var fatalWords = regexp.MustCompile(strings.Join([]string{
	`Bad file format reading the append only file \S+\.incr\.aof`, `Unexpected end of file reading the append only file \S+\.aof`,
	`the truncated file is not the last file`, `Unrecoverable error reading the append only file \S+`,
	`can't open the append log file \S+ for reading: No such file or directory`, `Unable to obtain the AOF file \S+ length`,
	`FATAL AOF MANIFEST FILE ERROR`, `Found an empty AOF manifest`,
	`Wrong signature trying to load DB`, `Wrong RDB checksum`, `Internal error in RDB reading offset`, `Unexpected EOF reading RDB file`,
	`Short read or OOM loading DB`, `Unknown type or opcode when loading DB`,
	`corrupted cluster config file`, regexp.QuoteMeta(noIdentity), regexp.QuoteMeta(badIdentity),
}, "|"))

// foreignVersion is said of data that a later version has written, before the words above.
const foreignVersion = "Can't handle RDB format version"

// FatalStart returns the words for which a server will never start from its data, out of what it or its gate said at its end; empty when
// there are none.
func FatalStart(lastWords string) string {
	if strings.Contains(lastWords, foreignVersion) {
		return ""
	}
	return fatalWords.FindString(lastWords)
}

// damaged tells whether a server does not start because it cannot read its data.
func (p *Pod) damaged() bool { return p.Fatal != "" && p.Stuck != "" && p.Node == nil && !p.Deleting }

const (
	// between is the least time between two replacements of data that a server could not read: what breaks a disk once a minute is not cured
	// by another one.
	between = 10 * time.Minute
	// founding is how much younger than its StatefulSet a claim may be that was made with it.
	founding = 2 * time.Minute
)

// fresh tells whether a claim was made a short while ago, and not with its StatefulSet: it has taken the place of an earlier one, or is of a
// replica that has just come.
func (v *view) fresh(c *Claim) bool {
	i := slices.IndexFunc(v.Sets, func(s Set) bool { return s.Shard == c.Shard })
	return v.Now.Sub(c.Made) < between && i >= 0 && c.Made.Sub(v.Sets[i].Made) > founding
}

// replaceDamaged has servers begin with nothing that cannot read their data, while the primary of their shard has all of it.
func replaceDamaged(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		i := slices.IndexFunc(pods, (*Pod).damaged)
		if i < 0 || !v.thrives(shard) {
			continue
		}
		p, head := pods[i], v.head(shard)
		if c := v.claim(p); c != nil && v.Spec.Persistent && v.fresh(c) {
			age := v.Now.Sub(c.Made)
			return cluster.Wait(ReasonDamaged, between-age, "%s cannot start from its data (%s); its volume is only %s old, so it is not replaced again before %s have passed",
				p.Name, p.Fatal, age.Round(time.Second), between)
		}
		if step := v.beginAnew(p); step != nil {
			return cluster.Do(step, "%s cannot start from its data (%s), and %s has all of it: it begins anew as a replica", p.Name, p.Fatal, head.Name)
		}
	}
	return cluster.Pass()
}

// refuseDamaged stops where no server of a shard can read its data.
func refuseDamaged(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		if len(pods) == 0 || slices.ContainsFunc(pods, func(p *Pod) bool { return !p.damaged() }) {
			continue
		}
		return cluster.Refuse(ReasonDamaged, "no server of shard %d can start from its data (%s: %s): repair what is on a volume of theirs; "+
			"or delete the claims and pods of %s, to have the slots back from a backup (a Restore with spec.slots: Lost) or to go on without that data",
			shard, pods[0].Name, pods[0].Fatal, strings.Join(names(pods), ", "))
	}
	return cluster.Pass()
}
