package controllersim

import (
	"encoding/json"
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster"
)

// nowhere is what names something that there is not: an image, a node, a class, a Secret; or more memory than any node has.
var nowhere = regexp.MustCompile(`no-such-|"(100Ti|9000000Ti)"`)

// absent reports whether something names what there is not.
func absent(o any) bool {
	raw, err := json.Marshal(o)
	return err != nil || nowhere.Match(raw)
}

// misfit is what is said of a pod of a StatefulSet that cannot run wherever it is put, nil of one that can.
func misfit(set *appsv1.StatefulSetSpec) *corev1.PodStatus {
	if !absent(set.Template.Spec) {
		return nil
	}
	for _, c := range set.Template.Spec.Containers {
		if absent(c.Image) {
			return &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}},
			}}}
		}
	}
	return unschedulable()
}

func unschedulable() *corev1.PodStatus {
	return &corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available",
	}}}
}

// misfit is also said of a pod whose claim has no volume.
func (s *Etcd) misfit(set *appsv1.StatefulSet, name string) *corev1.PodStatus {
	s.T.Helper()
	for _, claim := range s.claims() {
		if claim.Name == cluster.VolumeData+"-"+name && claim.Status.Phase == corev1.ClaimPending {
			return unschedulable()
		}
	}
	return misfit(&set.Spec)
}
