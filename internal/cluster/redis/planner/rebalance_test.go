package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

// skewed is a cluster of three shards that is divided by memory. Slots 0 to 999 of the first one take 100 KiB each, all others 1 KiB.
func skewed() *fixture {
	f := formed()
	f.Spec.Rebalance = model.Rebalance{By: v1alpha1.RebalanceByMemory, Threshold: 20, CoolDown: time.Hour}
	f.Weights = flat(map[slots.Range]int64{{From: 0, To: 999}: 100})
	for i := range f.Weights {
		f.Weights[i] <<= 10
	}
	f.Rebalanced = now.Add(-24 * time.Hour)
	return f
}

func (f *fixture) propose() {
	f.Proposal, _ = balance.Propose(f.State, f.Proposal)
}

func (f *fixture) approve() {
	f.propose()
	f.Spec.Rebalance.Approved = f.Proposal.ID
}

// rebalanceRow is what is planned for a cluster that is divided by memory.
type rebalanceRow struct {
	prepare func(*fixture)
	// want is the step, the reason for waiting or refusing, or nothing.
	want string
	// balanced is the reason of the condition.
	balanced string
}

func (r rebalanceRow) Check(t *testing.T) {
	t.Helper()
	f := skewed()
	r.prepare(f)
	p := Next(f.State)
	got := p.Reason
	switch step := p.Step.(type) {
	case steps.MoveSlots:
		got = "*MoveSlots: " + step.String()
	case steps.CountLoad:
		got = "*CountLoad: " + step.String()
	}
	if (r.want == "") != (got == "") || !strings.HasPrefix(got, r.want) {
		t.Errorf("%s: %s: %s, want %s", p.Reason, p.Message, got, r.want)
	}
	reason := ""
	for _, c := range Conditions(f.State, p, nil) {
		if c.Type == v1alpha1.ConditionBalanced {
			reason = c.Reason
			t.Log(c.Message)
		}
	}
	if reason != r.balanced {
		t.Errorf("Balanced is %s, want %s", reason, r.balanced)
	}
}

func TestSlotsAreProposedByWeight(t *testing.T) {
	rows.Run(t, map[string]rebalanceRow{
		"nothing is known yet":                {func(f *fixture) { f.Weights = nil; f.propose() }, "", ReasonWeighing},
		"shards weigh alike":                  {func(f *fixture) { f.Weights = flat(nil); f.propose() }, "", ReasonBalanced},
		"one is too heavy by next to nothing": {func(f *fixture) { f.Weights = flat(map[slots.Range]int64{{From: 0, To: 999}: 100}); f.propose() }, "", ReasonBalanced},
		"a proposal waits for approval":       {func(f *fixture) { f.propose() }, "", ReasonProposed},
		"another proposal was approved":       {func(f *fixture) { f.propose(); f.Spec.Rebalance.Approved = "000000" }, "", ReasonProposed},
		"a proposal is approved":              {func(f *fixture) { f.approve() }, "*MoveSlots: move ", ReasonRebalance},
		"a proposal is approved, and the weights are not known any more": {
			func(f *fixture) { f.approve(); f.Weights = nil; f.propose() }, "*MoveSlots: move ", ReasonRebalance,
		},
		"automatic: it has just been proposed": {
			func(f *fixture) { f.Spec.Rebalance.Automatic = true; f.propose() }, "", ReasonProposed,
		},
		"automatic: it was proposed a while ago": {
			func(f *fixture) {
				f.Spec.Rebalance.Automatic = true
				f.propose()
				f.Proposal.Found = now.Add(-facts.Notice)
			}, "*MoveSlots: move ", ReasonRebalance,
		},
		"automatic: slots have moved because of their weights a while ago": {
			func(f *fixture) {
				f.Spec.Rebalance.Automatic = true
				f.propose()
				f.Proposal.Found, f.Rebalanced = now.Add(-facts.Notice), now.Add(-59*time.Minute)
			}, "", ReasonProposed,
		},
		"one slot weighs all": {
			func(f *fixture) { f.Weights = flat(map[slots.Range]int64{{From: 7, To: 7}: 1 << 30}); f.propose() }, "", ReasonHotSlot,
		},
	})
}

func TestSlotsMoveByWeight(t *testing.T) {
	rows.Run(t, map[string]rebalanceRow{
		"a replica is out of sync": {
			func(f *fixture) { f.approve(); f.pod("c-1-1").Node.LinkUp = false }, steps.ReasonGuard, ReasonRebalance,
		},
		"a shard is too many: it goes first": {
			func(f *fixture) { f.approve(); f.Spec.Shards = 2 }, "*MoveSlots: move 2731 slots from c-2-0", ReasonRebalance,
		},
		"there is no room": {
			func(f *fixture) {
				f.approve()
				f.Spec.MemoryLimit = 1 << 20
				for i := range f.Pods {
					f.Pods[i].Node.Memory = model.Memory{Used: 1 << 19}
				}
			}, ReasonNoRoom, ReasonRebalance,
		},
		"there is no room to propose anything": {
			func(f *fixture) {
				f.Spec.MemoryLimit = 1 << 20
				for i := range f.Pods {
					f.Pods[i].Node.Memory = model.Memory{Used: 1 << 19}
				}
				f.propose()
			}, "", ReasonNoRoom,
		},
		"servers do not tell the load": {
			func(f *fixture) { f.Spec.Rebalance.By, f.Weights, f.Untold = v1alpha1.RebalanceByLoad, nil, "c-0-0" }, ReasonLoadUntold, ReasonWeighing,
		},
		"servers do not count the load yet": {
			func(f *fixture) {
				f.Spec.Rebalance.By, f.Weights = v1alpha1.RebalanceByLoad, nil
				f.pod("c-1-0").Node.Config = map[string]string{config.SlotStatsParameter: "no"}
				f.pod("c-1-1").Node.Config = map[string]string{config.SlotStatsParameter: "cpu"}
			}, "*CountLoad: count the load of each slot on c-1-0", ReasonWeighing,
		},
		"servers count the load, and it is not asked for": {
			func(f *fixture) {
				f.pod("c-1-0").Node.Config = map[string]string{config.SlotStatsParameter: "yes"}
				f.Weights = nil
			}, "*CountLoad: stop counting the load of each slot on c-1-0", ReasonWeighing,
		},
		"slots are divided by number again": {
			func(f *fixture) { f.approve(); f.carry(f.Proposal); f.Spec.Rebalance = model.Rebalance{} }, "*MoveSlots: move ", "",
		},
	})
}

func TestNothingIsProposedForAClusterThatIsNotWhole(t *testing.T) {
	for name, spoil := range map[string]func(*fixture){
		"it is not asked for":          func(f *fixture) { f.Spec.Rebalance = model.Rebalance{} },
		"a server does not answer":     func(f *fixture) { f.pod("c-1-1").Node = nil },
		"a shard has no primary":       func(f *fixture) { f.pod("c-1-0").Node = nil },
		"a shard is to go":             func(f *fixture) { f.Spec.Shards = 2 },
		"the weights are not known":    func(f *fixture) { f.Weights = nil },
		"no slots are assigned as yet": func(f *fixture) { f.State = fresh().State; f.Spec.Rebalance = skewed().Spec.Rebalance },
	} {
		t.Run(name, func(t *testing.T) {
			f := skewed()
			spoil(f)
			if p, ended := balance.Propose(f.State, nil); p != nil || ended {
				t.Errorf("%+v is proposed (ended %t)", p, ended)
			}
		})
	}
	if p, _ := balance.Propose(skewed().State, nil); p == nil {
		t.Error("nothing is proposed for the cluster when it is whole")
	}
}

// TestALayoutByWeightStays: what was carried out is what the cluster keeps.
func TestALayoutByWeightStays(t *testing.T) {
	f := skewed()
	f.approve()
	f.carry(f.Proposal)
	next, ended := balance.Propose(f.State, f.Proposal)
	if next != nil || !ended {
		t.Errorf("%v is proposed, and the last one has ended: %t", next, ended)
	}
	f.Proposal = nil
	f.propose()
	if p := Next(f.State); !p.Settled() || f.Proposal != nil {
		t.Errorf("%s: %s; %v", p.Reason, p.Message, f.Proposal)
	}
}

func TestAProposalIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fixture)
		kept   bool
	}{
		"nothing changes":               {func(*fixture) {}, true},
		"weights change a little":       {func(f *fixture) { f.Weights[5] *= 3 }, true},
		"weights become the same":       {func(f *fixture) { f.Weights = flat(nil) }, false},
		"weights change places":         {func(f *fixture) { f.Weights = flat(map[slots.Range]int64{{From: 16000, To: 16383}: 200 << 10}) }, false},
		"weights are not known":         {func(f *fixture) { f.Weights = nil }, true},
		"a server does not answer":      {func(f *fixture) { f.pod("c-2-1").Node = nil }, true},
		"somebody moves its slots":      {func(f *fixture) { p := *f.Proposal; p.Moves = p.Moves[:1]; f.carry(&p); f.Weights = nil }, false},
		"it is approved, and has begun": {func(f *fixture) { f.approve(); p := *f.Proposal; p.Moves = p.Moves[:1]; f.carry(&p); f.Weights = nil }, true},
		"slots weigh by something else": {func(f *fixture) { f.Spec.Rebalance.By, f.Weights = v1alpha1.RebalanceByLoad, nil }, false},
		"shards come":                   {func(f *fixture) { f.Spec.Shards = 4; f.Weights = nil }, false},
		"slots do not weigh any more":   {func(f *fixture) { f.Spec.Rebalance = model.Rebalance{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := skewed()
			f.propose()
			if f.Proposal == nil || len(f.Proposal.Moves) < 2 {
				t.Fatalf("%v", f.Proposal)
			}
			was := f.Proposal
			tc.change(f)
			f.propose()
			if kept := f.Proposal == was; kept != tc.kept {
				t.Errorf("kept: %t", kept)
			}
		})
	}
}
