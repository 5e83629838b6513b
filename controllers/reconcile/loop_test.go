package reconcile

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/test/fakeapi"
)

type knock struct{}

func (knock) String() string     { return "knock on the door" }
func (knock) Meta() cluster.Meta { return cluster.Meta{Reason: "Knock"} }

// mend is a repair.
type mend struct{ knock }

func (mend) Meta() cluster.Meta { return cluster.Meta{Reason: "Knock", Repair: true} }

// script is a kind whose every answer is given by the test.
type script struct {
	plan                        cluster.Plan
	ready                       bool
	ensureErr, observeErr, acts error
	ensured, kept, acted        int
}

func (s *script) Ensure(context.Context, *v1alpha1.EtcdCluster) error {
	s.ensured++
	return s.ensureErr
}

func (s *script) RenewWhilePaused(context.Context, *v1alpha1.EtcdCluster) error {
	s.kept++
	return nil
}

func (s *script) Observe(context.Context, *v1alpha1.EtcdCluster) (int, error) {
	return 0, s.observeErr
}
func (s *script) Next(int) cluster.Plan { return s.plan }
func (s *script) Act(context.Context, *v1alpha1.EtcdCluster, cluster.Step) error {
	s.acted++
	return s.acts
}

func (s *script) Report(o *v1alpha1.EtcdCluster, _ int, p cluster.Plan, err error) {
	o.Status.Activity = cluster.Activity(p, err)
	conditions.Set(&o.Status.Conditions, time.Now(), o.Generation, cluster.Progress(p, err)...)
	if s.ready {
		conditions.Set(&o.Status.Conditions, time.Now(), o.Generation, cluster.Ready(p, err, p.Message))
	}
}

// loopRow is what a kind answers, and what comes of two equal passes.
type loopRow struct {
	script script
	paused bool
	want   loopResult
}

// loopResult is what each of the passes returns, does and tells.
type loopResult struct {
	requeue        time.Duration
	err            bool
	acted, ensured int
	activity       string
	stalled        metav1.ConditionStatus
	events         []string
}

func (r loopRow) check(t *testing.T) {
	t.Helper()
	o := fakeapi.EtcdCluster()
	o.Spec.Paused = &r.paused
	w := fakeapi.New(t, o)
	recorder := events.NewFakeRecorder(8)
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: &r.script, Client: w, Direct: w, Events: recorder}
	for range 2 { // The second pass finds nothing new to write.
		res, err := loop.Reconcile(t.Context(), fakeapi.Fetch(t, w))
		if (err != nil) != r.want.err || res.RequeueAfter != r.want.requeue {
			t.Fatalf("result %v, %v; want %v, error %v", res.RequeueAfter, err, r.want.requeue, r.want.err)
		}
	}
	if r.script.acted != 2*r.want.acted || r.script.ensured != 2*r.want.ensured {
		t.Errorf("acted %d times, ensured %d times", r.script.acted, r.script.ensured)
	}
	if kept := r.script.kept == 2; kept != r.paused {
		t.Errorf("kept up %d times", r.script.kept)
	}
	if w.Writes.Load() != 1 {
		t.Errorf("the status was written %d times in two equal passes, want once", w.Writes.Load())
	}
	got := fakeapi.Fetch(t, w)
	if got.Status.Activity != r.want.activity {
		t.Errorf("activity %q, want %q", got.Status.Activity, r.want.activity)
	}
	stalled := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled.Status != r.want.stalled || stalled.ObservedGeneration != got.Generation {
		t.Errorf("stalled: %+v", stalled)
	}
	checkEvents(t, recorder, r.want.events, r.want.acted > 0 && !declined(r.script.acts))
}

func TestLoopMakesOnePassAndReportsIt(t *testing.T) {
	step, _ := cluster.Do(knock{}, "nobody knows that we are here")
	repair, _ := cluster.Do(mend{}, "the door is broken")
	wait, _ := cluster.Wait("Waiting", 3*time.Second, "waiting for an answer")
	refuse, _ := cluster.Refuse("Unsafe", "the door is locked: unlock it")
	for name, r := range map[string]loopRow{
		"a step is taken and told": {script{plan: step}, false, loopResult{
			requeue: afterStep, acted: 1, ensured: 1, activity: "nobody knows that we are here", stalled: "False",
			events: []string{"Normal Knock nobody knows that we are here"},
		}},
		"a wait is told once": {script{plan: wait}, false, loopResult{
			requeue: 3 * time.Second, ensured: 1, activity: "waiting for an answer", stalled: "False",
			events: []string{"Normal Waiting waiting for an answer"},
		}},
		"a refusal stalls": {script{plan: refuse}, false, loopResult{
			requeue: afterRefusal, ensured: 1, activity: "the door is locked: unlock it", stalled: "True",
			events: []string{"Warning Unsafe the door is locked: unlock it"},
		}},
		"nothing to do": {script{}, false, loopResult{requeue: healthPoll, ensured: 1, stalled: "False"}},
		"a failed step is told and tried again": {script{plan: step, acts: errors.New("no answer")}, false, loopResult{
			err: true, acted: 1, ensured: 1, activity: "knock on the door: no answer", stalled: "False",
			events: []string{"Normal Knock nobody knows that we are here"},
		}},
		"a refused step is not told, and not tried at once": {
			script{plan: step, acts: cluster.Refusal{Reason: "InvalidSpec", Message: "the door is too small: widen it"}}, false, loopResult{
				requeue: afterRefusal, acted: 1, ensured: 1, activity: "knock on the door: the door is too small: widen it", stalled: "True",
				events: []string{"Warning InvalidSpec the door is too small: widen it"},
			},
		},
		"a step that is held back is not told": {
			script{plan: step, acts: cluster.Hold{Reason: "Busy", Message: "somebody else is at the door", After: 4 * time.Second}}, false, loopResult{
				requeue: 4 * time.Second, acted: 1, ensured: 1, activity: "knock on the door: somebody else is at the door", stalled: "False",
				events: []string{"Normal Busy somebody else is at the door"},
			},
		},
		"no step is taken when the world could not be read": {script{plan: step, observeErr: errors.New("time-out")}, false, loopResult{
			err: true, ensured: 1, activity: "time-out", stalled: "False", events: []string{"Normal ReconcileError time-out"},
		}},
		"no step is taken when the children are not in place": {script{plan: step, ensureErr: errors.New("quota")}, false, loopResult{
			err: true, ensured: 1, activity: "quota", stalled: "False", events: []string{"Normal ReconcileError quota"},
		}},
		"what runs is repaired all the same": {
			script{plan: repair, ensureErr: cluster.Refusal{Reason: "InvalidSpec", Message: "no Secret: create it"}}, false, loopResult{
				requeue: afterHold, acted: 1, ensured: 1, activity: "no Secret: create it", stalled: "True",
				events: []string{"Normal Knock the door is broken", "Warning InvalidSpec no Secret: create it"},
			},
		},
		"paused: what needs a human is told": {script{plan: refuse}, true, loopResult{
			requeue: afterRefusal, activity: "the door is locked: unlock it (spec.paused is true)", stalled: "True",
			events: []string{"Warning Unsafe the door is locked: unlock it (spec.paused is true)"},
		}},
		"a refusal among the children stalls and is no error": {
			script{plan: step, ensureErr: cluster.Refusal{Reason: "InvalidSpec", Message: "no Secret: create it"}}, false, loopResult{
				requeue: afterRefusal, ensured: 1, activity: "no Secret: create it", stalled: "True",
				events: []string{"Warning InvalidSpec no Secret: create it"},
			},
		},
		"paused: nothing is changed": {script{plan: step}, true, loopResult{
			requeue: healthPoll, activity: "spec.paused is true, so nothing is changed; pending: nobody knows that we are here", stalled: "False",
		}},
		"something is in the way that goes by itself": {
			script{plan: step, ensureErr: cluster.Hold{Reason: "PreviousCluster", Message: "an old Secret is being deleted"}}, false, loopResult{
				requeue: afterHold, ensured: 1, activity: "an old Secret is being deleted", stalled: "False",
				events: []string{"Normal PreviousCluster an old Secret is being deleted"},
			},
		},
	} {
		t.Run(name, r.check)
	}
}

// checkEvents compares the events of two equal passes: a step, which comes first, is told each time, transitions only
// once.
func checkEvents(t *testing.T, r *events.FakeRecorder, want []string, step bool) {
	t.Helper()
	if step {
		want = append(want, want[0])
	}
	close(r.Events)
	var got []string
	for e := range r.Events {
		got = append(got, e)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events %q, want %q", got, want)
	}
}

// prepares is a kind that prepares a step by a repair.
type prepares struct{ script }

func (p *prepares) Repairs(int) cluster.Plan {
	step, _ := cluster.Do(knock{}, "nobody knows that we are here")
	return step
}

func TestNothingIsPreparedWhileTheChildrenAreNotInPlace(t *testing.T) {
	repair, _ := cluster.Do(mend{}, "the door is to be knocked at")
	for name, tc := range map[string]struct {
		ensureErr error
		acted     int
	}{
		"the children are in place":     {nil, 1},
		"the children are not in place": {errors.New("quota"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeapi.New(t, fakeapi.EtcdCluster())
			kind := &prepares{script{plan: repair, ensureErr: tc.ensureErr}}
			loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: kind, Client: w, Direct: w, Events: events.NewFakeRecorder(8)}
			if _, err := loop.Reconcile(t.Context(), fakeapi.Fetch(t, w)); (err != nil) != (tc.ensureErr != nil) || kind.acted != tc.acted {
				t.Errorf("acted %d times, want %d: %v", kind.acted, tc.acted, err)
			}
		})
	}
}

// fails is a kind whose steps fail, as far as they are named.
type fails struct {
	script
	steps map[string]bool
	took  []string
}

func (f *fails) Act(_ context.Context, _ *v1alpha1.EtcdCluster, step cluster.Step) error {
	f.took = append(f.took, step.Meta().Reason)
	if f.steps[step.Meta().Reason] {
		return errors.New("no answer")
	}
	return nil
}

// ring is a step that nothing waits for.
type ring struct{ knock }

func (ring) Meta() cluster.Meta { return cluster.Meta{Reason: "Ring", NonBlocking: true} }

func TestWhatFailsOnTheSideKeepsNothingElseFromBeingDone(t *testing.T) {
	side, _ := cluster.Do(ring{}, "somebody may hear it")
	step, _ := cluster.Do(knock{}, "nobody knows that we are here")
	repair, _ := cluster.Do(mend{}, "the door is broken")
	wait, _ := cluster.Wait("Waiting", time.Millisecond, "waiting for an answer")
	refuse, _ := cluster.Refuse("Unsafe", "the door is locked: unlock it")
	before := func(p cluster.Plan) cluster.Plan {
		out := side
		out.Fallback = &p
		return out
	}
	for name, tc := range map[string]struct {
		plan      cluster.Plan
		fail      map[string]bool
		ensureErr error
		took      string
		requeue   time.Duration
		err       bool
		activity  string
	}{
		"it is done, and the rest another time": {before(step), nil, nil, "Ring", afterStep, false, "somebody may hear it"},
		"it fails, and the next step is taken": {
			before(step), map[string]bool{"Ring": true}, nil, "Ring Knock", afterHold, false, "nobody knows that we are here; besides, knock on the door: no answer",
		},
		"both fail": {
			before(step),
			map[string]bool{"Ring": true, "Knock": true},
			nil, "Ring Knock", 0, true,
			"knock on the door: no answer\nknock on the door: no answer",
		},
		"several fail": {
			before(before(step)),
			map[string]bool{"Ring": true},
			nil, "Ring Ring Knock", afterHold, false,
			"nobody knows that we are here; besides, knock on the door: no answer; besides, knock on the door: no answer",
		},
		"what is waited for is told as well": {
			before(wait), map[string]bool{"Ring": true}, nil, "Ring", afterHold, false, "waiting for an answer; besides, knock on the door: no answer",
		},
		"what needs a human is told as well": {
			before(refuse), map[string]bool{"Ring": true}, nil, "Ring", afterRefusal, false, "the door is locked: unlock it; besides, knock on the door: no answer",
		},
		"there is nothing else to do": {
			before(cluster.Plan{Message: "fine"}), map[string]bool{"Ring": true}, nil, "Ring", afterHold, false, "knock on the door: no answer",
		},
		"it does not come before a repair": {before(repair), nil, errors.New("quota"), "Knock", 0, true, "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeapi.New(t, fakeapi.EtcdCluster())
			kind := &fails{script: script{plan: tc.plan, ensureErr: tc.ensureErr}, steps: tc.fail}
			loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: kind, Client: w, Direct: w, Events: events.NewFakeRecorder(8)}
			res, err := loop.Reconcile(t.Context(), fakeapi.Fetch(t, w))
			if (err != nil) != tc.err || res.RequeueAfter != tc.requeue {
				t.Errorf("result %v, %v; want %v, error %v", res.RequeueAfter, err, tc.requeue, tc.err)
			}
			if took := strings.Join(kind.took, " "); took != tc.took {
				t.Errorf("steps %s, want %s", took, tc.took)
			}
			got := fakeapi.Fetch(t, w).Status
			if got.Activity != tc.activity {
				t.Errorf("activity %q, want %q", got.Activity, tc.activity)
			}
			if stalled := meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionStalled); stalled != (tc.requeue == afterRefusal) {
				t.Errorf("stalled: %v", stalled)
			}
		})
	}
}

func TestWhatIsWaitedForAgainOnTheWayToReadyIsToldOnce(t *testing.T) {
	wait := func(reason string) cluster.Plan {
		p, _ := cluster.Wait(reason, time.Second, "waiting for %s", reason)
		return p
	}
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	recorder := events.NewFakeRecorder(20)
	s := &script{ready: true}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: s, Client: w, Direct: w, Events: recorder}
	for _, p := range []cluster.Plan{wait("A"), wait("B"), wait("A"), {Message: "fine"}, wait("A")} {
		s.plan = p
		if _, err := loop.Reconcile(t.Context(), fakeapi.Fetch(t, w)); err != nil {
			t.Fatal(err)
		}
	}
	checkEvents(t, recorder, []string{
		"Normal A waiting for A", "Normal B waiting for B", "Normal Settled fine", "Warning A waiting for A", "Normal A waiting for A",
	}, false)
}

func TestWhatAStepDoesIsToldOnceThoughTheCacheIsBehind(t *testing.T) {
	step, _ := cluster.Do(knock{}, "nobody knows that we are here")
	wait, _ := cluster.Wait(step.Reason, time.Second, "waiting for the door")
	w := fakeapi.New(t, fakeapi.EtcdCluster())
	recorder := events.NewFakeRecorder(20)
	s := &script{ready: true}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: s, Client: w, Direct: w, Events: recorder}
	pass := func(o *v1alpha1.EtcdCluster, p cluster.Plan) {
		s.plan = p
		if _, err := loop.Reconcile(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	pass(fakeapi.Fetch(t, w), cluster.Plan{Message: "fine"})
	stale := fakeapi.Fetch(t, w)
	pass(fakeapi.Fetch(t, w), step)
	for range owned.MaxPending + 1 {
		pass(stale.DeepCopy(), wait)
	}
	checkEvents(t, recorder, []string{"Normal Settled fine", "Normal Knock nobody knows that we are here"}, false)
}

// A part of one status in another is a status that nobody has made: the API server refused it once, for a move of slots without its number.
func TestAStatusIsWrittenWholeOrNotAtAll(t *testing.T) {
	w := fakeapi.New(t, fakeapi.EtcdCluster())
	s := &script{ready: true}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: s, Client: w, Direct: w, Events: events.NewFakeRecorder(20)}
	pass := func(o *v1alpha1.EtcdCluster, message string) ctrl.Result {
		s.plan = cluster.Plan{Message: message}
		next, err := loop.Reconcile(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	pass(fakeapi.Fetch(t, w), "first")
	stale := fakeapi.Fetch(t, w)
	pass(fakeapi.Fetch(t, w), "second")
	want, passes := fakeapi.Fetch(t, w), s.ensured
	for range owned.MaxPending {
		if next := pass(stale.DeepCopy(), "third"); next.RequeueAfter != requeuePending || s.ensured != passes {
			t.Fatalf("it is looked at again after %s, and %d passes were made over what the cache has from before", next.RequeueAfter, s.ensured-passes)
		}
	}
	if next := pass(stale.DeepCopy(), "third"); next.RequeueAfter != afterHold {
		t.Errorf("it is looked at again after %s", next.RequeueAfter)
	}
	if diff := cmp.Diff(want, fakeapi.Fetch(t, w)); diff != "" {
		t.Errorf("a resource that had changed was written to (-want +got):\n%s", diff)
	}
	pass(fakeapi.Fetch(t, w), "third")
	if got := fakeapi.Fetch(t, w); got.ResourceVersion == want.ResourceVersion {
		t.Error("the newest one was not written to")
	}
}

// To wait for the cache ends the back-off of a pass that fails.
func TestAFailedPassDoesNotWaitForTheCache(t *testing.T) {
	w := fakeapi.New(t, fakeapi.EtcdCluster())
	s := &script{ready: true, ensureErr: errors.New("no")}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: s, Client: w, Direct: w, Events: events.NewFakeRecorder(20)}
	stale := fakeapi.Fetch(t, w)
	for _, o := range []*v1alpha1.EtcdCluster{stale.DeepCopy(), stale} {
		if next, err := loop.Reconcile(t.Context(), o); err == nil || next.RequeueAfter != 0 {
			t.Errorf("%v, %v", next, err)
		}
	}
	if s.ensured != 2 {
		t.Errorf("%d passes", s.ensured)
	}
}

// finder is a kind that has found something.
type finder struct {
	script
	report *anomaly.Report
}

func (f *finder) Figures(int) cluster.Figures { return cluster.Figures{Anomalies: f.report} }

func TestAFindingIsToldWhenItComesAndWhenItGoes(t *testing.T) {
	var watch anomaly.Watch
	recorder := events.NewFakeRecorder(20)
	f := &finder{}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: f, Client: fakeapi.New(t, fakeapi.EtcdCluster()), Events: recorder}
	for i := range 80 {
		took := 0.4
		if i > 30 {
			took = 0.01
		}
		r := watch.Next(time.Unix(int64(15*i), 0), []anomaly.Reading{anomaly.FsyncTime.Of("orders-1", took, 0.1)}, nil)
		f.report = &r
		if _, err := loop.Reconcile(t.Context(), fakeapi.Fetch(t, loop.Client)); err != nil {
			t.Fatal(err)
		}
	}
	checkEvents(t, recorder, []string{
		"Warning SlowDisk 99 % of the fsyncs of orders-1 take up to about 400ms: use a faster StorageClass, and keep others off the disk: every write waits for it",
		"Normal PerformanceRecovered SlowDisk is over; it was found that 99 % of the fsyncs of orders-1 take up to about 400ms",
	}, false)
}

func TestLoopLeavesADeletedResourceAlone(t *testing.T) {
	o := fakeapi.EtcdCluster()
	o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	s := &script{}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: s, Client: fakeapi.New(t), Events: events.NewFakeRecorder(1)}
	if _, err := loop.Reconcile(t.Context(), o); err != nil || s.ensured != 0 {
		t.Errorf("error %v, ensured %d times", err, s.ensured)
	}
}

// The planner's core cannot import the API, so it spells the common reasons itself.
func TestTheCommonReasonsAreThoseOfTheAPI(t *testing.T) {
	wait, _ := cluster.Wait("x", time.Second, "y")
	tests := map[string]metav1.Condition{
		v1alpha1.ReasonSettled:        cluster.Progress(cluster.Plan{}, nil)[0],
		v1alpha1.ReasonNotStalled:     cluster.Progress(cluster.Plan{}, nil)[1],
		v1alpha1.ReasonPaused:         cluster.Progress(cluster.Pause(wait), nil)[0],
		v1alpha1.ReasonReconcileError: cluster.Progress(cluster.Plan{}, errors.New("z"))[0],
	}
	for want, got := range tests {
		if got.Reason != want {
			t.Errorf("%s gives the reason %s, want %s", got.Type, got.Reason, want)
		}
	}
	types := []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}
	for i, c := range cluster.Progress(cluster.Plan{}, nil) {
		if c.Type != types[i] {
			t.Errorf("condition %s, want %s", c.Type, types[i])
		}
	}
	if c := cluster.Ready(cluster.Plan{}, nil, "fine"); c.Type != v1alpha1.ConditionReady || c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

// Somebody who writes annotations all the time keeps nobody from reading the status.
func TestAStatusIsWrittenThoughOthersWriteToTheMetadata(t *testing.T) {
	w := fakeapi.New(t, fakeapi.EtcdCluster())
	s := &script{ready: true, plan: cluster.Plan{Message: "fine"}}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: s, Client: w, Direct: w, Events: events.NewFakeRecorder(20)}
	stale := fakeapi.Fetch(t, w)
	stale.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EtcdCluster")) // As the cache does.
	changed := fakeapi.Fetch(t, w)
	changed.Annotations = map[string]string{"heart/beat": "1"}
	changed.Labels = map[string]string{"team": "shop"}
	if err := w.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	older := stale.DeepCopy()
	next, err := loop.Reconcile(t.Context(), stale)
	got := fakeapi.Fetch(t, w)
	if err != nil || next.RequeueAfter != healthPoll || got.Status.Activity != "fine" || got.Annotations["heart/beat"] != "1" || got.Labels["team"] != "shop" {
		t.Errorf("%v, %v: %+v", next, err, got)
	}
	for _, o := range []*v1alpha1.EtcdCluster{older, changed} {
		if next, err := loop.Reconcile(t.Context(), o); err != nil || next.RequeueAfter != requeuePending {
			t.Errorf("a version that a status was written over: %v, %v", next, err)
		}
	}
}

// The specification, whether it is to go, and the status are what a status follows from.
func TestAStatusOfAnotherSpecificationIsNotWritten(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.EtcdCluster){
		"specification": func(o *v1alpha1.EtcdCluster) { o.Spec.Size, o.Generation = 5, 2 },
		"finalizers":    func(o *v1alpha1.EtcdCluster) { o.Finalizers = append(o.Finalizers, "example.com/hold") },
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeapi.New(t, fakeapi.EtcdCluster())
			s := &script{ready: true, plan: cluster.Plan{Message: "fine"}}
			loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: s, Client: w, Direct: w, Events: events.NewFakeRecorder(20)}
			stale := fakeapi.Fetch(t, w)
			changed := fakeapi.Fetch(t, w)
			change(changed)
			if err := w.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
			next, err := loop.Reconcile(t.Context(), stale)
			if got := fakeapi.Fetch(t, w); err != nil || next.RequeueAfter != afterHold || got.Status.Activity != "" {
				t.Errorf("%v, %v: %+v", next, err, got.Status)
			}
		})
	}
}

// A Backup is never Ready.
func TestNothingIsRememberedOfResourcesThatAreGone(t *testing.T) {
	var said eventDeduper
	now := time.Now()
	for n := range 100 {
		said.first(types.UID(strconv.Itoa(n)), "Taking")
	}
	if said.first("7", "Taking") {
		t.Error("what is there is forgotten")
	}
	said.reasons.Get("100", now.Add(2*time.Hour))
	if n := len(maps.Collect(said.reasons.All())); n != 1 {
		t.Errorf("%d resources are remembered", n)
	}
}
