package controllersim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// Etcd is a Kubernetes without a kubelet and an etcd without a network, and the loop in between. It survives its
// operators: NewOperator starts another one.
type Etcd struct {
	T *testing.T
	// API is the API server, and cache what the manager's client makes of it: of what is in the cache, it shows only what carries our
	// labels. others is another name for api.
	API, Cache, Others client.WithWatch
	Net                *etcdfake.Network
	Procs              map[string]*etcdfake.Process
	disks              map[string]*etcdfake.Disk
	// epochs are what volumes bear, aside is how often data was set aside, and led how many clusters may have led by now.
	epochs map[string]string
	Aside  int
	led    int
	Name   types.NamespacedName
	// wire is between the operators and the rest.
	*Wire
	// Op is the operator that works, and equip what it is given beyond what it needs.
	Op    *reconcile.Loop[*v1alpha1.EtcdCluster, etcd.State]
	equip func(*owned.Client)
	// newKind makes what is under test, and children is what the last one was given.
	newKind  EtcdFactory
	children *owned.Client
	// events that operators write; nil: each has a recorder of its own.
	events events.EventRecorder
	// first is when the cluster was Ready for the first time.
	first ready
	// Snapshots are how the next Backups end, one after the other; what is beyond them ends well. backups counts them.
	Snapshots []string
	backups   int
	// made counts the pods and claims that were made.
	made int
	// Vitals counts how often members were asked for their metrics, silent says that they serve none.
	Vitals atomic.Int32
	Silent bool
}

// EtcdFactory makes the kind under test. connect makes a client of a member.
type EtcdFactory func(c *owned.Client, connect func(etcdclient.Config) MemberClient) reconcile.Kind[*v1alpha1.EtcdCluster, etcd.State]

// NewEtcd returns a simulated cluster with o and more objects in it, and no operator yet.
func NewEtcd(t *testing.T, newKind EtcdFactory, o *v1alpha1.EtcdCluster, more ...client.Object) *Etcd {
	t.Helper()
	w := fakeapi.New(t, append(more, o)...)
	s := &Etcd{
		T: t, Net: etcdfake.New(), Procs: map[string]*etcdfake.Process{}, disks: map[string]*etcdfake.Disk{},
		epochs: map[string]string{}, led: 1, newKind: newKind, Name: client.ObjectKeyFromObject(o), Wire: newWire(w.Past),
	}
	api, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	s.API, s.Others, s.Cache = api, api, w.Past.Client(api)
	return s
}

// NewOperator starts another operator.
func (s *Etcd) NewOperator() *reconcile.Loop[*v1alpha1.EtcdCluster, etcd.State] {
	op := s.operator()
	children := ownedtest.New(&fakeapi.API{Client: s.tapped(op.client(s.Cache, false))})
	children.Direct = owned.PastCache(s.tapped(op.client(s.API, true)), ownedtest.ClockOf(children))
	if s.equip != nil {
		s.equip(children)
	}
	s.children = children
	kind := s.newKind(children, func(cfg etcdclient.Config) MemberClient {
		pod, _, _ := strings.Cut(cfg.Host, ".")
		return &etcdClient{
			s: s, op: op, pod: pod, tls: cfg.TLS != nil, root: etcdclient.IsRoot(cfg.TLS), password: cfg.Password, former: cfg.Former,
			signs: cfg.SigningKey != "",
		}
	})
	recorder := s.events
	if recorder == nil {
		recorder = events.NewFakeRecorder(1000)
	}
	return &reconcile.Loop[*v1alpha1.EtcdCluster, etcd.State]{Kind: kind, Client: op.client(s.Cache, false), Direct: op.client(s.API, true), Events: recorder}
}

// Turn lets the operator make a pass, and another one take its place where it crashes. It reports whether all went well.
func (s *Etcd) Turn() bool {
	s.T.Helper()
	if !s.turn() {
		return false
	}
	well := false
	for range max(1, s.again) {
		o, life := &v1alpha1.EtcdCluster{}, s.Alive
		if err := life.shown(s.Cache, s.Name, o); err != nil {
			return false
		}
		_, err := s.Op.Reconcile(s.T.Context(), o)
		if well = err == nil && !life.dead; life.dead {
			s.Restart()
			s.CrashAt = 0
		} else if err != nil && !s.forgives(err) {
			s.T.Fatal(err)
		}
	}
	s.again = 0
	return well
}

// Restart starts another operator.
func (s *Etcd) Restart() { s.Op = s.NewOperator() }

// Line returns the wire.
func (s *Etcd) Line() *Wire { return s.Wire }

// Round makes one pass of the operator and one of the kubelet.
func (s *Etcd) Round() {
	s.T.Helper()
	s.Turn()
	s.Kubelet()
}

// Kubelet makes claims and pods and starts what the gate lets start.
func (s *Etcd) Kubelet() {
	s.T.Helper()
	ctx := s.T.Context()
	collect(s.T, s)
	set := &appsv1.StatefulSet{}
	if err := s.API.Get(ctx, s.Name, set); err != nil {
		return
	}
	cm := &corev1.ConfigMap{}
	if err := s.API.Get(ctx, types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}, cm); err != nil {
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
	s.Net.Settle()
}

// endPods takes the pods away that the set does not make any more, and the claims that are being deleted.
func (s *Etcd) endPods(replicas int) {
	s.T.Helper()
	for i := range etcd.MaxSize {
		name := cluster.Pod(s.Name.Name, i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: name}}
		if i >= replicas && s.API.Delete(s.T.Context(), pod) == nil && s.Procs[name] != nil {
			s.Net.Stop(s.Procs[name])
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.Claim(s.Name.Name, i)}, claim)
		if apierrors.IsNotFound(err) {
			delete(s.disks, name)
		}
	}
}

func (s *Etcd) runPod(set *appsv1.StatefulSet, record etcd.Record, i int) {
	s.T.Helper()
	ctx := s.T.Context()
	name := cluster.Pod(set.Name, i)
	pod := &corev1.Pod{}
	if err := s.API.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, pod); err == nil {
		if metav1.GetControllerOf(pod) == nil { // The set that it was of has been deleted without it.
			pod.OwnerReferences = append(pod.OwnerReferences, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
			s.Must(s.API.Update(ctx, pod))
		}
		if pod.Status.Conditions != nil {
			return
		}
		s.Must(s.API.Delete(ctx, pod)) // It is held back or has ended: its gate or etcd looks again.
	}
	if s.disks[name] == nil {
		s.disks[name] = &etcdfake.Disk{}
		s.createClaim(set, i)
	}
	if old := s.Procs[name]; old != nil { // It ended with its pod.
		s.Net.Stop(old)
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
		s.Aside++
		s.disks[name] = &etcdfake.Disk{}
		d = s.decide(record, i)
	}
	if !d.Start && d.Report.Reason != etcd.GateNotMember && d.Report.Reason != etcd.GateHeld {
		s.T.Fatalf("%s is held back: %s", name, d.Report.Message)
	}
	if !d.Start {
		s.createPod(set, name, i, held(d.Report))
		return
	}
	if d.Epoch != "" {
		s.epochs[name] = d.Epoch
	}
	s.start(set, record, i, d)
}

// start starts the server of a pod whose gate lets it.
func (s *Etcd) start(set *appsv1.StatefulSet, record etcd.Record, i int, d etcd.GateDecision) {
	s.T.Helper()
	name := record.Members[i].Name
	token := string(set.UID)
	if record.Restore != nil {
		token = record.Restore.Token
	}
	proc, err := s.Net.Start(etcdfake.Config{
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
		s.Must(err)
		s.Procs[name] = proc
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
func (s *Etcd) decide(record etcd.Record, i int) etcd.GateDecision {
	name := record.Members[i].Name
	return etcd.DecideStart(etcd.GateInput{
		Self: record.Members[i], Record: record, Answers: s.Net.Answers(record.Members[i], record.Members),
		Disk: map[bool]etcd.Disk{true: etcd.DiskReady}[s.disks[name].HasLog], Epoch: s.epochs[name], Log: &etcd.LogEnd{Term: 1, Index: 1},
	})
}

// born is when the next pod or claim is made, which is long ago and a minute after the one before.
func (s *Etcd) born() metav1.Time {
	s.made++
	return metav1.NewTime(fakeapi.Now.AddDate(-1, 0, 0).Add(time.Duration(s.made) * time.Minute))
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
func (s *Etcd) createPod(set *appsv1.StatefulSet, name string, i int, problem *corev1.PodStatus) {
	s.T.Helper()
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
	if err := s.API.Create(s.T.Context(), pod); err != nil {
		s.T.Fatal(err)
	}
	if problem != nil {
		pod.Status = *problem
		if err := s.API.Status().Update(s.T.Context(), pod); err != nil {
			s.T.Fatal(err)
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
	if err := s.API.Status().Update(s.T.Context(), pod); err != nil {
		s.T.Fatal(err)
	}
}

// Cluster reads the resource.
func (s *Etcd) Cluster() *v1alpha1.EtcdCluster {
	s.T.Helper()
	o := &v1alpha1.EtcdCluster{}
	if err := s.API.Get(s.T.Context(), s.Name, o); err != nil {
		s.T.Fatal(err)
	}
	return o
}

// UntilReady runs operators until the cluster is Ready, a new one after each crash.
func (s *Etcd) UntilReady() {
	s.T.Helper()
	s.Restart()
	for range 60 {
		well := s.Turn()
		s.Kubelet()
		if o := s.Cluster(); well && o.Status.ObservedGeneration == o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) {
			if s.first == (ready{}) {
				s.first = ready{calls: len(s.Calls), turns: s.turns}
			}
			return
		}
	}
	s.T.Fatalf("not ready after 60 passes: %s", s.Cluster().Status.Activity)
}

// Objects lists what there is, and of the record what it says.
func (s *Etcd) Objects() []string {
	s.T.Helper()
	var out []string
	for _, list := range []client.ObjectList{
		&corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &appsv1.StatefulSetList{},
		&policyv1.PodDisruptionBudgetList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &batchv1.JobList{}, &v1alpha1.BackupList{},
	} {
		if err := s.API.List(s.T.Context(), list, client.InNamespace(s.Name.Namespace)); err != nil {
			s.T.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			s.T.Fatal(err)
		}
		for _, item := range items {
			o, err := meta.Accessor(item)
			if err != nil {
				s.T.Fatal(err)
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

// Persistent returns a cluster of three members with volumes.
func Persistent() *v1alpha1.EtcdCluster {
	o := fakeapi.EtcdCluster()
	o.Spec.Storage = &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}
	return o
}

// Change asks for something that needs a restart of every member.
func (s *Etcd) Change() {
	s.T.Helper()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Config = &v1alpha1.EtcdConfig{SnapshotCount: new(int64(5000))}
	})
}

// Edit changes the specification.
func (s *Etcd) Edit(change func(*v1alpha1.EtcdClusterSpec)) {
	s.T.Helper()
	o := s.Cluster()
	change(&o.Spec)
	o.Generation++
	if err := s.API.Update(s.T.Context(), o); err != nil {
		s.T.Fatal(err)
	}
}

// Recreate is a user who deletes the cluster, which leaves him the claims and what they need, and makes it again.
func (s *Etcd) Recreate() {
	s.T.Helper()
	o := s.Cluster()
	again := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Generation: 1}, Spec: o.Spec}
	remake(s.T, s, o, again)
	for _, p := range s.Procs {
		s.Net.Stop(p)
	}
}

// Missing returns the members that do not run.
func (s *Etcd) Missing() []string {
	s.T.Helper()
	var out []string
	for i := range 3 {
		name := cluster.Pod(s.Name.Name, i)
		if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: name}, &corev1.Pod{}); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// UntilNotReady makes passes until the cluster is not Ready.
func (s *Etcd) UntilNotReady() {
	s.T.Helper()
	if _, err := s.NewOperator().Reconcile(s.T.Context(), s.Cluster()); err != nil {
		s.T.Fatal(err)
	}
	if meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady) {
		s.T.Fatal("it is still ready")
	}
}
