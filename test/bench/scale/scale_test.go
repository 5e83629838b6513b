package scale

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	clustersFlag = flag.Int("clusters", 1000, "clusters to make, half of them of etcd and half of Redis")
	foreignFlag  = flag.Int("foreign", 5000, "pods of somebody else to make in the same namespaces")
	windowFlag   = flag.Duration("window", 2*time.Minute, "how long clusters with nothing to do are watched")
	outFlag      = flag.String("out", "../../../bin/bench/scale", "directory for figures, profiles and the log of the manager")
	managerFlag  = flag.String("manager", "", "program to measure in the place of what is built from this tree, for a comparison")
	profileFlag  = flag.Bool("profile", false, "write profiles of the CPU as well: taking them costs some itself")
)

// patience is how long clusters may take until they are Ready.
const patience = time.Hour

// BenchmarkScale prints what the manager takes for so many clusters, in all that happens to them.
func BenchmarkScale(b *testing.B) {
	for b.Loop() {
		r := run{world: newWorld(b, *outFlag), clusters: *clustersFlag, foreign: *foreignFlag, window: *windowFlag, short: *windowFlag}
		r.all()
		b.ReportMetric(r.full.heap/1024/float64(r.clusters), "KiB-heap/cluster")
		b.ReportMetric(0, "ns/op")
	}
}

// TestAFewClusters goes through all that the benchmark does with twenty clusters, so that the benchmark itself is known to work.
func TestAFewClusters(t *testing.T) {
	r := run{world: newWorld(t, t.TempDir()), clusters: 20, foreign: 20, window: 16 * time.Second, short: time.Second}
	r.all()
	for _, name := range []string{"created", "settled", "storm", "changed"} {
		f := r.phases[name]
		if f.passes < 1 || math.IsNaN(f.queue99) || math.IsNaN(f.reconcile99) || f.reconcile99 <= 0 {
			t.Errorf("%s: %s", name, f)
		}
	}
	if f := r.phases["settled"]; f.writes != 0 {
		t.Errorf("clusters with nothing to do cost %.0f API writes", f.writes)
	}
}

// run is one run of the benchmark.
type run struct {
	*world
	clusters, foreign int
	// window is how long settled clusters are watched, and short how long they are with foreign pods and without.
	window, short time.Duration

	m          *manager
	idle, full memory
	phases     map[string]figures
	rows       [][]string
}

func (r *run) all() {
	r.phases = map[string]figures{}
	r.memoryLimit = fmt.Sprintf("%dMiB", max(256, r.clusters)) // That of the Deployment, and more where docs/install.md asks for more.
	r.m = r.startManager("--leader-elect=false")
	r.untilUp(r.m)
	r.pause(min(5*time.Second, r.short))
	r.idle = r.memory(r.m)
	r.tell("memory without clusters: %s", r.idle)
	r.measureCreation()
	r.measureSettled("settled", r.window)
	r.full = r.memory(r.m)
	n := float64(r.clusters)
	r.tell("memory with %d clusters: %s", r.clusters, r.full)
	r.tell("of that for each cluster: heap %.1f KiB, resident %.1f KiB", (r.full.heap-r.idle.heap)/1024/n, (r.full.resident-r.idle.resident)/1024/n)
	r.profile(r.m, "heap?gc=1", "heap.pprof")
	r.measureStorm()
	r.measureChange()
	r.measureForeign()
	r.measureColdStart()
	r.measureHandOver()
	r.write()
}

// tell prints a figure.
func (r *run) tell(format string, args ...any) {
	r.tb.Helper()
	r.progress("FIGURE "+format, args...)
}

// phase measures what happens while a function runs.
func (r *run) phase(name string, do func()) {
	r.tb.Helper()
	before := r.scrape(r.m)
	do()
	f := between(before, r.scrape(r.m))
	r.phases[name] = f
	r.tell("%s: %s", name, f)
	row := []string{name}
	for _, v := range []float64{f.seconds, f.passes, f.queue50, f.queue99, f.reconcile50, f.reconcile99, f.reads, f.writes, f.cpu} {
		row = append(row, strconv.FormatFloat(v, 'g', 5, 64))
	}
	r.rows = append(r.rows, row)
}

// withProfile takes a profile of the CPU meanwhile, if it is asked for.
func (r *run) withProfile(name string, seconds int) (wait func()) {
	if !*profileFlag {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.profile(r.m, fmt.Sprintf("profile?seconds=%d", seconds), name)
	}()
	return func() { <-done }
}

// untilUp waits until a manager serves its metrics.
func (r *run) untilUp(m *manager) {
	r.tb.Helper()
	for range 600 {
		if _, err := scrape(r.ctx, m.metrics); err == nil {
			return
		}
		r.pause(50 * time.Millisecond)
	}
	log, _ := os.ReadFile(r.log) // It is for the message.
	r.tb.Fatalf("the manager does not start:\n%s", log[max(0, len(log)-2000):])
}

func (r *run) measureCreation() {
	r.tb.Helper()
	wait := r.withProfile("create.cpu.pprof", 30)
	r.phase("created", func() {
		r.world.all(r.clusters, func(i int) error { return r.Create(r.ctx, clusterOf(i)) })
		r.progress("%d clusters are made", r.clusters)
		took := r.untilReady(r.clusters, patience)
		r.tell("all %d clusters are Ready %.0f s after the last one was made", r.clusters, took.Seconds())
	})
	wait()
}

// measureSettled watches clusters that have nothing to do, once they have come to rest.
func (r *run) measureSettled(name string, window time.Duration) {
	r.tb.Helper()
	r.untilAtRest()
	wait := r.withProfile(name+".cpu.pprof", int(window.Seconds()))
	r.phase(name, func() { r.pause(window) })
	wait()
}

// look is within which every cluster is looked at once.
const look = 16 * time.Second

// untilAtRest waits until every cluster has been looked at and nothing was written. What is told about a cluster that is Ready comes later.
func (r *run) untilAtRest() {
	r.tb.Helper()
	for range 20 {
		before := r.scrape(r.m)
		r.pause(look)
		if between(before, r.scrape(r.m)).writes == 0 {
			return
		}
	}
	r.progress("the clusters do not come to rest")
}

// measureStorm touches the status of every pod, as a network that comes and goes would.
func (r *run) measureStorm() {
	r.tb.Helper()
	var pods corev1.PodList
	if err := r.kubelet.cache.List(r.ctx, &pods); err != nil {
		r.tb.Fatal(err)
	}
	wait := r.withProfile("storm.cpu.pprof", 15)
	r.phase("storm", func() {
		r.world.all(len(pods.Items), func(i int) error {
			next := pods.Items[i].DeepCopy()
			next.Status.Message = "touched"
			return client.IgnoreNotFound(r.Status().Patch(r.ctx, next, client.MergeFrom(&pods.Items[i])))
		})
		r.pause(min(20*time.Second, r.short))
	})
	wait()
	r.tell("the storm was a change of the status of %d pods", len(pods.Items))
}

// measureChange changes the specification of every tenth cluster.
func (r *run) measureChange() {
	r.tb.Helper()
	r.phase("changed", func() {
		r.world.all(r.clusters, func(i int) error {
			if i/2%10 != 0 { // Of both kinds alike.
				return nil
			}
			o := clusterOf(i)
			if err := r.Get(r.ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			before, _ := o.DeepCopyObject().(client.Object)
			grow(o)
			return r.Patch(r.ctx, o, client.MergeFrom(before))
		})
		r.pause(time.Second) // Until the change has been seen.
		took := r.untilReady(r.clusters, patience)
		r.tell("all clusters are Ready again %.0f s after every tenth one was grown", took.Seconds())
	})
}

// measureForeign makes pods of somebody else, in the same namespaces.
func (r *run) measureForeign() {
	r.tb.Helper()
	r.measureSettled("before foreign pods", r.short)
	before := r.memory(r.m)
	r.world.all(r.foreign, func(i int) error {
		return r.Create(r.ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("foreign-%d", i), Labels: map[string]string{"app": "other"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/other:1"}}},
		})
	})
	r.measureSettled("with foreign pods", r.short)
	after := r.memory(r.m)
	r.tell("%d foreign pods: heap %+.1f KiB, resident %+.1f KiB", r.foreign, (after.heap-before.heap)/1024, (after.resident-before.resident)/1024)
}

// measureColdStart starts the manager again.
func (r *run) measureColdStart() {
	r.tb.Helper()
	r.m.stop(syscall.SIGTERM)
	r.m = r.startManager("--leader-elect=false")
	r.untilUp(r.m)
	r.tell("cold start: %.1f s until all %d clusters were seen", r.untilSeen(r.m, r.clusters, r.m.began).Seconds(), r.clusters)
	r.pause(min(10*time.Second, r.short))
	r.tell("memory after a cold start: %s", r.memory(r.m))
	r.m.stop(syscall.SIGTERM)
}

// untilSeen waits until a manager has passed over so many different clusters.
func (r *run) untilSeen(m *manager, clusters int, since time.Time) time.Duration {
	r.tb.Helper()
	for time.Since(since) < patience {
		if s, err := scrape(r.ctx, m.metrics); err == nil && s.seen() >= clusters {
			return s.at.Sub(since)
		}
		r.pause(100 * time.Millisecond)
	}
	r.tb.Fatalf("not all clusters were seen in %s", patience)
	return 0
}

// measureHandOver ends the manager that leads while another one waits: by asking it to, and without.
func (r *run) measureHandOver() {
	r.tb.Helper()
	const lead = "--leader-election-namespace=default"
	first := r.startManager(lead)
	r.untilSeen(first, r.clusters, time.Now())
	for signal, how := range map[syscall.Signal]string{syscall.SIGTERM: "was asked to stop", syscall.SIGKILL: "was killed"} {
		second := r.startManager(lead)
		r.untilUp(second)
		r.pause(min(20*time.Second, 5*r.short)) // Its cache is warm by then.
		r.tell("memory of a manager that waits: %s", r.memory(second))
		ended := time.Now()
		first.stop(signal)
		one := r.untilSeen(second, 1, ended)
		all := r.untilSeen(second, r.clusters, ended)
		r.tell("hand-over: %.1f s after the leader %s the next one has seen its first cluster, after %.1f s all", one.Seconds(), how, all.Seconds())
		first = second
	}
	first.stop(syscall.SIGTERM)
}

// write writes the phases as a table.
func (r *run) write() {
	r.tb.Helper()
	f, err := os.Create(filepath.Join(r.out, "scale.csv"))
	if err != nil {
		r.tb.Fatal(err)
	}
	w := csv.NewWriter(f)
	header := []string{
		"phase", "seconds", "passes", "queue_p50_seconds", "queue_p99_seconds", "reconcile_p50_seconds", "reconcile_p99_seconds",
		"api_reads", "api_writes", "cpu_seconds",
	}
	if err := errors.Join(w.Write(header), w.WriteAll(r.rows), f.Close()); err != nil {
		r.tb.Fatal(err)
	}
}
