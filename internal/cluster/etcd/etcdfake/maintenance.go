package etcdfake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// ErrNoSpace is what a write ends with while an alarm is raised.
var ErrNoSpace = errors.New("database space exceeded")

// alarmCorrupt is the alarm that members differ.
const alarmCorrupt = "CORRUPT"

// usage is what the database of a disk holds, in writes.
type usage struct {
	// live are the keys that exist, history is what a compaction would free.
	live, history int64
	revision      int64
	compacted     int64
	alarms        []model.Alarm
}

// usage is read from the log. A deletion leaves the deleted keys in the history, and a compaction frees that.
func (d *Disk) usage() usage {
	u := usage{revision: 1}
	for _, e := range d.log {
		alarm := model.Alarm{MemberID: e.id, Type: e.value}
		switch e.kind {
		case entryPut:
			u.live, u.revision = u.live+1, u.revision+1
		case entryDelete:
			u.history, u.live, u.revision = u.history+u.live, 0, u.revision+1
		case entryCompact:
			u.compacted, _ = strconv.ParseInt(e.value, 10, 64)
			if u.compacted == u.revision {
				u.history = 0
			}
		case entryAlarm:
			if !slices.Contains(u.alarms, alarm) {
				u.alarms = append(u.alarms, alarm)
			}
		case entryDisarm:
			u.alarms = slices.DeleteFunc(u.alarms, func(a model.Alarm) bool { return a == alarm })
		}
	}
	return u
}

// InUse is what a defragmentation would leave of the database, in writes.
func (d *Disk) InUse() int64 {
	u := d.usage()
	return u.live + u.history
}

// Size of the database file in writes: it only ever grows until it is defragmented.
func (d *Disk) Size() int64 {
	d.peak = max(d.peak, d.InUse())
	return d.peak
}

// Alarms that a process knows of.
func (p *Process) Alarms() []model.Alarm { return p.Disk.usage().alarms }

// admit refuses a write while there is an alarm, and raises one when the database would become larger than its quota.
func (n *Network) admit(p *Process) error {
	if len(p.Alarms()) > 0 {
		return ErrNoSpace
	}
	if n.Quota == 0 || p.Disk.Size() < n.Quota {
		return nil
	}
	if err := n.propose(p, entry{kind: entryAlarm, value: model.AlarmNoSpace, id: p.Disk.MemberID}); err != nil {
		return err
	}
	return ErrNoSpace
}

// Delete deletes all keys, as a user with the password would. The writes themselves stay known to Lost: it is the log that
// must not lose them.
func (n *Network) Delete(p *Process, password string) error {
	if a := p.auth(); !slices.Contains(n.running, p) || p.Cut || p.Busy || (a.on && a.password != password) {
		return ErrNoAnswer
	}
	return n.propose(p, entry{kind: entryDelete})
}

// RaiseCorrupt raises the alarm that a member's data differs, which is true when its disk is made to.
func (n *Network) RaiseCorrupt(p *Process, differs bool) error {
	p.Disk.Differs = differs
	return n.propose(p, entry{kind: entryAlarm, value: alarmCorrupt, id: p.Disk.MemberID})
}

// Defragment is done at once, and needs no quorum. FinishDefragmentation is for one that takes its time.
func (c *Client) Defragment(context.Context) error {
	if err := c.answers(); err != nil {
		return err
	}
	c.Process.FinishDefragmentation()
	return nil
}

// FinishDefragmentation ends the time in which the process is Busy with that.
func (p *Process) FinishDefragmentation() {
	p.Busy, p.Disk.peak = false, p.Disk.InUse()
}

// Leads reports whether a process is the leader of its cluster.
func (n *Network) Leads(p *Process) bool { return n.leaders[p.Disk.ClusterID] == p }

// Compact goes through the quorum.
func (c *Client) Compact(_ context.Context, revision int64) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	if lead.Disk.usage().compacted >= revision {
		return nil
	}
	return c.Network.propose(lead, entry{kind: entryCompact, value: fmt.Sprint(revision)})
}

// Compacted goes through the quorum.
func (c *Client) Compacted(context.Context) (bool, error) {
	lead, err := c.lead()
	if err != nil {
		return false, err
	}
	u := lead.Disk.usage()
	return u.compacted >= u.revision || u.revision == 1, nil
}

// Disarm goes through the quorum.
func (c *Client) Disarm(_ context.Context, a model.Alarm) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	return c.Network.propose(lead, entry{kind: entryDisarm, value: a.Type, id: a.MemberID})
}

// HashKV needs no quorum.
func (c *Client) HashKV(_ context.Context, revision int64) (model.Hash, error) {
	if err := c.answers(); err != nil {
		return model.Hash{}, err
	}
	parts, at := []string{fmt.Sprint(c.Process.Disk.Differs)}, int64(1)
	for _, e := range c.Process.Disk.log {
		if e.kind == entryPut || e.kind == entryDelete {
			at++
			parts = append(parts, e.value)
		}
		if at == revision {
			break
		}
	}
	sum := uint32(hash(parts...)) //nolint:gosec // Half of a hash is a hash.
	return model.Hash{Sum: sum, Revision: revision, CompactRevision: c.Process.Disk.usage().compacted}, nil
}

// Largest knows of one group.
func (c *Client) Largest(context.Context) ([]model.KeyGroup, error) {
	if !c.reachable() {
		return nil, ErrNoAnswer
	}
	live := c.Process.Disk.usage().live
	return []model.KeyGroup{{Prefix: "value-", Keys: live, Bytes: live * c.Network.Unit}}, nil
}

// Live is what a compaction and a defragmentation would leave of the database, in writes.
func (d *Disk) Live() int64 { return d.usage().live }
