package planner_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

var (
	simulationSeed = flag.Uint64("simulation.seed", 0, "replay this one seed and say what happens")
	simulationRuns = flag.Int("simulation.runs", 3000, "number of seeds to run")
)

// simNow is the time of a simulation, which has no use for one that moves.
var simNow = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// sim is a world: a Kubernetes with one EtcdCluster in it, an etcd in memory, and the operator's loop in between.
type sim struct {
	rng   *rand.Rand
	tails int
	trace []string
	net   *etcdfake.Network

	// The specification.
	uid, template, size int
	release             model.Version
	storage             model.Storage
	persistent, auth    bool
	// certs is the TLS of the specification; its certificate makes the operator root.
	certs bool
	// approves says that somebody approves of every plan to recover a lost quorum.
	approves bool
	password string
	// bad are the templates whose pods cannot start, weak those whose members run and never get well.
	bad, weak map[int]bool

	// What the API server holds.
	record *model.Record
	set    *simSet
	open   bool
	claims map[int]*simClaim
	pods   map[string]*simPod
	// orphans are pods whose process lives on although the API server has forgotten them, by name.
	orphans map[string]*simPod
	// stale is what the operator's cache showed a while ago.
	stale *simView
	// seen is what it decided on last.
	seen *simView

	pods0       int
	budget      int // writes until the operator crashes; negative: it does not
	writes      int
	values      int
	diskLost    bool
	recorded    uint64
	authSeen    map[uint64]bool
	lineage     int // clusters that may have led when this life of the data began
	badPolicy   string
	plan        cluster.Plan
	turns       int
	maintenance simMaintenance
	snapshots   simSnapshots

	hibernated bool
	// inPlace is the backup that the cluster is to be restored from in place, nil for none, and
	// backup what is in it.
	inPlace  *model.InPlaceRestore
	backup   map[string][]string
	restores int
	// cordoned are the ordinals whose node is being emptied.
	cordoned map[int]bool
}

// simSettings are what pods are made with.
type simSettings struct {
	release  model.Version
	template int
}

func (s simSettings) String() string { return fmt.Sprintf("%s/%d", s.release, s.template) }

// hash stands in for that of a pod template: settings, the quota, and what is listened for.
func (s simSettings) hash(quota int64, plain, tls bool) string {
	return fmt.Sprintf("%s/%d/%t/%t", s, quota, plain, tls)
}

func parseSettings(text string) (s simSettings) {
	release, template, _ := strings.Cut(text, "/")
	s.release, _ = model.ParseVersion(release)
	s.template, _ = strconv.Atoi(template)
	return s
}

func newSim(seed uint64) *sim {
	s := &sim{
		rng: rand.New(rand.NewPCG(seed, 2)), net: etcdfake.New(), bad: map[int]bool{}, weak: map[int]bool{},
		orphans: map[string]*simPod{}, claims: map[int]*simClaim{}, pods: map[string]*simPod{}, budget: -1, authSeen: map[uint64]bool{},
		cordoned: map[int]bool{}, backup: map[string][]string{},
	}
	s.size = []int{1, 3, 3, 3, 5, 7}[s.rng.IntN(6)]
	s.persistent = s.rng.IntN(5) > 0
	s.auth = s.rng.IntN(4) > 0
	s.approves = s.rng.IntN(3) > 0
	s.certs = s.rng.IntN(3) > 0
	s.uid, s.password = 1, "password-1"
	s.release = releases[s.rng.IntN(4)]
	if s.rng.IntN(6) == 0 {
		s.bad[0] = true
	}
	s.maintenance, s.snapshots = s.newMaintenance(), s.newSnapshots()
	if s.persistent {
		s.storage = s.anyStorage()
	}
	s.note("size %d, persistent %t, auth %t, TLS %t, first template bad %t",
		s.size, s.persistent, s.auth, s.certs, s.bad[0])
	return s
}

// releases are what is asked for; there is no image of those in absent.
var (
	releases = []model.Version{{Major: 3, Minor: 5, Patch: 20}, v35, v36, v37, absent[0], absent[1]}
	absent   = []model.Version{{Major: 3, Minor: 6, Patch: 99}, {Major: 3, Minor: 7, Patch: 99}}
)

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *sim) members(n int, tls bool) []model.Peer {
	return model.Peers("orders", "default", "cluster.local", n, tls)
}

// reach is how members are reached by the record, and without one by the StatefulSet or the specification.
func (s *sim) reach(r *model.Record) model.Transport {
	switch {
	case r != nil:
		return r.Transport()
	case s.set != nil:
		return s.set.reach
	}
	return model.Transport{Secure: s.certs}
}

// write counts a write of the operator and reports whether it crashes right after it.
func (s *sim) write() (crash bool) {
	s.writes++
	s.budget--
	return s.budget == 0
}

// run drives one world and returns what went wrong.
func (s *sim) run() string {
	for range 40 {
		if s.rng.IntN(3) == 0 {
			s.fault()
		}
		if bad := s.turn(); bad != "" {
			return bad
		}
	}
	return s.quiet()
}

// turn lets everybody act once. An operator that crashed starts over with a fresh cache.
func (s *sim) turn() string {
	s.turns++
	plan, alive := s.operator()
	s.plan = plan
	if !alive {
		s.note("the operator crashed")
		s.budget, s.stale, s.maintenance.begun = -1, nil, map[string]*model.Defragmentation{}
	}
	if s.rng.IntN(4) == 0 {
		s.stale = nil
	}
	if bad := s.broken(); bad != "" {
		return bad
	}
	s.kubelet()
	s.finishDefragmentations()
	s.runBackups()
	if bad := s.user(); bad != "" {
		return bad
	}
	return s.broken()
}

// quiet ends all faults and expects the world to come to rest as specified, or with a reason why not.
func (s *sim) quiet() string {
	s.note("all faults end")
	s.budget, s.stale, s.maintenance.calm = -1, nil, true
	s.template++ // A good template: whatever was bad has been repaired.
	if slices.Contains(absent, s.release) || (s.record != nil && slices.Contains(absent, s.record.Version)) {
		s.release = s.remedy()
		s.note("spec.version changes to %s, which can be had", s.release)
	}
	for _, p := range s.pods {
		if p.process != nil {
			p.process.Cut, p.process.Deaf = s.weak[p.template], false
		}
	}
	for _, p := range s.orphans {
		p.process.Cut, p.process.Deaf = s.weak[p.template], false
	}
	s.net.Settle()
	s.makeRoom()
	if bad := s.night(); bad != "" {
		return bad
	}
	for rest := 0; rest < 10 && s.turns < 600; {
		if bad := s.turn(); bad != "" {
			return bad
		}
		rest++
		if (!s.plan.Settled() && !s.plan.Stalled) || s.moves() {
			rest = 0
		}
	}
	before := s.writes
	plan, _ := s.operator()
	switch {
	case s.writes != before:
		return "it does not come to rest: " + plan.Message
	case plan.Settled():
		return s.unfit()
	case plan.Reason == "" || plan.Message == "":
		return "it waits without a reason"
	case s.approves && s.rescuable() && (plan.Reason == steps.ReasonQuorumLost || plan.Reason == steps.ReasonRecovering):
		return "a survivor is there, and it does not go on: " + plan.Message
	case plan.Reason == planner.ReasonStorage && plan.Stalled && s.size == 1:
	case plan.Reason == planner.ReasonAlarm && !s.curable():
	case plan.Reason == planner.ReasonVersion && plan.Stalled && s.release.Minor < s.record.Version.Minor-1:
	case !s.persistent && len(s.record.Members) == 1 && plan.Reason == planner.ReasonRollout:
	case !s.diskLost && !s.hopeless() && plan.Reason != planner.ReasonAuth:
		return "it gave up although a quorum of disks is there: " + plan.Message
	}
	return ""
}

// remedy is what a user sets spec.version to instead of one that cannot be had: of the minor version that the members have agreed on.
func (s *sim) remedy() model.Version {
	var agreed model.Version
	for _, d := range s.disks() {
		if v := d.Agreed(); agreed.Less(v) {
			agreed = v
		}
	}
	for _, v := range []model.Version{v35, v36, v37} {
		if v.Minor == agreed.Minor || (agreed.Minor == 0 && v.Minor == s.release.Minor) {
			return v
		}
	}
	return s.release
}

// makeRoom frees space on full disks, as an administrator does, unless a quorum goes on without them.
func (s *sim) makeRoom() {
	for i, c := range s.claims {
		if c.full && !s.hasQuorum() {
			s.note("space on the disk of ordinal %d is freed", i)
			c.full = false
		}
	}
}

func TestSimulation(t *testing.T) {
	if *simulationSeed != 0 {
		s := newSim(*simulationSeed)
		bad := s.run()
		t.Log(strings.Join(s.trace, "\n"))
		if bad != "" {
			t.Fatal(bad)
		}
		return
	}
	base, runs := uint64(1), *simulationRuns
	if testing.Short() { // The race detector makes them ten times as long and has nothing to find in them.
		runs = max(1, runs/20)
	}
	t.Logf("seeds %d to %d", base, base+uint64(runs)-1)
	settled := map[string]int{}
	for seed := base; seed < base+uint64(runs); seed++ {
		s := newSim(seed)
		if bad := s.run(); bad != "" {
			tail := s.trace[max(0, len(s.trace)-40):]
			t.Fatalf("seed %d: %s\nreplay: go test ./internal/cluster/etcd -run Simulation -simulation.seed=%d\n%s",
				seed, bad, seed, strings.Join(tail, "\n"))
		}
		plan, _ := s.operator()
		settled[plan.Reason]++
	}
	t.Logf("ends (empty: settled): %v", settled)
	if settled[""] < runs/2 {
		t.Errorf("only %d of %d worlds settled: the faults drown what is to be seen", settled[""], runs)
	}
}
