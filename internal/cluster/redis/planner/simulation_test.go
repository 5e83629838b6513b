package planner_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

var (
	seeds    = flag.Int("seeds", 1000, "number of simulated runs")
	first    = flag.Uint64("first", 1, "the first seed; 0: by chance")
	oneSeed  = flag.Uint64("seed", 0, "the one seed to run, with its full trace")
	giveUp   = 5 * time.Minute
	nodeTime = 5 * time.Second
)

// sample is how many of so many runs there is time for: a few with -short, because the race detector makes them ten times as long and has
// nothing to find in them.
func sample(n int) int {
	if testing.Short() {
		return max(1, n/20)
	}
	return n
}

// simulation is a cluster, the Kubernetes around it, an operator that may crash after every command, and clients that
// remember what was acknowledged to them.
type simulation struct {
	rnd *rand.Rand
	// more is the source of the faults that came later: the runs in which none of them happens stay as they were.
	more *rand.Rand
	net  *redisfake.Network
	spec model.Spec
	pods []*simPod
	// sets are the StatefulSets that exist, by shard.
	sets map[int]model.Set
	// idle is what the operator remembers of shards that are to go.
	idle history.Idle
	// hangs are since when servers hang.
	processes history.Processes
	// changes counts the changes of the template that are none of the version.
	changes int
	// acked is what was last written to each key and acknowledged, and version what is written next: every write is larger than
	// all before.
	acked   map[redisfake.Key]int
	version int
	// home is the shard that each slot with keys was last seen to belong to.
	home map[int]int
	// won is how a slot last changed hands by an election. Who claims it under an older epoch has not heard of that.
	won map[int]victory
	// struck are the slots of which a fault has hit a server that holds them since they changed hands. Only those may lose what was
	// acknowledged.
	struck map[int]bool
	// cordoned is the node that is being emptied; empty: none.
	cordoned string
	// guarded are the shards that allow no evictions.
	guarded map[int]bool
	// assigned are the slots that the operator has assigned at some time.
	assigned slots.Set
	// proposal is what would make shards weigh alike.
	proposal *model.Proposal
	// resharded says that the number of shards has changed, so that a shard may hold what belongs to another one.
	resharded bool
	// bereft says that a fault took more than the cluster can be expected to get over without a human.
	bereft bool
	// takeovers counts those, ended the servers that hung, voids the lost shards that were served empty, and hastened the primaries that were replaced before any server
	// had noticed.
	takeovers, ended, voids, hastened int
	ips                               int
	uids                              int
	// freed are addresses of pods that are gone; another pod may get them.
	freed []model.Address
	// external says that clients outside are to reach the servers, and services are those that lead to pods for that, by name.
	external bool
	services map[string]model.Announcement
	// restore is a backup that is put into the cluster, nil in most runs.
	restore *simRestore
	crash   int // the number of commands after which the operator dies, counted over the whole run; 0: by chance
	calls   int
	trace   []string
	broken  string
	// stalls says that the operator waits for a human.
	stalls bool
	// partition keeps servers from reaching each other, or did a moment ago; nil: none does. parted
	// counts them, and lapses the writes that were lost to them.
	partition      *simPartition
	parted, lapses int
	// podsStay says that no fault ends a pod, and claimsGone counts the volumes that went with a pod.
	podsStay   bool
	claimsGone int
	// claimsStay says that no fault deletes a claim: a shard is to be lost where the play says so alone.
	claimsStay bool
}

func newSimulation(seed uint64, faults bool) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{
		rnd: rnd, more: rand.New(rand.NewPCG(seed, 2)), net: redisfake.NewNetwork(nodeTime, rnd), sets: map[int]model.Set{}, idle: history.Idle{}, processes: history.Processes{}, acked: map[redisfake.Key]int{}, home: map[int]int{},
		won: map[int]victory{}, struck: map[int]bool{}, guarded: map[int]bool{}, services: map[string]model.Announcement{},
		external: rnd.IntN(4) == 0,
	}
	s.spec = model.Spec{Name: "c", Shards: 1 + rnd.IntN(4), Replicas: rnd.IntN(3), Version: "8.0.2", NodeTimeout: nodeTime, Persistent: rnd.IntN(3) > 0}
	if !faults {
		s.spec = model.Spec{Name: "c", Shards: 3, Replicas: 1, Version: "8.0.2", NodeTimeout: nodeTime, Persistent: true}
	}
	s.spec.Live = simLive("10")
	if seed%4 == 1 { // It takes steps of its own, which leave less of a run for the others.
		s.spec.MinReplicas = s.spec.Replicas
	}
	s.spec.DiscardClaims = faults && rnd.IntN(2) == 0
	s.spec.AssignEmpty = faults && rnd.IntN(2) == 0
	s.spec.ReplaceDead = faults && seed%3 > 0
	s.net.Promoted = s.promoted
	if rnd.IntN(4) == 0 { // Hashes take more time than all the rest.
		s.spec.Access = &acl.Access{Passwords: simPasswords}
		s.spec.HandedOut, s.spec.Hold = true, 20*time.Second
		s.net.Gate = s.users
		s.net.Migrates, s.net.Pulls = seed%4 > 0, seed%8 > 4
	}
	if seed%5 == 0 {
		s.spec.Rebalance = model.Rebalance{By: v1alpha1.RebalanceByMemory, Threshold: 10 + int(seed%40), CoolDown: time.Minute}
	}
	s.ensure()
	return s
}

// soon is some time within the next so many ticks.
func (s *simulation) soon(ticks int) time.Time {
	return s.net.Now().Add(time.Duration(1+s.rnd.IntN(ticks)) * redisfake.Cron)
}

func (s *simulation) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%6.1fs ", s.net.Now().Sub(time.Unix(0, 0)).Seconds())+fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
		s.log("BROKEN: %s", s.broken)
		for _, p := range s.present() {
			if p.server != nil {
				s.log("%s: %s", p.name, p.server.Table())
			}
		}
	}
}

// turn is one pass of the operator.
func (s *simulation) turn() cluster.Plan {
	s.ensure()
	p := planner.Next(s.observe())
	s.stalls = p.Stalled
	if s.podsStay && p.Step == nil && !s.namesClaim(p) {
		s.fail("%s: %s: the claims that are being deleted are not named", p.Reason, p.Message)
	}
	if p.Step != nil {
		s.act(p.Step)
	}
	return p
}

// run has a time of faults, and then a time in which the cluster has to recover.
func (s *simulation) run(faults int) {
	for i := 0; i < faults && s.broken == ""; {
		s.pass()
		s.turn()
		if s.rnd.IntN(15) == 0 {
			s.fault()
			i++
		}
	}
	s.converge()
}

// converge runs the cluster without faults until it is settled or waits for a human, and returns its last plan.
func (s *simulation) converge() cluster.Plan {
	end, never := s.net.Now().Add(giveUp), s.net.Now().Add(10*giveUp)
	settled, stalled := 0, 0
	var last cluster.Plan
	// Stalled for about 15 s: whatever the cluster can do by itself, it has done.
	for s.broken == "" && s.net.Now().Before(end) && s.net.Now().Before(never) && stalled <= 60 {
		s.pass()
		p := s.turn()
		s.correctVersion(p)
		s.releaseClaims(p)
		s.dropStray(p)
		if p.Message != last.Message {
			s.log("%s: %s", p.Reason, p.Message)
		}
		// A pod that comes back, and a human who is about to give one another volume, may change that.
		if stalled++; !p.Stalled || s.divided() || slices.ContainsFunc(s.pods, func(p *simPod) bool { return !p.backAt.IsZero() || p.homeless || p.hangs }) {
			stalled = 0
		}
		if s.anyComesBack() { // Faults happen while slots move, too.
			end = s.net.Now().Add(giveUp)
		}
		last = p
		if settled++; !p.Settled() || s.partition != nil {
			settled = 0
		}
		if settled == 10 {
			s.checkSettled()
			return last
		}
	}
	if s.broken == "" && !s.mayStall(last) {
		s.fail("does not converge (stalled %v): %s: %s", last.Stalled, last.Reason, last.Message)
	}
	return last
}

// anyComesBack tells whether a server is away that will be back.
func (s *simulation) anyComesBack() bool {
	return s.divided() || slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.backAt.After(s.net.Now()) || p.hangs })
}

// mayStall tells whether a cluster has good reason to wait for a human.
func (s *simulation) mayStall(p cluster.Plan) bool {
	if s.podsStay {
		return p.Stalled && p.Reason == planner.ReasonTerminatingClaims
	}
	ephemeralSingles := s.spec.Replicas == 0 && !s.spec.Persistent
	leftBehind := slices.ContainsFunc(s.pods, func(p *simPod) bool { return s.left(p) && p.server != nil })
	return p.Stalled && (s.bereft || (p.Reason == planner.ReasonShardLost && s.unwritten()) || (p.Reason == planner.ReasonRetained && leftBehind) ||
		(p.Reason == planner.ReasonUnsafeRestart && ephemeralSingles))
}

// TestSimulation runs the planner against clusters that faults happen to.
func TestSimulation(t *testing.T) {
	if *oneSeed != 0 {
		s := newSimulation(*oneSeed, true)
		s.run(6)
		t.Logf("%+v\n%s", s.spec, strings.Join(s.trace, "\n"))
		if s.broken != "" {
			t.Fatal(s.broken)
		}
		return
	}
	from := *first
	if from == 0 {
		from = rand.Uint64N(1 << 40)
	}
	n := sample(*seeds)
	t.Logf("seeds %d to %d", from, from+uint64(n))
	bereft, takeovers, ended, voids, hastened, parted, lapses := 0, 0, 0, 0, 0, 0, 0
	for seed := from; seed < from+uint64(n); seed++ {
		s := newSimulation(seed, true)
		s.run(6)
		if s.broken != "" {
			t.Fatalf("seed %d (repeat with -run TestSimulation -seed %d): %s\n%+v\n%s", seed, seed, s.broken, s.spec, strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
		}
		if s.bereft {
			bereft++
		}
		takeovers += s.takeovers
		voids += s.voids
		ended += s.ended
		hastened += s.hastened
		parted += s.parted
		lapses += s.lapses
	}
	t.Logf("%d runs; in %d of them more was lost than a cluster can get over; %d replicas took over without a vote, %d servers that hung were ended, and %d lost shards are served empty; %d primaries were replaced before they were missed; %d partitions cost %d writes",
		n, bereft, takeovers, ended, voids, hastened, parted, lapses)
	if hastened == 0 {
		t.Error("no primary was replaced before it was missed")
	}
	if parted > 100 && lapses == 0 {
		t.Error("no write was lost to a partition")
	}
}

// TestSimulationOfCrashes lets the operator die after each command of a bootstrap in turn.
func TestSimulationOfCrashes(t *testing.T) {
	whole := newSimulation(1, false)
	whole.crash = -1
	whole.converge()
	if whole.broken != "" {
		t.Fatalf("%s\n%s", whole.broken, strings.Join(whole.trace, "\n"))
	}
	for k := 1; k <= whole.calls; k++ {
		s := newSimulation(1, false)
		s.crash = k
		s.converge()
		if s.broken != "" {
			t.Fatalf("crash after command %d: %s\n%s", k, s.broken, strings.Join(s.trace, "\n"))
		}
	}
	t.Logf("%d crash points", whole.calls)
}
