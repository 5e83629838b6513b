package controllersim

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestTheHealthOfBackupsComesAndGoesWithTheSchedule(t *testing.T) {
	carts := v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	schedule := fakeapi.ScheduleThatSays("nightly", carts, metav1.ConditionFalse, "the store is full")
	s := newRedisStage(t, fakeapi.RedisCluster(), schedule)
	s.Settle()
	health := func() *metav1.Condition {
		s.Pass()
		return meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionBackupHealthy)
	}
	if c := health(); c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != 1 || !strings.Contains(c.Message, "nightly: the store is full") {
		t.Errorf("%+v", c)
	}
	before := s.API.Writes.Load()
	for range 5 {
		s.Pass()
	}
	if n := s.API.Writes.Load() - before; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
	if err := s.API.Delete(t.Context(), schedule); err != nil {
		t.Fatal(err)
	}
	if c := health(); c != nil {
		t.Errorf("without a schedule: %+v", c)
	}
	e := newStage(t, fakeapi.EtcdCluster())
	e.UntilReady()
	e.Must(e.Others.Create(t.Context(), fakeapi.ScheduleThatSays("hourly", v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}, metav1.ConditionFalse, "no")))
	e.Pass()
	if !meta.IsStatusConditionFalse(e.Cluster().Status.Conditions, v1alpha1.ConditionBackupHealthy) {
		t.Errorf("etcd: %+v", e.Cluster().Status.Conditions)
	}
}
