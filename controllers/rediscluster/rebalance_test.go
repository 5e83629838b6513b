package rediscluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

// heavyShard is a cluster by memory whose first shard has 100 keys, which take a MiB each, and its clock.
func heavyShard(t *testing.T, mode v1alpha1.RebalanceMode) (*controllersim.Redis, *time.Time) {
	t.Helper()
	o := fakeapi.RedisCluster()
	o.Spec.Rebalance = &v1alpha1.RedisRebalanceSpec{
		By: ptr.To(v1alpha1.RebalanceByMemory), Mode: &mode, CoolDown: &metav1.Duration{Duration: 30 * time.Minute},
	}
	s := newRedisStage(t, o)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("the loop is of a %T", s.Loop.Kind)
	}
	kind.Now = func() time.Time { return now }
	s.Settle()
	if c := s.Balanced(); c == nil || c.Reason != planner.ReasonBalanced {
		t.Fatalf("%+v", c)
	}
	now = now.Add(sampleEvery)
	w := s.Servers["carts-0-0"]
	for slot := range 100 {
		w.Data[redisfake.Key{Slot: slot}] = 1
	}
	for range 3 {
		s.Pass()
	}
	return s, &now
}

func TestARebalanceIsProposedAndCarriedOutWhenApproved(t *testing.T) {
	s, _ := heavyShard(t, v1alpha1.RebalancePropose)
	c, r := s.Balanced(), s.Cluster().Status.Rebalancing
	if c == nil || c.Reason != planner.ReasonProposed || r == nil || r.Proposal == "" || !strings.Contains(c.Message, v1alpha1.AnnotationRebalance+"="+r.Proposal) {
		t.Fatalf("%+v; %+v", c, r)
	}
	if told := s.Told(); !strings.Contains(told, planner.ReasonProposed) {
		t.Errorf("events:\n%s", told)
	}
	if !s.Servers["carts-0-0"].Owns(50) || !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("it is carried out without approval")
	}
	o := s.Cluster()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationRebalance, r.Proposal)
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	if !s.Level() {
		t.Error("shards do not have as many keys as others")
	}
	if c := s.Balanced(); c.Reason == planner.ReasonRebalance {
		t.Errorf("%+v", c)
	}
}

func TestARebalanceIsCarriedOutByItselfAfterItWasTold(t *testing.T) {
	s, now := heavyShard(t, v1alpha1.RebalanceAutomatic)
	if c := s.Balanced(); c.Reason != planner.ReasonProposed || !strings.Contains(c.Message, "which begins at 2026-05-01T00:30:00Z") {
		t.Fatalf("%+v", c)
	}
	*now = now.Add(28 * time.Minute)
	for range 10 {
		s.Pass()
	}
	if s.Level() {
		t.Error("it was carried out before the time that it was told for")
	}
	*now = now.Add(2 * time.Minute)
	s.Pass()
	s.Settle()
	if !s.Level() {
		t.Error("shards do not have as many keys as others")
	}
}

func TestSamplesForTheLoadSpanItsWindow(t *testing.T) {
	w := &scales{}
	at := time.Unix(1e9, 0)
	for i := range 20 {
		w.take(v1alpha1.RebalanceByLoad, balance.Sample{At: at.Add(time.Duration(i) * sampleEvery)})
	}
	if span := w.marks[len(w.marks)-1].At.Sub(w.marks[0].At); span < balance.LoadWindow || span > balance.LoadWindow+sampleEvery {
		t.Errorf("%s", span)
	}
}
