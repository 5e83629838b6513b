package facts

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// ShakesHandsWith tells whether the node is about to get to know the one at the address.
func ShakesHandsWith(n *model.Node, a model.Address) bool {
	for _, p := range n.Handshakes() {
		if p.Addr == a {
			return true
		}
	}
	return false
}

// Agreed reports whether all readable servers report the same owners of slots. One at least must be
// readable.
func Agreed(v *model.View) bool {
	first := v.Ownership(v.Readable[0].Node)
	for _, p := range v.Readable {
		if v.Ownership(p.Node) != first {
			return false
		}
	}
	return true
}

// StillAnswers reports whether a node that no pod has has answered one of the servers within the node
// timeout. A departed node does not.
func StillAnswers(v *model.View, g model.DepartedNode) bool {
	return !g.Dead && g.Heard && g.Silent < v.Spec.NodeTimeout
}

// IsForeign reports whether a node that answers is the server of no pod of this cluster: that of
// another cluster, or one that announces none of the names of this one.
func IsForeign(v *model.View, g model.DepartedNode) bool {
	return v.Complete && StillAnswers(v, g) && g.Pod == ""
}

// Staying are the pods of a shard that are not to leave.
func Staying(v *model.View, shard int) []*model.Pod {
	return slices.DeleteFunc(slices.Clone(v.Shards[shard]), func(p *model.Pod) bool { return p.Ordinal >= WantedCopies(v, shard) })
}
