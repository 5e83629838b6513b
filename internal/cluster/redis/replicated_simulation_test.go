package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// repServer is a pod of a cluster in the mode Replicated, and the server in it: asynchronous replication, partial copies by
// replication id and offset, and a primary that counts the replicas that acknowledge.
type repServer struct {
	redis.Client // Not all verbs are used.

	sim            *repSimulation
	name, uid, run string
	ordinal        int
	addr           redis.Address
	template       int
	role           string
	deleting       bool
	// up says that the process runs; it comes back at backAt otherwise. While it hangs it does nothing.
	up      bool
	backAt  time.Time
	hangs   time.Time
	deaf    time.Time // the operator cannot reach it until then
	alone   time.Time // the other servers cannot
	left    time.Time // all others are restarted then
	started time.Time // its process
	ended   time.Time // the one before it, at the latest
	newPod  bool      // it comes back as another pod
	loses   bool      // and without its disk
	// homeless says that its volume went with its node, and on until when Kubernetes calls its pod running; no other pod like it gets a node.
	homeless        bool
	on              time.Time
	primary, linked bool
	// peer is the process that it is, or was last, connected to.
	peer            string
	asks            redis.Address
	copyUntil       time.Time // a full copy is on its way
	heard, acked    time.Time
	synced          time.Time // when anything came from a primary last
	data            []int     // what was written, in order; it is on the disk as well
	history, former string
	offset, until   int // until: the offset up to which the former history is its own
	guard           string
	took            int  // writes since it was made primary
	handsOver       bool // it has given all that it has to the one that it asks, and waits for that one to lead
}

// repSimulation is such a cluster, the Kubernetes around it, an operator that may crash after every write, and clients that
// keep their connection until it fails them.
type repSimulation struct {
	rnd      *rand.Rand
	now      time.Time
	spec     redis.Spec
	servers  []*repServer
	size     int
	template int
	record   redis.Appointment
	// candidate is who is about to take over, by the Service as well; failed is what the operator that runs remembers.
	candidate redis.FailoverCandidate
	failed    redis.FailedHandOvers
	clients   [3]*repServer
	// last is who was made primary last: nobody else may acknowledge a write from then on, unless it ended before it took any.
	last    *repServer
	written int
	acked   []int
	// times is when a write was acknowledged.
	times map[int]time.Time
	// excused are acknowledged writes that a fault took: no server that could be asked had them when another primary was made.
	excused map[int]bool
	ids     int
	// processes are what was seen of the servers, and ended counts those that were ended for it.
	processes redis.Processes
	ended     int
	replaced  int
	// faulty says that there are faults at all, and faults that there may be one now.
	faulty, faults bool
	trace          []string
	broken         string
}

var errRefused, errCrash = errors.New("connection refused"), errors.New("the operator ends")

const repTick = 100 * time.Millisecond

func newRepSimulation(seed uint64, faults bool) *repSimulation {
	rnd := rand.New(rand.NewPCG(seed, 2))
	s := &repSimulation{rnd: rnd, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), faulty: faults, faults: faults, processes: redis.Processes{}, excused: map[int]bool{}, times: map[int]time.Time{}, spec: redis.Spec{
		Name: "c", Shards: 1, Replicated: true, Replicas: rnd.IntN(4), Version: "8.0.2", NodeTimeout: nodeTime, Persistent: rnd.IntN(3) > 0,
	}}
	s.ensure()
	return s
}

func (s *repSimulation) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%7.1fs ", s.now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds())+fmt.Sprintf(format, args...))
}

func (s *repSimulation) fail(format string, args ...any) {
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
		s.log("BROKEN %s", s.broken)
	}
}

func (s *repSimulation) id(what string) string {
	s.ids++
	return fmt.Sprintf("%s-%d", what, s.ids)
}

func (s *repSimulation) chance(n int) bool { return s.rnd.IntN(n) == 0 }

func (s *repSimulation) in(least, most time.Duration) time.Time {
	return s.now.Add(least + time.Duration(s.rnd.Int64N(int64(most-least))))
}

// ensure is what the controller and the StatefulSet do.
func (s *repSimulation) ensure() {
	s.size = max(s.size, s.spec.Copies())
	for ordinal := len(s.servers); ordinal < s.size; ordinal++ {
		p := &repServer{sim: s, name: cluster.Pod("c-0", ordinal), ordinal: ordinal, newPod: true, backAt: s.now}
		s.servers = append(s.servers, p)
	}
}

// start is a new process, in the same pod or in another one.
func (p *repServer) start() {
	s := p.sim
	if p.homeless {
		p.uid, p.role, p.template, p.deleting, p.newPod, p.on, p.backAt = s.id("uid"), "", s.template, false, false, time.Time{}, never(s.now)
		return
	}
	if p.newPod {
		p.uid, p.addr, p.role, p.template = s.id("uid"), redis.Address{IP: s.id("ip"), Port: redis.ClientPort}, "", s.template
		p.loses = p.loses || !s.spec.Persistent
	}
	if p.newPod && p.loses {
		p.data = nil
	}
	if p.newPod {
		p.ended = s.now
	}
	p.up, p.deleting, p.newPod, p.loses, p.run = true, false, false, false, s.id("run")
	p.handsOver = false
	p.primary, p.linked, p.asks, p.history, p.former, p.offset, p.until, p.guard = false, false, redis.Nobody, s.id("history"), "", 0, 0, "0"
	p.heard, p.hangs, p.started = time.Time{}, time.Time{}, s.now.Add(-time.Minute) // So that it counts as one that has worked.
}

// loseNode ends a server whose node is deleted, together with the volume there.
func (p *repServer) loseNode() {
	p.homeless, p.on = true, p.sim.in(0, 10*time.Second)
	p.stop(p.on)
}

// newDisk deletes the claim of a pod, and the pod.
func (p *repServer) newDisk() {
	if p.homeless {
		p.homeless, p.loses = false, true
		p.delete()
	}
}

// never is later than a simulation lasts.
func never(now time.Time) time.Time { return now.Add(24 * time.Hour) }

func (p *repServer) works() bool { return p.up && !p.sim.now.Before(p.hangs) }

func (p *repServer) reachable() bool { return p.works() && !p.sim.now.Before(p.deaf) }

func (p *repServer) meets(o *repServer) bool {
	return p.works() && o.works() && !p.sim.now.Before(p.alone) && !p.sim.now.Before(o.alone)
}

func (s *repSimulation) at(a redis.Address) *repServer {
	for _, p := range s.servers {
		if p.addr == a {
			return p
		}
	}
	return nil
}

// replicate is what happens between a replica and the server that it asks within a tick.
func (p *repServer) replicate() {
	s := p.sim
	o := s.at(p.asks)
	if o == nil || !o.up {
		p.linked = false
		return
	}
	if !p.meets(o) {
		return // Nothing tells it that the other one is silent but the time.
	}
	p.linked = p.linked && o.primary && p.peer == o.run
	if !o.primary || o == p {
		return
	}
	if !p.linked && !p.begin(o) {
		return
	}
	behind := o.offset - p.offset
	n := behind
	if s.chance(3) {
		n = s.rnd.IntN(behind + 1)
	}
	from := len(o.data) - behind
	p.data = append(p.data, o.data[from:from+n]...)
	p.offset += n
	p.heard, p.synced, o.acked = s.now, s.now, s.now
}

// begin is PSYNC: it goes on where the history is the same, and copies everything otherwise.
func (p *repServer) begin(o *repServer) bool {
	goesOn := (p.history == o.history && p.offset <= o.offset) || (p.history == o.former && p.offset <= o.until)
	switch {
	case goesOn:
		if p.history != o.history {
			p.former, p.until = p.history, p.offset
		}
		p.history = o.history
	case p.copyUntil.IsZero():
		p.copyUntil = p.sim.in(0, 2*time.Second)
		return false
	case p.sim.now.Before(p.copyUntil):
		return false
	default:
		p.data, p.offset, p.history, p.former = slices.Clone(o.data), o.offset, o.history, ""
	}
	p.linked, p.peer, p.copyUntil = true, o.run, time.Time{}
	return true
}

// accepts tells whether a primary takes a write now.
func (p *repServer) accepts() bool {
	linked := slices.ContainsFunc(p.sim.servers, func(r *repServer) bool { return r != p && r.linked && r.asks == p.addr })
	return p.works() && p.primary && (p.guard == "0" || (linked && p.sim.now.Sub(p.acked) <= nodeTime))
}

// write is one attempt of a client.
func (s *repSimulation) write(n int) {
	p := s.clients[n]
	if p == nil {
		for _, o := range s.servers {
			if s.leadsTo(o) && o.up {
				p = o
			}
		}
	}
	s.clients[n] = nil
	if p == nil || !p.accepts() {
		return
	}
	s.clients[n] = p
	s.written++
	p.data = append(p.data, s.written)
	p.offset++
	s.acked = append(s.acked, s.written)
	s.times[s.written] = s.now
	p.took++
	if p != s.last && (s.last.primary || s.last.took > 0) {
		s.fail("%s acknowledges write %d after %s was made primary", p.name, s.written, s.last.name)
	}
}

// leadsTo tells whether the Service of the primary selects a pod.
func (s *repSimulation) leadsTo(p *repServer) bool {
	switch c := s.candidate; {
	case c.Pod != "" && c.History == "":
		return p.name == c.Pod
	case c.Pod != "":
		return p.name == c.Pod && p.role == redis.RolePrimary
	}
	return p.name == s.record.Pod && p.role == redis.RolePrimary
}

// tick is what happens without the operator.
func (s *repSimulation) tick() {
	s.now = s.now.Add(repTick)
	for _, p := range s.servers {
		if !p.left.IsZero() && !s.now.Before(p.left) {
			p.left = time.Time{}
			s.log("all but %s are restarted", p.name)
			for _, o := range s.servers {
				if o != p && o.up && !o.homeless {
					o.stop(s.in(0, 3*time.Second))
				}
			}
		}
		switch {
		case p.up && p.newPod && !s.now.Before(p.backAt): // It was deleted.
			p.stop(s.in(0, 2*time.Second))
		case !p.up && !s.now.Before(p.backAt):
			p.start()
		}
	}
	for _, p := range s.servers {
		if o := s.at(p.asks); p.works() && p.handsOver && o != nil && o.meets(p) {
			if !o.primary {
				o.lead()
			}
			p.handsOver = false
		}
		if p.works() && !p.primary && !p.handsOver {
			p.replicate()
		}
	}
	for n := range s.clients {
		s.write(n)
	}
}

func (p *repServer) stop(backAt time.Time) {
	if p.deleting && p.works() && p.primary { // It holds its clients until its replicas have everything.
		for range 20 {
			for _, r := range p.sim.servers {
				if r.works() && !r.primary && r.linked && r.asks == p.addr {
					r.replicate()
				}
			}
		}
	}
	p.up, p.primary, p.linked, p.backAt, p.ended = false, false, false, backAt, p.sim.now
}

// delete is the deletion of a pod, which is told a moment before it happens.
func (p *repServer) delete() {
	p.deleting, p.newPod, p.backAt = true, true, p.sim.in(0, time.Second)
}

// end ends a pod that does not end by itself.
func (p *repServer) end() {
	p.deleting, p.newPod = true, true
	p.up, p.primary, p.linked, p.backAt, p.ended = false, false, false, p.sim.in(0, time.Second), p.sim.now
}

// harm is a fault.
func (s *repSimulation) harm() {
	p := s.servers[s.rnd.IntN(len(s.servers))]
	if s.chance(2) && s.last != nil {
		p = s.last
	}
	if p.homeless {
		return
	}
	switch what := s.rnd.IntN(10); what {
	case 0, 1:
		s.log("%s is killed", p.name)
		p.stop(s.in(0, 3*time.Second))
	case 2:
		s.log("pod %s is deleted", p.name)
		p.delete()
	case 3:
		s.log("pod %s is lost with its disk", p.name)
		p.newPod, p.loses = true, true
		p.stop(s.in(time.Second, 10*time.Second))
	case 4:
		p.hangs = s.in(time.Second, 20*time.Second)
		if s.chance(3) {
			p.hangs = s.in(time.Minute, 5*time.Minute)
		}
		s.log("%s hangs", p.name)
	case 5:
		p.deaf = s.in(time.Second, 30*time.Second)
		s.log("the operator does not reach %s", p.name)
	case 6:
		p.deaf = s.in(time.Second, 40*time.Second)
		p.alone = p.deaf
		s.log("%s is cut off from all but its clients", p.name)
	case 7:
		s.log("all pods are restarted")
		for _, o := range s.servers {
			if !o.homeless {
				o.newPod = s.chance(2) || o.newPod
				o.stop(s.in(0, 3*time.Second))
			}
		}
	case 8:
		if s.spec.Persistent {
			s.log("the node of %s is lost with its volume", p.name)
			p.loseNode()
		}
	case 9:
		p.deaf = s.in(10*time.Second, 40*time.Second)
		p.alone, p.left = p.deaf, p.deaf
		s.log("%s is cut off, and all others are restarted when it is back", p.name)
	}
}

// change is a user who changes the specification.
func (s *repSimulation) change() {
	if s.chance(2) {
		s.template++
		s.log("the template changes")
		return
	}
	s.spec.Replicas = s.rnd.IntN(4)
	s.log("%d replicas are wanted", s.spec.Replicas)
}

func (s *repSimulation) observe() redis.State {
	st := redis.State{Now: s.now, Spec: s.spec, Appointed: s.record, Candidate: s.candidate, FailedHandOvers: s.failed, Sets: []redis.Set{{Replicas: s.size}}}
	for _, p := range s.servers {
		if p.uid == "" || (!p.up && p.newPod && s.chance(2)) {
			continue // Not made yet, or already gone.
		}
		pod := redis.Pod{
			Name: p.name, UID: p.uid, Ordinal: p.ordinal, Addr: p.addr, Ready: p.up, Deleting: p.deleting, Outdated: p.template != s.template, HasRun: true, Role: p.role,
			Ended: p.ended,
		}
		if p.homeless {
			st.Claims = append(st.Claims, redis.Claim{Name: "data-" + p.name, UID: p.uid, Ordinal: p.ordinal, Lost: "its node is gone"})
			pod.Gone, pod.NodeLost = s.now.Before(p.on), s.now.Before(p.on)
			pod.HasRun = pod.Gone
		}
		if p.up || pod.Gone {
			pod.Started = p.started
		}
		if !p.up {
			pod.Unready = p.ended
		}
		if p.reachable() {
			pod.Node = p.node()
		}
		pod.TimedOut = p.up && !p.reachable()
		pod.Hangs = pod.TimedOut && s.now.Before(p.hangs) && !s.now.Before(p.alone)
		st.Pods = append(st.Pods, pod)
	}
	s.processes.Watch(&st)
	return st
}

// hears counts the replicas that a primary has heard from of late, where it asks for any.
func (p *repServer) hears() *int {
	if !p.primary || p.guard == "0" {
		return nil
	}
	n := 0
	for _, o := range p.sim.servers {
		if o != p && o.linked && o.asks == p.addr && p.sim.now.Sub(o.synced) <= nodeTime {
			n++
		}
	}
	return &n
}

func (p *repServer) node() *redis.Node {
	silence := redis.Never
	if !p.heard.IsZero() {
		silence = p.sim.now.Sub(p.heard).Truncate(time.Second)
	}
	return &redis.Node{
		ID: p.run, Version: "8.0.2", StateOK: true, OnDisk: true, Admits: redis.AdmitsForGood, Keys: int64(len(p.data)), Offset: int64(p.offset),
		Connected: p.connected(), Acknowledging: p.hears(), LinkUp: p.linked && !p.primary, EverLinked: !p.heard.IsZero(), Asks: p.asks, Config: map[string]string{"min-replicas-to-write": p.guard},
		Replication: &redis.Replication{Primary: p.primary, ID: p.history, FormerID: p.former, Silence: silence, HandsOver: p.handsOver},
		Peers:       []redis.Peer{{ID: p.run, Myself: true}},
	}
}

// connected counts the replicas that a primary has not given up yet.
func (p *repServer) connected() int {
	n := 0
	for _, o := range p.sim.servers {
		if o != p && p.primary && o.linked && o.peer == p.run && p.sim.now.Sub(o.synced) < time.Minute {
			n++
		}
	}
	return n
}

// pass is one pass of the operator.
func (s *repSimulation) pass() cluster.Plan {
	s.ensure()
	plan := redis.Next(s.observe())
	if plan.Step == nil {
		return plan
	}
	s.log("%s: %s", plan.Step, plan.Message)
	err := s.act(plan.Step)
	if s.failed.Note(plan.Step, err, s.now); errors.Is(err, errCrash) {
		s.failed = redis.FailedHandOvers{}
	}
	if err != nil {
		s.log("%v", err)
	}
	return plan
}

func (s *repSimulation) dies() error {
	if s.faults && s.chance(20) {
		return errCrash
	}
	return nil
}

func (s *repSimulation) act(step cluster.Step) error {
	switch st := step.(type) {
	case redis.Guard:
	case redis.Appoint:
		return s.appoint(st)
	case redis.AssignRoles:
		return s.assign(st)
	case redis.End:
		for _, p := range s.servers {
			if slices.Contains(st.Pods, redis.PodRef{Name: p.name, UID: p.uid}) {
				s.ended++
				p.end()
			}
		}
		return s.dies()
	case redis.ReplaceDisk:
		for _, p := range s.servers {
			if p.name == st.Pod.Name && p.name == s.record.Pod {
				s.fail("the appointed pod %s gets a new disk", p.name)
			}
			if st.Pod == (redis.PodRef{Name: p.name, UID: p.uid}) {
				s.replaced++
				p.newDisk()
			}
		}
	case redis.Restart:
		for _, p := range s.servers {
			if slices.Contains(st.Pods, redis.PodRef{Name: p.name, UID: p.uid}) && !p.newPod {
				p.delete()
			}
		}
	case redis.ScaleShards:
		s.size = st.Sets[0].To
		for _, p := range s.servers[min(s.size, len(s.servers)):] {
			p.deleting = true
			p.stop(s.now)
		}
		s.servers = s.servers[:min(s.size, len(s.servers))]
	case redis.HandOver:
		s.checkHandOver(st)
		return s.command(st)
	case redis.ServerStep:
		return s.command(st)
	default:
		s.fail("unexpected step %T", step)
	}
	return nil
}

// appoint changes the Service of the primary.
func (s *repSimulation) appoint(st redis.Appoint) error {
	if s.record.Pod != st.Appointment.Pod {
		s.succeeds(st.Appointment.Pod)
	}
	s.record, s.candidate = st.Appointment, st.Candidate
	return s.dies()
}

// checkHandOver looks at where clients are sent, and what the new primary will need of replicas, before a hand-over.
func (s *repSimulation) checkHandOver(st redis.HandOver) {
	for _, p := range s.servers {
		if leads := s.leadsTo(p); leads != (p.name == st.To) {
			s.fail("%s: clients are sent to %s: %t", st, p.name, leads)
		}
		if p.name == st.To && p.guard == "0" {
			s.fail("%s: it takes writes that no replica acknowledges", st)
		}
	}
	if s.now.Sub(s.candidate.Since) < time.Second {
		s.fail("%s: nodes may still send clients to %s", st, st.From)
	}
}

// assign changes labels one after the other, as the controller does, that of the primary last.
func (s *repSimulation) assign(st redis.AssignRoles) error {
	for _, primary := range []bool{false, true} {
		for _, l := range st.Pods {
			if (l.Role == redis.RolePrimary) != primary {
				continue
			}
			for _, p := range s.servers {
				if p.name == l.Pod.Name && p.uid == l.Pod.UID {
					p.role = l.Role
				}
			}
			if err := s.dies(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *repSimulation) command(st redis.ServerStep) error {
	for _, call := range st.Calls() {
		i := slices.IndexFunc(s.servers, func(p *repServer) bool { return p.name == call.Pod })
		if i < 0 || !s.servers[i].reachable() {
			return errRefused
		}
		if err := errors.Join(call.Do(context.Background(), s.servers[i]), s.dies()); err != nil {
			return err
		}
	}
	return nil
}

func (p *repServer) AdmitReplicas(context.Context, redis.Admission) error { return nil }

func (p *repServer) Configure(_ context.Context, values map[string]string) error {
	p.guard = values["min-replicas-to-write"]
	return nil
}

func (p *repServer) ReplicaOf(_ context.Context, a redis.Address) error {
	if p.handsOver {
		return errRefused
	}
	if p.primary {
		p.sim.log("%s gives up its part", p.name)
	}
	p.primary, p.linked, p.asks, p.heard, p.copyUntil = false, false, a, time.Time{}, time.Time{}
	return nil
}

// Promote makes it the primary.
func (p *repServer) Promote(_ context.Context, history string) error {
	if p.history != history {
		return errRefused
	}
	p.sim.succeeds(p.name)
	p.lead()
	return nil
}

// succeeds checks that nobody who could be asked has more of what clients were told is written than the one that is named.
func (s *repSimulation) succeeds(name string) {
	p := s.servers[slices.IndexFunc(s.servers, func(o *repServer) bool { return o.name == name })]
	if p.primary {
		s.last = p
	}
	has := map[int]bool{}
	for _, w := range p.data {
		has[w] = true
	}
	for _, w := range s.acked {
		if has[w] || s.excused[w] {
			continue
		}
		if !s.faulty {
			s.fail("%s is made primary without write %d", p.name, w)
		}
		for _, o := range s.servers {
			if o != p && o.reachable() && !o.deleting && slices.Contains(o.data, w) && o.history == s.record.History {
				s.fail("%s is made primary without write %d, which %s has", p.name, w, o.name)
			}
			// What was written until the two could notice that they had lost touch was on its way.
			returns := o.name == s.record.Pod && !o.homeless && (o.reachable() || (!o.works() && !o.loses && (s.spec.Persistent || !o.newPod)))
			if o != p && returns && (s.record.Guard == 0 || s.times[w].Sub(p.synced) > nodeTime+6*time.Second) && slices.Contains(o.data, w) {
				s.fail("%s is made primary without write %d, which %s comes back with", p.name, w, o.name)
			}
		}
		s.excused[w] = true
	}
}

func (p *repServer) lead() {
	p.former, p.until, p.history = p.history, p.offset, p.sim.id("history")
	p.primary, p.handsOver, p.linked, p.sim.last, p.acked, p.took = true, false, false, p, p.sim.now, 0
}

// FailoverTo holds the clients until the replica has everything.
func (p *repServer) FailoverTo(_ context.Context, a redis.Address) error {
	o := p.sim.at(a)
	if !p.primary || o == nil || !o.meets(p) || !o.linked || o.asks != p.addr {
		return errRefused
	}
	if p.sim.faults && p.sim.chance(4) {
		p.sim.log("%s gives up handing over, and goes on", p.name)
		return errRefused
	}
	for o.offset < p.offset {
		o.replicate()
	}
	p.primary, p.asks = false, a
	if p.sim.faults && p.sim.chance(6) { // The heir stands still before it says that it leads.
		if p.sim.chance(2) {
			o.lead()
		}
		p.handsOver = true
		if until := p.sim.in(10*time.Second, 5*time.Minute); p.sim.chance(3) {
			o.alone, o.deaf = until, until
		} else {
			o.hangs = until
		}
		p.sim.log("%s hangs or is cut off when %s hands over to it", o.name, p.name)
		return errRefused
	}
	o.lead()
	return nil
}

func (s *repSimulation) run() {
	quiet := s.now.Add(90 * time.Second)
	for s.now.Before(quiet) && s.broken == "" {
		s.tick()
		if s.faults && s.chance(60) {
			s.harm()
		}
		if s.chance(200) {
			s.change()
		}
		if s.chance(2) {
			s.pass()
		}
	}
	end := s.now.Add(giveUp + time.Minute) // The last fault may take as long as giveUp.
	var plan cluster.Plan
	for s.faults = false; s.now.Before(end) && s.broken == ""; {
		s.tick()
		if s.now.Sub(quiet) > time.Minute {
			s.doWithout()
		}
		if plan = s.pass(); plan.Settled() && s.now.Sub(quiet) > time.Minute {
			s.check()
			return
		}
	}
	s.fail("it does not settle: %s %s", plan.Reason, plan.Message)
}

// doWithout is a user who does without what was lost, where the appointed one does not lead for that.
func (s *repSimulation) doWithout() {
	if slices.ContainsFunc(s.servers, func(p *repServer) bool { return p.primary && p.name == s.record.Pod }) {
		return
	}
	for _, p := range s.servers {
		if p.homeless {
			s.log("a user deletes the claim and the pod of %s", p.name)
			p.newDisk()
		}
	}
}

// check looks at a settled cluster.
func (s *repSimulation) check() {
	if s.candidate.Pod != "" {
		s.fail("%s is still about to take over", s.candidate.Pod)
	}
	from, leaders := s.written, 0
	for range 20 {
		s.tick()
	}
	if s.written == from {
		s.fail("a settled cluster takes no writes")
	}
	has := map[int]bool{}
	for _, p := range s.servers {
		if p.primary {
			leaders++
			for _, w := range p.data {
				has[w] = true
			}
		}
	}
	if leaders != 1 || len(s.servers) != s.spec.Copies() {
		s.fail("there are %d primaries among %d servers", leaders, len(s.servers))
	}
	for _, w := range s.acked {
		if !has[w] && !s.excused[w] {
			s.fail("write %d was acknowledged and is gone", w)
		}
	}
}

func TestReplicatedSimulation(t *testing.T) {
	t.Parallel()
	from, n := *first, max(1, sample(*seeds)/4) // Its runs are long.
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	acked, excused, promoted, ended, replaced, handed, back := 0, 0, 0, 0, 0, 0, 0
	for seed := from; seed < from+uint64(n); seed++ {
		s := newRepSimulation(seed, seed%4 > 0)
		s.run()
		if s.broken != "" || *oneSeed != 0 {
			t.Logf("seed %d:\n%s", seed, strings.Join(s.trace, "\n"))
		}
		if s.broken != "" {
			t.Fatalf("seed %d: %s", seed, s.broken)
		}
		acked, excused = acked+len(s.acked), excused+len(s.excused)
		ended, replaced = ended+s.ended, replaced+s.replaced
		promoted += strings.Count(strings.Join(s.trace, "\n"), " promote ")
		handed += strings.Count(strings.Join(s.trace, "\n"), " hand over from ")
		back += strings.Count(strings.Join(s.trace, "\n"), " did not hand over to it")
	}
	t.Logf("%d runs: %d writes acknowledged, %d lost with the server that alone had them, %d promotions, %d hand-overs, of which %d failed, %d servers that hung were ended, %d got new disks",
		n, acked, excused, promoted, handed, back, ended, replaced)
}
