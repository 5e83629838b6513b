package facts

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// KeepsAtOnce tells whether the disk is to keep every write of a server. One that cannot write its log would end, where it otherwise refuses writes.
func KeepsAtOnce(p *model.Pod) bool { return p.PutBack && p.Node.Log > 0 }

// LeftClaims are those of pods that no StatefulSet has room for any more.
func LeftClaims(v *model.View) []model.Claim {
	return slices.DeleteFunc(slices.Clone(v.Claims), func(c model.Claim) bool { return c.Shard < len(v.Shards) && c.Ordinal < v.Size(c.Shard) })
}

// AnyOwnerMissing tells whether slots belong to a node that no pod has.
func AnyOwnerMissing(v *model.View) bool {
	for _, g := range v.DepartedNodes() {
		if len(StillOwned(v, g)) > 0 {
			return true
		}
	}
	return false
}

// LeavesWithShrink tells whether a pod that no StatefulSet has room for exists yet.
func LeavesWithShrink(v *model.View, shard, ordinal int) bool {
	return slices.ContainsFunc(v.Leavers, func(p model.Pod) bool { return p.Shard == shard && p.Ordinal == ordinal })
}

// lostDisk tells whether the volume of a pod cannot come back.
func lostDisk(v *model.View, p *model.Pod) bool {
	return slices.ContainsFunc(v.Claims, func(c model.Claim) bool { return c.Lost != "" && c.Shard == p.Shard && c.Ordinal == p.Ordinal })
}

// Strayed tells whether a server takes itself for a primary though it is a copy of the one of its shard. One whose slots were taken over
// while it was gone becomes a replica, and an old message about what it owned before makes it a primary again (clusterProcessPacket of
// Redis and Valkey, message UPDATE), up to Valkey 9.0 without an end to its replication. Both halves are of one answer, INFO being the first.
func Strayed(p, primary *model.Pod) bool {
	return p != primary && p.Node != nil && !p.Deleting && !p.OwnsSlots() && !p.Node.Self().Replica && p.Node.Keys > 0 &&
		p.Node.Stream != "" && p.Node.Stream == primary.Node.Stream &&
		(p.Node.Offset <= primary.Node.Offset || (p.Node.LinkUp && p.Node.Asks == primary.Addr))
}

// IsDamaged tells whether a server does not start because it cannot read its data.
func IsDamaged(p *model.Pod) bool {
	return p.Fatal != "" && p.Stuck != "" && p.Node == nil && !p.Deleting
}

const (
	// Between is the least time between two replacements of data that a server could not read: new
	// data does not cure what breaks a disk once a minute.
	Between = 10 * time.Minute
	// founding is how much younger than its StatefulSet a volume may be that was made with it.
	founding = 2 * time.Minute
	// Stranding is how long the scheduler gets for a pod before its volume is given up for one on
	// another node.
	Stranding = time.Minute
)

// IsFresh tells whether the volume of a shard was made a short while ago, and not with its StatefulSet: it has taken the place of an earlier one,
// or is of a replica that has just come.
func IsFresh(v *model.View, shard int, made time.Time) bool {
	i := slices.IndexFunc(v.Sets, func(s model.Set) bool { return s.Shard == shard })
	return v.Now.Sub(made) < Between && i >= 0 && made.Sub(v.Sets[i].Made) > founding
}

// Testimony is whether other servers confirm who leads a shard.
type Testimony int

const (
	// Confirmed means that the server leads its shard.
	Confirmed Testimony = iota
	// DoNotKnowYet means that the servers that could confirm it do not, or cannot be read.
	DoNotKnowYet
	// CannotKnow means that no server could confirm it.
	CannotKnow
)

// Witnesses returns whether others confirm that a server leads its shard. A primary that comes back
// after another server took over, and acknowledged writes, reports itself as the primary until it
// hears of that; and the server that took over may be the one that does not answer.
func Witnesses(v *model.View, head, silent *model.Pod) Testimony {
	if v.Spec.Replicated {
		return Confirmed // It was appointed.
	}
	others, agree := 0, 0
	for shard := range v.Shards {
		if shard == head.Shard || v.Slotless(shard) || orphaned(v, shard) {
			continue
		}
		others++
		p := v.Primary(shard)
		if p == nil {
			continue
		}
		known, ok := p.Node.Peer(head.Node.ID)
		if !ok || known.Replica || !known.Slots.Equal(head.Node.Self().Slots) {
			return DoNotKnowYet
		}
		agree++
	}
	switch {
	case 2*agree > others, others == 0 && succeeded(v, head, silent):
		return Confirmed
	case others == 0:
		return CannotKnow
	}
	return DoNotKnowYet
}

// orphaned reports whether the owner of a shard is gone and all pods of the shard report other
// servers.
func orphaned(v *model.View, shard int) bool {
	return len(v.Shards[shard]) > 0 && v.MayHaveLost(shard) && !slices.ContainsFunc(v.Shards[shard], func(p *model.Pod) bool { return p.Node == nil || p.OwnsSlots() })
}

// succeeded tells whether a server has taken over from another one: it knows that one as a primary without slots, and as nothing else.
func succeeded(v *model.View, head, from *model.Pod) bool {
	found := false
	for _, g := range v.DepartedNodes() {
		known, ok := head.Node.Peer(g.ID)
		if !ok || g.Pod != from.Name {
			continue
		}
		if known.Replica || len(known.Slots) > 0 {
			return false
		}
		found = true
	}
	return found
}

// TerminatingClaims returns the names of claims that are being deleted under pods.
func TerminatingClaims(v *model.View) (claims []string) {
	for _, p := range v.Pods {
		if p.TerminatingClaim != "" {
			claims = append(claims, p.TerminatingClaim)
		}
	}
	return claims
}
