package etcdfake

import (
	"hash/fnv"
	"slices"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Start starts a process on a disk, by etcd's own rules (server/etcdserver/bootstrap.go): a log decides by itself;
// without one, "new" founds the cluster unless the peers say that this member has lived before, and "existing" joins
// what the peers have.
func (n *Network) Start(cfg Config, disk *Disk) (*Process, error) {
	p := &Process{Name: cfg.Self.Name, Disk: disk, version: cfg.Version, url: cfg.Self.URL, plain: cfg.Plain, tls: cfg.TLS}
	if !disk.HasLog {
		if cfg.State != "new" {
			p.Behind = cfg.Behind
		}
		if err := n.bootstrap(cfg, disk); err != nil {
			return nil, err
		}
	}
	v := parse(cfg.Version)
	if !n.compatible(disk, v) || (v.Minor > 6 && disk.legacy) {
		return nil, ErrVersion
	}
	disk.legacy = disk.legacy || v.Minor < 6
	n.running = append(n.running, p)
	n.settle(disk.ClusterID)
	if !n.Running(p) {
		return nil, ErrRemoved
	}
	return p, nil
}

// compatible reports whether a version may take part: no minor version older than what the members have agreed on. A much newer one may,
// if it can read their logs (server/etcdserver/api/membership/cluster.go, server/etcdserver/version; 3.7.3 seen where 3.5 was agreed on).
func (n *Network) compatible(disk *Disk, v model.Version) bool {
	agreed, _ := disk.agreed()
	if lead := n.leaders[disk.ClusterID]; lead != nil {
		agreed, _ = lead.Disk.agreed()
	}
	return v.Minor >= agreed.Minor
}

func (n *Network) bootstrap(cfg Config, disk *Disk) error {
	if cfg.State == "new" {
		found(cfg, disk)
		for _, a := range n.Answers(cfg.Self, cfg.Members) {
			for _, m := range a.Members {
				if slices.Contains(m.PeerURLs, cfg.Self.URL) && len(m.ClientURLs) > 0 {
					*disk = Disk{}
					return ErrBootstrapped
				}
			}
		}
		return nil
	}
	for _, p := range n.running {
		if p.Cut || Host(p.url) == Host(cfg.Self.URL) {
			continue
		}
		members := p.Disk.members()
		i := slices.IndexFunc(members, func(m member) bool { return m.url == cfg.Self.URL })
		if i < 0 {
			return ErrNotListed
		}
		*disk = Disk{HasLog: true, ClusterID: p.Disk.ClusterID, MemberID: members[i].id, founders: p.Disk.founders, blank: true}
		return nil
	}
	return ErrNoPeers
}

func found(cfg Config, disk *Disk) {
	*disk = Disk{HasLog: true, term: 1}
	all := cfg.Token
	for _, p := range cfg.Members {
		m := member{id: hash(p.URL, cfg.Token), name: p.Name, url: p.URL}
		disk.founders = append(disk.founders, m)
		all += p.URL
		if p.URL == cfg.Self.URL {
			disk.MemberID = m.id
		}
	}
	disk.ClusterID = hash(all)
	for _, v := range cfg.Restored {
		disk.append(entry{kind: entryPut, value: v})
	}
}

// hash stands in for etcd's SHA-1 over peer URLs and token.
func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p + "\x00"))
	}
	return h.Sum64()
}

// Stop ends a process, at once.
func (n *Network) Stop(p *Process) {
	n.running = slices.DeleteFunc(n.running, func(q *Process) bool { return q == p })
	n.settle(p.Disk.ClusterID)
}
