package etcdfake

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Disk is the data directory of a member.
type Disk struct {
	// HasLog is false for an empty directory.
	HasLog              bool
	ClusterID, MemberID uint64
	founders            []member
	log                 []entry
	// term is the latest that the member has seen.
	term uint64
	// blank says that it has joined and got nothing yet, not even who may vote.
	blank bool
	// legacy says that there are entries of 3.5 behind its last snapshot, which 3.7 cannot read.
	legacy bool
	// peak is the largest database that it held since the last defragmentation, in writes.
	peak int64
	// Differs says that its data is not what the log says.
	Differs bool
}

// member is a member as the log knows it.
type member struct {
	id        uint64
	name, url string
	learner   bool
}

// entry is one committed or proposed change. id is the member that it is about, term that of the
// leader that proposed it.
type entry struct {
	kind  entryKind
	value string
	id    uint64
	term  uint64
}

// append adds an entry of the current term, as the leader.
func (d *Disk) append(e entry) {
	e.term = d.term
	d.log = append(d.log, e)
}

// End returns the end of the log, committed or not. Founders begin with entries of term 1.
func (d *Disk) End() model.LogEnd {
	end := model.LogEnd{Term: 1, Index: uint64(len(d.log))}
	if n := len(d.log); n > 0 {
		end.Term = max(end.Term, d.log[n-1].term)
	}
	return end
}

// Behind reports whether another log is more up to date: its last entry has a later term, or the same
// and a higher index (section 5.4.1 of the Raft paper).
func (d *Disk) Behind(o *Disk) bool {
	mine, other := d.End(), o.End()
	return cmp.Or(cmp.Compare(mine.Term, other.Term), cmp.Compare(mine.Index, other.Index)) < 0
}

// members are the founders and what became of them by the log.
func (d *Disk) members() []member {
	out := slices.Clone(d.founders)
	for _, e := range d.log {
		i := slices.IndexFunc(out, func(m member) bool { return m.id == e.id })
		switch e.kind {
		case entryAdd:
			out = append(out, member{id: e.id, url: e.value, learner: true})
		case entryPublish:
			if i >= 0 {
				out[i].name = e.value
			}
		case entryUpdate:
			if i >= 0 {
				out[i].url, out[i].learner = e.value, false
			}
		case entryPromote:
			if i >= 0 {
				out[i].learner = false
			}
		case entryRemove:
			if i >= 0 {
				out = slices.Delete(out, i, i+1)
			}
		}
	}
	return out
}

// agreed is the version that the members have agreed on, and the one that they prepare to go back to, zero for none.
func (d *Disk) agreed() (version, downgrade model.Version) {
	for _, e := range d.log {
		switch e.kind {
		case entryVersion:
			version = parse(e.value)
		case entryDowngrade:
			downgrade = parse(e.value)
		}
	}
	return version, downgrade
}

// Agreed is the version that the members have agreed on, by a disk's own log.
func (d *Disk) Agreed() model.Version {
	version, _ := d.agreed()
	return version
}

func parse(text string) model.Version {
	v, _ := model.ParseVersion(text) // Zero for none.
	return v
}

// voter reports whether a member has a vote.
func (d *Disk) voter(id uint64) bool {
	return slices.ContainsFunc(d.members(), func(m member) bool { return m.id == id && !m.learner })
}

type entryKind int

const (
	entryPut entryKind = iota
	entryPublish
	entryUser
	entryPassword
	entryAuthOn
	entryAdd
	entryPromote
	entryUpdate
	entryRemove
	entryVersion
	entryDowngrade
	entryDelete
	entryCompact
	entryAlarm
	entryDisarm
)

// same reports whether two entries say the same, whoever proposed them.
func (e entry) same(o entry) bool { return e.kind == o.kind && e.value == o.value && e.id == o.id }

func (d *Disk) listed(id uint64) bool {
	return slices.ContainsFunc(d.members(), func(m member) bool { return m.id == id })
}

// Voters returns the ids of the voters by a disk's own log.
func (d *Disk) Voters() []uint64 {
	var out []uint64
	for _, m := range d.members() {
		if !m.learner {
			out = append(out, m.id)
		}
	}
	return out
}

// Len is the length of a disk's log.
func (d *Disk) Len() int { return len(d.log) }

// GoOnAlone makes the member of a disk the only one of its cluster, with all that its log holds.
func (d *Disk) GoOnAlone() {
	for _, m := range d.members() {
		if m.id != d.MemberID {
			d.append(entry{kind: entryRemove, id: m.id})
		}
	}
	d.blank = false
}

// Writes are the values that the log of a disk has.
func (d *Disk) Writes() []string {
	var out []string
	for _, e := range d.log {
		if e.kind == entryPut {
			out = append(out, e.value)
		}
	}
	return out
}
