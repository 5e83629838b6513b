package owned

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/internal/backup/planner"
)

// BackupHealth is the worst that the schedules of a cluster say of its backups, nil where there is none.
func (c *Client) BackupHealth(ctx context.Context, o Owner, kind v1alpha1.ClusterKind) (*metav1.Condition, error) {
	var list v1alpha1.BackupScheduleList
	of := v1alpha1.ClusterReference{Kind: kind, Name: o.GetName()}
	if err := c.List(ctx, &list, client.InNamespace(o.GetNamespace()), OfCluster(of)); err != nil {
		return nil, fmt.Errorf("list backup schedules: %w", err)
	}
	ours := slices.DeleteFunc(list.Items, func(s v1alpha1.BackupSchedule) bool { return s.Spec.Cluster != of || s.DeletionTimestamp != nil })
	slices.SortFunc(ours, func(a, b v1alpha1.BackupSchedule) int { return strings.Compare(a.Name, b.Name) })
	var all []metav1.Condition
	for i := range ours {
		all = append(all, healthOf(&ours[i]))
	}
	if len(all) == 0 {
		return nil, nil
	}
	bad := map[metav1.ConditionStatus]int{metav1.ConditionFalse: 0, metav1.ConditionUnknown: 1, metav1.ConditionTrue: 2}
	worst := slices.MinFunc(all, func(a, b metav1.Condition) int { return cmp.Compare(bad[a.Status], bad[b.Status]) })
	return &worst, nil
}

// healthOf is what a schedule says of the backups of its cluster. It does not name the newest one, which is another every hour.
func healthOf(s *v1alpha1.BackupSchedule) metav1.Condition {
	out := metav1.Condition{
		Type: v1alpha1.ConditionBackupHealthy, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUnknown,
		Message: "BackupSchedule " + s.Name + " has not been looked at yet",
	}
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionBackupHealthy)
	switch {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		out.Status, out.Reason, out.Message = c.Status, planner.ReasonHealthy, "the backups that schedules of this cluster ask for are there"
	default:
		out.Status, out.Reason, out.Message = c.Status, c.Reason, "BackupSchedule "+s.Name+": "+c.Message
	}
	return out
}

// ReportBackups puts the health of its backups into the conditions of a cluster, and takes it out where no schedule is for it.
func ReportBackups(list *[]metav1.Condition, now time.Time, generation int64, health *metav1.Condition) {
	if health == nil {
		meta.RemoveStatusCondition(list, v1alpha1.ConditionBackupHealthy)
		return
	}
	conditions.Set(list, now, generation, *health)
}

// WatchSchedules lets the controller of a kind of cluster notice when its backups become healthy, or are no longer.
func WatchSchedules(b *builder.Builder, kind v1alpha1.ClusterKind) {
	b.Watches(&v1alpha1.BackupSchedule{}, handler.EnqueueRequestsFromMapFunc(clusterOfSchedule(kind)), builder.WithPredicates(healthChanged()))
}

func clusterOfSchedule(kind v1alpha1.ClusterKind) handler.MapFunc {
	return func(_ context.Context, o client.Object) []ctrl.Request {
		s, ok := o.(*v1alpha1.BackupSchedule)
		if !ok || s.Spec.Cluster.Kind != kind {
			return nil
		}
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.Cluster.Name}}}
	}
}

// healthChanged lets through what changes what clusters say. A schedule reports on itself after every backup.
func healthChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, isSchedule := e.ObjectOld.(*v1alpha1.BackupSchedule)
		is, stillSchedule := e.ObjectNew.(*v1alpha1.BackupSchedule)
		return isSchedule && stillSchedule && (was.Spec.Cluster != is.Spec.Cluster || (was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(healthOf(was), healthOf(is)))
	}}
}
