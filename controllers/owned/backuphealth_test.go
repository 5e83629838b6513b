package owned

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestAClusterSaysTheWorstOfItsSchedules(t *testing.T) {
	orders := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	good := fakeapi.ScheduleThatSays("a", orders, metav1.ConditionTrue, "the newest backup is a-1")
	bad := fakeapi.ScheduleThatSays("b", orders, metav1.ConditionFalse, "the store is full")
	silent := fakeapi.ScheduleThatSays("c", orders, "", "")
	leaving := fakeapi.ScheduleThatSays("d", orders, metav1.ConditionFalse, "no")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: fakeapi.Now}, []string{"somebody.else/holds"}
	for name, tc := range map[string]struct {
		schedules []client.Object
		want      string // empty: no condition
	}{
		"none":               {nil, ""},
		"of another cluster": {[]client.Object{fakeapi.ScheduleThatSays("e", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "orders"}, metav1.ConditionFalse, "no")}, ""},
		"that is leaving":    {[]client.Object{leaving}, ""},
		"healthy":            {[]client.Object{good}, "True " + planner.ReasonHealthy + " the backups that schedules"},
		"one is not":         {[]client.Object{good, silent, bad}, "False Word BackupSchedule b: the store is full"},
		"one is silent":      {[]client.Object{good, silent}, "Unknown Unknown BackupSchedule c has not been looked at yet"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newChildren(fakeapi.New(t, tc.schedules...)).BackupHealth(t.Context(), fakeapi.EtcdCluster(), v1alpha1.KindEtcdCluster)
			if err != nil || (c == nil) != (tc.want == "") {
				t.Fatalf("%+v, %v", c, err)
			}
			if c != nil && !strings.HasPrefix(string(c.Status)+" "+c.Reason+" "+c.Message, tc.want) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// A schedule writes its status after each backup, and looks at its clusters when that changes anything for them.
func TestAScheduleIsNewsWhenItsHealthChanges(t *testing.T) {
	of := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	base := func() *v1alpha1.BackupSchedule {
		return fakeapi.ScheduleThatSays("a", of, metav1.ConditionTrue, "the newest backup is a-1")
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.BackupSchedule)
		news   bool
	}{
		"another backup": {func(s *v1alpha1.BackupSchedule) {
			s.Status.Conditions[0].Message, s.Status.LastBackup, s.Status.Backups = "the newest backup is a-2", "a-2", 2
		}, false},
		"a later word": {func(s *v1alpha1.BackupSchedule) {
			s.Status.Conditions[0].LastTransitionTime = metav1.NewTime(fakeapi.Now.Add(time.Hour))
		}, false},
		"it fails":        {func(s *v1alpha1.BackupSchedule) { s.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"another cluster": {func(s *v1alpha1.BackupSchedule) { s.Spec.Cluster.Name = "carts" }, true},
		"it goes":         {func(s *v1alpha1.BackupSchedule) { s.DeletionTimestamp = &metav1.Time{Time: fakeapi.Now} }, true},
	} {
		is := base()
		tc.change(is)
		if news := healthChanged().Update(event.UpdateEvent{ObjectOld: base(), ObjectNew: is}); news != tc.news {
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
