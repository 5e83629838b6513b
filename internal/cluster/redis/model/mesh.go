package model

import (
	"slices"
)

// KnowEachOther tells whether every server knows every other one by its id.
func (v *View) KnowEachOther() bool {
	for _, t := range v.Tables {
		if slices.ContainsFunc(v.Readable, func(p *Pod) bool { return t.number(p.Node.ID) < 0 }) {
			return false
		}
	}
	return true
}

// Meshed tells whether every server knows every other one, where it is, and as one that has not failed. Rules that compare every server with every
// other one have nothing to find then.
func (v *View) Meshed() bool {
	if v.mesh != nil {
		return *v.mesh
	}
	meshed := !slices.ContainsFunc(v.Tables, func(t *Table) bool {
		return slices.ContainsFunc(v.Readable, func(p *Pod) bool {
			node := t.number(p.Node.ID)
			return node < 0 || !t.Line(node).reaches(p)
		})
	})
	v.mesh = &meshed
	return meshed
}

// reaches tells whether a line of a table has a server where it is, and as one that has not failed.
func (p *Peer) reaches(pod *Pod) bool {
	return !p.NoAddr && !p.Failing && !p.Failed && p.Addr == pod.Addr
}

// Ownership is who owns which slots as a server reports it, comparable between servers.
func (v *View) Ownership(n *Node) string {
	t := n.report.Table
	if v.ownerships[t] == "" {
		v.ownerships[t] = t.ownership()
	}
	return v.ownerships[t]
}
