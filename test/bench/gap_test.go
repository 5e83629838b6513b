package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/bench/figures"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/harness"
)

const (
	// writes per second: the time without one is measured to a few milliseconds.
	writes = 200
	// settling is how long a client is watched after everything has come back.
	settling = 8 * time.Second
	// stamp is an annotation of pods whose change restarts them, one after the other.
	stamp = "example.com/stamp"
)

// patient is a cluster that something is done to while a client writes. Its floor is the same cluster while no operator runs: what the data
// store and Kubernetes do by themselves.
type patient struct {
	b                    *testing.B
	object               client.Object
	component, container string
	load                 *harness.Load
	// ready waits until the condition Ready is True, leads are the pods that lead, restamp asks for other pods.
	ready   func(ctx context.Context) error
	leads   func() []string
	restamp func(value string)
}

// newPatient makes a cluster and begins to write to it.
func newPatient(b *testing.B, p *patient, mode string) *patient {
	b.Helper()
	ctx := b.Context()
	p.b = b
	operators(b, 1)
	ns, err := kind.NewNamespace(ctx, "bench-gap")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := kind.DeleteNamespace(context.WithoutCancel(ctx), ns); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { operators(b, 1) })
	p.object.SetNamespace(ns)
	if err := kind.Create(ctx, p.object); err != nil {
		b.Fatal(err)
	}
	if err := p.ready(ctx); err != nil {
		b.Fatalf("%v\n%s", err, kind.Dump(ctx, ns))
	}
	image, err := kind.BuildLoad(ctx)
	if err != nil {
		b.Fatal(err)
	}
	p.load, err = kind.StartLoad(ctx, harness.LoadOptions{
		Image: image, Namespace: ns, Mode: mode, Cluster: p.object.GetName(), Rate: writes, Node: harness.ControlPlane,
	})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// operators has so many operators run.
func operators(b *testing.B, n int32) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: harness.Manager}}
	if err := kind.Patch(ctx, d, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))); err != nil {
		b.Fatal(err)
	}
	err := harness.Eventually(ctx, fmt.Sprintf("%d operators", n), readyTimeout, func(ctx context.Context) (bool, string, error) {
		pods, err := kind.ManagerPods(ctx)
		well := !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !harness.IsReady(&p) || p.DeletionTimestamp != nil })
		return len(pods) == int(n) && well, fmt.Sprintf("there are %d", len(pods)), err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// well waits until the cluster is Ready in the eyes of an operator, all of its pods are, and writes are acknowledged.
func (p *patient) well() {
	p.b.Helper()
	ctx := p.b.Context()
	operators(p.b, 1)
	time.Sleep(settling / 2) // It has looked at the cluster by then.
	if err := p.ready(ctx); err != nil {
		p.b.Fatal(err)
	}
	err := harness.Eventually(ctx, "all pods to be ready", readyTimeout, func(ctx context.Context) (bool, string, error) {
		pods, err := kind.Pods(ctx, p.object.GetNamespace(), p.object.GetName(), p.component)
		well := !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !harness.IsReady(&p) })
		return well, fmt.Sprintf("%d pods", len(pods)), err
	})
	if err != nil {
		p.b.Fatal(err)
	}
	if _, err := p.load.WaitAcked(ctx, writes, time.Minute); err != nil {
		p.b.Fatal(err)
	}
}

// gap is the longest time without an acknowledged write while something happens, of the shard that has to bear it.
func (p *patient) gap(happens func(ctx context.Context) error) float64 {
	p.b.Helper()
	ctx := p.b.Context()
	if err := p.load.Afresh(ctx); err != nil {
		p.b.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := happens(ctx); err != nil {
		p.b.Fatalf("%v\n%s", err, kind.Dump(ctx, p.object.GetNamespace()))
	}
	time.Sleep(settling)
	s, err := p.load.Progress(ctx)
	if err != nil {
		p.b.Fatal(err)
	}
	longest := s.LongestStallMs
	for _, ms := range s.LaneStallMs {
		longest = max(longest, ms)
	}
	return float64(longest)
}

// kill ends the process of a pod with SIGKILL, and waits until it is back.
func (p *patient) kill(ctx context.Context, pod *corev1.Pod) error {
	if err := kind.KillProcess(ctx, pod, p.container); err != nil {
		return err
	}
	_, err := kind.WaitReborn(ctx, pod, readyTimeout)
	return err
}

// standing is how long a process stands still that is to be given up by the others.
const standing = 10 * time.Second

// stop has the process of a pod stand still, as when its node hangs.
func (p *patient) stop(ctx context.Context, pod *corev1.Pod) error {
	if err := kind.Signal(ctx, pod, p.container, "SIGSTOP"); err != nil {
		return err
	}
	time.Sleep(standing)
	return kind.Signal(context.WithoutCancel(ctx), pod, p.container, "SIGCONT")
}

// leaderless has something happen to a leader in turns, without an operator and with one.
func (p *patient) leaderless(t *table, what string, happens func(ctx context.Context, pod *corev1.Pod) error) {
	for n := range rounds(p.b) {
		for _, side := range []string{"no operator", "quorate"} {
			p.well()
			leads := p.leads()
			pod := &corev1.Pod{}
			if err := kind.Get(p.b.Context(), client.ObjectKey{Namespace: p.object.GetNamespace(), Name: leads[n%len(leads)]}, pod); err != nil {
				p.b.Fatal(err)
			}
			if side != "quorate" {
				operators(p.b, 0)
			}
			t.add(n, figures.Figure{What: what, Side: side, Unit: "ms", Value: p.gap(func(ctx context.Context) error { return happens(ctx, pod) })})
			p.afresh(pod)
		}
	}
}

// afresh has another pod take the place of one whose process was killed: Kubernetes would wait longer each time before it starts that again.
func (p *patient) afresh(pod *corev1.Pod) {
	p.b.Helper()
	operators(p.b, 1)
	ctx := p.b.Context()
	if err := kind.Delete(ctx, pod); err != nil {
		p.b.Fatal(err)
	}
	if _, err := kind.WaitReborn(ctx, pod, readyTimeout); err != nil {
		p.b.Fatal(err)
	}
}

// restarts has all pods restarted, one after the other, and tells how long the client had to wait and how long it took.
func (p *patient) restarts(t *table, what string) {
	for n := range rounds(p.b) {
		p.well()
		var took time.Duration
		value := fmt.Sprint(n)
		gap := p.gap(func(ctx context.Context) error {
			began := time.Now()
			before := p.object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is a copy of one.
			p.restamp(value)
			if err := kind.Patch(ctx, p.object, client.MergeFrom(before)); err != nil {
				return err
			}
			err := harness.Eventually(ctx, "all pods to be restarted", readyTimeout, func(ctx context.Context) (bool, string, error) {
				pods, err := kind.Pods(ctx, p.object.GetNamespace(), p.object.GetName(), p.component)
				left := slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Annotations[stamp] == value && harness.IsReady(&p) })
				return len(left) == 0, fmt.Sprintf("%d are left", len(left)), err
			})
			took = time.Since(began)
			return err
		})
		t.add(n, figures.Figure{What: what + ": longest time without an acknowledged write", Side: "quorate", Unit: "ms", Value: gap})
		t.add(n, figures.Figure{What: what + ": until all pods are new", Side: "quorate", Unit: "s", Value: took.Seconds()})
	}
}

// report stops the client, insists that nothing is lost that must not be, and prints what was measured.
func (p *patient) report(t *table, lossless bool) {
	p.b.Helper()
	p.well()
	var s ledger.Summary
	var err error
	if s, err = p.load.Stop(p.b.Context()); err != nil {
		p.b.Fatal(err)
	}
	fmt.Println(s)
	if lossless && s.Lost+s.Stale > 0 {
		p.b.Errorf("%d acknowledged writes are lost", s.Lost+s.Stale)
	}
	for _, sum := range figures.Summarize(t.all) {
		fmt.Printf("FIGURE %s: %s\n", sum.What, sum)
	}
	p.b.ReportMetric(0, "ns/op")
}

// BenchmarkGapEtcd measures how long no write is acknowledged when the leader of three members is killed or stands still, and when all are
// restarted.
func BenchmarkGapEtcd(b *testing.B) {
	o := &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "etcd"},
		Spec:       v1alpha1.EtcdClusterSpec{Size: 3, Version: version(b, "ETCD_3_6"), Storage: storage()},
	}
	p := newPatient(b, &patient{
		object: o, component: v1alpha1.ComponentEtcd, container: "etcd",
		ready:   func(ctx context.Context) error { return harness.WaitReady(ctx, kind, o, readyTimeout) },
		leads:   func() []string { return []string{o.Status.Leader} },
		restamp: func(value string) { o.Spec.Template = stamped(value) },
	}, "etcd")
	t := newTable(b)
	p.leaderless(t, "the leader of etcd is killed", p.kill)
	p.leaderless(t, "the leader of etcd stands still for 10 s", p.stop)
	p.restarts(t, "three members of etcd are restarted one after the other")
	p.report(t, true)
}

// BenchmarkGapRedis measures the same for a primary of three shards with a replica each, and a node timeout of two seconds.
func BenchmarkGapRedis(b *testing.B) {
	o := &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "redis"},
		Spec: v1alpha1.RedisClusterSpec{
			Version: version(b, "REDIS_8_0"), Shards: shards, ReplicasPerShard: ptr.To[int32](1), Storage: storage(),
			Config: &v1alpha1.RedisConfig{NodeTimeout: &metav1.Duration{Duration: 2 * time.Second}},
		},
	}
	p := newPatient(b, &patient{
		object: o, component: v1alpha1.ComponentRedis, container: "redis",
		ready: func(ctx context.Context) error { return harness.WaitReady(ctx, kind, o, readyTimeout) },
		leads: func() (out []string) {
			for _, s := range o.Status.Shards {
				out = append(out, s.Primary)
			}
			return out
		},
		restamp: func(value string) { o.Spec.Template = stamped(value) },
	}, "redis")
	t := newTable(b)
	p.leaderless(t, "a primary of Redis is killed, node timeout 2 s", p.kill)
	p.leaderless(t, "a primary of Redis stands still for 10 s, node timeout 2 s", p.stop)
	p.restarts(t, "six servers of Redis are restarted one after the other")
	p.report(t, false)
}

func stamped(value string) *v1alpha1.PodTemplate {
	return &v1alpha1.PodTemplate{Annotations: map[string]v1alpha1.TemplateValue{stamp: v1alpha1.TemplateValue(value)}}
}
