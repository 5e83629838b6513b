package planner_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func (s *simulation) observe() model.State {
	state := model.State{Spec: s.spec, Now: s.net.Now()}
	s.observeServices(&state)
	for _, shard := range slices.Sorted(maps.Keys(s.sets)) {
		set := s.sets[shard]
		set.Guarded = s.guarded[shard]
		state.Sets = append(state.Sets, set)
	}
	for _, p := range s.pods {
		if p.server != nil && s.spec.Persistent {
			state.Claims = append(state.Claims, model.Claim{Name: "data-" + p.name, UID: p.server.ID, Shard: p.shard, Ordinal: p.ordinal, Leaving: p.claimDeleted})
		}
		if p.homeless {
			state.Claims = append(state.Claims, model.Claim{Name: "data-" + p.name, UID: p.uid, Shard: p.shard, Ordinal: p.ordinal, Lost: lostVolume})
		}
		if !p.exists {
			continue
		}
		if s.rnd.IntN(20) == 0 {
			s.net.Tick() // The answers of an observation are never all of the same moment.
		}
		if p.stuck != "" {
			state.Pods = append(state.Pods, model.Pod{
				Name: p.name, UID: p.uid, Shard: p.shard, Ordinal: p.ordinal, Outdated: s.outdated(p), Stuck: p.stuck, Unready: p.started,
			})
			continue
		}
		pod := model.Pod{
			Name: p.name, UID: p.uid, Shard: p.shard, Ordinal: p.ordinal, Addr: p.server.Addr,
			Ready: p.server.Up, Outdated: s.outdated(p), HasRun: true, NodeLost: p.nodeLost, Deleting: !p.ends.IsZero(),
		}
		if p.server.Up || p.nodeLost {
			pod.Started = p.started
		}
		pod.NodeName = p.node()
		pod.Since = p.started.Add(-50 * time.Second) // So that what waits for a calm minute is not for quiet times alone.
		if pod.NodeName == s.cordoned {
			pod.Cordoned = "is on a node that is cordoned"
		}
		if p.hangs {
			pod.Ready, pod.Started = true, p.started
		}
		if !pod.Ready {
			pod.Unready = p.killed
		}
		if p.loops {
			pod.Stuck, pod.HeldUntil = "CrashLoopBackOff", p.backAt
			if p.damaged {
				pod.Fatal = "Wrong RDB checksum"
			}
		}
		// What Kubernetes says of a container that has been started again is late now and then.
		if s.net.Now().Sub(p.started) < time.Second && !p.killed.IsZero() && s.rnd.IntN(2) == 0 {
			pod.Started = time.Time{}
		}
		pod.Announce = s.announcement(p).Parameters(p.server.Host, p.server.Addr.IP)
		var err error
		pod.Node, err = p.server.Read(context.Background())
		pod.Hangs = errors.Is(err, steps.ErrHangs)
		p.linkSeen = pod.Node != nil && pod.Node.LinkUp
		state.Pods = append(state.Pods, pod)
	}
	s.restore.observe(&state)
	s.weigh(&state)
	s.idle.Watch(&state)
	s.processes.Watch(&state)
	return state
}

// act carries a step out, and dies after some command now and then.
func (s *simulation) act(step cluster.Step) {
	s.log("step: %s", step)
	s.check(step)
	s.processes.Stand(step, s.net.Now())
	if s.restore.act(s, step) {
		return
	}
	if !s.carryOut(step) {
		s.command(step.(steps.ServerStep))
	}
}

// carryOut does what is no command to one server, and tells whether the step was that.
func (s *simulation) carryOut(step cluster.Step) bool {
	switch st := step.(type) {
	case steps.MoveSlots:
		s.move(st)
	case steps.DropShard:
		s.drop(st)
	case steps.ScaleShards:
		s.scale(st)
	case steps.DeleteClaim:
		s.discard(st)
	case steps.ReplaceDisk:
		s.replaceDisk(st)
	case steps.MoverStep:
		pod, _ := st.Server()
		s.logError(st.Run(context.Background(), &mortal{s, s.pod(pod).server}))
	case steps.Restart:
		s.restart(st)
	case steps.End:
		for _, ref := range st.Pods {
			if p := s.pod(ref.Name); p.exists && p.uid == ref.UID && !s.dies() {
				s.ended++
				s.strike(p, !s.spec.Persistent, 30)
			}
		}
	case steps.RotatePasswords:
		s.rotate(st)
	case steps.Withdraw:
		s.withdraw(st)
	case steps.Guard:
		for _, shard := range st.Protect {
			s.guarded[shard] = true
		}
		for _, shard := range st.Release {
			delete(s.guarded, shard)
		}
	case steps.Failover:
		if from, to := s.pod(st.From).server, s.pod(st.To).server; !s.dies() && from != nil && to != nil {
			s.logError(st.Run(context.Background(), from, to))
		}
	default:
		return false
	}
	return true
}

func (s *simulation) scale(st steps.ScaleShards) {
	for _, size := range st.Sets {
		if s.dies() {
			return
		}
		set := s.sets[size.Shard]
		set.Replicas = size.To
		s.sets[size.Shard] = set
	}
}

func (s *simulation) restart(st steps.Restart) {
	for _, ref := range st.Pods {
		if s.dies() {
			return
		}
		if p := s.pod(ref.Name); p.exists && p.uid == ref.UID {
			s.delete(p, !s.spec.Persistent, 30)
		}
	}
}

func (s *simulation) replaceDisk(st steps.ReplaceDisk) {
	p := s.pod(st.Pod.Name)
	s.checkEndsPod(st, p)
	switch {
	case p.damaged && !s.owned(p):
		s.fail("%s: nobody else has its data", st)
	case !p.damaged && (p.server != nil || !p.homeless):
		s.fail("%s: it has one", st)
	}
	p.homeless = false
	s.delete(p, true, 30)
}

// command sends the commands of a step to its servers.
func (s *simulation) command(step steps.ServerStep) {
	for _, call := range step.Calls() {
		if s.dies() {
			return
		}
		p := s.pod(call.Pod)
		if !p.exists || p.server == nil {
			continue
		}
		if err := call.Do(context.Background(), p.server); err != nil {
			s.log("%s: %v", call.Pod, err)
		} else if add, ok := step.(steps.AddSlots); ok {
			for _, o := range add.Owners {
				if o.Pod == call.Pod {
					s.assigned = slots.Union(s.assigned, o.Slots)
				}
			}
		}
	}
}

func (s *simulation) logError(err error) {
	if err != nil {
		s.log("%v", err)
	}
}

// move moves slots, with time and faults between the commands.
func (s *simulation) move(st steps.MoveSlots) {
	for _, m := range st.Moves {
		from, to := s.pod(m.From), s.pod(m.To)
		if !from.exists || !to.exists || from.server == nil || to.server == nil {
			continue
		}
		rounds := 1 + s.rnd.IntN(200)
		done, err := m.Run(context.Background(), &mortal{s, from.server}, &mortal{s, to.server}, func() bool { rounds--; return rounds >= 0 })
		s.log("%s to %s: %+v, %v", m.From, m.To, done, err)
		if errors.Is(err, errDies) {
			return
		}
	}
}

// mortal is a connection of an operator that may die before and after each command.
type mortal struct {
	s *simulation
	*redisfake.Server
}

var errDies = errors.New("the operator dies")

// around has time pass, clients write and the operator die around a command.
func (m *mortal) around(do func() error) error {
	if m.s.rnd.IntN(20) == 0 {
		m.s.pass()
	}
	if !m.s.podsStay && m.s.rnd.IntN(300) == 0 {
		m.s.fault()
	}
	if m.s.crash == 0 && m.s.rnd.IntN(200) == 0 || m.s.crash != 0 && m.s.dies() {
		return errDies
	}
	return do()
}

func (m *mortal) SetSlots(ctx context.Context, slots slots.Set, state model.SlotState, id string) error {
	return m.around(func() error { return m.Server.SetSlots(ctx, slots, state, id) }) //nolint:contextcheck // Faults need none.
}

func (m *mortal) Keys(ctx context.Context, slots slots.Set, limit int) (out map[int][]model.Key, err error) {
	err = m.around(func() error { out, err = m.Server.Keys(ctx, slots, limit); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Process(ctx context.Context) (out string, err error) {
	err = m.around(func() error { out, err = m.Server.Process(ctx); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Sees(ctx context.Context, id string) (out model.Peer, err error) {
	err = m.around(func() error { out, err = m.Server.Sees(ctx, id); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Large(ctx context.Context, slots slots.Set, bytes int64) (out map[int]model.Key, err error) {
	err = m.around(func() error { out, err = m.Server.Large(ctx, slots, bytes); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Send(ctx context.Context, to model.Address, batches [][]model.Key, replace bool, patience time.Duration) (busy [][]model.Key, err error) {
	err = m.around(func() error { busy, err = m.Server.Send(ctx, to, batches, replace, patience); return err }) //nolint:contextcheck // Faults need none.
	return busy, err
}

func (s *simulation) dies() (dead bool) {
	s.calls++
	dead = s.calls == s.crash
	if s.crash == 0 {
		dead = s.rnd.IntN(12) == 0
	}
	if dead {
		s.log("the operator dies after command %d", s.calls)
		clear(s.idle)
		clear(s.processes)
	}
	return dead
}
