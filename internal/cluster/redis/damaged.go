package redis

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
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
	`corrupted cluster config file`, regexp.QuoteMeta(noIdentity), regexp.QuoteMeta(badIdentity),
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

// damaged tells whether a server does not start because it cannot read its data.
func (p *Pod) damaged() bool { return p.Fatal != "" && p.Stuck != "" && p.Node == nil && !p.Deleting }

const (
	// between is the least time between two replacements of data that a server could not read: what breaks a disk once a minute is not cured
	// by another one.
	between = 10 * time.Minute
	// founding is how much younger than its StatefulSet a volume may be that was made with it.
	founding = 2 * time.Minute
	// stranding is how long a pod is left to the scheduler before its volume is given up for one on another node.
	stranding = time.Minute
)

// fresh tells whether the volume of a shard was made a short while ago, and not with its StatefulSet: it has taken the place of an earlier one,
// or is of a replica that has just come.
func (v *view) fresh(shard int, made time.Time) bool {
	i := slices.IndexFunc(v.Sets, func(s Set) bool { return s.Shard == shard })
	return v.Now.Sub(made) < between && i >= 0 && made.Sub(v.Sets[i].Made) > founding
}

// replaceDamaged has servers begin with nothing that cannot read their data, while the primary of their shard has all of it.
func replaceDamaged(v *view) (cluster.Plan, bool) {
	var held *cluster.Plan
	for shard, pods := range v.shards {
		if !v.thrives(shard) || v.mayHaveLost(shard) {
			continue
		}
		head := v.head(shard)
		for _, p := range pods {
			if !p.damaged() || v.onTrial(p) {
				continue
			}
			plan, ok := v.replacement(p, head)
			if ok && plan.Step != nil {
				return plan, true
			}
			if ok && held == nil {
				held = &plan // What another shard needs does not wait for this one.
			}
		}
	}
	if held != nil {
		return *held, true
	}
	return cluster.Pass()
}

// replacement is what becomes of a server that cannot read its data: another volume, if that is safe and was not just done.
func (v *view) replacement(p, head *Pod) (cluster.Plan, bool) {
	made := p.Made
	if c := v.claim(p); c != nil && v.Spec.Persistent {
		made = c.Made
	}
	switch witnesses := v.witnesses(head, p); {
	case witnesses == cannotKnow:
		return cluster.Refuse(ReasonDamaged, "%s cannot start from its data (%s), and no other shard can tell that %s, which says that it is the primary, "+
			"has been it since: repair what is on its volume; or delete its claim and pod, to go on with what %s has", p.Name, p.Fatal, head.Name, head.Name)
	case witnesses == doNotKnowYet:
		return cluster.Pass()
	case v.fresh(p.Shard, made):
		age := v.Now.Sub(made)
		return cluster.Wait(ReasonDamaged, between-age, "%s cannot start from its data (%s); its volume is only %s old, so it is not replaced again before %s have passed",
			p.Name, p.Fatal, age.Round(time.Second), between)
	}
	if step := v.beginAnew(p); step != nil {
		return cluster.Do(step, "%s cannot start from its data (%s), and %s has all of it: it begins anew as a replica", p.Name, p.Fatal, head.Name)
	}
	return cluster.Pass()
}

// onTrial tells whether a pod may be damaged by what it was made from: it is the first one of a new template.
func (v *view) onTrial(p *Pod) bool {
	return !p.Outdated && slices.ContainsFunc(v.Pods, func(o Pod) bool { return o.Outdated }) && !v.works(p)
}

// testimony is what is known of who leads a shard.
type testimony int

const (
	// confirmed: it leads.
	confirmed testimony = iota
	// doNotKnowYet: those who could say so do not, or cannot be read.
	doNotKnowYet
	// cannotKnow: there is nobody who could say so.
	cannotKnow
)

// witnesses tells whether others confirm that a server leads its shard. One that comes back after another one took over, and acknowledged writes,
// believes itself until it meets somebody who knows better; and that one cannot speak.
func (v *view) witnesses(head, silent *Pod) testimony {
	if v.Spec.Replicated {
		return confirmed // It was appointed.
	}
	others, agree := 0, 0
	for shard := range v.shards {
		if shard == head.Shard || v.slotless(shard) || v.orphaned(shard) {
			continue
		}
		others++
		p := v.primary(shard)
		if p == nil {
			continue
		}
		known, ok := p.Node.Peer(head.Node.ID)
		if !ok || known.Replica || !known.Slots.Equal(head.Node.Self().Slots) {
			return doNotKnowYet
		}
		agree++
	}
	switch {
	case 2*agree > others, others == 0 && v.succeeded(head, silent):
		return confirmed
	case others == 0:
		return cannotKnow
	}
	return doNotKnowYet
}

// orphaned tells whether the owner of a shard is gone and all of its servers say that they are somebody else.
func (v *view) orphaned(shard int) bool {
	return len(v.shards[shard]) > 0 && v.mayHaveLost(shard) && !slices.ContainsFunc(v.shards[shard], func(p *Pod) bool { return p.Node == nil || p.ownsSlots() })
}

// succeeded tells whether a server has taken over from another one: it knows that one as a primary without slots, and as nothing else.
func (v *view) succeeded(head, from *Pod) bool {
	found := false
	for _, g := range v.ghosts() {
		known, ok := head.Node.Peer(g.id)
		if !ok || g.pod != from.Name {
			continue
		}
		if known.Replica || len(known.Slots) > 0 {
			return false
		}
		found = true
	}
	return found
}

// refuseDamaged stops where a server cannot read its data and nobody is left to copy.
func refuseDamaged(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		i := slices.IndexFunc(pods, func(p *Pod) bool { return p.damaged() })
		switch {
		case i < 0:
			continue
		case !slices.ContainsFunc(pods, func(p *Pod) bool { return !p.damaged() }):
			return cluster.Refuse(ReasonDamaged, "no server of shard %d can start from its data (%s: %s): repair what is on a volume of theirs; "+
				"or delete the claims and pods of %s, to have the slots back from a backup (a Restore with spec.slots: Lost) or to go on without that data",
				shard, pods[i].Name, pods[i].Fatal, strings.Join(names(pods), ", "))
		case !v.believed(shard) && !v.mayHaveLost(shard) && slices.ContainsFunc(v.read, (*Pod).ownsSlots): // Who owns slots knows all that do.
			return cluster.Refuse(ReasonDamaged, "%s cannot start from its data (%s), and its shard owns no slots: delete its claim and pod, to have it begin anew",
				pods[i].Name, pods[i].Fatal)
		case v.primary(shard) != nil:
			if only := v.ownedOnlyBy(pods[i]); len(only) > 0 {
				return cluster.Refuse(ReasonDamaged, "%s cannot start from its data (%s), and slots %s had just been moved to it when it ended, as %s, which was elected in its place, has not heard: "+
					"repair what is on its volume; or delete its claim and pod, to go on with what %s has of these slots",
					pods[i].Name, pods[i].Fatal, only, v.primary(shard).Name, v.primary(shard).Name)
			}
		}
	}
	return cluster.Pass()
}

// ownedOnlyBy returns the slots of a server that has been silent for long which no server that
// answers claims.
func (v *view) ownedOnlyBy(p *Pod) (only Slots) {
	for _, g := range v.ghostsOf(p) {
		if g.silent >= mourning {
			only = Union(only, v.unclaimed(g))
		}
	}
	return only
}
