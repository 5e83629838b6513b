package etcd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster"
)

// A cluster hibernates when its record says so: the StatefulSet then makes no pods, and nothing else changes. What was going on
// is still to be seen in the record, the claims and the members' own data, so it goes on when the members run again.

// ReasonHibernating says that the pods end because spec.hibernated is true.
const ReasonHibernating = "Hibernating"

// Hibernate ends all pods.
type Hibernate struct{}

// Wake makes the pods again.
type Wake struct{}

func (Hibernate) String() string { return "end all pods" }
func (Wake) String() string      { return "make the pods again" }

// hibernate comes first: without members there is nothing for the other rules to look at.
func hibernate(s State) (cluster.Plan, bool) {
	const why = "spec.hibernated is true"
	asleep := s.Record != nil && s.Record.Hibernated
	switch {
	case !s.Want.Hibernated && asleep:
		return cluster.Do(Wake{}, "spec.hibernated is false: all members start again with their data")
	case !s.Want.Hibernated:
		return cluster.Pass()
	case s.Record == nil && s.Set != nil && s.Set.Replicas > 0:
		return cluster.Pass() // The record is written anew first.
	case !s.Want.Persistent:
		return cluster.Refuse(ReasonRollout, why+", but without spec.storage the data would end with the pods: set it back")
	case s.Record != nil && !asleep: // Not while claims are being deleted, see keepLastCopy.
		return cluster.Do(Hibernate{}, why+": all members end, and their data stays")
	case len(s.Pods) > 0:
		return cluster.Wait(ReasonHibernating, whileWaiting, why+": %d pods are ending", len(s.Pods))
	}
	return cluster.Wait(cluster.ReasonHibernated, 0, why+": no member runs, and the data stays. Set it to false to bring the cluster back")
}

// hibernates reports whether there are to be no pods.
func (s State) hibernates() bool {
	if s.Record == nil {
		return s.Want.Hibernated && (s.Set == nil || s.Set.Replicas == 0)
	}
	return s.Record.Hibernated
}

// asleep is a condition of a cluster that hibernates.
func asleep(typ string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: typ, Status: status, Reason: cluster.ReasonHibernated, Message: "the cluster hibernates, so no member is to run"}
}
