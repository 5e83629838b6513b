package planner_test

import (
	"maps"
	"slices"
	"strconv"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// checkData insists that every write that was acknowledged is there. An old primary that comes back at a time when all addresses
// have changed believes for a moment that it still is one; Redis has no cure for that.
func (s *simulation) checkData() {
	for slot := range sampleSlots {
		o := s.owner(slot)
		if o == nil || s.emptied(o) {
			continue
		}
		s.home[slot] = o.Shard
		for n := range keysOfSlot {
			if k := (redisfake.Key{Slot: slot, N: n}); s.visible(k) < s.acked[k] {
				s.fail("%s owns slot %d, and %v is %d where %d was acknowledged", s.podOf(o), slot, k, s.visible(k), s.acked[k])
			}
		}
	}
	for _, p := range s.pods {
		for k := range sampleKeys {
			if home, known := s.home[k.Slot]; known && !s.resharded && p.server != nil && home != p.shard && p.server.Data[k] > 0 {
				s.fail("%s has copied shard %d", p.name, home)
			}
		}
	}
}

func (s *simulation) emptied(w *redisfake.Server) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.server == w && p.emptied })
}

// check judges a step by what the world knows and the planner cannot.
func (s *simulation) check(step cluster.Step) {
	switch st := step.(type) {
	case steps.SetConfigEpochs:
		if !slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.server != nil && len(p.server.Data) > 0 }) {
			s.bury() // Faults and humans have left nothing of the cluster: the next one is a new one.
		}
	case steps.AddSlots:
		for _, o := range st.Owners {
			s.checkAssignment(s.pod(o.Pod), o.Slots)
		}
	case steps.Forget:
		for _, p := range s.pods {
			if p.server != nil && p.server.ID == st.ID && !s.left(p) {
				s.fail("%s forgets the node of %s, which still exists", st, p.name)
			}
		}
	case steps.Replicate:
		for _, f := range st.Replicas {
			if p := s.pod(f.Pod); s.pod(f.Primary).shard != p.shard {
				s.fail("%s: that is another shard", st)
			}
		}
	case steps.Failover:
		to, from := s.pod(st.To), s.pod(st.From)
		if to.shard != from.shard {
			s.fail("%s: that is another shard", st)
		}
		if !to.server.OnDisk() {
			s.fail("%s: its copy is not on disk", st)
		}
		if guard(to.server) > 0 {
			s.fail("%s: it would take no write before others copy it", st)
		}
		s.checkWritable(st, func(p *simPod) bool { return p == to })
		s.checkLeftBehind(st, to)
	case steps.ScaleShards:
		for _, size := range st.Sets {
			s.checkScale(size)
			s.checkWritable(st, func(p *simPod) bool { return p.shard == size.Shard && p.ordinal >= size.To })
		}
	case steps.Elect:
		s.checkElect(st)
		s.checkEnded(st)
	case steps.TakeOver:
		s.takeovers++
		s.checkElect(steps.Elect(st))
		s.checkEnded(steps.Elect(st))
		s.checkFence(st)
	case steps.AssignEmpty:
		s.voids++
		s.checkVoid(st)
	case steps.End:
		s.checkEnd(st)
	case steps.Restart:
		s.checkRestart(st)
		s.checkWritable(st, func(p *simPod) bool {
			return slices.ContainsFunc(st.Pods, func(r steps.PodRef) bool { return r.Name == p.name })
		})
	case steps.DropShard:
		s.checkDrop(st)
	}
}

// guard is how many replicas have to acknowledge what a server writes.
func guard(w *redisfake.Server) int {
	n, _ := strconv.Atoi(w.Config["min-replicas-to-write"])
	return n
}

// checkWritable insists that no primary stops taking writes because of a step.
func (s *simulation) checkWritable(step cluster.Step, leaves func(p *simPod) bool) {
	for _, p := range s.pods {
		if p.server == nil || !p.server.Up || p.server.Cut || len(p.server.Slots()) == 0 || leaves(p) {
			continue
		}
		before, after := 0, 0
		for _, o := range s.pods {
			if o.server != nil && o.server.Primary() == p.server.ID && o.server.LinkUp() {
				before++
				if !leaves(o) {
					after++
				}
			}
		}
		if n := guard(p.server); before >= n && after < n {
			s.fail("%s: %s asks for %d replicas, has %d and is left with %d", step, p.name, n, before, after)
		}
	}
}

func (s *simulation) checkAssignment(p *simPod, slots slots.Set) {
	for _, o := range s.present() {
		if o.server != nil && o.server.Remembers().Overlaps(slots) {
			s.fail("slots %s are assigned to %s, but %s remembers an owner", slots, p.name, o.name)
		}
		if o.server == nil || !s.assigned.Overlaps(slots) {
			continue
		}
		if len(o.server.Data) > 0 && !s.spec.AssignEmpty && !s.restore.serves(slots) {
			s.fail("slots %s are assigned to %s as if they were new, but %s holds data from before", slots, p.name, o.name)
		}
		for k := range o.server.Data {
			if o != p && slots.Has(k.Slot) {
				s.fail("slots %s are assigned to %s, but %s holds keys of slot %d", slots, p.name, o.name, k.Slot)
			}
		}
	}
}

// checkDrop insists that a shard which goes has nothing that anybody could miss.
func (s *simulation) checkDrop(st steps.DropShard) {
	onDeletedClaim := func(p *simPod) bool { return p.shard == st.Shard && p.claimDeleted } // It is made again, on another one.
	if st.Shard < s.spec.Shards && !slices.ContainsFunc(s.pods, onDeletedClaim) {
		s.fail("%s: it is wanted", st)
	}
	for k := range sampleKeys {
		if o := s.owner(k.Slot); o != nil && (o.Shard == st.Shard || o.Data[k] < s.acked[k]) {
			s.fail("%s: %s owns slot %d and has %d of %v, of which %d was acknowledged", st, s.podOf(o), k.Slot, o.Data[k], k, s.acked[k])
		}
	}
}

// checkElect insists that the operator votes for nobody who has less than another replica that it can reach.
func (s *simulation) checkElect(st steps.Elect) {
	to := s.pod(st.To)
	for k := range sampleKeys {
		for _, o := range s.pods {
			if s.home[k.Slot] == st.Shard && o.exists && o.shard == st.Shard && o.server != nil && o.server.Up && !o.server.Cut && o.server.Primary() != "" && newer(o.server, to.server) {
				s.fail("%s: %s has more than %s", st, o.name, to.name)
				return
			}
		}
	}
}

// checkEnded insists that a primary which the servers do not miss is replaced only when it has ended, by a replica that has all that was
// copied to any other one which runs or is about to.
func (s *simulation) checkEnded(st steps.Elect) {
	i := slices.IndexFunc(s.pods, func(p *simPod) bool { return p.server != nil && p.server.ID == st.PrimaryID })
	if i < 0 || s.pods[i].emptied || s.pod(st.To).server.Misses(st.PrimaryID) {
		return
	}
	dead := s.pods[i]
	s.hastened++
	s.log("%s has ended, and is replaced before it is missed", dead.name)
	if dead.server.Up && dead.server.StateOK() {
		s.fail("%s: %s runs", st, dead.name)
	}
	if dead.restart && !dead.loops && !s.spec.ReplaceDead && !dead.nodeLost {
		s.fail("%s: %s is about to be back", st, dead.name)
	}
	for _, o := range s.others(dead) {
		returns := o.server.Up || (o.restart && !o.loops && !o.nodeLost)
		if o.shard == st.Shard && o.exists && returns && o.server.Primary() == st.PrimaryID && newer(o.server, s.pod(st.To).server) {
			s.fail("%s: %s has what %s has not", st, o.name, st.To)
		}
	}
}

// checkVoid insists that nothing is given to a server without it that anybody has, or may have.
func (s *simulation) checkVoid(st steps.AssignEmpty) {
	to := s.pod(st.Pod).server
	for k := range sampleKeys {
		if !st.Slots.Has(k.Slot) {
			continue
		}
		if o := s.owner(k.Slot); o != nil {
			s.fail("%s: %s owns slot %d", st, s.podOf(o), k.Slot)
		}
		if home, known := s.home[k.Slot]; known && home != to.Shard { // No server tells whose they were, and they move back.
			s.resharded = true
		}
		if to.Data[k] < s.acked[k] {
			s.fail("%s: %d of %v was acknowledged, and it has %d", st, s.acked[k], k, to.Data[k])
		}
	}
}

// checkFence insists that nobody takes over from a server that runs, unless it came back empty.
func (s *simulation) checkFence(st steps.TakeOver) {
	for _, p := range s.pods {
		if p.server != nil && p.server.ID == st.PrimaryID && p.server.Up && !p.emptied {
			s.fail("%s: %s runs", st, p.name)
		}
	}
}

// newer tells whether one server has a later write than any of another.
func newer(a, b *redisfake.Server) bool {
	last := func(v *redisfake.Server) int {
		if len(v.Data) == 0 {
			return 0
		}
		return slices.Max(slices.Collect(maps.Values(v.Data)))
	}
	return last(a) > last(b)
}

// checkEnd insists that a server which hangs is ended only when its data stays, and never when it may have more than those that would go on without it.
func (s *simulation) checkEnd(st steps.End) {
	for _, ref := range st.Pods {
		p := s.pod(ref.Name)
		s.checkEndsPod(st, p)
		owner := slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.shard == p.shard && o.server.Up && len(o.server.Slots()) > 0 })
		copied := slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.shard == p.shard && o.server.Up && o.server.HasCopy() })
		switch {
		case p.uid == ref.UID && !p.hangs && p.server != nil && p.server.Up:
			s.fail("%s: %s does not hang", st, p.name)
		case !s.isHome(p.shard):
		case !s.spec.Persistent && !owner && !copied:
			s.fail("%s: %s has the only copy of its shard", st, p.name)
		case p.server != nil && p.server.Primary() != "" && !owner:
			s.fail("%s: %s is a replica, and its shard has no primary", st, p.name)
		}
	}
}

func (s *simulation) checkRestart(st steps.Restart) {
	shards := map[int]bool{}
	for _, ref := range st.Pods {
		p := s.pod(ref.Name)
		s.checkEndsPod(st, p)
		if p.stuck != "" || !s.isHome(p.shard) {
			continue // A shard without slots has nothing to lose.
		}
		if p.loops { // What it had acknowledged last goes with it where there is no volume, and all that others have stays.
			if !s.spec.Persistent && !slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.shard == p.shard && o.server.Up && o.server.HasCopy() }) {
				s.fail("%s: %s has the only copy of its shard", st, p.name)
			}
			continue
		}
		if shards[p.shard] {
			s.fail("%s: two pods of one shard", st)
		}
		shards[p.shard] = true
		if !s.spec.Persistent && !s.copied(p) {
			s.fail("%s: %s has the last copy of its shard", st, p.name)
		}
		if !p.server.Up || (p.server.Primary() != "" && !p.linkSeen) {
			s.checkBroken(st, p)
			continue
		}
		for _, o := range s.staff() {
			if o != p && o.shard == p.shard && o.server != nil && o.server.Primary() != "" && !o.server.LinkUp() {
				s.fail("%s: %s is not in sync", st, o.name)
			}
			if o != p && o.exists && o.shard == p.shard && o.server != nil && !o.server.OnDisk() {
				s.fail("%s: the data of %s is not on disk", st, o.name)
			}
		}
		if p.server == nil || len(p.server.Slots()) == 0 {
			continue
		}
		s.fail("%s: %s is the primary", st, p.name)
	}
}

// copied tells whether other servers that run have all that a pod has and that was not written off.
func (s *simulation) copied(p *simPod) bool {
	for k, value := range p.server.Data {
		if !slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.server.Up && o.server.Data[k] >= min(value, s.acked[k]) }) {
			return false
		}
	}
	return true
}

// checkBroken insists that a pod which is not in sync is restarted only while its primary is well.
func (s *simulation) checkBroken(st steps.Restart, p *simPod) {
	for slot := range sampleSlots {
		home, known := s.home[slot]
		if o := s.owner(slot); known && home == p.shard && (o == nil || !o.Up || !o.OnDisk()) {
			s.fail("%s: %s has no primary that is well", st, p.name)
			return
		}
	}
}

// unwritten tells whether nothing that was acknowledged is in slots whose owner is gone: a replica of it cannot be told from one
// without a copy.
func (s *simulation) unwritten() bool {
	for k := range sampleKeys {
		if s.acked[k] > 0 && s.owner(k.Slot) == nil {
			return false
		}
	}
	return true
}

func (s *simulation) checkSettled() {
	if len(s.guarded) > 0 {
		s.fail("settled, but shards %v allow no evictions", s.guarded)
	}
	if len(s.sets) != s.spec.Shards {
		s.fail("settled with %d shards, not %d", len(s.sets), s.spec.Shards)
	}
	for slot := range sampleSlots {
		o := s.owner(slot)
		if o == nil || !o.Owns(slot) || o.MigratingTo(slot) != "" {
			s.fail("settled, but slot %d has no owner, or goes elsewhere", slot)
			return
		}
		for n := range keysOfSlot {
			if k := (redisfake.Key{Slot: slot, N: n}); o.Data[k] < s.acked[k] {
				s.fail("settled, but %v is %d at its owner %s and %d was acknowledged", k, o.Data[k], s.podOf(o), s.acked[k])
			}
		}
	}
	s.checkSizes()
	for _, p := range s.present() {
		if p.claimDeleted {
			s.fail("settled, but the claim of %s is being deleted", p.name)
		}
		s.checkUsers(p)
		if s.outdated(p) || p.server.Version != s.spec.Version {
			s.fail("settled with %s outdated", p.name)
		}
		for name, want := range s.spec.Live {
			if have := p.server.Config[name]; have != want {
				s.fail("settled, but %s of %s is %s instead of %s", name, p.name, have, want)
			}
		}
		if guard(p.server) != s.spec.MinReplicas {
			s.fail("settled, but %s asks for %d replicas and not for %d", p.name, guard(p.server), s.spec.MinReplicas)
		}
		if n := p.server.Slots().Count(); n > 0 {
			if p.emptied {
				s.fail("settled with %s, which came back empty", p.name)
			}
			even := slots.Count / s.spec.Shards
			if weighed := s.spec.Rebalance.On() && n >= even/4; n != even && n != even+1 && !weighed {
				s.fail("settled, but %s has %d slots", p.name, n)
			}
			continue
		}
		primary := slices.IndexFunc(s.pods, func(o *simPod) bool { return o.server != nil && o.server.ID == p.server.Primary() })
		if primary < 0 || s.pods[primary].shard != p.shard || len(s.pods[primary].server.Slots()) == 0 || !p.server.LinkUp() {
			s.fail("settled, but %s neither owns slots nor copies who does", p.name)
		}
	}
}
