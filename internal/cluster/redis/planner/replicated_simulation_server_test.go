package planner_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// repServer is a pod of a cluster in the mode Replicated, and the server in it: asynchronous replication, partial copies by
// replication id and offset, and a primary that counts the replicas that acknowledge.
type repServer struct {
	steps.Client // Not all verbs are used.

	sim            *repSimulation
	name, uid, run string
	ordinal        int
	addr           model.Address
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
	asks            model.Address
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

// never is later than a simulation lasts.
func never(now time.Time) time.Time { return now.Add(24 * time.Hour) }

// start is a new process, in the same pod or in another one.
func (p *repServer) start() {
	s := p.sim
	if p.homeless {
		p.uid, p.role, p.template, p.deleting, p.newPod, p.on, p.backAt = s.id("uid"), "", s.template, false, false, time.Time{}, never(s.now)
		return
	}
	if p.newPod {
		p.uid, p.addr, p.role, p.template = s.id("uid"), model.Address{IP: s.id("ip"), Port: model.ClientPort}, "", s.template
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
	p.primary, p.linked, p.asks, p.history, p.former, p.offset, p.until, p.guard = false, false, model.Nobody, s.id("history"), "", 0, 0, "0"
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

func (p *repServer) works() bool { return p.up && !p.sim.now.Before(p.hangs) }

func (p *repServer) reachable() bool { return p.works() && !p.sim.now.Before(p.deaf) }

func (p *repServer) meets(o *repServer) bool {
	return p.works() && o.works() && !p.sim.now.Before(p.alone) && !p.sim.now.Before(o.alone)
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

func (p *repServer) node() *model.Node {
	silence := model.Never
	if !p.heard.IsZero() {
		silence = p.sim.now.Sub(p.heard).Truncate(time.Second)
	}
	return &model.Node{
		ID: p.run, Version: "8.0.2", StateOK: true, OnDisk: true, Admits: model.AdmitsForGood, Keys: int64(len(p.data)), Offset: int64(p.offset),
		Connected: p.connected(), Acknowledging: p.hears(), LinkUp: p.linked && !p.primary, EverLinked: !p.heard.IsZero(), Asks: p.asks, Config: map[string]string{"min-replicas-to-write": p.guard},
		Replication: &model.Replication{Primary: p.primary, ID: p.history, FormerID: p.former, Silence: silence, HandsOver: p.handsOver},
		Peers:       []model.Peer{{ID: p.run, Myself: true}},
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

func (p *repServer) AdmitReplicas(context.Context, model.Admission) error { return nil }

func (p *repServer) Configure(_ context.Context, values map[string]string) error {
	p.guard = values["min-replicas-to-write"]
	return nil
}

func (p *repServer) ReplicaOf(_ context.Context, a model.Address) error {
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

func (p *repServer) lead() {
	p.former, p.until, p.history = p.history, p.offset, p.sim.id("history")
	p.primary, p.handsOver, p.linked, p.sim.last, p.acked, p.took = true, false, false, p, p.sim.now, 0
}

// FailoverTo holds the clients until the replica has everything.
func (p *repServer) FailoverTo(_ context.Context, a model.Address) error {
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
	if p.sim.faults && p.sim.chance(6) { // The candidate stands still before it reports that it leads.
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

var errRefused, errCrash = errors.New("connection refused"), errors.New("the operator ends")

func (s *repSimulation) at(a model.Address) *repServer {
	for _, p := range s.servers {
		if p.addr == a {
			return p
		}
	}
	return nil
}
