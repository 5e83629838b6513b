package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
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
	// size is how many pods it has.
	size int
	// struck is when something happened to it that may cost writes that were acknowledged just then.
	struck []time.Time
	// condition waits until a condition has a status, leads are the pods that lead, restamp asks for other pods, handOver has another pod lead by
	// the data store's own command, and choose for what a side stands for; nil: there is nothing to choose.
	condition func(ctx context.Context, name string, status metav1.ConditionStatus) error
	leads     func() []lead
	restamp   func(value string)
	handOver  func(ctx context.Context, from, to string) error
	choose    func(side string)
}

// lead is a pod that leads, and one that can lead instead.
type lead struct{ leader, heir string }

// ready waits until the cluster is Ready.
func (p *patient) ready(ctx context.Context) error {
	return p.condition(ctx, v1alpha1.ConditionReady, metav1.ConditionTrue)
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
		Image: image, Namespace: ns, Mode: mode, Cluster: p.object.GetName(), Rate: writes, Node: harness.ControlPlane, Flags: []string{"-look-back"},
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

// well waits until the cluster is Ready in the eyes of an operator that has nothing to do, all of its pods are, and writes are acknowledged.
func (p *patient) well() {
	p.b.Helper()
	ctx := p.b.Context()
	operators(p.b, 1)
	time.Sleep(settling / 2) // It has looked at the cluster by then.
	if err := errors.Join(p.ready(ctx), p.condition(ctx, v1alpha1.ConditionReconciling, metav1.ConditionFalse)); err != nil {
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
	p.struck = append(p.struck, time.Now())
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

// stop has the process of a pod stand still, as when its node hangs. It may have been ended before it could go on.
func (p *patient) stop(ctx context.Context, pod *corev1.Pod) error {
	if err := kind.Signal(ctx, pod, p.container, "SIGSTOP"); err != nil {
		return err
	}
	time.Sleep(standing)
	err := kind.Signal(context.WithoutCancel(ctx), pod, p.container, "SIGCONT")
	now := &corev1.Pod{}
	unread := kind.Get(ctx, client.ObjectKeyFromObject(pod), now)
	if apierrors.IsNotFound(unread) || (unread == nil && (now.UID != pod.UID || now.DeletionTimestamp != nil)) {
		return nil
	}
	return errors.Join(err, unread)
}

// The sides of a benchmark of waits.
const (
	bare   = "no operator"
	byHand = "by hand"
	ours   = "quorate"
	// replacing is an operator that does not wait for a dead primary of Redis.
	replacing = "quorate, deadPrimary: Replace"
)

var sides = []string{bare, ours}

// leaderless has something happen to a leader in turns, without an operator and with one.
func (p *patient) leaderless(t *table, what string, happens func(ctx context.Context, pod *corev1.Pod) error, sides ...string) {
	for n := range rounds(p.b) {
		for _, side := range sides {
			p.take(side)
			pod := p.leader(n)
			if side == bare {
				operators(p.b, 0)
			}
			gap := p.gap(func(ctx context.Context) error { return happens(ctx, pod) })
			t.add(n, figures.Figure{What: what, Side: side, Unit: "ms", Value: gap})
			if gap >= float64(standing.Milliseconds()) { // Why is in logs that end with the pods.
				fmt.Printf("nobody has taken over from %s for so long:\n%s\n", pod.Name, kind.Dump(p.b.Context(), p.object.GetNamespace()))
			}
			p.afresh(pod)
		}
	}
}

// take has the cluster be what a side stands for. An operator has to hear of it, which leader waits for.
func (p *patient) take(side string) {
	p.b.Helper()
	if p.choose == nil {
		return
	}
	p.well()
	before := p.object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is a copy of one.
	p.choose(side)
	if err := kind.Patch(p.b.Context(), p.object, client.MergeFrom(before)); err != nil {
		p.b.Fatal(err)
	}
}

// leader is a pod that leads a cluster that is well, of several another one in each round.
func (p *patient) leader(round int) *corev1.Pod {
	p.b.Helper()
	p.well()
	leads := p.leads()
	return p.pod(leads[round%len(leads)].leader)
}

func (p *patient) pod(name string) *corev1.Pod {
	p.b.Helper()
	pod := &corev1.Pod{}
	if err := kind.Get(p.b.Context(), client.ObjectKey{Namespace: p.object.GetNamespace(), Name: name}, pod); err != nil {
		p.b.Fatal(err)
	}
	return pod
}

// plugin builds kubectl-quorate, before there is a cluster that would keep the processors busy.
func plugin(b *testing.B) (program string) {
	b.Helper()
	program = filepath.Join(b.TempDir(), "kubectl-quorate")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", program, "github.com/quorate/quorate/cmd/kubectl-quorate")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the plugin: %v: %s", err, out)
	}
	return program
}

// switches has another pod lead in turns, by the data store's own command and by that of the plugin. Either waits until it does; that primaries
// are spread over the nodes once more after that is part of the gap, where there is an operator.
func (p *patient) switches(t *table, what, program string) {
	promote := func(ctx context.Context, _, to string) error {
		gvk, err := kind.GroupVersionKindFor(p.object)
		if err != nil {
			return err
		}
		args := []string{"--kubeconfig", kind.Kubeconfig, "-n", p.object.GetNamespace(), "promote", gvk.Kind + "/" + p.object.GetName(), to}
		if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	for n := range rounds(p.b) {
		for _, side := range []string{bare, ours} {
			p.well()
			leads := p.leads()
			one, act := leads[n%len(leads)], promote
			if side == bare {
				operators(p.b, 0)
				act = p.handOver
			}
			t.add(n, figures.Figure{What: what, Side: side, Unit: "ms", Value: p.gap(func(ctx context.Context) error { return act(ctx, one.leader, one.heir) })})
			p.well()
		}
	}
}

// etcd is a client of one member. The caller closes it.
func (p *patient) etcd(ctx context.Context, pod string) *clientv3.Client {
	p.b.Helper()
	conn, _, err := kind.Connection(ctx, p.object.GetNamespace(), p.object.GetName())
	if err != nil {
		p.b.Fatal(err)
	}
	c, err := kind.Etcd(ctx, p.object.GetNamespace(), pod, conn)
	if err != nil {
		p.b.Fatal(err)
	}
	return c
}

// moveLeader is etcdctl move-leader.
func (p *patient) moveLeader(ctx context.Context, from, to string) error {
	c := p.etcd(ctx, from)
	defer func() { _ = c.Close() }()
	members, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members.Members, func(m *etcdserverpb.Member) bool { return m.Name == to })
	if i < 0 {
		return fmt.Errorf("there is no member %s", to)
	}
	_, err = c.MoveLeader(ctx, members.Members[i].ID)
	return err
}

// comesBack deletes a pod that leads, and tells how long it takes until it is ready, and until all copies of the data are there again.
func (p *patient) comesBack(t *table, what string) {
	for n := range rounds(p.b) {
		pod := p.leader(n)
		ctx := p.b.Context()
		began := time.Now()
		if err := p.replace(ctx, pod); err != nil {
			p.b.Fatal(err)
		}
		t.add(n, figures.Figure{What: what, Side: "the pod is ready", Unit: "s", Value: time.Since(began).Seconds()})
		if err := p.whole(ctx); err != nil {
			p.b.Fatal(err)
		}
		t.add(n, figures.Figure{What: what, Side: "all copies are there", Unit: "s", Value: time.Since(began).Seconds()})
	}
}

// replaces takes the disk of a pod that does not lead away, with all that is on it, and compares that with a pod that keeps its disk.
func (p *patient) replaces(t *table, what string) {
	for n := range rounds(p.b) {
		for _, side := range []string{"the disk stays", "the disk is lost"} {
			p.well()
			leads := p.leads()
			pod := p.pod(leads[n%len(leads)].heir)
			ctx := p.b.Context()
			began := time.Now()
			var err error
			if side == "the disk is lost" {
				err = p.replaceDisk(ctx, pod)
			} else {
				err = errors.Join(p.replace(ctx, pod), p.whole(ctx))
			}
			if err != nil {
				p.b.Fatal(err)
			}
			t.add(n, figures.Figure{What: what, Side: side, Unit: "s", Value: time.Since(began).Seconds()})
		}
	}
}

// filling is how much data is written before a disk is lost, in values of one MiB.
const filling = 1024

// fill writes values, eight at a time.
func fill(ctx context.Context, write func(ctx context.Context, i int, value string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	const writers = 8
	for w := range writers {
		group.Go(func() error {
			noise := rand.NewChaCha8([32]byte{byte(w)})
			value := make([]byte, 1<<20)
			for i := w; i < filling; i += writers {
				_, _ = noise.Read(value) // It never fails.
				if err := write(ctx, i, string(value)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (p *patient) fillEtcd() {
	p.b.Helper()
	ctx := p.b.Context()
	c := p.etcd(ctx, p.leads()[0].leader)
	defer func() { _ = c.Close() }()
	err := fill(ctx, func(ctx context.Context, i int, value string) error {
		_, err := c.Put(ctx, fmt.Sprintf("filling/%04d", i), value)
		return err
	})
	if err != nil {
		p.b.Fatal(err)
	}
}

// fillRedis fills every shard.
func (p *patient) fillRedis() {
	p.b.Helper()
	ctx := p.b.Context()
	conn, _, err := kind.Connection(ctx, p.object.GetNamespace(), p.object.GetName())
	if err != nil {
		p.b.Fatal(err)
	}
	for _, l := range p.leads() {
		c, err := kind.Redis(p.object.GetNamespace(), l.leader, conn)
		if err != nil {
			p.b.Fatal(err)
		}
		// A key has to be of a slot of the shard: what others refuse is skipped, so that all shards together hold the filling.
		err = fill(ctx, func(ctx context.Context, i int, value string) error {
			err := c.Set(ctx, fmt.Sprintf("filling/%04d", i), value, 0).Err()
			if _, moved := goredis.IsMovedError(err); moved {
				return nil
			}
			return err
		})
		if err := errors.Join(err, c.Close()); err != nil {
			p.b.Fatal(err)
		}
	}
}

// whole waits until the operator says of the cluster as it is now that nothing is missing.
func (p *patient) whole(ctx context.Context) error {
	return harness.Eventually(ctx, "all copies to be there", readyTimeout, func(ctx context.Context) (bool, string, error) {
		if err := p.ready(ctx); err != nil {
			return false, "it is not Ready", err
		}
		pods, err := kind.Pods(ctx, p.object.GetNamespace(), p.object.GetName(), p.component)
		well := len(pods) == p.size && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || !harness.IsReady(&p) })
		return well, fmt.Sprintf("%d pods", len(pods)), err
	})
}

// loses stops a node for good, and tells how long it takes until all copies of the data are there again, on those that are left.
func (p *patient) loses(t *table, what string) {
	for n := range rounds(p.b) {
		p.well()
		ctx := p.b.Context()
		nodes, err := kind.Nodes(ctx)
		if err != nil {
			p.b.Fatal(err)
		}
		node := nodes[1+n%(len(nodes)-1)] // The first has the API server.
		if err := kind.Vacate(ctx, node); err != nil {
			p.b.Fatal(err)
		}
		p.well() // The operator may have moved.
		lost, err := p.on(ctx, node)
		if err != nil {
			p.b.Fatal(err)
		}
		began := time.Now()
		p.struck = append(p.struck, began)
		if err = kind.StopNode(ctx, node); err == nil {
			err = p.off(ctx, node)
		}
		took := time.Since(began)
		started := kind.StartNode(ctx, node)
		_, uncordoned := kind.Run(ctx, "uncordon", node)
		if err := errors.Join(err, started, uncordoned); err != nil {
			p.b.Fatalf("%v\n%s", err, kind.Dump(ctx, p.object.GetNamespace()))
		}
		t.add(n, figures.Figure{What: what, Side: ours, Unit: "s", Value: took.Seconds()})
		p.spread(lost)
	}
}

// on are the pods on a node.
func (p *patient) on(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := kind.Pods(ctx, p.object.GetNamespace(), p.object.GetName(), p.component)
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != node }), err
}

// spread gives new disks to pods that have moved, so that the scheduler puts them on the node that is empty now. Another one would be lost with too
// many of them.
func (p *patient) spread(moved []corev1.Pod) {
	p.b.Helper()
	for i := range moved {
		p.well()
		p.struck = append(p.struck, time.Now())
		if err := p.replaceDisk(p.b.Context(), p.pod(moved[i].Name)); err != nil {
			p.b.Fatal(err)
		}
	}
}

// replaceDisk has another pod with another disk take the place of one.
func (p *patient) replaceDisk(ctx context.Context, pod *corev1.Pod) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta(pod.Namespace, cluster.VolumeData+"-"+pod.Name)}
	return errors.Join(kind.Delete(ctx, claim), p.replace(ctx, pod), p.whole(ctx))
}

// off waits until no pod is on a node any more, and all are well elsewhere.
func (p *patient) off(ctx context.Context, node string) error {
	err := harness.Eventually(ctx, "all pods to leave "+node, readyTimeout, func(ctx context.Context) (bool, string, error) {
		there, err := p.on(ctx, node)
		return len(there) == 0, fmt.Sprintf("%d pods are there", len(there)), err
	})
	if err != nil {
		return err
	}
	return p.whole(ctx)
}

// afresh has another pod take the place of one whose process was killed: Kubernetes would wait longer each time before it starts that again.
func (p *patient) afresh(pod *corev1.Pod) {
	p.b.Helper()
	if harness.IncarnationOf(p.pod(pod.Name)) == harness.IncarnationOf(pod) {
		return
	}
	operators(p.b, 1)
	if err := p.replace(p.b.Context(), pod); err != nil {
		p.b.Fatal(err)
	}
}

// restarts has all pods restarted in turns, one after the other, by hand and by the operator, and tells how long the client had to wait and
// how long it took.
func (p *patient) restarts(t *table, what string) {
	for n := range rounds(p.b) {
		for _, side := range []string{byHand, ours} {
			p.well()
			restart := func(ctx context.Context) error { return p.rollOut(ctx, fmt.Sprint(n)) }
			if side == byHand {
				operators(p.b, 0)
				restart = p.restartByHand
			}
			var took time.Duration
			gap := p.gap(func(ctx context.Context) error {
				began := time.Now()
				err := restart(ctx)
				took = time.Since(began)
				return err
			})
			t.add(n, figures.Figure{What: what + ": longest time without an acknowledged write", Side: side, Unit: "ms", Value: gap})
			t.add(n, figures.Figure{What: what + ": until all pods are new", Side: side, Unit: "s", Value: took.Seconds()})
		}
	}
}

// rollOut asks for other pods, and waits until all are.
func (p *patient) rollOut(ctx context.Context, value string) error {
	before := p.object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is a copy of one.
	p.restamp(value)
	if err := kind.Patch(ctx, p.object, client.MergeFrom(before)); err != nil {
		return err
	}
	return harness.Eventually(ctx, "all pods to be restarted", readyTimeout, func(ctx context.Context) (bool, string, error) {
		pods, err := kind.Pods(ctx, p.object.GetNamespace(), p.object.GetName(), p.component)
		left := slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Annotations[stamp] == value && harness.IsReady(&p) })
		return len(left) == 0, fmt.Sprintf("%d are left", len(left)), err
	})
}

// restartByHand does what a careful person does without an operator: a pod at a time, each when the one before is ready, and those that
// lead at last, when another one has taken over.
func (p *patient) restartByHand(ctx context.Context) error {
	pods, err := kind.Pods(ctx, p.object.GetNamespace(), p.object.GetName(), p.component)
	if err != nil {
		return err
	}
	leads, leaders := p.leads(), map[string]*corev1.Pod{}
	for _, pod := range pods {
		if slices.ContainsFunc(leads, func(l lead) bool { return l.leader == pod.Name }) {
			leaders[pod.Name] = &pod
			continue
		}
		if err := p.replace(ctx, &pod); err != nil {
			return err
		}
	}
	for _, l := range leads {
		if err := p.handOver(ctx, l.leader, l.heir); err != nil {
			return err
		}
		if err := p.replace(ctx, leaders[l.leader]); err != nil {
			return err
		}
	}
	return nil
}

// replace deletes a pod, and waits until the next one of its name is ready.
func (p *patient) replace(ctx context.Context, pod *corev1.Pod) error {
	if err := kind.Delete(ctx, pod); err != nil {
		return err
	}
	_, err := kind.WaitReborn(ctx, pod, readyTimeout)
	return err
}

// costs tells whether a write that was acknowledged then may be lost: just before, or while, something happened to who took it.
func (p *patient) costs(acked time.Time) bool {
	return slices.ContainsFunc(p.struck, func(t time.Time) bool { return acked.After(t.Add(-time.Second)) && acked.Before(t.Add(settling)) })
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }

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
	unexplained := slices.DeleteFunc(slices.Clone(s.Losses), func(l ledger.Loss) bool { return !lossless && p.costs(time.UnixMilli(l.AckedMs)) })
	for _, l := range unexplained {
		fmt.Printf("lost: %s, acknowledged %s, seen %s, missed %s\n", l.Key, clock(l.AckedMs), clock(l.SeenMs), clock(l.MissedMs))
	}
	if len(unexplained)+s.Stale > 0 {
		p.b.Errorf("%d acknowledged writes are lost that must not be\n%s", len(unexplained)+s.Stale, kind.Dump(p.b.Context(), p.object.GetNamespace()))
	}
	for _, sum := range figures.Summarize(t.all) {
		fmt.Printf("FIGURE %s: %s\n", sum.What, sum)
	}
	p.b.ReportMetric(0, "ns/op")
}
