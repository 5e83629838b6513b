package controllers

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
)

// heavyShard is a cluster by memory whose first shard has 100 keys, which take a MiB each, and its clock.
func heavyShard(t *testing.T, mode v1alpha1.RebalanceMode) (*redisStage, *time.Time) {
	t.Helper()
	o := redisCluster()
	o.Spec.Rebalance = &v1alpha1.RedisRebalanceSpec{
		By: ptr.To(v1alpha1.RebalanceByMemory), Mode: &mode, CoolDown: &metav1.Duration{Duration: 30 * time.Minute},
	}
	s := newRedisStage(t, o)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("the loop is of a %T", s.loop.Kind)
	}
	kind.Now = func() time.Time { return now }
	s.settle()
	if c := s.balanced(); c == nil || c.Reason != redis.ReasonBalanced {
		t.Fatalf("%+v", c)
	}
	now = now.Add(sampleEvery)
	w := s.servers["carts-0-0"]
	for slot := range 100 {
		w.Data[redisfake.Key{Slot: slot}] = 1
	}
	for range 3 {
		s.pass()
	}
	return s, &now
}

// level checks that every shard has about as many keys as the others.
func (s *redisStage) level() bool {
	for _, name := range []string{"carts-0-0", "carts-1-0", "carts-2-0"} {
		keys := 0
		for k := range s.servers[name].Data {
			if s.servers[name].Owns(k.Slot) {
				keys++
			}
		}
		if keys < 25 || keys > 45 {
			return false
		}
	}
	return true
}

func (s *redisStage) balanced() *metav1.Condition {
	s.t.Helper()
	return meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionBalanced)
}

func TestARebalanceIsProposedAndCarriedOutWhenApproved(t *testing.T) {
	s, _ := heavyShard(t, v1alpha1.RebalancePropose)
	c, r := s.balanced(), s.cluster().Status.Rebalancing
	if c == nil || c.Reason != redis.ReasonProposed || r == nil || r.Proposal == "" || !strings.Contains(c.Message, v1alpha1.AnnotationRebalance+"="+r.Proposal) {
		t.Fatalf("%+v; %+v", c, r)
	}
	if told := s.told(); !strings.Contains(told, redis.ReasonProposed) {
		t.Errorf("events:\n%s", told)
	}
	if !s.servers["carts-0-0"].Owns(50) || !meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("it is carried out without approval")
	}
	o := s.cluster()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationRebalance, r.Proposal)
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if !s.level() {
		t.Error("shards do not have as many keys as others")
	}
	if c := s.balanced(); c.Reason == redis.ReasonRebalance {
		t.Errorf("%+v", c)
	}
}

func TestARebalanceIsCarriedOutByItselfAfterItWasTold(t *testing.T) {
	s, now := heavyShard(t, v1alpha1.RebalanceAutomatic)
	if c := s.balanced(); c.Reason != redis.ReasonProposed || !strings.Contains(c.Message, "which begins at 2026-05-01T00:30:00Z") {
		t.Fatalf("%+v", c)
	}
	*now = now.Add(28 * time.Minute)
	for range 10 {
		s.pass()
	}
	if s.level() {
		t.Error("it was carried out before the time that it was told for")
	}
	*now = now.Add(2 * time.Minute)
	s.pass()
	s.settle()
	if !s.level() {
		t.Error("shards do not have as many keys as others")
	}
}

func TestSamplesForTheLoadSpanItsWindow(t *testing.T) {
	w := &scales{}
	at := time.Unix(1e9, 0)
	for i := range 20 {
		w.take(v1alpha1.RebalanceByLoad, redis.Sample{At: at.Add(time.Duration(i) * sampleEvery)})
	}
	if span := w.marks[len(w.marks)-1].At.Sub(w.marks[0].At); span < redis.LoadWindow || span > redis.LoadWindow+sampleEvery {
		t.Errorf("%s", span)
	}
}
