package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestAnEtcdClusterBecomesReadyAndThenCostsNoWrite(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	o := s.Cluster()
	if o.Status.Ready != "3/3" || o.Status.ClusterID == "" || o.Status.Leader == "" || o.Status.ConnectionSecret != "orders-connection" {
		t.Errorf("%+v", o.Status)
	}
	for _, typ := range []string{"Ready", "Available", "QuorumHealthy", "TLSReady"} {
		if !meta.IsStatusConditionTrue(o.Status.Conditions, typ) {
			t.Errorf("%s is not true", typ)
		}
	}
	op := s.NewOperator()
	for range 2 {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
	}
	before, kinds := s.Writes, fmt.Sprint(s.Kinds)
	for range 5 {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Writes != before {
		t.Errorf("a settled cluster costs %d writes:\n%s\n%v", s.Writes-before, kinds, s.Kinds)
	}
}

func TestAChangeIsRolledOutOneMemberAtATime(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	leader := s.Cluster().Status.Leader
	s.Change()
	op := s.NewOperator()
	var order []string
	for range 30 {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
		missing := s.Missing()
		if len(missing) > 1 {
			t.Fatalf("%v are down at the same time", missing)
		}
		order = append(order, missing...)
		s.Kubelet()
	}
	if len(order) != 3 || order[2] != leader {
		t.Errorf("restarted in the order %v, the leader was %s", order, leader)
	}
	if !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("not ready: %s", s.Cluster().Status.Activity)
	}
}

func TestARetainedClusterComesBackWithItsIdentity(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	id := s.Cluster().Status.ClusterID
	s.Recreate()
	s.UntilReady()
	if got := s.Cluster().Status.ClusterID; got != id {
		t.Errorf("cluster %s came back as %s", id, got)
	}
	if len(s.Net.Led) != 1 {
		t.Errorf("%d clusters have led", len(s.Net.Led))
	}
}

// etcd 3.7 cannot read the log of 3.5.
func TestARetainedClusterOfAnEarlierVersionComesBackWhenItIsAskedForThat(t *testing.T) {
	o := controllersim.Persistent()
	o.Spec.Version = "3.5.35"
	s := newStage(t, o)
	s.Served()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
	s.Recreate()
	for range 10 {
		s.Round()
	}
	if says := s.Cluster().Status.Activity; !strings.Contains(says, "set spec.version to a 3.5") {
		t.Fatal(says)
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
	s.UntilReady()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
	s.UntilReady()
	s.Sound()
}

func TestARecordThatLostItsLabelsGetsThemBack(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	id := s.Cluster().Status.ClusterID
	cm := &corev1.ConfigMap{}
	if err := s.API.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "orders-config"}, cm); err != nil {
		t.Fatal(err)
	}
	cm.Labels = nil
	if err := s.API.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	s.UntilNotReady()
	s.UntilReady()
	if got := s.Cluster().Status.ClusterID; got != id {
		t.Errorf("cluster %s came back as %s", id, got)
	}
}

func TestARecordWithALabelOfSomebodyElseGetsOursBack(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	cm := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: "default", Name: "orders-config"}
	s.Must(s.Others.Get(t.Context(), key, cm))
	cm.Labels[cluster.LabelInstance] = "somebody-else"
	s.Must(s.Others.Update(t.Context(), cm))
	s.Pass()
	s.Must(s.Others.Get(t.Context(), key, cm))
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
			c, ok := pool.get(ctx, clientKey{pod: "p-1"}, func() MemberClient { made++; return &closing{} }).(*closing)
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
		s := newStage(t, controllersim.Persistent())
		s.UntilReady()
		kind, ok := s.NewOperator().Kind.(*Reconciler)
		if !ok {
			t.Fatal("it is no EtcdKind")
		}
		var ends func()
		kind.maintenance.spawn = func(f func() error, end func(error)) { ends = func() { end(f()) } }
		pass, endPass := context.WithCancel(t.Context())
		if err := kind.defragment(pass, s.Cluster(), steps.Defragment{Pod: "orders-0", Size: 10 << 30}); err != nil {
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
	s := newStage(t, controllersim.Persistent(), foreign)
	if _, err := s.NewOperator().Reconcile(t.Context(), s.Cluster()); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonForeignObject {
		t.Errorf("%+v", c)
	}
}

func TestPodState(t *testing.T) {
	gate := func(state corev1.ContainerState, last string) corev1.PodStatus {
		st := corev1.ContainerStatus{Name: manifests.ContainerGate, State: state}
		if last != "" {
			st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: last}
		}
		return corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{st}}
	}
	report := model.GateReport{Reason: model.GateLostDisk, Message: "gone"}
	waiting := func(name, reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}}}
	}
	for name, tc := range map[string]struct {
		status      corev1.PodStatus
		StuckReason bool
		gate        *model.GateReport
	}{
		"starting":                {status: waiting(manifests.ContainerEtcd, "PodInitializing")},
		"without an image":        {status: waiting(manifests.ContainerEtcd, "ImagePullBackOff"), StuckReason: true},
		"beside one without":      {status: waiting("mesh", "ImagePullBackOff")},
		"crashing":                {status: waiting(manifests.ContainerEtcd, "CrashLoopBackOff"), StuckReason: true},
		"held back":               {status: gate(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, report.Encode()), gate: &report},
		"with a word from others": {status: gate(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, "panic")},
		"let go": {status: gate(corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 0},
		}, report.Encode())},
		"without a node": {status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}}, StuckReason: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := podState(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "my-orders-2"}, Status: tc.status})
			if got.Stuck != tc.StuckReason || (got.Problem == "") == tc.StuckReason || got.Ordinal != 2 {
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
		return []corev1.ContainerStatus{{Name: manifests.ContainerGate, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message},
		}}}
	}
	ended := func(message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: manifests.ContainerEtcd, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: message},
		}}}
	}
	v36 := model.GateReport{Reason: model.GateStart, Agreed: 6}.Encode()
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		minor  int
	}{
		"the gate has told":         {status: corev1.PodStatus{InitContainerStatuses: released(0, v36)}, minor: 6},
		"the disk was empty":        {status: corev1.PodStatus{InitContainerStatuses: released(0, model.GateReport{Reason: model.GateStart}.Encode())}},
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
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.Change()
	kind := s.NewOperator().Kind.(*Reconciler) //nolint:forcetypeassert // The stage has no other.
	kind.Client.Client = &meddled{kind.Client.Client, func(o client.Object) {
		if set, ok := o.(*appsv1.StatefulSet); ok {
			now := set.DeepCopy()
			now.Spec.Replicas = new(int32(2))
			s.Must(s.Others.Update(t.Context(), now))
		}
	}}
	var hold cluster.Hold
	if err := kind.Ensure(t.Context(), s.Cluster()); !errors.As(err, &hold) || !strings.Contains(hold.Message, "StatefulSet") {
		t.Errorf("it is not looked at again: %v", err)
	}
	set := &appsv1.StatefulSet{}
	if s.Must(s.API.Get(t.Context(), s.Name, set)); *set.Spec.Replicas != 2 {
		t.Errorf("%d pods, and somebody wanted 2 in between", *set.Spec.Replicas)
	}
}

func TestNoPodIsDeletedByAnOldSpecificationOrRecord(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*controllersim.Etcd){
		"specification": (*controllersim.Etcd).Change,
		"record": func(s *controllersim.Etcd) {
			cm := &corev1.ConfigMap{}
			s.Must(s.API.Get(s.T.Context(), client.ObjectKey{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}, cm))
			cm.Data["version"] = "3.7.3"
			s.Must(s.Others.Update(s.T.Context(), cm))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, controllersim.Persistent())
			s.UntilReady()
			op := s.NewOperator()
			o, pod, key := s.Cluster(), &corev1.Pod{}, client.ObjectKey{Namespace: s.Name.Namespace, Name: "orders-0"}
			s.Must(s.API.Get(t.Context(), key, pod))
			s.Line().Lag(3, 0)
			change(s)
			err := op.Kind.(*Reconciler).deletePod(t.Context(), o, steps.DeletePod{Name: pod.Name, UID: string(pod.UID), ResourceVersion: pod.ResourceVersion}) //nolint:forcetypeassert // The stage has no other.
			var hold cluster.Hold
			if !errors.As(err, &hold) {
				t.Errorf("it is not looked at again: %v", err)
			}
			s.Must(s.API.Get(t.Context(), key, pod))
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
			s := newStage(t, fakeapi.EtcdCluster())
			s.Served()
			s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
			s.UntilReady()
			key := client.ObjectKey{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}
			old, now := &corev1.ConfigMap{}, &corev1.ConfigMap{}
			get := func(key client.ObjectKey, o client.Object) {
				if err := s.API.Get(t.Context(), key, o); err != nil {
					t.Fatal(err)
				}
			}
			get(key, old)
			s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 })
			s.UntilReady()
			get(key, now)

			kind := s.NewOperator().Kind.(*Reconciler)
			kind.Client.Client = &controllersim.Outdated{Client: kind.Client.Client, Old: old, Reads: reads}
			err := kind.Ensure(t.Context(), s.Cluster())
			if reads == 1000 && !errors.Is(err, configMoved) {
				t.Errorf("it goes on: %v", err)
			}
			set, then := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
			get(s.Name, set)
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
