package controllersim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/test/fakeapi"
)

// ending is what a run of a workload came to. That of a run in which something went wrong has to be that of one in which nothing did.
type ending struct {
	// state is what there is in the end, made how many objects of each kind were created and deleted by operators on the way.
	state []string
	made  map[string]int
	calls []*call
	turns int
	// first is where it parts from what all workloads begin with.
	first ready
}

// combination is a workload with one kind of thing that goes wrong.
type combination struct {
	name   string
	load   workload
	points func(ending) []point
	sparse int
}

// combinations are all of them; where time is short one of four, and with -short, which the race detector has,
// the first one.
func combinations(t *testing.T, scenes map[string]workload) []combination {
	t.Helper()
	var out []combination
	for _, what := range slices.Sorted(maps.Keys(sweeps)) {
		for _, name := range slices.Sorted(maps.Keys(scenes)) {
			out = append(out, combination{what + "/" + name, scenes[name], sweeps[what].points, sweeps[what].sparse})
		}
	}
	step := 1
	switch {
	case testing.Short():
		step = len(out)
	case Stride(t) > 1:
		step = 4
	}
	var some []combination
	for i := 0; i < len(out); i += step {
		some = append(some, out[i])
	}
	return some
}

// workload is what a user wants, from nothing to a cluster that is Ready.
type workload struct {
	build func(t *testing.T) scene
	work  func(scene)
}

// run runs a workload. upset says what goes wrong, nil: nothing.
func (l workload) run(t *testing.T, upset func(scene)) (ending, scene) {
	t.Helper()
	s := l.build(t)
	w := s.Line()
	if upset != nil {
		upset(s)
	}
	l.work(s)
	out := ending{turns: w.turns, calls: slices.Clone(w.Calls), made: map[string]int{}, first: s.parts()}
	comeToRest(t, s)
	s.Sound()
	out.state = portrait(w.Past)
	for _, c := range w.Calls {
		for _, e := range c.effects {
			out.made[string(e.Typ)+" "+e.Kind]++
		}
	}
	return out, s
}

// comeToRest lets the operator come to rest, and fails the test when it goes on writing.
func comeToRest(t *testing.T, s scene) {
	t.Helper()
	w := s.Line()
	quiet := 0
	for range 40 {
		before := w.Writes
		s.Round()
		if quiet++; w.Writes != before {
			quiet = 0
		}
		if quiet == 5 {
			return
		}
	}
	t.Errorf("it does not come to rest, the last writes are %v", w.Log[max(0, len(w.Log)-10):])
}

var (
	// random is what differs between two runs: sums, keys and ids.
	random = regexp.MustCompile(`\b[0-9a-f]{8,}\b`)
	uids   = regexp.MustCompile(`\buid:[^\] ]+`)
	times  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`)
)

// portrait is all that there is but for what differs between any two runs.
func portrait(p *fakeapi.History) []string {
	p.CatchUp()
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(p.Watches)) {
		for _, o := range slices.SortedFunc(maps.Values(p.Present[kind]), fakeapi.CompareNames) {
			out = append(out, likeness(kind, o))
		}
	}
	return out
}

// likeness is an object without what differs between any two runs.
func likeness(kind string, o client.Object) string {
	o, _ = o.DeepCopyObject().(client.Object)
	secret, ok := o.(*corev1.Secret)
	if ok {
		for key := range secret.Data {
			secret.Data[key] = nil
		}
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err.Error()
	}
	meta, _ := u["metadata"].(map[string]any)
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"} {
		delete(meta, field)
	}
	// When a server stood for election is history.
	unstructured.RemoveNestedField(meta, "annotations", history.AnnotationElection)
	if annotations, ok := meta["annotations"].(map[string]any); ok && len(annotations) == 0 {
		delete(meta, "annotations")
	}
	status, _ := u["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, field := range []string{"status", "apiVersion", "kind"} {
		delete(u, field)
	}
	lines := []string{fmt.Sprintf("%s %s: %v", kind, o.GetName(), u)}
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		lines = append(lines, fmt.Sprintf("  %v is %v: %v", c["type"], c["status"], c["reason"]))
	}
	slices.Sort(lines[1:]) // They have no order.
	text := uids.ReplaceAllString(strings.Join(lines, "\n"), "uid:#")
	return times.ReplaceAllString(random.ReplaceAllString(text, "#"), "then")
}

// point is one thing that goes wrong in one run.
type point struct {
	name  string
	upset func(s scene)
	// struck reports afterwards whether it did go wrong.
	struck func() bool
	// twice says that two operators work at the same time.
	twice bool
}

// sweep runs a workload once undisturbed, and then once for each of the points that are found in that run.
func sweep(t *testing.T, l workload, sparse int, points func(reference ending) []point) {
	t.Helper()
	reference, _ := l.run(t, nil)
	all := points(reference)
	if len(all) == 0 {
		t.Fatal("there is nothing that could go wrong")
	}
	step := Stride(t)
	if step > 1 {
		step *= sparse
	}
	var ran, good atomic.Int32
	t.Run("at", func(t *testing.T) {
		for i := len(t.Name()) % min(step, len(all)); i < len(all); i += step {
			p := all[i]
			ran.Add(1)
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				got, s := l.run(t, p.upset)
				if !p.struck() {
					t.Error("it did not happen")
				}
				want := maps.Clone(reference.made)
				if diff := cmp.Diff(reference.state, got.state); diff != "" {
					t.Errorf("what there is in the end (-undisturbed +disturbed):\n%s", diff)
				}
				if p.twice { // What one has made the other may restart, and nothing else.
					delete(got.made, "DELETED Pod")
					delete(want, "DELETED Pod")
				}
				if diff := cmp.Diff(want, got.made); diff != "" {
					t.Errorf("what was created and deleted on the way (-undisturbed +disturbed):\n%s", diff)
				}
				if t.Failed() {
					t.Logf("written was:\n%s", strings.Join(s.Line().Log, "\n"))
					return
				}
				good.Add(1)
			})
		}
	})
	t.Logf("points of %s: %d of %d, %d passed", t.Name(), ran.Load(), len(all), good.Load())
}

// What a fault is to strike in a disturbed run is what there was in the undisturbed one.
func TestTheSameWorkCostsTheSameCalls(t *testing.T) {
	t.Parallel()
	for kind, scenes := range map[string]map[string]workload{"etcd": etcdScenes(), "Redis": redisScenes()} {
		for name, l := range scenes {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				_, first := l.run(t, nil)
				_, second := l.run(t, nil)
				if diff := cmp.Diff(first.Line().named, second.Line().named); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// faulty makes a point of a fault.
func faulty(f fault) point {
	struck := &fault{}
	return point{
		name: f.String(), twice: f.effect == pause,
		upset: func(s scene) {
			*struck = f
			if f.effect == pause {
				struck.meanwhile = func() { overtake(s) }
			}
			s.Line().fault = struck
		},
		struck: func() bool { return struck.struck },
	}
}

// overtake lets another operator work while the present one is held up, which goes on afterwards with what it had seen before.
func overtake(s scene) {
	w := s.Line()
	w.Alive.View.Freeze(0)
	s.Restart()
	for range 5 {
		s.Round()
	}
}

// crashes are all the ways in which a call may fail that writes.
func crashes(reference ending) []point {
	var out []point
	for _, c := range reference.calls[reference.first.calls:] {
		if c.write {
			out = append(out, faulty(fault{effect: crashBefore, at: c.String()}), faulty(fault{effect: crashAfter, at: c.String()}))
		}
	}
	return out
}

func lostAnswers(reference ending) []point {
	var out []point
	for _, c := range reference.calls[reference.first.calls:] {
		if c.write && !strings.HasPrefix(c.Name, "part of") { // Its answer is not waited for.
			out = append(out, faulty(fault{effect: loseAnswer, at: c.String()}))
		}
	}
	return out
}

// rejections are what the API server refuses, and what data stores do not answer.
func rejections(reference ending) []point {
	var out []point
	for i, c := range reference.calls[reference.first.calls:] {
		some := refusals(c.write)
		switch {
		case strings.HasPrefix(c.Name, "part of"):
		case c.store:
			out = append(out, faulty(fault{effect: refuse, at: c.String(), err: errLate}))
		default:
			out = append(out, faulty(fault{effect: refuse, at: c.String(), err: some[i%len(some)]}))
		}
	}
	return out
}

// overtaken are all moments in which an operator is held up between what it knows and what it does.
func overtaken(reference ending) []point {
	var out []point
	for _, c := range reference.calls[reference.first.calls:] {
		if !c.store || (c.write && !strings.HasPrefix(c.Name, "part of")) {
			out = append(out, faulty(fault{effect: pause, at: c.String()}))
		}
	}
	return out
}

// atTurn makes a point of what happens before a pass.
func atTurn(n int, name string, happens func(s scene)) point {
	var struck bool
	return point{
		name: fmt.Sprintf("%s before pass %d", name, n),
		upset: func(s scene) {
			struck = false
			s.Line().at(n, func() {
				s.Line().upset, struck = true, true
				happens(s)
			})
		},
		struck: func() bool { return struck },
	}
}

// travels are operators that start with a cache that is older than what the former one has written.
func travels(reference ending) []point {
	var out []point
	for n := max(2, reference.first.turns); n <= reference.turns; n++ {
		for _, behind := range []int{1, 4, 16} {
			out = append(out, atTurn(n, fmt.Sprintf("a new operator %d events behind", behind), func(s scene) {
				s.Restart()
				s.Line().Lag(2, behind)
			}))
		}
	}
	return out
}

// delays are caches that hear nothing of one kind for some passes, and so never of what comes and goes meanwhile.
func delays(reference ending) []point {
	var out []point
	kinds := map[string]bool{}
	for _, c := range reference.calls {
		for _, e := range c.effects {
			kinds[e.Kind] = true
		}
	}
	kinds["Pod"], kinds["PersistentVolumeClaim"], kinds["EtcdCluster"], kinds["RedisCluster"] = true, true, true, true
	delete(kinds, "Secret") // It is not in the cache.
	for n := max(1, reference.first.turns); n <= reference.turns; n++ {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			out = append(out, atTurn(n, "nothing is heard of "+kind+" for three passes", func(s scene) { s.Line().Lag(3, 0, kind) }))
		}
	}
	return out
}

// misses are passes that are not made: what happened meanwhile is seen at once, and what was undone never.
func misses(reference ending) []point {
	var out []point
	for n := max(1, reference.first.turns); n <= reference.turns; n++ {
		out = append(out, atTurn(n, "nobody looks for some time", func(s scene) { s.Line().asleep = 3 }))
	}
	return out
}

// storms are passes that nothing asks for.
func storms(reference ending) []point {
	var out []point
	for n := max(1, reference.first.turns); n <= reference.turns; n++ {
		out = append(out, atTurn(n, "every event comes five times", func(s scene) { s.Line().again = 5 }))
	}
	return out
}
