package facts

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// ShardOfDeparted is the shard of a node that is gone: that of its pod or of its replicas, or else the first that has no owner; -1: nobody knows.
func ShardOfDeparted(v *model.View, g model.DepartedNode) int {
	if shard := v.ShardOf(g.ID); shard >= 0 {
		return shard
	}
	if len(g.Replicas) > 0 {
		return g.Replicas[0].Shard
	}
	for shard := range v.Shards {
		if len(v.Owners(shard)) == 0 {
			return shard
		}
	}
	return -1
}

// Digest is a name for an incident that a person can type.
func Digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])[:6]
}

// ApprovalCommand is the command by which somebody allows what is proposed.
func ApprovalCommand(v *model.View, annotation, value string) string {
	return cluster.ToAnnotate("redisclusters", v.Spec.Namespace, v.Spec.Name, annotation, value)
}

// Loss is slots whose owner is gone for good and left no copy.
type Loss struct {
	model.DepartedNode
	Slots slots.Set
}

// Fills reports whether lost slots are being loaded before they are served.
func Fills(r *model.Restore) bool {
	return r != nil && r.Loading != nil && len(r.Slots) > 0 && !r.Served
}

// Served are the slots that are served empty, because they are loaded afterwards.
func Served(r *model.Restore) slots.Set {
	if r == nil || !r.Served {
		return nil
	}
	return r.Slots
}

// Losses are the slots whose owner is gone and left neither a copy nor a candidate.
func Losses(v *model.View) (lost []Loss) {
	for _, g := range v.DepartedNodes() {
		if slots := StillOwned(v, g); len(slots) > 0 && CandidateOf(g) == nil && Candidate(v, g) == nil {
			lost = append(lost, Loss{g, slots})
		}
	}
	return lost
}

// SlotTaker is a server of a shard that could own lost slots of it, because it copies nobody, and that fits; nil when there is none. Where one owns
// others of them, the rest have become its replicas before.
func SlotTaker(v *model.View, shard int, fits func(p *model.Pod) bool) *model.Pod {
	if shard < 0 || shard >= len(v.Shards) {
		return nil
	}
	i := slices.IndexFunc(v.Shards[shard], func(p *model.Pod) bool { return !p.Node.Self().Replica && !p.Node.Loading && fits(p) })
	if i < 0 {
		return nil
	}
	return v.Shards[shard][i]
}

// Primary is the id of a primary that a server knows: the wanted one if it knows that, or else one that owns slots, if there is any, and so
// does not become a replica while slots are said to come from it. It is empty when there is none.
func Primary(n *model.Node, wanted string) string {
	owner, other := "", ""
	for o := range n.All() {
		switch {
		case o.Myself || o.Replica || o.Handshake:
		case o.ID == wanted:
			return wanted
		case len(o.Slots) > 0:
			owner = cmp.Or(owner, o.ID)
		default:
			other = cmp.Or(other, o.ID)
		}
	}
	return cmp.Or(owner, other)
}

// uncopied reports whether what the cluster has, which is to be backed up first, cannot be: that is hopeless, or it is being replaced already.
func uncopied(c *model.Confirmed, goesOn bool) bool {
	return c.Saves && ((goesOn && (c.Saved == nil || !c.Saved.Complete)) || c.Saved.Hopeless())
}

// Bootstraps reports whether the cluster is new, and clients are to wait for what it begins with.
func Bootstraps(r *model.Restore) bool { return r != nil && r.Token == "" }

// whole reports whether the backup is to be all that the cluster has.
func whole(r *model.Restore) bool { return r != nil && len(r.Slots) == 0 }

// Unfit says why the data is not what it is to be, empty when it is as far as a restore is concerned.
func Unfit(r *model.Restore) string {
	switch {
	case !whole(r):
		return ""
	case Bootstraps(r):
		return "the backup that the cluster begins with has not been loaded"
	}
	return fmt.Sprintf("all data is being replaced by backup %s: clients find a part of it, and what they write can be lost until it is complete", r.Directory)
}

// MayBegin reports whether what was confirmed may be begun. It is not looked for while the Restore of one that has begun is there. Afterwards it takes
// the place of that where everything is deleted first, and else only when that fails: the keys of two backups would mix.
func MayBegin(s model.State) bool {
	c, r := s.Confirmed, s.Restore
	switch {
	case c == nil || uncopied(c, r != nil):
		return false
	case r == nil || Bootstraps(r) || c.Token == r.Token:
		return r == nil
	}
	return (whole(r) && !c.Lost) || (r.Loading.Job != nil && r.Loading.Job.Failed)
}
