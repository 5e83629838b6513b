package controllers

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
)

// scheduleThatSays is a schedule of a cluster with a word on its backups; an empty status: it has none yet.
func scheduleThatSays(name string, of v1alpha1.ClusterReference, status metav1.ConditionStatus, message string) *v1alpha1.BackupSchedule {
	return aSchedule(func(o *v1alpha1.BackupSchedule) {
		o.Name, o.Spec.Cluster = name, of
		if status != "" {
			o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBackupHealthy, Status: status, Reason: "Word", Message: message, LastTransitionTime: metav1.NewTime(stageNow)}}
		}
	})
}

func TestAClusterSaysTheWorstOfItsSchedules(t *testing.T) {
	orders := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	good := scheduleThatSays("a", orders, metav1.ConditionTrue, "the newest backup is a-1")
	bad := scheduleThatSays("b", orders, metav1.ConditionFalse, "the store is full")
	silent := scheduleThatSays("c", orders, "", "")
	leaving := scheduleThatSays("d", orders, metav1.ConditionFalse, "no")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: stageNow}, []string{"somebody.else/holds"}
	for name, tc := range map[string]struct {
		schedules []client.Object
		want      string // empty: no condition
	}{
		"none":               {nil, ""},
		"of another cluster": {[]client.Object{scheduleThatSays("e", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "orders"}, metav1.ConditionFalse, "no")}, ""},
		"that is leaving":    {[]client.Object{leaving}, ""},
		"healthy":            {[]client.Object{good}, "True " + plan.ReasonHealthy + " the backups that schedules"},
		"one is not":         {[]client.Object{good, silent, bad}, "False Word BackupSchedule b: the store is full"},
		"one is silent":      {[]client.Object{good, silent}, "Unknown Unknown BackupSchedule c has not been looked at yet"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newChildren(newWorld(t, tc.schedules...)).backupHealth(t.Context(), etcdCluster(), v1alpha1.KindEtcdCluster)
			if err != nil || (c == nil) != (tc.want == "") {
				t.Fatalf("%+v, %v", c, err)
			}
			if c != nil && !strings.HasPrefix(string(c.Status)+" "+c.Reason+" "+c.Message, tc.want) {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestTheHealthOfBackupsComesAndGoesWithTheSchedule(t *testing.T) {
	carts := v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	schedule := scheduleThatSays("nightly", carts, metav1.ConditionFalse, "the store is full")
	s := newRedisStage(t, redisCluster(), schedule)
	s.settle()
	health := func() *metav1.Condition {
		s.pass()
		return meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionBackupHealthy)
	}
	if c := health(); c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != 1 || !strings.Contains(c.Message, "nightly: the store is full") {
		t.Errorf("%+v", c)
	}
	before := s.api.writes.Load()
	for range 5 {
		s.pass()
	}
	if n := s.api.writes.Load() - before; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
	if err := s.api.Delete(t.Context(), schedule); err != nil {
		t.Fatal(err)
	}
	if c := health(); c != nil {
		t.Errorf("without a schedule: %+v", c)
	}
	e := newStage(t, etcdCluster())
	e.untilReady()
	e.must(e.others.Create(t.Context(), scheduleThatSays("hourly", v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}, metav1.ConditionFalse, "no")))
	e.pass()
	if !meta.IsStatusConditionFalse(e.cluster().Status.Conditions, v1alpha1.ConditionBackupHealthy) {
		t.Errorf("etcd: %+v", e.cluster().Status.Conditions)
	}
}

// A schedule writes its status after each backup, and looks at its clusters when that changes anything for them.
func TestAScheduleIsNewsWhenItsHealthChanges(t *testing.T) {
	of := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	base := func() *v1alpha1.BackupSchedule {
		return scheduleThatSays("a", of, metav1.ConditionTrue, "the newest backup is a-1")
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.BackupSchedule)
		news   bool
	}{
		"another backup": {func(s *v1alpha1.BackupSchedule) {
			s.Status.Conditions[0].Message, s.Status.LastBackup, s.Status.Backups = "the newest backup is a-2", "a-2", 2
		}, false},
		"a later word": {func(s *v1alpha1.BackupSchedule) {
			s.Status.Conditions[0].LastTransitionTime = metav1.NewTime(stageNow.Add(time.Hour))
		}, false},
		"it fails":        {func(s *v1alpha1.BackupSchedule) { s.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"another cluster": {func(s *v1alpha1.BackupSchedule) { s.Spec.Cluster.Name = "carts" }, true},
		"it goes":         {func(s *v1alpha1.BackupSchedule) { s.DeletionTimestamp = &metav1.Time{Time: stageNow} }, true},
	} {
		is := base()
		tc.change(is)
		if news := healthNews().Update(event.UpdateEvent{ObjectOld: base(), ObjectNew: is}); news != tc.news {
			t.Errorf("%s: %t", name, news)
		}
	}
	if got := clusterOfSchedule(v1alpha1.KindEtcdCluster)(t.Context(), base()); len(got) != 1 || got[0].Name != "orders" {
		t.Errorf("%v", got)
	}
	if got := clusterOfSchedule(v1alpha1.KindRedisCluster)(t.Context(), base()); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
