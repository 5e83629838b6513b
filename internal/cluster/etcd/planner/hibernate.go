package planner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// A cluster hibernates when its record says so: the StatefulSet then has no pods, and nothing else
// changes. The state of every unfinished operation is in the record, the claims and the members'
// data, so it continues when the members run again.

// hibernate comes first: without members there is nothing for the other rules to look at.
func hibernate(s model.State) (cluster.Plan, bool) {
	const why = "spec.hibernated is true"
	asleep := s.Record != nil && s.Record.Hibernated
	switch {
	case !s.Want.Hibernated && asleep:
		return cluster.Do(steps.Wake{}, "spec.hibernated is false: all members start again with their data")
	case !s.Want.Hibernated:
		return cluster.Pass()
	case s.Record == nil && s.Set != nil && s.Set.Replicas > 0:
		return cluster.Pass() // The record is recreated first.
	case !s.Want.Persistent:
		return cluster.Refuse(ReasonRollout, why+", but without spec.storage the data would end with the pods: set it back")
	case s.Record != nil && !asleep: // Not while claims are being deleted, see keepLastCopy.
		return cluster.Do(steps.Hibernate{}, why+": all members end, and their data stays")
	case len(s.Pods) > 0:
		return cluster.Wait(steps.ReasonHibernating, whileWaiting, why+": %d pods are ending", len(s.Pods))
	}
	return cluster.Wait(cluster.ReasonHibernated, 0, why+": no member runs, and the data stays. Set it to false to bring the cluster back")
}

// hibernates reports whether there are to be no pods.
func hibernates(s model.State) bool {
	if s.Record == nil {
		return s.Want.Hibernated && (s.Set == nil || s.Set.Replicas == 0)
	}
	return s.Record.Hibernated
}

// asleep is a condition of a cluster that hibernates.
func asleep(typ string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: typ, Status: status, Reason: cluster.ReasonHibernated, Message: "the cluster hibernates, so no member is to run"}
}
