package controllersim

import (
	"maps"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/test/fakeapi"
)

// operation is something that a user begins, and that takes some passes.
type operation struct {
	begin func(scene)
	// settings says that it is a change of the specification, which a cluster can also be made with.
	settings bool
}

// cast is a kind of cluster with what can be done to it.
type cast struct {
	build      func(t *testing.T) scene
	operations map[string]operation
	// ready makes passes until the cluster is Ready, and fails the test when that takes too long.
	ready func(scene)
	// takeBack sets the specification to what it was in the beginning.
	takeBack operation
	// refused makes passes until it is clear whether what was taken back has gone too far for that, and says that it has. nil: never.
	refused func(scene) bool
	// cluster is the object that the user has made.
	cluster func(scene) client.Object
}

// alone is how many passes an operation takes, and fresh what a cluster looks like that was made with the settings of some operations.
func (c cast) alone(t *testing.T, o operation) int {
	t.Helper()
	s := c.build(t)
	c.ready(s)
	begun := s.Line().turns
	o.begin(s)
	c.ready(s)
	return s.Line().turns - begun
}

func (c cast) fresh(t *testing.T, all ...operation) []string {
	t.Helper()
	s := c.build(t)
	for _, o := range all {
		if o.settings {
			o.begin(s)
		}
	}
	c.ready(s)
	comeToRest(t, s)
	return shape(s.Line().Past)
}

// former are the passwords of Redis from before, which go on to work for some minutes.
var former = regexp.MustCompile(`(former-[a-z]+|handed-out):<nil> `)

// shape is what a cluster is made of, without what tells of its past: its record, claims that it left behind, backups and Jobs.
func shape(p *fakeapi.History) []string {
	p.CatchUp()
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(p.Watches)) {
		for _, o := range slices.SortedFunc(maps.Values(p.Present[kind]), fakeapi.CompareNames) {
			switch kind {
			case "Backup", "Restore", "Job", "PersistentVolumeClaim", "Node":
			case "ConfigMap":
				out = append(out, kind+" "+o.GetName())
			case "Pod":
				out = append(out, likeness(kind, controlled(o)))
			default:
				out = append(out, former.ReplaceAllString(likeness(kind, o), ""))
			}
		}
	}
	return out
}

// controlled is a pod without the owner that it got beside its StatefulSet while that was made anew, and keeps until it is made anew itself.
func controlled(pod client.Object) client.Object {
	pod, _ = pod.DeepCopyObject().(client.Object)
	pod.SetOwnerReferences(slices.DeleteFunc(pod.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return !ptr.Deref(r.Controller, false) }))
	return pod
}

// meet begins one operation, and another one after so many passes.
func (c cast) meet(t *testing.T, first, second operation, after int) scene {
	t.Helper()
	s := c.build(t)
	c.ready(s)
	s.Line().upset = true
	first.begin(s)
	for range after {
		s.Round()
	}
	second.begin(s)
	return s
}

// pairs has every operation be interrupted by every other one, after each of its passes, and by its being taken back.
func pairs(t *testing.T, c cast) {
	t.Helper()
	var ran, all, good atomic.Int32
	number := 0
	t.Run("pairs", func(t *testing.T) {
		for _, first := range slices.Sorted(maps.Keys(c.operations)) {
			seconds := maps.Clone(c.operations)
			seconds["taken back"] = c.takeBack
			for _, second := range slices.Sorted(maps.Keys(seconds)) {
				name := first + ", then " + second
				if number++; Stride(t) > 1 && number%(5*Stride(t)) != 1 {
					continue // A sample of them; make test-all has all.
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					a, b := c.operations[first], seconds[second]
					if second == "taken back" {
						a.settings, b.settings = false, false
					}
					want := c.fresh(t, a, b)
					passes := c.alone(t, c.operations[first])
					all.Add(int32(passes))
					step := Stride(t)
					for after := len(name) % min(step, passes); after < passes; after += step {
						ran.Add(1)
						s, want := c.meet(t, c.operations[first], b, after), want
						if second == "taken back" && c.refused != nil && c.refused(s) {
							c.operations[first].begin(s) // The user does what he is told.
							want = c.fresh(t, c.operations[first])
						}
						c.ready(s)
						comeToRest(t, s)
						s.Sound()
						if diff := cmp.Diff(want, shape(s.Line().Past)); diff != "" {
							t.Errorf("after %d of %d passes (-new cluster +this one):\n%s", after, passes, diff)
						}
						if !t.Failed() {
							good.Add(1)
						}
					}
				})
			}
		}
	})
	t.Logf("points of %s: %d of %d, %d passed", t.Name(), ran.Load(), all.Load(), good.Load())
}

// goodbyes has the cluster deleted after each pass of each operation: nothing stays but what the user is to keep, and nothing at all when
// he deletes the claims.
func goodbyes(t *testing.T, c cast) {
	t.Helper()
	var ran, all, good atomic.Int32
	t.Run("deleted during", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(c.operations)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				passes := c.alone(t, c.operations[name])
				all.Add(int32(passes))
				step := Stride(t)
				for after := len(name) % min(step, passes); after < passes; after += step {
					ran.Add(1)
					s := c.meet(t, c.operations[name], operation{begin: func(s scene) { vanish(t, s, c.cluster(s)) }}, after)
					for range 3 {
						s.Round()
						collect(t, s)
					}
					wantOnly(t, s, "PersistentVolumeClaim", "Secret", "ConfigMap", "Backup", "Restore")
					var claims corev1.PersistentVolumeClaimList
					if err := api(s).List(t.Context(), &claims); err != nil {
						t.Fatal(err)
					}
					for i := range claims.Items {
						vanish(t, s, &claims.Items[i])
					}
					collect(t, s)
					wantOnly(t, s, "Backup", "Restore")
					if !t.Failed() {
						good.Add(1)
					}
				}
			})
		}
	})
	t.Logf("points of %s: %d of %d, %d passed", t.Name(), ran.Load(), all.Load(), good.Load())
}

func wantOnly(t *testing.T, s scene, kinds ...string) {
	t.Helper()
	for kind, objects := range s.Line().Past.Present {
		for key := range objects {
			if !slices.Contains(kinds, kind) && key.Name != "chosen" { // That is the user's own.
				t.Errorf("%s %s is left", kind, key.Name)
			}
		}
	}
}
