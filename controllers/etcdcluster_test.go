package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

// stage is a Kubernetes without a kubelet and an etcd without a network, and the loop in between. It survives its
// operators: newOperator starts another one.
type stage struct {
	t *testing.T
	// api is the API server, and cache what the manager's client makes of it: of what is in the cache, it shows only what carries our
	// labels. others is another name for api.
	api, cache, others client.WithWatch
	net                *etcdfake.Network
	procs              map[string]*etcdfake.Process
	disks              map[string]*etcdfake.Disk
	// epochs are what volumes bear, aside is how often data was set aside, and led how many clusters may have led by now.
	epochs map[string]string
	aside  int
	led    int
	name   types.NamespacedName
	// wire is between the operators and the rest.
	*wire
	// op is the operator that works, and equip what it is given beyond what it needs.
	op    *Loop[*v1alpha1.EtcdCluster, etcd.State]
	equip func(*Children)
	// newKind makes what is under test, and children is what the last one was given.
	newKind  newEtcdKind
	children *Children
	// events that operators write; nil: each has a recorder of its own.
	events events.EventRecorder
	// first is when the cluster was Ready for the first time.
	first ready
	// snapshots are how the next Backups end, one after the other; what is beyond them ends well. backups counts them.
	snapshots []string
	backups   int
	// made counts the pods and claims that were made.
	made int
	// vitals counts how often members were asked for their metrics, silent says that they serve none.
	vitals atomic.Int32
	silent bool
}

// newEtcdKind makes the kind under test. connect makes a client of a member.
type newEtcdKind func(c *Children, connect func(etcdclient.Config) *lazyClient) Kind[*v1alpha1.EtcdCluster, etcd.State]

func newEtcdStage(t *testing.T, newKind newEtcdKind, o *v1alpha1.EtcdCluster, more ...client.Object) *stage {
	t.Helper()
	w := newWorld(t, append(more, o)...)
	s := &stage{
		t: t, net: etcdfake.New(), procs: map[string]*etcdfake.Process{}, disks: map[string]*etcdfake.Disk{},
		epochs: map[string]string{}, led: 1, newKind: newKind, name: client.ObjectKeyFromObject(o), wire: newWire(w.past),
	}
	api, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	s.api, s.others, s.cache = api, api, w.past.client(api)
	return s
}

func (s *stage) newOperator() *Loop[*v1alpha1.EtcdCluster, etcd.State] {
	op := s.operator()
	children := newChildren(&world{Client: s.tapped(op.client(s.cache, false))})
	children.Direct = PastCache(s.tapped(op.client(s.api, true)), clockOf(children))
	if s.equip != nil {
		s.equip(children)
	}
	s.children = children
	kind := s.newKind(children, func(cfg etcdclient.Config) *lazyClient {
		pod, _, _ := strings.Cut(cfg.Host, ".")
		return &lazyClient{
			s: s, op: op, pod: pod, tls: cfg.TLS != nil, root: etcdclient.IsRoot(cfg.TLS), password: cfg.Password, former: cfg.Former,
			signs: cfg.SigningKey != "",
		}
	})
	recorder := s.events
	if recorder == nil {
		recorder = events.NewFakeRecorder(1000)
	}
	return &Loop[*v1alpha1.EtcdCluster, etcd.State]{Kind: kind, Client: op.client(s.cache, false), Direct: op.client(s.api, true), Events: recorder}
}

// turn lets the operator make a pass, and another one take its place where it crashes. It reports whether all went well.
func (s *stage) turn() bool {
	s.t.Helper()
	if !s.wire.turn() {
		return false
	}
	well := false
	for range max(1, s.again) {
		o, life := &v1alpha1.EtcdCluster{}, s.alive
		if err := life.shown(s.cache, s.name, o); err != nil {
			return false
		}
		_, err := s.op.Reconcile(s.t.Context(), o)
		if well = err == nil && !life.dead; life.dead {
			s.restart()
			s.crashAt = 0
		} else if err != nil && !s.forgives(err) {
			s.t.Fatal(err)
		}
	}
	s.again = 0
	return well
}

// restart starts another operator.
func (s *stage) restart() { s.op = s.newOperator() }

func (s *stage) line() *wire { return s.wire }

func (s *stage) round() {
	s.t.Helper()
	s.turn()
	s.kubelet()
}

// kubelet makes claims and pods and starts what the gate lets start.
func (s *stage) kubelet() {
	s.t.Helper()
	ctx := s.t.Context()
	collect(s.t, s)
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
		return // No gate makes anything of it.
	}
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
		if metav1.GetControllerOf(pod) == nil { // The set that it was of has been deleted without it.
			pod.OwnerReferences = append(pod.OwnerReferences, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
			s.must(s.api.Update(ctx, pod))
		}
		if pod.Status.Conditions != nil {
			return
		}
		s.must(s.api.Delete(ctx, pod)) // It is held back or has ended: its gate or etcd looks again.
	}
	if s.disks[name] == nil {
		s.disks[name] = &etcdfake.Disk{}
		s.createClaim(set, i)
	}
	if old := s.procs[name]; old != nil { // It ended with its pod.
		s.net.Stop(old)
	}
	if problem := s.misfit(set, name); problem != nil {
		s.createPod(set, name, i, problem)
		return
	}
	if i >= len(record.Members) { // It has no name there yet, or not any more.
		s.createPod(set, name, i, held(etcd.GateReport{Reason: etcd.GateNotMember}))
		return
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
		s.createPod(set, name, i, held(d.Report))
		return
	}
	if d.Epoch != "" {
		s.epochs[name] = d.Epoch
	}
	token := string(set.UID)
	if record.Restore != nil {
		token = record.Restore.Token
	}
	proc, err := s.net.Start(etcdfake.Config{
		Self: record.Members[i], Token: token, State: d.State, Members: record.Members,
		Version: set.Spec.Template.Annotations[v1alpha1.AnnotationVersion],
		Plain:   listens(set, etcd.PlainPeerPort), TLS: listens(set, etcd.PeerPort),
	}, s.disks[name])
	switch {
	case errors.Is(err, etcdfake.ErrRemoved):
		s.createPod(set, name, i, crashed(s.disks[name], err.Error()))
	case errors.Is(err, etcdfake.ErrVersion):
		s.createPod(set, name, i, crashed(s.disks[name], "what it panics with"))
	default:
		s.must(err)
		s.procs[name] = proc
		s.createPod(set, name, i, nil)
	}
}

// listens reports whether a container of the template has a port.
func listens(set *appsv1.StatefulSet, port int32) bool {
	return slices.ContainsFunc(set.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port })
	})
}

// decide is what the gate of a pod decides.
func (s *stage) decide(record etcd.Record, i int) etcd.GateDecision {
	name := record.Members[i].Name
	return etcd.DecideStart(etcd.GateInput{
		Self: record.Members[i], Record: record, Answers: s.net.Answers(record.Members[i], record.Members),
		Disk: map[bool]etcd.Disk{true: etcd.DiskReady}[s.disks[name].HasLog], Epoch: s.epochs[name], Log: &etcd.LogEnd{Term: 1, Index: 1},
	})
}

// born is when the next pod or claim is made, which is long ago and a minute after the one before.
func (s *stage) born() metav1.Time {
	s.made++
	return metav1.NewTime(stageNow.AddDate(-1, 0, 0).Add(time.Duration(s.made) * time.Minute))
}

// held is what the kubelet says of a pod that its gate does not let start.
func held(report etcd.GateReport) *corev1.PodStatus {
	return &corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
		Name: etcd.ContainerGate, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: report.Encode()}},
	}}}
}

// crashed is what the kubelet says of a pod whose gate has let etcd go, which has ended for the third time with these last words.
func crashed(disk *etcdfake.Disk, last string) *corev1.PodStatus {
	report := etcd.GateReport{Reason: etcd.GateStart, Agreed: disk.Agreed().Minor}
	return &corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{
			Name: etcd.ContainerGate, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: report.Encode()}},
		}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: etcd.ContainerEtcd, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: last}},
		}},
	}
}

// createPod makes a pod that runs, unless something keeps it from that.
func (s *stage) createPod(set *appsv1.StatefulSet, name string, i int, problem *corev1.PodStatus) {
	s.t.Helper()
	born := s.born()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: born,
			Namespace:         set.Namespace, Name: name, Labels: set.Spec.Template.Labels, Annotations: set.Spec.Template.Annotations,
			UID:             types.UID(fmt.Sprintf("%s-%d", name, s.made)),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: corev1.PodSpec{Containers: set.Spec.Template.Spec.Containers},
	}
	if err := s.api.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
	if problem != nil {
		pod.Status = *problem
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
	s.restart()
	for range 60 {
		well := s.turn()
		s.kubelet()
		if o := s.cluster(); well && o.Status.ObservedGeneration == o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) {
			if s.first == (ready{}) {
				s.first = ready{calls: len(s.calls), turns: s.turns}
			}
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

// recreate is a user who deletes the cluster, which leaves him the claims and what they need, and makes it again.
func (s *stage) recreate() {
	s.t.Helper()
	o := s.cluster()
	again := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Generation: 1}, Spec: o.Spec}
	remake(s.t, s, o, again)
	for _, p := range s.procs {
		s.net.Stop(p)
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
	s.untilReady()
	if got := s.cluster().Status.ClusterID; got != id {
		t.Errorf("cluster %s came back as %s", id, got)
	}
	if len(s.net.Led) != 1 {
		t.Errorf("%d clusters have led", len(s.net.Led))
	}
}

// etcd 3.7 cannot read the log of 3.5.
func TestARetainedClusterOfAnEarlierVersionComesBackWhenItIsAskedForThat(t *testing.T) {
	o := persistent()
	o.Spec.Version = "3.5.35"
	s := newStage(t, o)
	s.served()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
	s.recreate()
	for range 10 {
		s.round()
	}
	if says := s.cluster().Status.Activity; !strings.Contains(says, "set spec.version to a 3.5") {
		t.Fatal(says)
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
	s.untilReady()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
	s.untilReady()
	s.sound()
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

func TestARecordWithALabelOfSomebodyElseGetsOursBack(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	cm := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: "default", Name: "orders-config"}
	s.must(s.others.Get(t.Context(), key, cm))
	cm.Labels[cluster.LabelInstance] = "somebody-else"
	s.must(s.others.Update(t.Context(), cm))
	s.pass()
	s.must(s.others.Get(t.Context(), key, cm))
	if got := cm.Labels[cluster.LabelInstance]; got != "orders" {
		t.Errorf("it is that of %s", got)
	}
}

func TestClientsThatNobodyAsksForAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newClientPool(time.Minute)
		made := 0
		pass := func(lasts time.Duration) *closing {
			t.Helper()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			c, ok := pool.get(ctx, clientKey{pod: "p-1"}, func() memberClient { made++; return &closing{} }).(*closing)
			if !ok {
				t.Fatal("it is another client")
			}
			if time.Sleep(lasts); c.closed.Load() {
				t.Fatal("a client was closed under the pass that uses it")
			}
			return c
		}
		first := pass(0)
		for _, lasts := range []time.Duration{0, time.Second, 3 * time.Minute, 0} {
			time.Sleep(50 * time.Second)
			if pass(lasts) != first {
				t.Fatal("a client that is used was closed")
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !first.closed.Load() || pool.len() != 0 {
			t.Errorf("closed %t, %d are kept", first.closed.Load(), pool.len())
		}
		if pass(0) == first || made != 2 {
			t.Errorf("a closed client is handed out again; %d were made", made)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
	})
}

func TestADefragmentationThatOutlastsItsPassKeepsItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, persistent())
		s.untilReady()
		kind, ok := s.newOperator().Kind.(*EtcdKind)
		if !ok {
			t.Fatal("it is no EtcdKind")
		}
		var ends func()
		kind.upkeep.spawn = func(f func() error, end func(error)) { ends = func() { end(f()) } }
		pass, endPass := context.WithCancel(t.Context())
		if err := kind.defragment(pass, s.cluster(), etcd.Defragment{Pod: "orders-0", Size: 10 << 30}); err != nil {
			t.Fatal(err)
		}
		endPass()
		time.Sleep(2 * clientIdle)
		synctest.Wait()
		if n := kind.clients.len(); n != 1 {
			t.Errorf("%d clients are open while a member is defragmented", n)
		}
		ends()
		time.Sleep(2 * clientIdle)
		synctest.Wait()
		if n := kind.clients.len(); n != 0 {
			t.Errorf("%d clients are open afterwards", n)
		}
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
		"beside one without":      {status: waiting("mesh", "ImagePullBackOff")},
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

func TestWhatTheMembersOfAPodHaveAgreedOn(t *testing.T) {
	released := func(exit int32, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: etcd.ContainerGate, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message},
		}}}
	}
	ended := func(message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: etcd.ContainerEtcd, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: message},
		}}}
	}
	v36 := etcd.GateReport{Reason: etcd.GateStart, Agreed: 6}.Encode()
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		minor  int
	}{
		"the gate has told":         {status: corev1.PodStatus{InitContainerStatuses: released(0, v36)}, minor: 6},
		"the disk was empty":        {status: corev1.PodStatus{InitContainerStatuses: released(0, etcd.GateReport{Reason: etcd.GateStart}.Encode())}},
		"a gate of old":             {status: corev1.PodStatus{InitContainerStatuses: released(0, "")}},
		"the gate holds":            {status: corev1.PodStatus{InitContainerStatuses: released(1, v36)}},
		"etcd knows better":         {status: corev1.PodStatus{InitContainerStatuses: released(0, v36), ContainerStatuses: ended("invalid downgrade; server version is lower than determined cluster version")}, minor: 7},
		"etcd ended over something": {status: corev1.PodStatus{InitContainerStatuses: released(0, v36), ContainerStatuses: ended("panic")}, minor: 6},
	} {
		t.Run(name, func(t *testing.T) {
			got := podState(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders-0", Annotations: map[string]string{v1alpha1.AnnotationVersion: "3.6.16"}}, Status: tc.status})
			if got.Agreed != tc.minor {
				t.Errorf("%d", got.Agreed)
			}
		})
	}
}

func TestASetThatSomebodyChangesAfterTheLookIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	s.change()
	kind := s.newOperator().Kind.(*EtcdKind) //nolint:forcetypeassert // The stage has no other.
	kind.Children.Client = &meddled{kind.Children.Client, func(o client.Object) {
		if set, ok := o.(*appsv1.StatefulSet); ok {
			now := set.DeepCopy()
			now.Spec.Replicas = new(int32(2))
			s.must(s.others.Update(t.Context(), now))
		}
	}}
	var hold cluster.Hold
	if err := kind.Ensure(t.Context(), s.cluster()); !errors.As(err, &hold) || !strings.Contains(hold.Message, "StatefulSet") {
		t.Errorf("it is not looked at again: %v", err)
	}
	set := &appsv1.StatefulSet{}
	if s.must(s.api.Get(t.Context(), s.name, set)); *set.Spec.Replicas != 2 {
		t.Errorf("%d pods, and somebody wanted 2 in between", *set.Spec.Replicas)
	}
}

func TestNoPodIsDeletedByAnOldSpecificationOrRecord(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*stage){
		"specification": (*stage).change,
		"record": func(s *stage) {
			cm := &corev1.ConfigMap{}
			s.must(s.api.Get(s.t.Context(), client.ObjectKey{Namespace: s.name.Namespace, Name: cluster.ConfigName(s.name.Name)}, cm))
			cm.Data["version"] = "3.7.3"
			s.must(s.others.Update(s.t.Context(), cm))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, persistent())
			s.untilReady()
			op := s.newOperator()
			o, pod, key := s.cluster(), &corev1.Pod{}, client.ObjectKey{Namespace: s.name.Namespace, Name: "orders-0"}
			s.must(s.api.Get(t.Context(), key, pod))
			s.line().lag(3, 0)
			change(s)
			err := op.Kind.(*EtcdKind).deletePod(t.Context(), o, etcd.DeletePod{Name: pod.Name, UID: string(pod.UID), ResourceVersion: pod.ResourceVersion}) //nolint:forcetypeassert // The stage has no other.
			var hold cluster.Hold
			if !errors.As(err, &hold) {
				t.Errorf("it is not looked at again: %v", err)
			}
			s.must(s.api.Get(t.Context(), key, pod))
		})
	}
}

// An operator that was just started may see a record of long ago: it must neither write it back nor take pods away from members that
// have come since.
func TestNothingIsMadeFromAnOldRecord(t *testing.T) {
	t.Parallel()
	for _, reads := range []int{1, 2, 3, 4, 1000} {
		t.Run(fmt.Sprintf("shown %d times", reads), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, etcdCluster())
			s.served()
			s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
			s.untilReady()
			key := client.ObjectKey{Namespace: s.name.Namespace, Name: cluster.ConfigName(s.name.Name)}
			old, now := &corev1.ConfigMap{}, &corev1.ConfigMap{}
			get := func(key client.ObjectKey, o client.Object) {
				if err := s.api.Get(t.Context(), key, o); err != nil {
					t.Fatal(err)
				}
			}
			get(key, old)
			s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 })
			s.untilReady()
			get(key, now)

			kind := s.newOperator().Kind.(*EtcdKind)
			kind.Children.Client = &outdated{Client: kind.Children.Client, old: old, reads: reads}
			err := kind.Ensure(t.Context(), s.cluster())
			if reads == 1000 && !errors.Is(err, configMoved) {
				t.Errorf("it goes on: %v", err)
			}
			set, then := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
			get(s.name, set)
			get(key, then)
			if *set.Spec.Replicas != 5 {
				t.Errorf("%d pods are left of 5", *set.Spec.Replicas)
			}
			if diff := cmp.Diff(now.Data, then.Data); diff != "" {
				t.Errorf("the record has changed (-before +after):\n%s", diff)
			}
		})
	}
}
