package conditions

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cut shortens a message to a length in bytes.
func Cut(message string, length int) string {
	const more = " ..."
	if len(message) <= length {
		return message
	}
	return strings.ToValidUTF8(message[:length-len(more)], "") + more
}

// maxMessage is how long the message of a condition may be. The schema of metav1.Condition allows
// 32 KiB.
const maxMessage = maxText

// Set merges conditions into a list, keeping the time of the last transition where their status is as before.
func Set(list *[]metav1.Condition, now time.Time, generation int64, conditions ...metav1.Condition) {
	for _, c := range conditions {
		c.ObservedGeneration, c.LastTransitionTime, c.Message = generation, metav1.NewTime(now), Cut(c.Message, maxMessage)
		meta.SetStatusCondition(list, c)
	}
}

// Time is a time of a status, which has whole seconds; nil for none.
func Time(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}
