package conditions

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditionsChangeByTheTimeOfTheOperator(t *testing.T) {
	var list []metav1.Condition
	first := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionFalse, metav1.ConditionTrue} {
		Set(&list, first.Add(time.Duration(i)*time.Hour), int64(i), metav1.Condition{Type: "Ready", Status: status})
		want := first
		if status == metav1.ConditionTrue {
			want = first.Add(2 * time.Hour)
		}
		if !list[0].LastTransitionTime.Time.Equal(want) || list[0].ObservedGeneration != int64(i) {
			t.Errorf("%+v, and it changed at %s", list[0], want)
		}
	}
}
