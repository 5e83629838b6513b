package planner_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
)

const gi = 1 << 30

// stored is a settled cluster of three members with volumes of 1Gi in the class slow; orders-1
// leads. Its specification asks for what is given, and its StatefulSet has been recreated for that
// already.
func stored(want model.Storage, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		s.Want.Storage, s.Want.StorageQuota = want, want.Size/2
		s.Set.UID, s.Set.Age, s.Set.Storage = "set-1", time.Minute, want
		for i := range s.Claims {
			c := &s.Claims[i]
			c.ResourceVersion, c.Request, c.Capacity, c.Class = "3", gi, gi, "slow"
		}
		if change != nil {
			change(s)
		}
	})
}

func slow(gigabytes int64) model.Storage { return model.Storage{Size: gigabytes * gi, Class: "slow"} }

func fast(gigabytes int64) model.Storage { return model.Storage{Size: gigabytes * gi, Class: "fast"} }

func TestResizeWords(t *testing.T) {
	c := func(typ corev1.PersistentVolumeClaimConditionType, status corev1.ConditionStatus, message string) corev1.PersistentVolumeClaimCondition {
		return corev1.PersistentVolumeClaimCondition{Type: typ, Status: status, Message: message}
	}
	for want, conditions := range map[string][]corev1.PersistentVolumeClaimCondition{
		"":                             {c(corev1.PersistentVolumeClaimResizing, corev1.ConditionFalse, "")},
		"the volume is being expanded": {c(corev1.PersistentVolumeClaimResizing, corev1.ConditionTrue, "")},
		"the volume has grown, and its node is to expand the file system: waiting for the node": {
			c(corev1.PersistentVolumeClaimFileSystemResizePending, corev1.ConditionTrue, "waiting for the node"),
		},
		"the volume cannot be expanded: out of disks": {
			c(corev1.PersistentVolumeClaimResizing, corev1.ConditionTrue, ""),
			c(corev1.PersistentVolumeClaimControllerResizeError, corev1.ConditionTrue, "out of disks"),
		},
	} {
		if got := planner.ResizeWords(conditions); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
