package etcdfake

import (
	"net/url"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// agree lets the leader raise or lower the version of the cluster, once it hears from every member.
func (n *Network) agree(lead *Process) {
	agreed, downgrade := lead.Disk.agreed()
	var lowest, highest model.Version
	for _, m := range lead.Disk.members() {
		i := slices.IndexFunc(n.running, func(p *Process) bool { return p.Disk.MemberID == m.id && !p.Cut })
		if i < 0 {
			return
		}
		v := parse(n.running[i].version)
		if lowest.Major == 0 || v.Minor < lowest.Minor {
			lowest = v
		}
		if v.Minor > highest.Minor {
			highest = v
		}
	}
	write := func(kind entryKind, value string) {
		lead.Disk.append(entry{kind: kind, value: value})
	}
	common := model.Version{Major: 3, Minor: lowest.Minor}
	switch {
	case downgrade.Minor != 0 && highest.Minor == downgrade.Minor:
		write(entryDowngrade, "")
	case downgrade.Minor != 0 && agreed.Minor > downgrade.Minor:
		write(entryVersion, downgrade.String())
		for _, p := range n.up(lead.Disk.ClusterID) {
			p.Disk.legacy = false // Each writes a snapshot.
		}
	case downgrade.Minor == 0 && common.Minor > agreed.Minor:
		write(entryVersion, common.String())
	}
}

// Settle lets every cluster elect its leader, and its members catch up and announce themselves.
func (n *Network) Settle() {
	var ids []uint64
	for _, p := range n.running {
		if !slices.Contains(ids, p.Disk.ClusterID) {
			ids = append(ids, p.Disk.ClusterID)
		}
	}
	for _, id := range ids {
		n.settle(id)
	}
}

func (n *Network) settle(cluster uint64) {
	lead := n.elect(cluster)
	if lead == nil {
		delete(n.leaders, cluster)
		return
	}
	if lead != n.leaders[cluster] {
		for _, p := range n.up(cluster) {
			lead.Disk.term = max(lead.Disk.term, p.Disk.term)
		}
		lead.Disk.term++
	}
	n.leaders[cluster] = lead
	if !slices.Contains(n.Led, cluster) {
		n.Led = append(n.Led, cluster)
	}
	for _, p := range n.up(cluster) {
		if p != lead && p.Behind > 0 {
			p.Behind--
			continue
		}
		e := entry{kind: entryPublish, value: p.Name, id: p.Disk.MemberID}
		if lead.Disk.listed(e.id) && !slices.ContainsFunc(lead.Disk.log, e.same) {
			lead.Disk.append(e)
		}
	}
	n.agree(lead)
	n.replicate(cluster)
}

// elect returns the leader that is, or the connected voter with the most up-to-date log that a quorum
// can follow.
func (n *Network) elect(cluster uint64) *Process {
	up := n.up(cluster)
	if lead := n.leaders[cluster]; lead != nil && slices.Contains(up, lead) && electable(lead, up) {
		return lead
	}
	var best *Process
	for _, p := range up {
		if electable(p, up) && (best == nil || best.Disk.Behind(p.Disk)) {
			best = p
		}
	}
	return best
}

// electable reports whether a process is a voter and has a quorum of the voters that it knows.
func electable(p *Process, up []*Process) bool {
	voters, votes := 0, 0
	for _, m := range p.Disk.members() {
		if m.learner {
			continue
		}
		voters++
		// Nobody votes for a log that is behind its own, or for a member that it knows to be removed.
		if slices.ContainsFunc(up, func(q *Process) bool {
			return q.Disk.MemberID == m.id && !p.Disk.Behind(q.Disk) && q.Disk.listed(p.Disk.MemberID)
		}) {
			votes++
		}
	}
	return !p.Disk.blank && p.Disk.voter(p.Disk.MemberID) && votes >= model.Quorum(voters)
}

// up returns the connected processes of a cluster.
func (n *Network) up(cluster uint64) []*Process {
	var out []*Process
	for _, p := range n.running {
		if p.Disk.ClusterID == cluster && !p.Cut && n.reached(p) {
			out = append(out, p)
		}
	}
	return out
}

// takes reports whether a process listens for TLS, or for plain text.
func (p *Process) takes(tls bool) bool {
	if tls {
		return p.tls
	}
	return p.plain
}

// reached reports whether a process listens for what its peers know it by: those with the most
// up-to-date log.
func (n *Network) reached(p *Process) bool {
	var best *Disk
	for _, q := range n.running {
		if q.Disk.ClusterID == p.Disk.ClusterID && !q.Disk.blank && !q.Cut && (best == nil || best.Behind(q.Disk)) {
			best = q.Disk
		}
	}
	if best == nil {
		return true
	}
	for _, m := range best.members() {
		if m.id == p.Disk.MemberID {
			return p.takes(strings.HasPrefix(m.url, "https:"))
		}
	}
	return true // It is no member any more, and is to learn of that.
}

// Host is who a URL leads to, without scheme and port.
func Host(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	return u.Hostname()
}

// connected reports whether a member runs and reaches the others.
func (n *Network) connected(cluster, id uint64) bool {
	return slices.ContainsFunc(n.up(cluster), func(p *Process) bool { return p.Disk.MemberID == id })
}

// replicate makes every connected log that of the leader, which cuts off what a former leader proposed
// and did not commit. Who is no member any more ends.
func (n *Network) replicate(cluster uint64) {
	lead := n.leaders[cluster]
	for _, p := range n.up(cluster) {
		switch {
		case !lead.Disk.listed(p.Disk.MemberID):
			n.running = slices.DeleteFunc(n.running, func(q *Process) bool { return q == p })
		case p != lead && p.Behind == 0:
			p.Disk.term = lead.Disk.term
			p.Disk.legacy = p.Disk.legacy || lead.Disk.legacy
			p.Disk.log, p.Disk.blank = slices.Clone(lead.Disk.log), false
			p.Disk.Size()
		}
	}
	if !n.Running(lead) {
		delete(n.leaders, cluster)
		n.settle(cluster)
	}
}

// propose appends an entry through the quorum.
func (n *Network) propose(p *Process, e entry) error {
	n.settle(p.Disk.ClusterID)
	lead := n.leaders[p.Disk.ClusterID]
	if lead == nil || p.Cut {
		return ErrNoQuorum
	}
	lead.Disk.append(e)
	lead.Disk.Size()
	n.replicate(p.Disk.ClusterID)
	return nil
}
