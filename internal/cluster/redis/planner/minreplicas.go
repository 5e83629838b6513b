package planner

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// With spec.config.minReplicasToWrite a primary takes writes only while so many replicas
// acknowledge them, which bounds what is lost when it is cut off. Replicas have the same setting,
// so that it is in force for the one that is elected.
//
// A replica that starts or ends is not cut off, and most of the time Quorate restarts or removes
// it. So Quorate lowers min-replicas-to-write on a primary as far as necessary before a step
// removes replicas, and while some are known to be starting or ending. It raises it again with the
// replicas that are in sync. In the mode Replicated one replica is always demanded, see
// setMinReplicasOfPrimary.

// setMinReplicasToWrite keeps primaries from taking writes that too few replicas acknowledge, as far as the replicas are not on their way.
func setMinReplicasToWrite(v *model.View) (cluster.Plan, bool) {
	var step steps.GuardShards
	for shard := range v.Shards {
		head := v.DesignatedPrimary(shard)
		for _, p := range v.Shards[shard] {
			have, known := acknowledged(p)
			want := v.Spec.MinReplicas
			switch {
			case !known || p.Deleting || !v.HasOwners:
				continue
			case p == head:
				want = guardOf(v, p, have)
			case p.OwnsSlots():
				continue // Two say that they are the primary.
			}
			if most, limited := v.GuardLimits[p.Name]; limited {
				want = min(want, max(have, most)) // The step lowers it first.
			}
			if have > want || (have < want && !v.LookingAhead) {
				step.Guards = append(step.Guards, steps.GuardWrites{Pod: p.Name, Replicas: want})
			}
		}
	}
	if len(step.Guards) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "%d replicas are to acknowledge what a primary writes, as far as none of them is starting or ending", v.Spec.MinReplicas)
}

// waitForMinReplicas waits until primaries take writes, and are held to what was asked for again.
func waitForMinReplicas(v *model.View) (cluster.Plan, bool) {
	for shard := range v.Shards {
		p := v.DesignatedPrimary(shard)
		if p == nil || v.Idle(shard) {
			continue
		}
		have, known := acknowledged(p)
		if good := p.Node.Acknowledging; known && good != nil && *good < have {
			return cluster.Wait(steps.ReasonGuardWrites, facts.PollInterval(v, facts.Soon*3, facts.Later), "%s takes no writes until %d replicas acknowledge them; %d do", p.Name, have, *good)
		}
		if _, limited := v.GuardLimits[p.Name]; known && have < v.Spec.MinReplicas && !limited && !v.LookingAhead {
			return cluster.Wait(steps.ReasonGuardWrites, facts.PollInterval(v, facts.Soon*3, facts.Later), "%s takes writes that fewer than %d replicas acknowledge until it hears of them", p.Name, v.Spec.MinReplicas)
		}
	}
	return cluster.Pass()
}

// acknowledged is how many replicas have to acknowledge what a server writes, if that is known.
func acknowledged(p *model.Pod) (n int, known bool) {
	if p.Node == nil {
		return 0, false
	}
	text, known := p.Node.Config[model.WriteGuard]
	return int(model.ParseNumber(text)), known
}

// guardOf is how many replicas have to acknowledge what a primary writes: no fewer than are in sync, in its own eyes as well, and no more
// than could be, which are all that are not starting or ending.
func guardOf(v *model.View, primary *model.Pod, have int) int {
	return min(v.Spec.MinReplicas, max(have, min(insync(v, primary, nil), primary.Node.Copies)), v.Size(primary.Shard)-1-away(v, primary))
}

// insync counts the replicas that have all data of a primary and do not leave.
func insync(v *model.View, primary *model.Pod, leaves func(p *model.Pod) bool) int {
	n := 0
	for _, p := range v.Shards[primary.Shard] {
		if p != primary && p.Node != nil && !p.Deleting && facts.Follows(p, primary) && (leaves == nil || !leaves(p)) {
			n++
		}
	}
	return n
}

// away counts the replicas of a primary that are known to be starting or ending.
func away(v *model.View, primary *model.Pod) int {
	n := v.Size(primary.Shard) - len(v.Shards[primary.Shard])
	for _, p := range v.Shards[primary.Shard] {
		if p != primary && facts.ComesOrGoes(p) {
			n++
		}
	}
	return n
}

// Lift returns the steps by which Next takes a step of a cluster of the mode Sharded: one that
// lowers min-replicas-to-write on primaries as far as the step needs it, if it does, and the step.
func Lift(s model.State, step cluster.Step) []cluster.Step {
	if guards := lift(model.NewView(s), step); len(guards.Guards) > 0 {
		return []cluster.Step{guards, step}
	}
	return []cluster.Step{step}
}

// lookAhead returns the view of a state with what the next step needs of min-replicas-to-write.
// Lowering it is a step of its own, which the rules must not take back before the step that needs
// it. With onlyRepairs, nothing is lowered for a step that is not carried out.
func lookAhead(s model.State, onlyRepairs bool) *model.View {
	v := model.NewView(s)
	v.OnlyRepairs = onlyRepairs
	if !s.Spec.Replicated && s.Spec.MinReplicas == 0 {
		return v // No rule would take it back.
	}
	then := model.NewView(s)
	then.LookingAhead = true
	phases := shardedPhases()
	if s.Spec.Replicated {
		phases = replicatedPhases()
	}
	plan := cluster.Decide(then, phases, keepLastCopy)
	for p := &plan; p != nil; p = p.Fallback {
		if !isCarriedOut(v, p.Step) {
			continue
		}
		if s.Spec.Replicated {
			v.RelaxesLastReplica = v.RelaxesLastReplica || takesLastReplica(then, p.Step)
		} else if limits := limitsOf(then, p.Step); limits != nil {
			v.GuardLimits = limits
		}
	}
	return v
}

// isCarriedOut reports whether the reconcile loop takes a step, so that others may come before it to
// prepare it.
func isCarriedOut(v *model.View, step cluster.Step) bool {
	return step != nil && (!v.OnlyRepairs || step.Meta().Repair)
}

// lift returns the step that lowers min-replicas-to-write on primaries before another step; without
// Guards if that needs none.
func lift(v *model.View, step cluster.Step) (out steps.GuardShards) {
	limits := limitsOf(v, step)
	for shard := range v.Shards {
		for _, p := range v.Shards[shard] {
			most, limited := limits[p.Name]
			if have, known := acknowledged(p); limited && known && have > most {
				out.Guards = append(out.Guards, steps.GuardWrites{Pod: p.Name, Replicas: most})
			}
		}
	}
	return out
}

// limitsOf is how many replicas servers may ask for at most to acknowledge their writes, for a step to be taken; nil: as many as
// they like.
func limitsOf(v *model.View, step cluster.Step) map[string]int {
	var leaves func(p *model.Pod) bool
	former, promoted := "", ""
	switch s := step.(type) {
	case steps.Restart:
		leaves = func(p *model.Pod) bool { return slices.Contains(s.Pods, ref(p)) }
	case steps.ReplaceDisk:
		leaves = func(p *model.Pod) bool { return ref(p) == s.Pod }
	case steps.ScaleShards:
		leaves = func(p *model.Pod) bool {
			return slices.ContainsFunc(s.Sets, func(c steps.SetSize) bool { return c.Shard == p.Shard && p.Ordinal >= c.To })
		}
	case steps.Failover:
		// Nobody copies the new primary at first, and it ceases to copy the former one a moment before that hears of it.
		leaves, former, promoted = func(p *model.Pod) bool { return p.Name == s.To }, s.From, s.To
	default:
		return nil
	}
	limits := map[string]int{}
	for shard := range v.Shards {
		head := v.DesignatedPrimary(shard)
		loses := slices.ContainsFunc(v.Shards[shard], leaves)
		for _, p := range v.Shards[shard] {
			switch {
			case p.Name == promoted:
				limits[p.Name] = 0
			case loses && (p == head || p.Name == former) && !leaves(p):
				limits[p.Name] = insync(v, p, leaves)
			}
		}
	}
	return limits
}

// guardEvictions keeps voluntary evictions away from the only copy of a shard. A budget counts ready pods, and a pod is ready long
// before it has all data; one that is not ready counts by itself. What is unknown changes nothing.
func guardEvictions(v *model.View) (cluster.Plan, bool) {
	var step steps.Guard
	for _, set := range v.Sets {
		if set.Shard < 0 || set.Shard >= len(v.Shards) {
			continue
		}
		primary := v.Primary(set.Shard)
		switch {
		case primary == nil:
		case !set.Guarded && primary.Node.Keys > 0 && slices.ContainsFunc(v.Shards[set.Shard], func(o *model.Pod) bool { return looksCopiedBy(primary, o) }):
			step.Protect = append(step.Protect, set.Shard)
		case set.Guarded && (primary.Node.Keys == 0 || hasCopy(v, set.Shard, primary)):
			step.Release = append(step.Release, set.Shard)
		}
	}
	switch {
	case len(step.Protect) > 0:
		return cluster.Do(step, "evictions wait while a replica that is ready does not have all data")
	case len(step.Release) > 0:
		return cluster.Do(step, "the replicas have all data again")
	}
	return cluster.Pass()
}

// looksCopiedBy tells whether a pod counts as a copy of a primary and is none.
func looksCopiedBy(p *model.Pod, o *model.Pod) bool {
	return o != p && o.Ready && o.Node != nil && !facts.Follows(o, p)
}

// hasCopy tells whether a shard has all of its pods, and all replicas follow the primary.
func hasCopy(v *model.View, shard int, primary *model.Pod) bool {
	return len(v.Shards[shard]) >= v.Size(shard) && !slices.ContainsFunc(v.Shards[shard], func(p *model.Pod) bool {
		return p != primary && (p.Node == nil || !facts.Follows(p, primary))
	})
}

// With appendfsync everysec, a server has its disk keep its append-only file when a second has
// passed since it last did, by the time of day. When the clock is put back, by hand or by a late
// time synchronisation, the disk keeps nothing until the clock is where it was: all supported
// servers, see TestAClockThatIsPutBack in package redisclient. With appendfsync always the next
// write is kept whatever the time is, and the server counts from the new time on. So such a server
// gets appendfsync always until it has written something, and then its own setting again, see due.

// mayEnableLog reports whether a server may be told appendonly yes now. Enabling it forks the server to write a new file (startAppendOnly in the servers'
// source), so that one server of a shard does so at a time. The primary is first: when it restarts in place before that, it loads the file from before
// appendonly was switched off, and its replicas copy it. A server that loads its data refuses the parameter (DENY_LOADING_CONFIG).
func mayEnableLog(v *model.View, p *model.Pod) bool {
	return !p.Node.Loading && !slices.ContainsFunc(v.Readable, func(o *model.Pod) bool {
		if o == p || o.Shard != p.Shard || o.Node.Loading {
			return false
		}
		if o.Node.Config[model.AppendOnly] != "no" {
			return o.Node.Forked && !o.Node.OnDisk
		}
		if o.OwnsSlots() != p.OwnsSlots() {
			return o.OwnsSlots()
		}
		return o.Ordinal < p.Ordinal
	})
}

// waitForAppendOnlyFile waits for servers whose append-only file is off and cannot be switched on yet.
func waitForAppendOnlyFile(v *model.View) (cluster.Plan, bool) {
	for _, p := range v.Readable {
		if v.Spec.Live[model.AppendOnly] == "yes" && p.Node.Config[model.AppendOnly] == "no" {
			return waitForDisk(p)
		}
	}
	return cluster.Pass()
}

// setFsyncAlways sets appendfsync always on servers whose clocks were put back.
func setFsyncAlways(v *model.View) (cluster.Plan, bool) {
	var step steps.KeepLogs
	for _, p := range v.Readable {
		if have, ok := p.Node.Config[model.AppendFsync]; ok && have != model.FsyncAlways && facts.KeepsAtOnce(p) {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "the clock of %s was put back: until it is where it was, the disk would keep nothing of what is written, so that it keeps every write at once "+
		"until the next one is there", steps.JoinItems(step.Pods, func(name string) string { return name }))
}
