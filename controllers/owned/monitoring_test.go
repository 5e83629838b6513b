package owned

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestWhatFailsIsToldBeforeWhatFollowsFromIt(t *testing.T) {
	o := fakeapi.RedisCluster()
	c := newChildren(fakeapi.New(t, o))
	pending := cluster.Hold{Reason: v1alpha1.ReasonMonitoringPending, Message: "no pod is ready"}
	c.NoteMonitoring(o, errors.New("the user may not be made"))
	if got := c.MonitoringCondition(o, true, pending); got.Reason != v1alpha1.ReasonReconcileError || got.Message != "the user may not be made" {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
	c.NoteMonitoring(o, nil)
	if got := c.MonitoringCondition(o, true, pending); got.Reason != v1alpha1.ReasonMonitoringPending {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
}
