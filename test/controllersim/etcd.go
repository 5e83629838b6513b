package controllersim

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
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
	Op    *reconcile.Loop[*v1alpha1.EtcdCluster, model.State]
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
type EtcdFactory func(c *owned.Client, connect func(etcdclient.Config) MemberClient) reconcile.Kind[*v1alpha1.EtcdCluster, model.State]

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
func (s *Etcd) NewOperator() *reconcile.Loop[*v1alpha1.EtcdCluster, model.State] {
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
	return &reconcile.Loop[*v1alpha1.EtcdCluster, model.State]{Kind: kind, Client: op.client(s.Cache, false), Direct: op.client(s.API, true), Events: recorder}
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
