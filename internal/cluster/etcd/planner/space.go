package planner

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Reasons of the condition SpaceHealthy.
const (
	// ReasonSpaceLeft says that no database is about to be full.
	ReasonSpaceLeft = "SpaceLeft"
	// ReasonSpaceLow says that little is left of the quota.
	ReasonSpaceLow = "SpaceLow"
	// ReasonSpaceRunsOut says that the quota is reached soon if the database goes on to grow as it does.
	ReasonSpaceRunsOut = "SpaceRunsOut"
)

// spaceHealthy says whether databases are full or about to be.
func spaceHealthy(s model.State) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSpaceHealthy, Status: metav1.ConditionFalse}
	answered := false
	for _, p := range s.Pods {
		answered = answered || p.Status != nil
	}
	quota, forecast := model.Bytes(s.Want.Maintenance.Quota), s.Maintenance.Forecast
	const cure = "delete keys, keep less history (spec.config.autoCompactionRetention), or raise spec.config.quotaBackendBytes"
	switch {
	case hibernates(s):
		return asleep(c.Type, metav1.ConditionUnknown)
	case !answered:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no member answers"
	case raised(s, model.AlarmNoSpace) != nil:
		c.Reason, c.Message = ReasonAlarm, "a database has reached its quota of "+quota
	case forecast.RunsOut:
		c.Reason = ReasonSpaceRunsOut
		c.Message = fmt.Sprintf("at the rate of the last hours the quota of %s is reached in less than %s: %s", quota, anomaly.Hours(forecast.Left), cure)
	case forecast.Low:
		c.Reason, c.Message = ReasonSpaceLow, fmt.Sprintf("little is left of the quota of %s: %s", quota, cure)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonSpaceLeft, "no database is about to reach its quota"
	}
	return c
}
