package controllersim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

// Unlabel takes labels off the claim of an ordinal, as a policy or a restore does.
func (s *Etcd) Unlabel(ordinal int, labels ...string) {
	s.T.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	fakeapi.Must(s.T, s.API.Get(s.T.Context(), s.ClaimKey(ordinal), claim))
	for _, label := range labels {
		delete(claim.Labels, label)
	}
	fakeapi.Must(s.T, s.API.Update(s.T.Context(), claim))
}

// ClaimKey returns the name of the claim of member i.
func (s *Etcd) ClaimKey(ordinal int) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.Claim(s.Name.Name, ordinal)}
}

// UntilStalled runs the loop until the cluster says that it cannot go on.
func (s *Etcd) UntilStalled() *metav1.Condition {
	s.T.Helper()
	s.Restart()
	for range 60 {
		s.Round()
		if c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	s.T.Fatalf("not stalled after 60 rounds: %s", s.Cluster().Status.Activity)
	return nil
}
