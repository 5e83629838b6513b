// Package bench measures the operator against a floor: what Kubernetes and the data store need when nobody manages them.
// Both are measured in turns in the same run, because machines differ more than operators do.
package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/bench/figures"
	"github.com/quorate/quorate/test/harness"
	"github.com/quorate/quorate/test/need"
)

// readyTimeout is how long anything measured here may take.
const readyTimeout = 5 * time.Minute

// goal is the ratio that we aim at. It is printed and never asserted.
const goal = 1.3

var kind *harness.Cluster

func TestMain(m *testing.M) {
	if err := harness.NoCluster(); err != nil {
		os.Exit(need.Exit(err))
	}
	ctx := context.Background()
	var err error
	if kind, err = harness.Connect(ctx); err == nil {
		err = kind.Deploy(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// side is one of the two things compared: start makes it in a namespace and returns when it is ready.
type side struct {
	name  string
	start func(ctx context.Context, ns string) error
}

// rounds is how often everything is measured: BENCH_ROUNDS, by default 10.
func rounds(b *testing.B) int {
	b.Helper()
	text := os.Getenv("BENCH_ROUNDS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("BENCH_ROUNDS=%s: use a number from 1", text)
	}
	return n
}

// table keeps what a benchmark measures, and every figure of it in bin/bench.
type table struct {
	b    *testing.B
	file *figures.File
	all  []figures.Figure
}

func newTable(b *testing.B) *table {
	b.Helper()
	file, err := figures.Create(filepath.Join(kind.Root, "bin", "bench"), strings.TrimPrefix(b.Name(), "Benchmark"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = file.Close() }) // Every figure is written at once.
	return &table{b: b, file: file}
}

func (t *table) add(round int, f figures.Figure) {
	t.b.Helper()
	fmt.Printf("%s round %d: %s: %s %.4g %s\n", t.b.Name(), round+1, f.What, f.Side, f.Value, f.Unit)
	if err := t.file.Add(f); err != nil {
		t.b.Fatal(err)
	}
	t.all = append(t.all, f)
}

// compare measures floor and ours in turns, reports medians and their ratio, and keeps every figure. A first round of ours warms up: it is
// the same for both after that.
func compare(b *testing.B, what string, floor, ours side) {
	b.Helper()
	t := newTable(b)
	fmt.Printf("%s warm-up: %.2f s\n", b.Name(), measure(b, ours).Seconds())
	for n := range rounds(b) {
		for _, s := range []side{floor, ours} {
			t.add(n, figures.Figure{What: what, Side: s.name, Unit: "s", Value: measure(b, s).Seconds()})
		}
	}
	sums := figures.Summarize(t.all)
	f, o := sums[0], sums[1]
	fmt.Printf("FIGURE %s: %s; %s; ratio of the medians %.2f (goal %.1f)\n", what, f, o, o.Median/f.Median, goal)
	b.ReportMetric(f.Median, "s/floor")
	b.ReportMetric(o.Median, "s/quorate")
	b.ReportMetric(o.Median/f.Median, "ratio")
	b.ReportMetric(0, "ns/op")
}

// measure times one start, in a namespace of its own that is removed afterwards.
func measure(b *testing.B, s side) time.Duration {
	b.Helper()
	ctx := b.Context()
	ns, err := kind.NewNamespace(ctx, "bench-"+s.name)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	err = s.start(ctx, ns)
	took := time.Since(began)
	if err != nil {
		b.Fatalf("%s: %v\n%s", s.name, err, kind.Dump(ctx, ns))
	}
	if err := kind.DeleteNamespace(ctx, ns); err != nil {
		b.Fatal(err)
	}
	return took
}

// ready creates a cluster and waits until its condition Ready is True.
func ready[O harness.Conditioned](ctx context.Context, o O) error {
	if err := kind.Create(ctx, o); err != nil {
		return err
	}
	return harness.WaitReady(ctx, kind, o, readyTimeout)
}

func meta(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

var oneGi = resource.MustParse("1Gi")

// storage leaves the deletion policy open, as the floor does: with Delete, the StatefulSet controller adds an owner to
// each claim just when the scheduler wants to bind it, and the loser of the two tries again a second or two later.
func storage() *v1alpha1.StorageSpec { return &v1alpha1.StorageSpec{Size: oneGi} }

func version(b *testing.B, key string) string {
	b.Helper()
	v, err := kind.Version(key)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// claim is the volume that every server gets, as it is in our StatefulSets.
func claim() corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: oneGi}},
		},
	}
}
