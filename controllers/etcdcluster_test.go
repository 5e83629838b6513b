package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

var errCrash = errors.New("the operator crashed")

// stage is a Kubernetes without a kubelet and an etcd without a network, and the loop in between. It survives its
// operators: newOperator starts another one.
type stage struct {
	t *testing.T
	// api is the API server, cache what the operator sees of it: only what carries our labels.
	api   client.WithWatch
	cache client.WithWatch
	// others is the API server as everybody else uses it: their writes are not counted.
	others client.WithWatch
	net    *etcdfake.Network
	procs  map[string]*etcdfake.Process
	disks  map[string]*etcdfake.Disk
	// epochs are what volumes bear, aside is how often data was set aside, and led how many clusters may have led by now.
	epochs map[string]string
	aside  int
	led    int
	name   types.NamespacedName
	// writes counts all writes, crashAt is the one after which the operator crashes; 0: it does not.
	writes, crashAt int
	kinds           map[string]int
	// readyAt are the numbers of writes after which the cluster was Ready.
	readyAt []int
	// snapshots are how the next Backups end, one after the other; what is beyond them ends well. backups counts them.
	snapshots []string
	backups   int
	// log is what was written, in order.
	log []string
	// refusal is what the API server answers to the write refuseAt instead of carrying it out.
	refuseAt int
	refusal  error
	// vitals counts how often members were asked for their metrics, silent says that they serve none.
	vitals atomic.Int32
	silent bool
}

func newStage(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *stage {
	t.Helper()
	w := newWorld(t, append(more, o)...)
	s := &stage{
		t: t, net: etcdfake.New(), procs: map[string]*etcdfake.Process{}, disks: map[string]*etcdfake.Disk{},
		epochs: map[string]string{}, led: 1, name: client.ObjectKeyFromObject(o), kinds: map[string]int{},
	}
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	s.others = inner
	s.api = interceptor.NewClient(inner, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return s.write(fmt.Sprintf("%T", ac), func() error { return c.Apply(ctx, ac, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return s.write(fmt.Sprintf("create %T", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return s.write(fmt.Sprintf("patch %T", o), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.write(fmt.Sprintf("delete %T", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.write("status", func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	s.cache = interceptor.NewClient(s.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if _, ok := o.(*corev1.ConfigMap); ok && err == nil && o.GetLabels()[cluster.LabelManagedBy] != cluster.ManagedBy {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
			}
			return err
		},
	})
	return s
}

// write carries out a write, unless it is the one that is refused.
func (s *stage) write(what string, do func() error) error {
	if s.refuseAt > 0 && s.writes+1 == s.refuseAt {
		s.refuseAt = 0
		return s.refusal
	}
	return s.wrote(what, do())
}

// wrote counts a write that reached the API server. At the chosen one the operator never hears of it.
func (s *stage) wrote(what string, err error) error {
	if err != nil {
		return err
	}
	s.writes++
	s.kinds[what]++
	s.log = append(s.log, what)
	if s.writes == s.crashAt {
		return errCrash
	}
	return nil
}

func (s *stage) newOperator() *Loop[*v1alpha1.EtcdCluster, etcd.State] {
	children := newChildren(&world{Client: s.cache})
	children.Direct = s.api
	kind := NewEtcdKind(children)
	kind.upkeep = newUpkeep(0, func(run func()) { run() }) // The etcd in memory knows no two things at a time.
	kind.connect = func(cfg etcdclient.Config) memberClient {
		pod, _, _ := strings.Cut(cfg.Host, ".")
		return &lazyClient{s: s, pod: pod, tls: cfg.TLS != nil, root: etcdclient.IsRoot(cfg.TLS), password: cfg.Password, former: cfg.Former}
	}
	return &Loop[*v1alpha1.EtcdCluster, etcd.State]{Kind: kind, Client: s.api, Events: events.NewFakeRecorder(1000)}
}

// lazyClient finds the process of its pod at each call.
type lazyClient struct {
	users.Client
	s        *stage
	pod      string
	tls      bool
	root     bool
	password string
	former   string
}

func (l *lazyClient) c() *etcdfake.Client {
	return &etcdfake.Client{
		Network: l.s.net, Process: l.s.procs[l.pod], TLS: l.tls, Root: l.root, Password: l.password, Former: l.former,
		Crash: func() bool { return l.s.wrote("etcd", nil) != nil },
	}
}

func (l *lazyClient) Status(ctx context.Context) (etcd.View, error) { return l.c().Status(ctx) }

func (l *lazyClient) Members(ctx context.Context) ([]etcd.Member, error) { return l.c().Members(ctx) }

func (l *lazyClient) Auth(ctx context.Context, p string) (etcd.Auth, error) {
	return l.c().Auth(ctx, p)
}

func (l *lazyClient) EnableAuth(ctx context.Context, p string) error { return l.c().EnableAuth(ctx, p) }

func (l *lazyClient) SetRootPassword(ctx context.Context, p string) error {
	return l.c().SetRootPassword(ctx, p)
}

func (l *lazyClient) MoveLeader(ctx context.Context, to uint64) error {
	return l.c().MoveLeader(ctx, to)
}

func (l *lazyClient) AddLearner(ctx context.Context, url string) error {
	return l.s.wrote("add learner", l.c().AddLearner(ctx, url))
}

func (l *lazyClient) Promote(ctx context.Context, id uint64) error {
	return l.s.wrote("promote", l.c().Promote(ctx, id))
}

func (l *lazyClient) UpdatePeer(ctx context.Context, id uint64, url string) error {
	return l.s.wrote("update peer", l.c().UpdatePeer(ctx, id, url))
}

func (l *lazyClient) RemoveMember(ctx context.Context, id uint64) error {
	return l.s.wrote("remove member", l.c().RemoveMember(ctx, id))
}

func (l *lazyClient) Downgrade(ctx context.Context, v etcd.Version) error {
	return l.s.wrote("downgrade", l.c().Downgrade(ctx, v))
}

func (l *lazyClient) CancelDowngrade(ctx context.Context) error { return l.c().CancelDowngrade(ctx) }

func (l *lazyClient) ClusterVersion(ctx context.Context) (etcd.Version, error) {
	return l.c().ClusterVersion(ctx)
}

func (l *lazyClient) Close() error { return nil }

// kubelet makes claims and pods and starts what the gate lets start.
func (s *stage) kubelet() {
	s.t.Helper()
	ctx := s.t.Context()
	set := &appsv1.StatefulSet{}
	if err := s.api.Get(ctx, s.name, set); err != nil {
		return
	}
	cm := &corev1.ConfigMap{}
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.ConfigName(s.name.Name)}, cm); err != nil {
		return
	}
	record, err := etcd.ParseRecord(cm.Data)
	if err != nil {
		s.t.Fatal(err)
	}
	writes, log, crash, refuse := s.writes, s.log, s.crashAt, s.refuseAt
	s.crashAt, s.refuseAt = 0, 0
	defer func() { s.writes, s.log, s.crashAt, s.refuseAt = writes, log, crash, refuse }()
	s.endPods(int(*set.Spec.Replicas))
	s.runBackups()
	s.growVolumes()
	for i := range int(*set.Spec.Replicas) {
		s.runPod(set, record, i)
	}
	s.net.Settle()
}

// endPods takes the pods away that the set does not make any more, and the claims that are being deleted.
func (s *stage) endPods(replicas int) {
	s.t.Helper()
	for i := range etcd.MaxSize {
		name := cluster.Pod(s.name.Name, i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: name}}
		if i >= replicas && s.api.Delete(s.t.Context(), pod) == nil && s.procs[name] != nil {
			s.net.Stop(s.procs[name])
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.Claim(s.name.Name, i)}, claim)
		if apierrors.IsNotFound(err) {
			delete(s.disks, name)
		}
	}
}

func (s *stage) runPod(set *appsv1.StatefulSet, record etcd.Record, i int) {
	s.t.Helper()
	ctx := s.t.Context()
	name := cluster.Pod(set.Name, i)
	pod := &corev1.Pod{}
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, pod); err == nil {
		if len(pod.Status.InitContainerStatuses) == 0 {
			return
		}
		if err := s.api.Delete(ctx, pod); err != nil { // It is held back: its gate looks again.
			s.t.Fatal(err)
		}
	}
	if s.disks[name] == nil {
		s.disks[name] = &etcdfake.Disk{}
		s.createClaim(set, i)
	}
	if old := s.procs[name]; old != nil { // It ended with its pod.
		s.net.Stop(old)
	}
	d := s.decide(record, i)
	if d.SetAside {
		s.aside++
		s.disks[name] = &etcdfake.Disk{}
		d = s.decide(record, i)
	}
	if !d.Start && d.Report.Reason != etcd.GateNotMember && d.Report.Reason != etcd.GateHeld {
		s.t.Fatalf("%s is held back: %s", name, d.Report.Message)
	}
	if !d.Start {
		s.createPod(set, name, i, &d.Report)
		return
	}
	if d.Epoch != "" {
		s.epochs[name] = d.Epoch
	}
	token := string(set.UID)
	if record.Restore != nil {
		token = record.Restore.Token
	}
	var err error
	s.procs[name], err = s.net.Start(etcdfake.Config{
		Self: record.Members[i], Token: token, State: d.State, Members: record.Members,
		Version: set.Spec.Template.Annotations[v1alpha1.AnnotationVersion],
		Plain:   hasPort(set.Spec.Template.Spec, etcd.PlainPeerPort), TLS: hasPort(set.Spec.Template.Spec, etcd.PeerPort),
	}, s.disks[name])
	if err != nil {
		s.t.Fatal(err)
	}
	s.createPod(set, name, i, nil)
}

// decide is what the gate of a pod decides.
func (s *stage) decide(record etcd.Record, i int) etcd.GateDecision {
	name := record.Members[i].Name
	return etcd.DecideStart(etcd.GateInput{
		Self: record.Members[i], Record: record, Answers: s.net.Answers(record.Members[i], record.Members),
		Disk: map[bool]etcd.Disk{true: etcd.DiskReady}[s.disks[name].HasLog], Epoch: s.epochs[name], Log: &etcd.LogEnd{Term: 1, Index: 1},
	})
}

func (s *stage) createPod(set *appsv1.StatefulSet, name string, i int, held *etcd.GateReport) {
	s.t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, Labels: set.Spec.Template.Labels, Annotations: set.Spec.Template.Annotations,
			UID: types.UID(fmt.Sprintf("%s-%d", name, s.writes)),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: &yes,
			}},
		},
		Spec: corev1.PodSpec{Containers: set.Spec.Template.Spec.Containers},
	}
	if err := s.api.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
	if held != nil {
		pod.Status = corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
			Name: etcd.ContainerGate, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: held.Encode()}},
		}}}
		if err := s.api.Status().Update(s.t.Context(), pod); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	pod.Status = corev1.PodStatus{
		PodIP:      fmt.Sprintf("10.0.0.%d", i),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: etcd.ContainerEtcd, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}},
	}
	if err := s.api.Status().Update(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) cluster() *v1alpha1.EtcdCluster {
	s.t.Helper()
	o := &v1alpha1.EtcdCluster{}
	if err := s.api.Get(s.t.Context(), s.name, o); err != nil {
		s.t.Fatal(err)
	}
	return o
}

// untilReady runs operators until the cluster is Ready, a new one after each crash.
func (s *stage) untilReady() {
	s.t.Helper()
	op := s.newOperator()
	for range 60 {
		_, err := op.Reconcile(s.t.Context(), s.cluster())
		switch {
		case err == nil, s.refusal != nil && errors.Is(err, s.refusal):
		case s.crashAt > 0 && s.writes >= s.crashAt:
			op, s.crashAt = s.newOperator(), 0
		default:
			s.t.Fatal(err)
		}
		s.kubelet()
		if err == nil && meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
			s.readyAt = append(s.readyAt, s.writes)
			return
		}
	}
	s.t.Fatalf("not ready after 60 passes: %s", s.cluster().Status.Activity)
}

// objects lists what there is, and of the record what it says.
func (s *stage) objects() []string {
	s.t.Helper()
	var out []string
	for _, list := range []client.ObjectList{
		&corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &appsv1.StatefulSetList{},
		&policyv1.PodDisruptionBudgetList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &batchv1.JobList{}, &v1alpha1.BackupList{},
	} {
		if err := s.api.List(s.t.Context(), list, client.InNamespace(s.name.Namespace)); err != nil {
			s.t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, item := range items {
			o, err := meta.Accessor(item)
			if err != nil {
				s.t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%T %s", item, o.GetName()))
			if cm, ok := item.(*corev1.ConfigMap); ok {
				out = append(out, fmt.Sprintf("%v", cm.Data))
			}
		}
	}
	slices.Sort(out)
	return out
}

func persistent() *v1alpha1.EtcdCluster {
	o := etcdCluster()
	o.Spec.Storage = &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}
	return o
}

func TestAnEtcdClusterBecomesReadyAndThenCostsNoWrite(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	o := s.cluster()
	if o.Status.Ready != "3/3" || o.Status.ClusterID == "" || o.Status.Leader == "" || o.Status.ConnectionSecret != "orders-connection" {
		t.Errorf("%+v", o.Status)
	}
	for _, typ := range []string{"Ready", "Available", "QuorumHealthy", "TLSReady"} {
		if !meta.IsStatusConditionTrue(o.Status.Conditions, typ) {
			t.Errorf("%s is not true", typ)
		}
	}
	op := s.newOperator()
	for range 2 {
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
	}
	before, kinds := s.writes, fmt.Sprint(s.kinds)
	for range 5 {
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
	}
	if s.writes != before {
		t.Errorf("a settled cluster costs %d writes:\n%s\n%v", s.writes-before, kinds, s.kinds)
	}
}

// workloads are what users do, from nothing to a cluster that is Ready.
var workloads = map[string]func(*stage){
	"created": (*stage).untilReady,
	"created and changed": func(s *stage) {
		s.untilReady()
		s.change()
		s.untilReady()
	},
	"scaled in and out": func(s *stage) {
		s.untilReady()
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
		s.untilReady()
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
		s.untilReady()
	},
	"upgraded": func(s *stage) {
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
		s.untilReady()
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
		s.untilReady()
	},
	"deleted and created again": func(s *stage) {
		s.untilReady()
		s.recreate()
		s.untilReady()
	},
	"fragmented and full": (*stage).fragmentedAndFull,
	"stored elsewhere":    (*stage).storedElsewhere,
	"hibernated midway":   (*stage).hibernatedMidway,
	"restored in place":   (*stage).restoredInPlace,
}

// A crash after every single write, of the API server and of etcd, ends in the same world.
func TestAnOperatorThatCrashesAfterAnyWriteIsResumed(t *testing.T) {
	t.Parallel()
	for name, work := range workloads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sweep(t, work, func(s *stage, k int) { s.crashAt = k })
		})
	}
}

// Whatever the API server refuses is tried again, and ends in the same world.
func TestAnOperatorWhoseWriteIsRefusedGoesOn(t *testing.T) {
	t.Parallel()
	orders := schema.GroupResource{Group: "quorate.dev", Resource: "etcdclusters"}
	refusals := []error{
		apierrors.NewConflict(orders, "orders", errors.New("somebody else was faster")),
		apierrors.NewTooManyRequests("later", 1),
		apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
		apierrors.NewTimeoutError("it took too long", 1),
		apierrors.NewForbidden(orders, "orders", errors.New("the role is being changed")),
	}
	sweep(t, workloads["created and changed"], func(s *stage, k int) { s.refuseAt, s.refusal = k, refusals[k%len(refusals)] })
}

// stride is how many writes a sweep goes on from one crash to the next: one in make test-all, a few where time is short, and many with
// -short, because the race detector makes a run ten times as long.
func stride(t *testing.T) int {
	t.Helper()
	if testing.Short() {
		return 23
	}
	text := os.Getenv("QUORATE_SWEEP_STRIDE")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("QUORATE_SWEEP_STRIDE is %q, which is no number of writes", text)
	}
	return n
}

// sweep does the work once undisturbed, and then once for each of its writes with something that happens there.
func sweep(t *testing.T, work func(*stage), happens func(s *stage, k int)) {
	t.Helper()
	reference := newStage(t, persistent())
	work(reference)
	want, total := reference.objects(), reference.writes
	if total < 15 {
		t.Fatalf("only %d writes", total)
	}
	// Up to the first time that the cluster is Ready all workloads are the same: one sweep of that is enough.
	first := 1
	if reference.readyAt[0] < total {
		first = reference.readyAt[0]
	}
	for k := first + len(t.Name())%stride(t); k <= total; k += stride(t) {
		s := newStage(t, persistent())
		happens(s, k)
		work(s)
		if (s.crashAt != 0 || s.refuseAt != 0) && reference.log[k-1] != "etcd" { // etcd refuses nothing.
			t.Errorf("nothing happened at write %d of %d", k, total)
		}
		if diff := cmp.Diff(want, s.objects()); diff != "" {
			t.Errorf("at write %d of %d (-want +got):\n%s", k, total, diff)
		}
		if len(s.net.Led) != s.led {
			t.Errorf("at write %d, %d clusters have led", k, len(s.net.Led))
		}
	}
	t.Logf("writes %d to %d", first, total)
}

// change asks for something that needs a restart of every member.
func (s *stage) change() {
	s.t.Helper()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Config = &v1alpha1.EtcdConfig{SnapshotCount: new(int64(5000))}
	})
}

func (s *stage) edit(change func(*v1alpha1.EtcdClusterSpec)) {
	s.t.Helper()
	o := s.cluster()
	change(&o.Spec)
	o.Generation++
	if err := s.api.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// recreate takes away all that belongs to the cluster but its claims, as Kubernetes does when the resource is deleted.
func (s *stage) recreate() {
	s.t.Helper()
	for _, o := range []client.Object{
		&corev1.ConfigMap{}, &appsv1.StatefulSet{}, &corev1.Pod{}, &corev1.Service{}, &corev1.Secret{}, &policyv1.PodDisruptionBudget{},
	} {
		if err := s.api.DeleteAllOf(s.t.Context(), o, client.InNamespace(s.name.Namespace)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestAChangeIsRolledOutOneMemberAtATime(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	leader := s.cluster().Status.Leader
	s.change()
	op := s.newOperator()
	var order []string
	for range 30 {
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
		missing := s.missing()
		if len(missing) > 1 {
			t.Fatalf("%v are down at the same time", missing)
		}
		order = append(order, missing...)
		s.kubelet()
	}
	if len(order) != 3 || order[2] != leader {
		t.Errorf("restarted in the order %v, the leader was %s", order, leader)
	}
	if !meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("not ready: %s", s.cluster().Status.Activity)
	}
}

func (s *stage) missing() []string {
	s.t.Helper()
	var out []string
	for i := range 3 {
		name := cluster.Pod(s.name.Name, i)
		if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: name}, &corev1.Pod{}); err != nil {
			out = append(out, name)
		}
	}
	return out
}

func TestARetainedClusterComesBackWithItsIdentity(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	id := s.cluster().Status.ClusterID
	s.recreate()
	s.untilNotReady()
	s.untilReady()
	if got := s.cluster().Status.ClusterID; got != id {
		t.Errorf("cluster %s came back as %s", id, got)
	}
	if len(s.net.Led) != 1 {
		t.Errorf("%d clusters have led", len(s.net.Led))
	}
}

func (s *stage) untilNotReady() {
	s.t.Helper()
	if _, err := s.newOperator().Reconcile(s.t.Context(), s.cluster()); err != nil {
		s.t.Fatal(err)
	}
	if meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
		s.t.Fatal("it is still ready")
	}
}

func TestARecordThatLostItsLabelsGetsThemBack(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	id := s.cluster().Status.ClusterID
	cm := &corev1.ConfigMap{}
	if err := s.api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "orders-config"}, cm); err != nil {
		t.Fatal(err)
	}
	cm.Labels = nil
	if err := s.api.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	s.untilNotReady()
	s.untilReady()
	if got := s.cluster().Status.ClusterID; got != id {
		t.Errorf("cluster %s came back as %s", id, got)
	}
}

func TestClientsThatNobodyAsksForAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newClientPool(time.Minute)
		made := 0
		get := func() *closing {
			t.Helper()
			c, ok := pool.get(clientKey{pod: "p-1"}, func() memberClient { made++; return &closing{} }).(*closing)
			if !ok {
				t.Fatal("it is another client")
			}
			return c
		}
		first := get()
		for range 5 {
			time.Sleep(50 * time.Second)
			if get() != first || first.closed.Load() {
				t.Fatal("a client that is used was closed")
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !first.closed.Load() || pool.len() != 0 {
			t.Errorf("closed %t, %d are kept", first.closed.Load(), pool.len())
		}
		if get() == first || made != 2 {
			t.Errorf("a closed client is handed out again; %d were made", made)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
	})
}

func (p *clientPool) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// closing remembers that it was closed. A timer closes it, which orders nothing before or after what the test does.
type closing struct {
	etcdfake.Client
	etcdfake.Users
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

func TestAConfigMapOfSomebodyElseIsRefused(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-config"}}
	s := newStage(t, persistent(), foreign)
	if _, err := s.newOperator().Reconcile(t.Context(), s.cluster()); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonForeignObject {
		t.Errorf("%+v", c)
	}
}

func TestPodState(t *testing.T) {
	gate := func(state corev1.ContainerState, last string) corev1.PodStatus {
		st := corev1.ContainerStatus{Name: etcd.ContainerGate, State: state}
		if last != "" {
			st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: last}
		}
		return corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{st}}
	}
	report := etcd.GateReport{Reason: etcd.GateLostDisk, Message: "gone"}
	waiting := func(name, reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}}}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		stuck  bool
		gate   *etcd.GateReport
	}{
		"starting":                {status: waiting(etcd.ContainerEtcd, "PodInitializing")},
		"without an image":        {status: waiting(etcd.ContainerEtcd, "ImagePullBackOff"), stuck: true},
		"crashing":                {status: waiting(etcd.ContainerEtcd, "CrashLoopBackOff"), stuck: true},
		"held back":               {status: gate(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, report.Encode()), gate: &report},
		"with a word from others": {status: gate(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, "panic")},
		"let go": {status: gate(corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 0},
		}, report.Encode())},
		"without a node": {status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}}, stuck: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := podState(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "my-orders-2"}, Status: tc.status})
			if got.Stuck != tc.stuck || (got.Problem == "") == tc.stuck || got.Ordinal != 2 {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(tc.gate, got.Gate); diff != "" {
				t.Errorf("gate (-want +got):\n%s", diff)
			}
		})
	}
}
