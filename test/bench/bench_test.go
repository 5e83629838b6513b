// Package bench measures the operator against a floor: what Kubernetes and the data store need when nobody manages them.
// Both are measured in turns in the same run, because machines differ more than operators do.
package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// readyTimeout is how long anything measured here may take.
const readyTimeout = 5 * time.Minute

// goal is the ratio that we aim at. It is printed and never asserted.
const goal = 1.3

var kind *harness.Cluster

func TestMain(m *testing.M) {
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

// compare measures floor and ours in turns, BENCH_ROUNDS times (default 5) for every iteration of the benchmark, and
// reports medians and their ratio. A first round of ours warms up: it is the same for both after that.
func compare(b *testing.B, floor, ours side) {
	b.Helper()
	rounds := 5
	if text := os.Getenv("BENCH_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			b.Fatalf("BENCH_ROUNDS=%s: use a number from 1", text)
		}
	}
	took := map[string][]time.Duration{}
	fmt.Printf("%s warm-up: %.2f s\n", b.Name(), measure(b, ours).Seconds())
	for range b.N {
		for n := range rounds {
			for _, s := range []side{floor, ours} {
				d := measure(b, s)
				took[s.name] = append(took[s.name], d)
				fmt.Printf("%s round %d: %s %.2f s\n", b.Name(), n+1, s.name, d.Seconds())
			}
		}
	}
	f, o := median(took[floor.name]), median(took[ours.name])
	ratio := o.Seconds() / f.Seconds()
	fmt.Printf("FIGURE %s: median of %d: %s %.2f s, %s %.2f s, ratio %.2f (goal %.1f); %s %s; %s %s\n", b.Name(), len(took[ours.name]),
		floor.name, f.Seconds(), ours.name, o.Seconds(), ratio, goal,
		floor.name, list(took[floor.name]), ours.name, list(took[ours.name]))
	b.ReportMetric(f.Seconds(), "s/floor")
	b.ReportMetric(o.Seconds(), "s/quorate")
	b.ReportMetric(ratio, "ratio")
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

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	n := len(d)
	return (d[(n-1)/2] + d[n/2]) / 2
}

func list(d []time.Duration) string {
	var b strings.Builder
	for i, x := range d {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.2f", x.Seconds())
	}
	return b.String()
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
