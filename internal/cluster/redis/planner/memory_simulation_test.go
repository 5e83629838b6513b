package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// memorySimulation is a healthy cluster whose limits, settings and data change, with the kubelets that resize its containers.
type memorySimulation struct {
	*fixture
	rnd *rand.Rand
	// asked are the limits that kubelets were asked for and have not carried out, and has those that are in force.
	asked, has map[string]int64
	trace      []string
	broken     string
}

func newMemorySimulation(seed uint64) *memorySimulation {
	s := &memorySimulation{fixture: formed(), rnd: rand.New(rand.NewPCG(seed, 7)), asked: map[string]int64{}, has: map[string]int64{}}
	s.Spec.Live = map[string]string{"maxmemory-policy": "noeviction"}
	s.want(s.size())
	for i := range s.Pods {
		p := &s.Pods[i]
		p.MemoryLimit, s.has[p.Name] = s.Spec.MemoryLimit, s.Spec.MemoryLimit
		p.Node.Config = map[string]string{model.MaxMemory: "0", model.BacklogSize: "1048576", "maxmemory-policy": "noeviction"} // As before an update.
		s.use(p, s.rnd.Int64N(p.MemoryLimit*9/10))
	}
	return s
}

func (s *memorySimulation) size() int64 { return 256 << 20 << s.rnd.IntN(6) }

func (s *memorySimulation) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// want asks for another limit.
func (s *memorySimulation) want(limit int64) {
	s.log("a limit of %d MiB is wanted", limit>>20)
	s.Spec.MemoryLimit = limit
	if given := model.ParseNumber(s.Spec.Live[model.MaxMemory]); given >= limit {
		delete(s.Spec.Live, model.MaxMemory) // Admission refuses it.
	}
}

func (s *memorySimulation) use(p *model.Pod, bytes int64) {
	if p.Node.Memory.Max > 0 {
		bytes = min(bytes, p.Node.Memory.Max) // Further writes fail.
	}
	p.Node.Memory.Used = max(bytes, 1<<20)
	p.Node.Memory.Resident = p.Node.Memory.Used * 21 / 20
}

// kubelets carry out what they were asked for, some time.
func (s *memorySimulation) kubelets() {
	for i := range s.Pods {
		p := &s.Pods[i]
		limit, asked := s.asked[p.Name]
		p.Resize = model.Resizing{Wanted: !asked && s.has[p.Name] != s.Spec.MemoryLimit || asked && limit != s.Spec.MemoryLimit, Running: asked}
		if !asked || s.rnd.IntN(3) > 0 {
			p.Resize.Deferred = asked && limit > s.has[p.Name] && s.rnd.IntN(2) == 0
			if p.MemoryLimit = s.has[p.Name]; asked {
				p.MemoryLimit = min(limit, p.MemoryLimit)
			}
			continue
		}
		if p.Node.Memory.Resident > limit {
			s.broken = fmt.Sprintf("%s takes %d and gets %d", p.Name, p.Node.Memory.Resident, limit)
		}
		delete(s.asked, p.Name)
		s.has[p.Name], p.MemoryLimit, p.Resize = limit, limit, model.Resizing{Wanted: limit != s.Spec.MemoryLimit}
		s.log("%s has %d MiB", p.Name, limit>>20)
	}
}

func (s *memorySimulation) turn() cluster.Plan {
	s.kubelets()
	plan := Next(s.State)
	switch st := plan.Step.(type) {
	case steps.ResizePod:
		s.asked[st.Pod.Name] = s.Spec.MemoryLimit
		s.log("%s", st)
	case steps.Configure:
		for _, c := range st.Pods {
			s.tell(s.pod(c.Pod), c.Values)
		}
	case nil:
	default:
		s.broken = fmt.Sprintf("step: %s", st)
	}
	for _, p := range s.Pods {
		if p.Node.Memory.Max >= s.has[p.Name] {
			s.broken = fmt.Sprintf("%s may hold %d and has %d", p.Name, p.Node.Memory.Max, s.has[p.Name])
		}
	}
	return plan
}

func (s *memorySimulation) tell(p *model.Pod, values map[string]string) {
	s.log("%s uses %d MiB and is told %v", p.Name, p.Node.Memory.Used>>20, values)
	for name, value := range values {
		p.Node.Config[name] = value
		if n := model.ParseNumber(value); name == model.MaxMemory {
			if n > 0 && p.Node.Memory.Used > n {
				s.broken = fmt.Sprintf("%s uses %d and is told %d", p.Name, p.Node.Memory.Used, n)
			}
			p.Node.Memory.Max = n
		}
	}
}

// change is what people and clients do.
func (s *memorySimulation) change() {
	switch s.rnd.IntN(6) {
	case 0:
		s.want(s.size())
	case 1:
		delete(s.Spec.Live, model.MaxMemory)
		if s.rnd.IntN(2) == 0 {
			s.Spec.Live[model.MaxMemory] = fmt.Sprint(s.Spec.MemoryLimit / 10 * (1 + s.rnd.Int64N(9)))
		}
		s.log("maxMemory is %q", s.Spec.Live[model.MaxMemory])
	default:
		p := &s.Pods[s.rnd.IntN(len(s.Pods))]
		s.use(p, s.rnd.Int64N(p.MemoryLimit*9/10))
	}
}

// settled tells whether all has been done that can be.
func (s *memorySimulation) settled() string {
	var plan cluster.Plan
	for range 150 {
		if plan = s.turn(); s.broken != "" {
			return s.broken
		}
	}
	fits := !slices.ContainsFunc(s.Pods, func(p model.Pod) bool {
		want := model.ParseNumber(facts.WantedSettings(model.NewView(s.State), &p)[model.MaxMemory])
		return float64(p.Node.Memory.Used+config.BacklogMost) > float64(want)*facts.Headroom || p.Node.Memory.Resident > s.Spec.MemoryLimit*8/10
	})
	switch {
	case !plan.Settled() && plan.Reason != ReasonNoRoom && plan.Reason != ReasonHoldsMore:
		return "not settled: " + plan.Message
	case !plan.Settled() && fits:
		return "refused, although it fits: " + plan.Message
	}
	for _, p := range s.Pods {
		if plan.Settled() && p.MemoryLimit != s.Spec.MemoryLimit {
			return fmt.Sprintf("settled, and %s has %d", p.Name, p.MemoryLimit)
		}
		if want := facts.WantedSettings(model.NewView(s.State), &p)[model.MaxMemory]; fits && p.Node.Config[model.MaxMemory] != want {
			return fmt.Sprintf("%s is told %s and not %s", p.Name, p.Node.Config[model.MaxMemory], want)
		}
	}
	return ""
}

// TestSimulationOfMemory changes limits, settings and data at random: nobody is ever given less than he uses, and what fits is done.
func TestSimulationOfMemory(t *testing.T) {
	for seed := range uint64(200) {
		s := newMemorySimulation(seed)
		for range 60 {
			if s.rnd.IntN(4) == 0 {
				s.change()
			}
			if s.turn(); s.broken != "" {
				break
			}
		}
		if s.broken == "" {
			s.broken = s.settled()
		}
		if s.broken != "" {
			t.Fatalf("seed %d: %s\n%s", seed, s.broken, strings.Join(s.trace, "\n"))
		}
	}
}
