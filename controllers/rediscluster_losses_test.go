package controllers

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
)

// oneShard is a cluster of one shard without storage.
func oneShard() *v1alpha1.RedisCluster {
	o := redisCluster()
	o.Spec.Shards, o.Spec.Storage = 1, nil
	return o
}

// lose takes pods away with all that they had.
func (s *redisStage) lose(pods ...string) {
	s.t.Helper()
	for _, name := range pods {
		if err := s.api.Delete(s.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			s.t.Fatal(err)
		}
		s.net.Remove(s.servers[name])
		delete(s.servers, name)
	}
}

// told takes the events so far.
func (s *redisStage) told() string {
	s.t.Helper()
	recorder, ok := s.loop.Events.(*events.FakeRecorder)
	if !ok {
		s.t.Fatalf("events go to a %T", s.loop.Events)
	}
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return strings.Join(out, "\n")
}

func TestTheOnlyPrimaryIsReplacedAndTheLossIsTold(t *testing.T) {
	s := newRedisStage(t, oneShard())
	s.settle()
	s.told()
	s.lose("carts-0-0")
	for range 40 {
		s.pass()
	}
	s.settle()
	if p := s.cluster().Status.Shards[0].Primary; p != "carts-0-1" {
		t.Errorf("the primary is %s", p)
	}
	if told := s.told(); !strings.Contains(told, "carts-0-1 takes over slots 0-16383") || !strings.Contains(told, "what was acknowledged later is lost") {
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
	s.settle()
	s.breakOff("carts-0-0", "n")
	for range 100 {
		s.pass()
	}
	if p := s.servers["carts-0-1"].Primary(); p == "" {
		t.Fatal("carts-0-1 has taken over from a server that may run")
	}
	node = s.node("n")
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	if err := s.api.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s.pass()
	}
	if p := s.servers["carts-0-1"].Primary(); p != "" {
		t.Errorf("carts-0-1 has not taken over: %s", s.cluster().Status.Activity)
	}
}

// TestANodeThatIsGoneIsProofWithoutStorage: nothing of a pod runs where there is no node, before any server has missed it.
func TestANodeThatIsGoneIsProofWithoutStorage(t *testing.T) {
	t.Parallel()
	o := redisCluster()
	o.Spec.Storage = nil
	s := newRedisStage(t, o, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	s.settle()
	s.told()
	began := s.net.Now()
	s.breakOff("carts-0-0", "n")
	s.pass()
	if told := s.told(); strings.Contains(told, redis.ReasonElect) {
		t.Fatalf("its node is there:\n%s", told)
	}
	if err := s.api.Delete(t.Context(), s.node("n")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.pass()
	}
	if told := s.told(); !strings.Contains(told, redis.ReasonElect) || s.net.Now().Sub(began) >= 5*time.Second {
		t.Errorf("after %s: %s\n%s", s.net.Now().Sub(began), s.cluster().Status.Activity, told)
	}
}

// TestTheNodeOfMostPrimariesIsOutOfService: their pods are ready as its kubelet said last, and wait in vain for it to end them.
func TestTheNodeOfMostPrimariesIsOutOfService(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	s.settle()
	s.told()
	began := s.net.Now()
	for _, name := range []string{"carts-0-0", "carts-1-0"} {
		s.breakOff(name, "n")
		s.endless(name)
	}
	s.pass()
	if told := s.told(); strings.Contains(told, redis.ReasonElect) {
		t.Fatalf("its node is there:\n%s", told)
	}
	node := s.node("n")
	node.Spec.Taints = []corev1.Taint{{Key: taintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	if err := s.api.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		s.pass()
	}
	told := s.told()
	for _, name := range []string{"carts-0-1", "carts-1-1"} {
		if !strings.Contains(told, name+" takes over slots") || s.net.Now().Sub(began) >= 10*time.Second {
			t.Errorf("%s, after %s: %s\n%s", name, s.net.Now().Sub(began), s.cluster().Status.Activity, told)
		}
	}
}

// endless has a pod be deleted and stay, ready, because nobody confirms that it has ended.
func (s *redisStage) endless(name string) {
	s.t.Helper()
	ctx := s.t.Context()
	var p corev1.Pod
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, &p); err != nil {
		s.t.Fatal(err)
	}
	p.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := s.api.Status().Update(ctx, &p); err != nil {
		s.t.Fatal(err)
	}
	p.Finalizers = []string{"somebody.else/holds"}
	if err := s.api.Update(ctx, &p); err != nil {
		s.t.Fatal(err)
	}
	if err := s.api.Delete(ctx, &p); err != nil {
		s.t.Fatal(err)
	}
}

// TestAServerThatHangsIsEnded: by its kubelet, at once, when others own its slots, and after a while otherwise.
func TestAServerThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.equip = func(c *Children) {
		start := c.Now()
		c.Now = func() time.Time { return start.Add(s.net.Now().Sub(time.Unix(0, 0))) }
	}
	s.restart()
	s.settle()
	for _, name := range []string{"carts-1-0", "carts-1-0"} { // It is a replica the second time.
		leads := s.servers[name].Primary() == ""
		s.servers[name].StandStill()
		began := s.net.Now()
		for range 2000 {
			if s.pass(); s.deleted[name] != "" {
				break
			}
		}
		if took := s.net.Now().Sub(began); leads != (took < time.Minute) {
			t.Errorf("a server that leads (%t) was ended after %s", leads, took)
		}
		if grace, said := s.graces[name]; grace != 1 || !said {
			t.Errorf("it was given %d seconds", grace)
		}
		delete(s.deleted, name)
		delete(s.graces, name)
		s.settle()
	}
	if told := s.told(); !strings.Contains(told, "others own its slots by now") || !strings.Contains(told, "has answered none for 1m30s") {
		t.Errorf("events:\n%s", told)
	}
}

// breakOff is the failure of a node: the API server still has what it heard of a pod there last.
func (s *redisStage) breakOff(pod, node string) {
	s.t.Helper()
	ctx := s.t.Context()
	var p corev1.Pod
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: "default", Name: pod}, &p); err != nil {
		s.t.Fatal(err)
	}
	p.Spec.NodeName = node
	if err := s.api.Update(ctx, &p); err != nil {
		s.t.Fatal(err)
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: redis.ContainerServer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(s.net.Now())
	if err := s.api.Status().Update(ctx, &p); err != nil {
		s.t.Fatal(err)
	}
	s.servers[pod].Stop()
}

func (s *redisStage) node(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		s.t.Fatal(err)
	}
	return node
}

func TestALostShardIsHeldUntilItsIncidentIsApproved(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	for slot := range redis.SlotCount {
		if server := s.servers["carts-0-0"]; server.Owns(slot) {
			server.Data[redisfake.Key{Slot: slot}] = 1
			break
		}
	}
	s.lose("carts-1-0", "carts-1-1")
	var stalled *metav1.Condition
	for range 100 {
		s.pass()
		if stalled = meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled); stalled.Reason == redis.ReasonShardLost {
			break
		}
	}
	if stalled.Reason != redis.ReasonShardLost || !strings.Contains(stalled.Message, "shard 1 is lost (pods carts-1-0, carts-1-1)") {
		t.Fatalf("stalled: %+v", stalled)
	}
	_, incident, _ := strings.Cut(stalled.Message, v1alpha1.AnnotationRecover+"=")
	incident, _, _ = strings.Cut(incident, " ")
	o := s.cluster()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationRecover, incident)
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.told()
	s.settle()
	if told := s.told(); !strings.Contains(told, "Its data is lost, and its slots are served empty from now on (this was approved)") {
		t.Errorf("events:\n%s", told)
	}
}

// A server comes back as it was from a disk that it still has.
func TestAPodIsNotEndedForADiskThatStays(t *testing.T) {
	t.Parallel()
	o := redisCluster()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "carts-0-1", UID: "pod"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "data-carts-0-1", UID: "claim"}}
	w := newWorld(t, o, pod, claim)
	kind := NewRedisKind(newChildren(w))
	there := func(o client.Object) bool { return w.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil }
	if !there(claim) {
		t.Fatal("no claim")
	}
	step := redis.ReplaceDisk{
		Claim: redis.DeleteClaim{Name: claim.Name, UID: "claim", ResourceVersion: claim.ResourceVersion}, Pod: redis.PodRef{Name: pod.Name, UID: "pod"},
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
	for name, storage := range map[string]*v1alpha1.StorageSpec{"without volumes": nil, "with volumes": redisCluster().Spec.Storage} {
		o := redisCluster()
		o.Spec.Storage = storage
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "data-carts-3-0", UID: "claim", Labels: redis.Labels(o)}}
		w := newWorld(t, o, claim)
		if err := NewRedisKind(newChildren(w)).Act(t.Context(), o, redis.DropShard{Shard: 3, UID: "set"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); (err == nil) != (storage == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
