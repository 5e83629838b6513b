package redis

import (
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// With spec.config.minReplicasToWrite a primary takes writes only while so many replicas acknowledge them, which bounds what is lost when
// it is cut off. Replicas are held to it as well, so that it is in force for whoever is elected.
//
// A replica that starts or ends is not cut off, and it is mostly Quorate that lets it. So a primary is let off, as far as it has to be,
// before a step takes replicas away, and while some are known to be on their way. It is held to it again by the number of those that are
// in sync. In the mode Replicated one is always asked for, see setMinReplicasOfPrimary.

// MinReplicas is how many replicas have to acknowledge what a primary of the mode Sharded writes. Clusters from before there was a field
// for it may say so in extra.
func MinReplicas(spec *v1alpha1.RedisClusterSpec) int {
	switch {
	case spec.IsReplicated() || spec.Config == nil:
		return 0
	case spec.Config.MinReplicasToWrite != nil:
		return int(*spec.Config.MinReplicasToWrite)
	}
	return min(int(number(string(spec.Config.Extra[writeGuard]))), spec.Replicas())
}

// leastLag is the shortest time after which a replica may count as lost: they report once a second.
const leastLag = 2 * time.Second

// writeGuards are the parameters of servers of the mode Sharded.
func writeGuards(spec *v1alpha1.RedisClusterSpec) []directive {
	n := MinReplicas(spec)
	if n == 0 {
		return nil
	}
	return append([]directive{{writeGuard, []string{strconv.Itoa(n)}}}, fencing(spec.Config)...)
}

// GuardShards tells servers how many replicas have to acknowledge what they write.
type GuardShards struct{ Guards []GuardWrites }

func (s GuardShards) String() string { return list(s.Guards, GuardWrites.String) }

// Calls sends CONFIG SET.
func (s GuardShards) Calls() []Call {
	return calls(s.Guards, func(g GuardWrites) Call { return g.Calls()[0] })
}

// setMinReplicasToWrite keeps primaries from taking writes that too few replicas acknowledge, as far as the replicas are not on their way.
func setMinReplicasToWrite(v *view) (cluster.Plan, bool) {
	var step GuardShards
	for shard := range v.shards {
		head := v.head(shard)
		for _, p := range v.shards[shard] {
			have, known := p.acknowledged()
			want := v.Spec.MinReplicas
			switch {
			case !known || p.Deleting || !v.formed:
				continue
			case p == head:
				want = v.guardOf(p, have)
			case p.ownsSlots():
				continue // Two say that they are the primary.
			}
			if most, limited := v.limits[p.Name]; limited {
				want = min(want, max(have, most)) // It is let off right before the step.
			}
			if have > want || (have < want && !v.ahead) {
				step.Guards = append(step.Guards, GuardWrites{p.Name, want})
			}
		}
	}
	if len(step.Guards) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "%d replicas are to acknowledge what a primary writes, as far as none of them is starting or ending", v.Spec.MinReplicas)
}

// waitForMinReplicas waits until primaries take writes, and are held to what was asked for again.
func waitForMinReplicas(v *view) (cluster.Plan, bool) {
	for shard := range v.shards {
		p := v.head(shard)
		if p == nil || v.idle(shard) {
			continue
		}
		have, known := p.acknowledged()
		if good := p.Node.Acknowledging; known && good != nil && *good < have {
			return cluster.Wait(ReasonGuardWrites, v.pace(soon*3, later), "%s takes no writes until %d replicas acknowledge them; %d do", p.Name, have, *good)
		}
		if _, limited := v.limits[p.Name]; known && have < v.Spec.MinReplicas && !limited && !v.ahead {
			return cluster.Wait(ReasonGuardWrites, v.pace(soon*3, later), "%s takes writes that fewer than %d replicas acknowledge until it hears of them", p.Name, v.Spec.MinReplicas)
		}
	}
	return cluster.Pass()
}

// acknowledged is how many replicas have to acknowledge what a server writes, if that is known.
func (p *Pod) acknowledged() (n int, known bool) {
	if p.Node == nil {
		return 0, false
	}
	text, known := p.Node.Config[writeGuard]
	return int(number(text)), known
}

// guardOf is how many replicas have to acknowledge what a primary writes: no fewer than are in sync, in its own eyes as well, and no more
// than could be, which are all that are not starting or ending.
func (v *view) guardOf(primary *Pod, have int) int {
	return min(v.Spec.MinReplicas, max(have, min(v.insync(primary, nil), primary.Node.Copies)), v.size(primary.Shard)-1-v.away(primary))
}

// insync counts the replicas that have all data of a primary and do not leave.
func (v *view) insync(primary *Pod, leaves func(p *Pod) bool) int {
	n := 0
	for _, p := range v.shards[primary.Shard] {
		if p != primary && p.Node != nil && !p.Deleting && p.follows(primary) && (leaves == nil || !leaves(p)) {
			n++
		}
	}
	return n
}

// away counts the replicas of a primary that are known to be starting or ending.
func (v *view) away(primary *Pod) int {
	n := v.size(primary.Shard) - len(v.shards[primary.Shard])
	for _, p := range v.shards[primary.Shard] {
		if p != primary && p.comesOrGoes() {
			n++
		}
	}
	return n
}

// comesOrGoes tells whether a replica is known to be starting or ending. One whose node does not report is neither.
func (p *Pod) comesOrGoes() bool {
	starting := (p.Node == nil && !p.HasRun) || (p.Node != nil && !p.Node.EverLinked)
	return !p.NodeLost && (p.Deleting || starting)
}

// Lift returns the steps by which Next takes a step of a cluster of the mode Sharded: what primaries have to be let off before it,
// if anything, and the step.
func Lift(s State, step cluster.Step) []cluster.Step {
	if guards := look(s).lift(step); len(guards.Guards) > 0 {
		return []cluster.Step{guards, step}
	}
	return []cluster.Step{step}
}

// lookAhead is the view of a state in which primaries are not held to min-replicas-to-write where the next step needs them not to
// be: letting them off is a step of its own, which the rules must not take back before the other one.
func lookAhead(s State) *view {
	v := look(s)
	if !s.Spec.Replicated && s.Spec.MinReplicas == 0 {
		return v // No rule would take it back.
	}
	then := look(s)
	then.ahead = true
	phases := shardedPhases()
	if s.Spec.Replicated {
		phases = replicatedPhases()
	}
	plan := cluster.Decide(then, phases, keepLastCopy)
	for p := &plan; p != nil; p = p.Fallback {
		if s.Spec.Replicated {
			v.unguards = v.unguards || then.takesLastReplica(p.Step)
		} else if limits := then.limitsOf(p.Step); limits != nil {
			v.limits = limits
		}
	}
	return v
}

// lift is what primaries have to be let off before a step.
func (v *view) lift(step cluster.Step) (out GuardShards) {
	limits := v.limitsOf(step)
	for shard := range v.shards {
		for _, p := range v.shards[shard] {
			most, limited := limits[p.Name]
			if have, known := p.acknowledged(); limited && known && have > most {
				out.Guards = append(out.Guards, GuardWrites{p.Name, most})
			}
		}
	}
	return out
}

// limitsOf is how many replicas servers may ask for at most to acknowledge their writes, for a step to be taken; nil: as many as
// they like.
func (v *view) limitsOf(step cluster.Step) map[string]int {
	var leaves func(p *Pod) bool
	former, promoted := "", ""
	switch s := step.(type) {
	case Restart:
		leaves = func(p *Pod) bool { return slices.Contains(s.Pods, p.ref()) }
	case ReplaceDisk:
		leaves = func(p *Pod) bool { return p.ref() == s.Pod }
	case ScaleShards:
		leaves = func(p *Pod) bool {
			return slices.ContainsFunc(s.Sets, func(c SetSize) bool { return c.Shard == p.Shard && p.Ordinal >= c.To })
		}
	case Failover:
		// Nobody copies the new primary at first, and it ceases to copy the former one a moment before that hears of it.
		leaves, former, promoted = func(p *Pod) bool { return p.Name == s.To }, s.From, s.To
	default:
		return nil
	}
	limits := map[string]int{}
	for shard := range v.shards {
		head := v.head(shard)
		loses := slices.ContainsFunc(v.shards[shard], leaves)
		for _, p := range v.shards[shard] {
			switch {
			case p.Name == promoted:
				limits[p.Name] = 0
			case loses && (p == head || p.Name == former) && !leaves(p):
				limits[p.Name] = v.insync(p, leaves)
			}
		}
	}
	return limits
}
