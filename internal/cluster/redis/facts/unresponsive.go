package facts

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Hopeless is how long a server that hangs is waited for: longer than Kubernetes takes to find that it is the whole node.
const Hopeless = unreported + 30*time.Second

// HangsAlone tells whether a server hangs, and neither its whole node nor the operator does.
func HangsAlone(v *model.View, p *model.Pod) bool {
	return p.Hangs && !p.Deleting && !p.NodeLost && len(v.Readable) > 0 && p.Shard >= 0 && p.Shard < len(v.Shards)
}

// ToBeEnded tells whether a server is ended if it goes on to hang.
func ToBeEnded(v *model.View, p *model.Pod) bool {
	return p != nil && HangsAlone(v, p) && Dispensable(v, p)
}

// WhyEnded says that a server is ended if it goes on to hang, empty when it is not.
func WhyEnded(v *model.View, p *model.Pod) string {
	if !ToBeEnded(v, p) {
		return ""
	}
	return fmt.Sprintf("; it is ended when that has lasted for %s", Hopeless)
}

// UnclaimedSlots are the slots of a departed node that no living node claims, one by one:
// StillOwned returns all of them or none.
func UnclaimedSlots(v *model.View, g model.DepartedNode) slots.Set {
	left := g.Slots
	for shard := range v.Shards {
		for _, o := range v.Owners(shard) {
			left = left.Minus(o.Node.Self().Slots)
		}
	}
	return left
}

// Dispensable tells whether nobody hears of a server any more, and what is on its disk is all that anybody could want of it.
func Dispensable(v *model.View, p *model.Pod) bool {
	if v.Spec.Replicated {
		return dispensableReplicated(v, p)
	}
	owns := false
	for _, g := range v.DepartedNodes() {
		switch {
		case g.Pod == "" && !g.Dead:
			return false // It may be this one.
		case g.Pod != p.Name:
		case !Silenced(v, g, p):
			return false
		default:
			owns = owns || len(StillOwned(v, g)) > 0
		}
	}
	return v.Primary(p.Shard) != nil || (owns && v.Spec.Persistent)
}

// Silenced tells whether no server hears any more of a departed node that was the process in a pod:
// a process that starts is not heard of either.
func Silenced(v *model.View, g model.DepartedNode, p *model.Pod) bool {
	return g.Dead && g.Heard && v.Now.Sub(p.Started) > g.Silent
}

// DepartedNodesOf are the nodes that were the server of a pod that does not answer, as far as others know.
func DepartedNodesOf(v *model.View, p *model.Pod) []model.DepartedNode {
	return slices.DeleteFunc(v.DepartedNodes(), func(g model.DepartedNode) bool { return g.Pod != p.Name })
}

// dispensableReplicated is the same in the mode Replicated. The appointed primary is only ended where nobody could take its place.
func dispensableReplicated(v *model.View, p *model.Pod) bool {
	if !p.Answered {
		return false
	}
	if leader := ActingPrimary(v); leader != nil {
		return leader.Node.Connected <= len(Copies(v, leader)) // No other than those that answer is connected to it.
	}
	best := FurthestCandidate(v, p)
	succeeds := best != nil && !ComesBackWithMore(v, p, best)
	if p.Name != v.Appointed.Pod || (v.Appointed.Guard > 0 && (succeeds || UnheardCandidate(v, p) != nil)) {
		return false
	}
	return v.Spec.Persistent && !slices.ContainsFunc(v.EveryPod(), func(o *model.Pod) bool { return copiedFrom(o, p) && o.Node.Replication.Silence < Hopeless })
}

// AwaitedFor is for how long a server whose process has ended has been waited for. One that hung before was silent for longer.
func AwaitedFor(v *model.View, g model.DepartedNode) time.Duration {
	p := v.PodNamed(g.Pod)
	if p != nil && !p.Unready.IsZero() {
		return min(g.Silent, v.Now.Sub(p.Unready))
	}
	if i := slices.IndexFunc(v.Ended, func(e model.Ending) bool { return p == nil && e.Pod == g.Pod }); i >= 0 {
		return min(g.Silent, v.Ended[i].For)
	}
	return g.Silent
}
