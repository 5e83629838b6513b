package restore

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestABackupOfWhatThereIsSaysHowFarItIs(t *testing.T) {
	since := metav1.NewTime(fakeapi.Now)
	condition := func(typ string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: typ, Status: status, Message: "there is no Secret", LastTransitionTime: since}
	}
	taking, stalled := condition(v1alpha1.ConditionComplete, metav1.ConditionFalse), condition(v1alpha1.ConditionStalled, metav1.ConditionTrue)
	for name, tc := range map[string]struct {
		status v1alpha1.BackupStatus
		want   planner.Saved
	}{
		"just made":                    {v1alpha1.BackupStatus{}, planner.Saved{}},
		"being taken":                  {v1alpha1.BackupStatus{Conditions: []metav1.Condition{taking}}, planner.Saved{}},
		"its Secret is gone":           {v1alpha1.BackupStatus{Conditions: []metav1.Condition{taking, stalled}}, planner.Saved{Stalled: true}},
		"failed":                       {v1alpha1.BackupStatus{Conditions: []metav1.Condition{taking, stalled}, CompletionTime: &since}, planner.Saved{Failed: "there is no Secret"}},
		"complete":                     {v1alpha1.BackupStatus{Conditions: []metav1.Condition{condition(v1alpha1.ConditionComplete, metav1.ConditionTrue)}}, planner.Saved{Complete: true, Since: fakeapi.Now}},
		"complete, and failed a check": {v1alpha1.BackupStatus{Conditions: []metav1.Condition{condition(v1alpha1.ConditionComplete, metav1.ConditionTrue), stalled}}, planner.Saved{Complete: true, Since: fakeapi.Now}},
	} {
		if got := savedBy(&v1alpha1.Backup{Status: tc.status}); *got != tc.want {
			t.Errorf("%s: %+v", name, *got)
		}
	}
}
