package planner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// repSimulation is such a cluster, the Kubernetes around it, an operator that may crash after every write, and clients that
// keep their connection until it fails them.
type repSimulation struct {
	rnd      *rand.Rand
	now      time.Time
	spec     model.Spec
	servers  []*repServer
	size     int
	template int
	record   model.Appointment
	// candidate is who is about to take over, by the Service as well; failed is what the operator that runs remembers.
	candidate model.FailoverCandidate
	failed    model.FailedHandOvers
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
	processes history.Processes
	ended     int
	replaced  int
	// faulty says that there are faults at all, and faults that there may be one now.
	faulty, faults bool
	trace          []string
	broken         string
}

const repTick = 100 * time.Millisecond

func newRepSimulation(seed uint64, faults bool) *repSimulation {
	rnd := rand.New(rand.NewPCG(seed, 2))
	s := &repSimulation{rnd: rnd, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), faulty: faults, faults: faults, processes: history.Processes{}, excused: map[int]bool{}, times: map[int]time.Time{}, spec: model.Spec{
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
		return p.name == c.Pod && p.role == model.RolePrimary
	}
	return p.name == s.record.Pod && p.role == model.RolePrimary
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
