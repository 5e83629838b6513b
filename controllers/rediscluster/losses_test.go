package rediscluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// oneShard is a cluster of one shard without storage.
func oneShard() *v1alpha1.RedisCluster {
	o := fakeapi.RedisCluster()
	o.Spec.Shards, o.Spec.Storage = 1, nil
	return o
}

func TestTheOnlyPrimaryIsReplacedAndTheLossIsTold(t *testing.T) {
	s := newRedisStage(t, oneShard())
	s.Settle()
	s.Told()
	s.Lose("carts-0-0")
	for range 40 {
		s.Pass()
	}
	s.Settle()
	if p := s.Cluster().Status.Shards[0].Primary; p != "carts-0-1" {
		t.Errorf("the primary is %s", p)
	}
	if told := s.Told(); !strings.Contains(told, "carts-0-1 takes over slots 0-16383") || !strings.Contains(told, "what was acknowledged later is lost") {
		t.Errorf("events:\n%s", told)
	}
}

// TestAPrimaryIsFencedByItsNode: that a server does not answer is no proof that it does not run. That its node does not report is.
func TestAPrimaryIsFencedByItsNode(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	s := newRedisStage(t, oneShard(), node)
	s.Settle()
	s.BreakOff("carts-0-0", "n")
	for range 100 {
		s.Pass()
	}
	if p := s.Servers["carts-0-1"].Primary(); p == "" {
		t.Fatal("carts-0-1 has taken over from a server that may run")
	}
	node = s.Node("n")
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	if err := s.API.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s.Pass()
	}
	if p := s.Servers["carts-0-1"].Primary(); p != "" {
		t.Errorf("carts-0-1 has not taken over: %s", s.Cluster().Status.Activity)
	}
}

// TestANodeThatIsGoneIsProofWithoutStorage: nothing of a pod runs where there is no node, before any server has missed it.
func TestANodeThatIsGoneIsProofWithoutStorage(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	o.Spec.Storage = nil
	s := newRedisStage(t, o, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	s.Settle()
	s.Told()
	began := s.Net.Now()
	s.BreakOff("carts-0-0", "n")
	s.Pass()
	if told := s.Told(); strings.Contains(told, steps.ReasonElect) {
		t.Fatalf("its node is there:\n%s", told)
	}
	if err := s.API.Delete(t.Context(), s.Node("n")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Pass()
	}
	if told := s.Told(); !strings.Contains(told, steps.ReasonElect) || s.Net.Now().Sub(began) >= 5*time.Second {
		t.Errorf("after %s: %s\n%s", s.Net.Now().Sub(began), s.Cluster().Status.Activity, told)
	}
}

// TestTheNodeOfMostPrimariesIsOutOfService: their pods are ready as its kubelet said last, and wait in vain for it to end them.
func TestTheNodeOfMostPrimariesIsOutOfService(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	s.Settle()
	s.Told()
	began := s.Net.Now()
	for _, name := range []string{"carts-0-0", "carts-1-0"} {
		s.BreakOff(name, "n")
		s.Endless(name)
	}
	s.Pass()
	if told := s.Told(); strings.Contains(told, steps.ReasonElect) {
		t.Fatalf("its node is there:\n%s", told)
	}
	node := s.Node("n")
	node.Spec.Taints = []corev1.Taint{{Key: owned.TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	if err := s.API.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		s.Pass()
	}
	told := s.Told()
	for _, name := range []string{"carts-0-1", "carts-1-1"} {
		if !strings.Contains(told, name+" takes over slots") || s.Net.Now().Sub(began) >= 10*time.Second {
			t.Errorf("%s, after %s: %s\n%s", name, s.Net.Now().Sub(began), s.Cluster().Status.Activity, told)
		}
	}
}

// TestAServerThatHangsIsEnded: by its kubelet, at once, when others own its slots, and after a while otherwise.
func TestAServerThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Equip = func(c *owned.Client) {
		start := c.Now()
		c.Now = func() time.Time { return start.Add(s.Net.Now().Sub(time.Unix(0, 0))) }
	}
	s.Restart()
	s.Settle()
	for _, name := range []string{"carts-1-0", "carts-1-0"} { // It is a replica the second time.
		leads := s.Servers[name].Primary() == ""
		s.Servers[name].StandStill()
		began := s.Net.Now()
		for range 2000 {
			if s.Pass(); s.Deleted[name] != "" {
				break
			}
		}
		if took := s.Net.Now().Sub(began); leads != (took < time.Minute) {
			t.Errorf("a server that leads (%t) was ended after %s", leads, took)
		}
		if grace, said := s.Graces[name]; grace != 1 || !said {
			t.Errorf("it was given %d seconds", grace)
		}
		delete(s.Deleted, name)
		delete(s.Graces, name)
		s.Settle()
	}
	if told := s.Told(); !strings.Contains(told, "others own its slots by now") || !strings.Contains(told, "has answered none for 1m30s") {
		t.Errorf("events:\n%s", told)
	}
}

func TestALostShardIsHeldUntilItsIncidentIsApproved(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	for slot := range slots.Count {
		if server := s.Servers["carts-0-0"]; server.Owns(slot) {
			server.Data[redisfake.Key{Slot: slot}] = 1
			break
		}
	}
	s.Lose("carts-1-0", "carts-1-1")
	var stalled *metav1.Condition
	for range 100 {
		s.Pass()
		if stalled = meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled); stalled.Reason == planner.ReasonShardLost {
			break
		}
	}
	if stalled.Reason != planner.ReasonShardLost || !strings.Contains(stalled.Message, "shard 1 is lost (pods carts-1-0, carts-1-1)") {
		t.Fatalf("stalled: %+v", stalled)
	}
	_, incident, _ := strings.Cut(stalled.Message, v1alpha1.AnnotationRecover+"=")
	incident, _, _ = strings.Cut(incident, " ")
	o := s.Cluster()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationRecover, incident)
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.Told()
	s.Settle()
	if told := s.Told(); !strings.Contains(told, "Its data is lost, and its slots are served empty from now on (this was approved)") {
		t.Errorf("events:\n%s", told)
	}
}

// A server comes back as it was from a disk that it still has.
func TestAPodIsNotEndedForADiskThatStays(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "carts-0-1", UID: "pod"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "data-carts-0-1", UID: "claim"}}
	w := fakeapi.New(t, o, pod, claim)
	kind := New(ownedtest.New(w))
	there := func(o client.Object) bool { return w.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil }
	if !there(claim) {
		t.Fatal("no claim")
	}
	step := steps.ReplaceDisk{
		Claim: steps.DeleteClaim{Name: claim.Name, UID: "claim", ResourceVersion: claim.ResourceVersion}, Pod: steps.PodRef{Name: pod.Name, UID: "pod"},
	}
	claim.Annotations = map[string]string{"backup": "taken"}
	if err := w.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if err := kind.Act(t.Context(), o, step); !apierrors.IsConflict(err) || !there(claim) || !there(pod) {
		t.Errorf("the claim is there: %t, the pod is there: %t, %v", there(claim), there(pod), err)
	}
	step.Claim.ResourceVersion = claim.ResourceVersion
	for range 2 { // The second time after a crash in between.
		if err := kind.Act(t.Context(), o, step); err != nil || there(claim) || there(pod) {
			t.Errorf("the claim is there: %t, the pod is there: %t, %v", there(claim), there(pod), err)
		}
	}
}

// A cluster without volumes has no claims, whatever an earlier one of its name has left.
func TestAShardTakesNoVolumesOfAnEarlierClusterAlong(t *testing.T) {
	t.Parallel()
	for name, storage := range map[string]*v1alpha1.StorageSpec{"without volumes": nil, "with volumes": fakeapi.RedisCluster().Spec.Storage} {
		o := fakeapi.RedisCluster()
		o.Spec.Storage = storage
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "data-carts-3-0", UID: "claim", Labels: manifests.Labels(o)}}
		w := fakeapi.New(t, o, claim)
		if err := New(ownedtest.New(w)).Act(t.Context(), o, steps.DropShard{Shard: 3, UID: "set"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); (err == nil) != (storage == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
