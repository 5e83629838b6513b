package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/updates"
)

// second n of the run.
func second(n int) time.Time { return time.Unix(1_000_000+int64(n), 0) }

// good is a run that has kept every promise: a kill at 60 s that healed at 80 s, a stop of the API server, and one planned operation.
func good() *Run {
	health := []Health{
		{From: second(0), OK: true, Reason: "Settled", Available: true},
		{From: second(62), Reason: "Unreachable", Text: "pod carts-0-0 does not answer", Available: true},
		{From: second(79), OK: true, Reason: "Settled", Available: true},
	}
	return &Run{
		Seed: 7, Command: "make chaos SEED=7", Began: second(0), Ended: second(600),
		Clusters: []schedule.Cluster{{Name: "orders", Store: schedule.Etcd}, {Name: "carts", Store: schedule.Redis}},
		Rounds:   []schedule.Round{{Faults: []schedule.Fault{{Kind: "kill", Cluster: "carts", Role: schedule.Lead}}}},
		Faults: []*Fault{
			{Round: 1, Drawn: schedule.Fault{Kind: "kill", Cluster: "carts"}, Target: "carts-0-0", Clusters: []string{"carts"}, Began: second(60), Ended: second(60), Healed: second(80)},
			{Round: 2, Drawn: schedule.Fault{Kind: "api-stop"}, Clusters: []string{"orders", "carts"}, Began: second(200), Ended: second(210), Healed: second(215)},
			{Round: 3, Drawn: schedule.Fault{Kind: "node-lost"}, Clusters: []string{"orders", "carts"}, Began: second(300), Skipped: "2 of 3 copies of orders are on it"},
		},
		Changes: []*Change{{Round: 2, Drawn: schedule.Operation{Kind: "scale", Cluster: "orders"}, What: "3 members become 5", Began: second(199), Ended: second(240)}},
		Steps:   []Step{{At: second(65), Cluster: "carts", Reason: "FailingOver", Text: "carts-0-1 takes over"}},
		Ready:   map[string][]Health{"orders": health[:1], "carts": health},
		Pods:    map[string][]Health{"orders-0": health[:1], "carts-0-0": {health[0], {From: second(61)}, {From: second(70), OK: true}, {From: second(90), Reason: Gone}}},
		Ends:    []OperatorEnd{{Pod: "quorate-manager-x", At: second(212), Why: "Error", Code: 1}},
		Loads: []Load{
			{Name: "orders majority", Cluster: "orders", Class: "majority", Summary: &ledger.Summary{
				Acked: 1000, Checked: true, ClusterIDs: []string{"a"}, Watch: &ledger.WatchSummary{Events: 1000},
				Registers: &ledger.RegisterSummary{Operations: 50, Result: "Ok"}, Updates: &updates.Summary{Acked: 100},
			}},
			{Name: "carts plain", Cluster: "carts", Class: "plain", Summary: &ledger.Summary{
				Acked: 2000, Checked: true, Lost: 1, Losses: []ledger.Loss{loss(61, 61, 63)}, Updates: &updates.Summary{Acked: 100},
				LaneStallMs: map[string]int64{"shard-0": 4000, "shard-1": 300},
				Stalls:      []ledger.Stall{{Lane: "shard-0", FromMs: second(60).UnixMilli(), ToMs: second(64).UnixMilli()}},
			}},
		},
		Hashes: []Hash{{"orders", "orders-0", 9, 5, ""}, {"orders", "orders-1", 9, 5, ""}, {"orders", "orders-2", 9, 5, ""}},
	}
}

// loss of a write that was acknowledged, seen last and missed in these seconds of the run.
func loss(acked, seen, missed int) ledger.Loss {
	return ledger.Loss{Key: "k", AckedMs: second(acked).UnixMilli(), SeenMs: second(seen).UnixMilli(), MissedMs: second(missed).UnixMilli()}
}

func TestEachBrokenPromiseIsFound(t *testing.T) {
	tests := map[string]struct {
		spoil   func(*Run)
		promise string
	}{
		"the run broke off":                     {func(r *Run) { r.Broken = []string{"no node"} }, "came to its end"},
		"no fault was made":                     {func(r *Run) { r.Faults = r.Faults[2:] }, "came to its end"},
		"nobody wrote":                          {func(r *Run) { r.Loads = nil }, "looked for"},
		"a writer broke off":                    {func(r *Run) { r.Loads[1].Summary, r.Loads[1].Error = nil, "timed out" }, "looked for"},
		"a writer has not checked":              {func(r *Run) { r.Loads[1].Summary.Checked = false }, "looked for"},
		"nothing was acknowledged":              {func(r *Run) { r.Loads[0].Summary.Acked = 0 }, "looked for"},
		"etcd lost a write, whatever was going": {func(r *Run) { r.Loads[0].Summary.Lost = 1 }, "etcd lost no"},
		"a write fell back":                     {func(r *Run) { r.Loads[0].Summary.Stale = 1 }, "etcd lost no"},
		"revisions did not grow":                {func(r *Run) { r.Loads[0].Summary.OutOfOrder = 1 }, "etcd lost no"},
		"a second cluster took writes":          {func(r *Run) { r.Loads[0].Summary.ClusterIDs = []string{"a", "b"} }, "id of the etcd cluster"},
		"a watcher missed an event":             {func(r *Run) { r.Loads[0].Summary.Watch.Missing = 1 }, "watcher"},
		"there was no watcher":                  {func(r *Run) { r.Loads[0].Summary.Watch = nil }, "watcher"},
		"a history is not linearizable":         {func(r *Run) { r.Loads[0].Summary.Registers.Result = "Illegal" }, "linearizable"},
		"a history could not be checked":        {func(r *Run) { r.Loads[0].Summary.Registers.Result = "Unknown" }, "linearizable"},
		"members differ":                        {func(r *Run) { r.Hashes[2].Sum = 6 }, "same data"},
		"a member did not answer":               {func(r *Run) { r.Hashes[2].Error = "timed out" }, "same data"},
		"a member was not asked":                {func(r *Run) { r.Hashes = r.Hashes[:2] }, "same data"},
		"a write is lost while nothing is broken": {
			func(r *Run) { r.Loads[1].Summary.Losses[0] = loss(120, 120, 130) }, "planned operations",
		},
		"a write of before a fault is lost long after it": {
			func(r *Run) { r.Loads[1].Summary.Losses[0] = loss(61, 120, 130) }, "planned operations",
		},
		"a write is lost while the API server stands still": {
			func(r *Run) { r.Loads[1].Summary.Losses[0] = loss(205, 205, 207) }, "planned operations",
		},
		"a write is lost in a fault that was not made": {
			func(r *Run) { r.Loads[1].Summary.Losses[0] = loss(301, 301, 303) }, "planned operations",
		},
		"a write is lost in a fault of another cluster": {func(r *Run) { r.Faults[0].Clusters = []string{"orders"} }, "planned operations"},
		"more is lost than is told":                     {func(r *Run) { r.Loads[1].Summary.Lost = 2 }, "planned operations"},
		"no update was made":                            {func(r *Run) { r.Loads[1].Summary.Updates = nil }, "looked for"},
		"etcd had a write gone for a while": {
			func(r *Run) {
				r.Loads[0].Summary.Returned, r.Loads[0].Summary.Returns = 1, []ledger.Loss{loss(61, 61, 63)}
			}, "etcd lost no",
		},
		"etcd lost an update, whatever was going": {func(r *Run) { wrong(r.Loads[0], updates.RolledBack, 61, 63) }, "etcd lost no"},
		"a write is gone for a while while nothing is broken": {
			func(r *Run) {
				r.Loads[1].Summary.Returned, r.Loads[1].Summary.Returns = 1, []ledger.Loss{loss(120, 120, 130)}
			}, "planned operations",
		},
		"an overwrite is rolled back while nothing is broken":  {func(r *Run) { wrong(r.Loads[1], updates.RolledBack, 120, 130) }, "planned operations"},
		"a delete is resurrected while nothing is broken":      {func(r *Run) { wrong(r.Loads[1], updates.Resurrected, 120, 130) }, "planned operations"},
		"an increment is applied twice, whatever was going on": {func(r *Run) { wrong(r.Loads[1], updates.AppliedTwice, 61, 63) }, "planned operations"},
		"a value of no writer appears, whatever was going on":  {func(r *Run) { wrong(r.Loads[1], updates.Foreign, 61, 63) }, "planned operations"},
		"a planned operation loses a write while a fault heals": {
			func(r *Run) { r.Faults[0].Healed, r.Loads[1].Summary.Losses[0] = second(200), loss(120, 120, 130) }, "planned operations",
		},
		"a fault does not heal":  {func(r *Run) { r.Faults[0].Healed = time.Time{} }, "within its bound"},
		"a fault heals too late": {func(r *Run) { r.Faults[0].Healed = second(60 + 241) }, "within its bound"},
		"a fault heals after what was changed meanwhile": {func(r *Run) {
			r.Changes[0].Drawn, r.Changes[0].Round, r.Faults[0].Healed = schedule.Operation{Kind: "shards", Cluster: "carts"}, 1, second(60+481)
		}, "within its bound"},
		"a fault could not be ended":              {func(r *Run) { r.Faults[0].Error = "no such node" }, "within its bound"},
		"an operation does not end":               {func(r *Run) { r.Changes[0].Ended = time.Time{} }, "planned operation was completed"},
		"an operation fails":                      {func(r *Run) { r.Changes[0].Error = "timed out" }, "planned operation was completed"},
		"the operator ends by itself":             {func(r *Run) { r.Ends[0].At = second(150) }, "by our hand"},
		"the operator ends because a server does": {func(r *Run) { r.Ends[0].At = second(61) }, "by our hand"},
		"the operator panics":                     {func(r *Run) { r.Ends[0].Panic = "panic: nil" }, "by our hand"},
		"a condition has no reason":               {func(r *Run) { r.Ready["carts"][1].Text = "" }, "conditions said why"},
		"a cluster says nothing while it takes no writes": {func(r *Run) {
			r.Loads[1].Summary.Stalls = []ledger.Stall{{Lane: "shard-0", FromMs: second(400).UnixMilli(), ToMs: second(425).UnixMilli()}}
		}, "conditions said why"},
	}
	r := good()
	r.Verdicts = Judge(r)
	if !Kept(r.Verdicts) {
		t.Fatalf("a good run is found to be bad: %+v", r.Verdicts)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := good()
			tc.spoil(r)
			var found []string
			for _, v := range Judge(r) {
				if !v.Kept {
					found = append(found, v.Promise)
				}
			}
			if !strings.Contains(strings.Join(found, "\n"), tc.promise) {
				t.Errorf("found %q", found)
			}
		})
	}
}

// wrong has an update of a load found wrong; it was as expected until one second, and was not at
// another.
func wrong(l Load, kind string, seen, missed int) {
	l.Summary.Updates.Wrong = 1
	l.Summary.Updates.Faults = []updates.Fault{{Kind: kind, Key: "u", SeenMs: second(seen).UnixMilli(), MissedMs: second(missed).UnixMilli()}}
}

func TestAFaultTakesUpdatesThatWereNotReplicated(t *testing.T) {
	r := good()
	wrong(r.Loads[1], updates.RolledBack, 61, 63)
	if v := r.redisLostNothingPlanned(); !v.Kept {
		t.Error(v.Text)
	}
}

func TestAPodThatIsDeletedServesForItsGracePeriod(t *testing.T) {
	r := good()
	r.Faults[0].Drawn.Kind, r.Faults[0].Healed, r.Loads[1].Summary.Losses[0] = "pod-delete", second(200), loss(120, 120, 130)
	if v := r.redisLostNothingPlanned(); !v.Kept {
		t.Error(v.Text)
	}
}

func TestAFaultTakesWhatWasAcknowledgedLongBefore(t *testing.T) {
	r := good()
	r.Loads[1].Summary.Losses[0] = loss(20, 50, 70)
	if v := r.redisLostNothingPlanned(); !v.Kept {
		t.Error(v.Text)
	}
}

func TestWhatIsChangedMeanwhileMayTakeItsTime(t *testing.T) {
	r := good()
	r.Faults[0].Healed = second(60 + 300)
	if v := r.healed(); v.Kept {
		t.Error("it was not changed, and took longer than the bound of a kill")
	}
	r.Changes = append(r.Changes, &Change{Round: 1, Drawn: schedule.Operation{Kind: "shards", Cluster: "carts"}, Ended: second(350)})
	if v := r.healed(); !v.Kept {
		t.Error(v.Text)
	}
	r.Changes[1].Drawn.Cluster = "orders"
	if v := r.healed(); v.Kept {
		t.Error("another cluster was changed")
	}
}

// What the API server or the operator cannot say because it stands still is no silence.
func TestNobodyIsAskedToSpeakWhileItIsHeldDown(t *testing.T) {
	r := good()
	r.Loads[1].Summary.Stalls = []ledger.Stall{{Lane: "shard-0", FromMs: second(195).UnixMilli(), ToMs: second(216).UnixMilli()}}
	if v := r.conditionsSaid(); !v.Kept {
		t.Error(v.Text)
	}
}

func TestTheReportShowsWhatHappened(t *testing.T) {
	r := good()
	r.Verdicts = Judge(r)
	var page strings.Builder
	if err := Write(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"every promise was kept", "make chaos SEED=7", `class="fault"`, `class="heal"`, `class="change"`, `class="step"`, `class="gap"`, `class="ok"`, `class="bad"`,
		"carts-0-0", "FailingOver", "20.0 s", "4.0 s", "carts: Unreachable", "not made: 2 of 3", "3 members become 5", "carts plain shard-1",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	from := strings.Index(page.String(), "<svg")
	wellFormed(t, page.String()[from:strings.Index(page.String(), "</svg>")+len("</svg>")])
	for _, ban := range []string{"http://", "https://", "<script", "<link", "<img"} {
		if strings.Contains(strings.ReplaceAll(page.String(), "http://www.w3.org/2000/svg", ""), ban) {
			t.Errorf("the page needs something else: %s", ban)
		}
	}
}

func TestABrokenPromiseStandsOnTop(t *testing.T) {
	r := good()
	r.Loads[0].Summary.Lost, r.Loads[0].Summary.LostKeys = 1, []string{"<key>"}
	r.Verdicts = Judge(r)
	var page strings.Builder
	if err := Write(&page, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "a promise was broken") || !strings.Contains(page.String(), "&lt;key&gt;") {
		t.Error("the page does not say so")
	}
}

// A picture has to be in proportion: a fault of the tenth part of a run is the tenth part of its width.
func TestBarsAreWhereTheyBelong(t *testing.T) {
	r := good()
	b := r.bar(second(60), second(120), "fault", "")
	if b.X != labelWidth+plotWidth/10 || b.W != plotWidth/10 {
		t.Errorf("%+v", b)
	}
	if b := r.bar(second(-60), second(-50), "fault", ""); b.X != labelWidth || b.W != 2 {
		t.Errorf("what was before is shown at %+v", b)
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}
