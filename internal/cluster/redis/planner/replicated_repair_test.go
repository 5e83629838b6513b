package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// TestAHandOverIsFinishedThoughChildrenCannotBeEnsured checks which of its steps the reconcile loop
// takes while Ensure fails: none that begins a hand-over, and all that complete or undo it.
func TestAHandOverIsFinishedThoughChildrenCannotBeEnsured(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(f *fixture)
		want   string
		repair bool
	}{
		"the Service is led to the replica": {func(f *fixture) { f.Candidate = model.FailoverCandidate{} }, "send clients to c-0-1, which c-0-0 is to hand over to", false},
		"the primary hands over":            {func(*fixture) {}, "hand over from c-0-0 to c-0-1", true},
		"the Service is led back":           {func(f *fixture) { f.hang("c-0-1") }, "name c-0-0 the primary", true},
		"the new primary is recorded": {func(f *fixture) {
			f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"})
		}, "name c-0-1 the primary", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := handingOver()
			tc.spoil(f)
			got := Next(f.State).Step
			if got == nil || got.String() != tc.want || got.Meta().Repair != tc.repair {
				t.Errorf("%v, want %s, a repair: %t", got, tc.want, tc.repair)
			}
		})
	}
}

// TestRepairsPrepareNoOtherStep has steps be prepared by Next that are no repairs.
func TestRepairsPrepareNoOtherStep(t *testing.T) {
	one := func(f *fixture) { f.Spec.Replicas, f.Sets[0].Replicas, f.Pods = 1, 2, f.Pods[:2] }
	for name, tc := range map[string]struct {
		state         *fixture
		spoil         func(f *fixture)
		next, repairs string
	}{
		"a hand-over": {
			replicated(), func(f *fixture) { f.pod("c-0-0").Outdated = true },
			"have 1 replicas acknowledge the writes of c-0-1", "hand shard 0 from c-0-0 to c-0-1",
		},
		"a restart of the last replica": {replicated(), func(f *fixture) {
			one(f)
			f.pod("c-0-1").Outdated = true
		}, "name c-0-0 the primary", "restart c-0-1"},
		"a primary that was let off for the restart of the last replica": {replicated(), func(f *fixture) {
			one(f)
			f.pod("c-0-1").Outdated, f.pod("c-0-0").Node.Config[model.WriteGuard], f.Appointed.Guard = true, "0", 0
		}, "restart c-0-1", "have 1 replicas acknowledge the writes of c-0-0"},
		"a primary that was let off, and was told to need a replica again": {replicated(), func(f *fixture) {
			one(f)
			f.pod("c-0-1").Outdated, f.Appointed.Guard = true, 0
		}, "have 0 replicas acknowledge the writes of c-0-0", "name c-0-0 the primary"},
		"a restart of the last replica of a shard": {
			writesGuarded(), func(f *fixture) { f.pod("c-0-1").Outdated = true },
			"have 0 replicas acknowledge the writes of c-0-0", "restart c-0-1",
		},
		"a shard that was let off for a restart": {writesGuarded(), func(f *fixture) {
			f.pod("c-0-1").Outdated = true
			f.letOff("c-0-0")
		}, "restart c-0-1", "have 1 replicas acknowledge the writes of c-0-0"},
		"another disk for the last replica of a shard": {writesGuarded(), func(f *fixture) {
			f.views(id("c-0-1"), func(p *model.Peer) { p.Replica, p.PrimaryID = false, "" })
			f.pod("c-0-0").Node.Stream, f.pod("c-0-1").Node.Stream = "stream", "stream"
			f.Claims = append(f.Claims, model.Claim{Name: "data-c-0-1", UID: "claim", ResourceVersion: "7", Shard: 0, Ordinal: 1})
			f.Sets[0].Guarded = true
		}, "have 0 replicas acknowledge the writes of c-0-0", "have 0 replicas acknowledge the writes of c-0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.spoil(tc.state)
			if got := Next(tc.state.State); got.Step == nil || got.Step.String() != tc.next {
				t.Errorf("%v (%s), want %s", got.Step, got.Message, tc.next)
			}
			if got := Repairs(tc.state.State); got.Step == nil || got.Step.String() != tc.repairs {
				t.Errorf("while only repairs are made: %v (%s), want %s", got.Step, got.Message, tc.repairs)
			}
		})
	}
}

func TestAPausedClusterLeadsItsServiceBackToThePrimary(t *testing.T) {
	was := replicated().Appointed
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		want  cluster.Step
	}{
		"a hand-over was begun":                          {func(*fixture) {}, steps.Appoint{Appointment: was}},
		"a hand-over was begun by a clock that is ahead": {func(f *fixture) { f.Candidate.Since = now.Add(time.Hour) }, steps.Appoint{Appointment: was}},
		"a promotion was begun, and the primary is back": {func(f *fixture) {
			f.Candidate = model.FailoverCandidate{Pod: "c-0-1", History: history}
		}, steps.Appoint{Appointment: was}},
		"a promotion was begun": {func(f *fixture) {
			f.Candidate = model.FailoverCandidate{Pod: "c-0-1", History: history}
			f.primaryDies()
		}, nil},
		"the primary does not answer": {func(f *fixture) { f.hang("c-0-0") }, nil},
		"the primary handed over":     {func(f *fixture) { f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"}) }, nil},
		"the new primary is recorded": {func(f *fixture) {
			f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"})
			f.Appointed = model.Appointment{Pod: "c-0-1", History: "next"}
		}, nil},
		"no hand-over was begun": {func(f *fixture) { f.Candidate = model.FailoverCandidate{} }, nil},
		"the primary takes its part back": {func(f *fixture) {
			f.Candidate = model.FailoverCandidate{Pod: "c-0-0", History: history}
		}, nil},
		"certificates are due as well": {func(f *fixture) { f.Spec.Certificate = "new" }, steps.Appoint{Appointment: was}},
		"certificates are due": {func(f *fixture) {
			f.Spec.Certificate, f.Candidate = "new", model.FailoverCandidate{}
		}, steps.ReloadCertificates{Pods: []string{"c-0-0", "c-0-1", "c-0-2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := handingOver()
			tc.spoil(f)
			if diff := cmp.Diff(tc.want, Renewal(f.State).Step); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAServiceThatLeadsToAReplicaIsNotAvailable(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		want  string
	}{
		"no hand-over was begun":                   {func(f *fixture) { f.Candidate = model.FailoverCandidate{} }, "True the primary answers, and clients are sent to it"},
		"a hand-over was begun a moment ago":       {func(f *fixture) { f.Candidate.Since = now.Add(-5 * time.Second) }, "True the primary answers, and clients are sent to it"},
		"a hand-over was begun and not completed":  {func(f *fixture) { f.Candidate.Since = now.Add(-6 * time.Second) }, "False c-0-0 is the primary, and the Service leads to c-0-1, which takes no writes"},
		"a hand-over was completed by the primary": {func(f *fixture) { f.takenOver(t) }, "True the primary answers, and clients are sent to it"},
	} {
		t.Run(name, func(t *testing.T) {
			f := handingOver()
			tc.spoil(f)
			c := meta.FindStatusCondition(Conditions(f.State, Next(f.State), nil), v1alpha1.ConditionAvailable)
			if got := string(c.Status) + " " + c.Message; got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// takenOver completes a hand-over that is recorded, while the Service still names the candidate after an hour.
func (f *fixture) takenOver(t *testing.T) {
	t.Helper()
	f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"})
	f.Appointed, f.Candidate.Since = model.Appointment{Pod: "c-0-1", History: "next"}, now.Add(-time.Hour)
}
