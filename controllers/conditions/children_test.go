package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

// A status with a condition that is longer than its schema allows would not be written at all.
func TestAConditionIsNoLongerThanItMayBe(t *testing.T) {
	var list []metav1.Condition
	Set(&list, time.Now(), 1, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "Refused", Message: strings.Repeat("ä", 20000)})
	if m := list[0].Message; len(m) > maxMessage || !utf8.ValidString(m) || !strings.HasSuffix(m, "ä ...") {
		t.Errorf("%d bytes that end with %q", len(m), m[len(m)-10:])
	}
}
