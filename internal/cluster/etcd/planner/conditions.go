package planner

import (
	"fmt"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// Reasons of conditions that hold.
const (
	// ReasonQuorum says that a majority of the members answers and follows one leader.
	ReasonQuorum = "Quorum"
	// ReasonServing says that clients are served.
	ReasonServing = "Serving"
)

// Conditions returns Ready, Available, QuorumHealthy, SpaceHealthy, PerformanceHealthy, Reconciling and Stalled for the outcome of one pass.
func Conditions(s model.State, p cluster.Plan, err error) []metav1.Condition {
	quorum := quorumHealthy(s, err)
	conditions := append(cluster.Progress(p, err), quorum, available(s, quorum), spaceHealthy(s))
	conditions = append(conditions, performanceHealthy(s)...)
	return append(conditions, cluster.Ready(p, err, "the cluster is as specified"))
}

// quorumHealthy follows the members' own words, and where none could be read those of the kubelet: etcd's readiness
// is a read through the quorum.
func quorumHealthy(s model.State, err error) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionQuorumHealthy}
	if hibernates(s) {
		return asleep(c.Type, metav1.ConditionFalse)
	}
	if s.Members == nil {
		return unread(c, s, err)
	}
	all, healthy := s.Voters()
	c.Message = fmt.Sprintf("%d of %d voting members are healthy", healthy, all)
	switch {
	case healthy < model.Quorum(all) && readyPods(s) >= model.Quorum(all):
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonUnknown
		c.Message = fmt.Sprintf("%d pods are ready, but only %d of %d members answer the operator", readyPods(s), healthy, all)
		return c
	case healthy < model.Quorum(all) || s.Leader() == nil:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNoQuorum
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, ReasonQuorum
	return c
}

func unread(c metav1.Condition, s model.State, err error) metav1.Condition {
	c.Status, c.Reason = metav1.ConditionFalse, ReasonNoQuorum
	c.Message = "no quorum of members answers"
	ready := readyPods(s)
	switch {
	case s.Want.Name == "" && err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "the state could not be read"
	case s.Record == nil:
		c.Reason, c.Message = steps.ReasonStarting, "no member has been started"
	case ready >= model.Quorum(len(s.Record.Members)):
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonUnknown
		c.Message = fmt.Sprintf("%d of %d pods are ready, but no member answers the operator", ready, len(s.Record.Members))
	case !s.Known():
		c.Reason = steps.ReasonStarting
	}
	return c
}

func available(s model.State, quorum metav1.Condition) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: quorum.Status, Reason: quorum.Reason, Message: quorum.Message,
	}
	if quorum.Status != metav1.ConditionTrue {
		return c
	}
	c.Status = metav1.ConditionFalse
	full := slices.ContainsFunc(s.Alarms(), func(a model.Alarm) bool { return a.Type == model.AlarmNoSpace })
	anyReady := slices.ContainsFunc(s.Pods, func(p model.Pod) bool { return p.Ready && !p.Terminating })
	switch {
	case !s.Open:
		c.Reason, c.Message = steps.ReasonStarting, "clients are not let in yet"
	case full:
		c.Reason, c.Message = ReasonAlarm, "etcd refuses writes: its database has reached the quota"
	case !anyReady:
		c.Reason, c.Message = ReasonMembersNotReady, "no pod is ready"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonServing, "clients can read and write"
	}
	return c
}

// Status fills in everything of a status that was observed, except for the conditions.
func Status(st *v1alpha1.EtcdClusterStatus, s model.State) {
	if s.Want.Name == "" {
		return // Nothing was observed: what was last seen stands, and the conditions say so.
	}
	st.Members = nil
	st.CurrentVersion = ""
	ready := 0
	members := s.Want.Members(s.Want.Size)
	if s.Record != nil {
		members = s.Record.Members
	}
	var lowest *model.Version
	for _, m := range members {
		ms := memberStatus(s, m)
		st.Members = append(st.Members, ms)
		if ms.Ready {
			ready++
		}
		if v, err := model.ParseVersion(ms.Version); err == nil && (lowest == nil || v.Less(*lowest)) {
			lowest, st.CurrentVersion = &v, ms.Version
		}
	}
	st.Ready = fmt.Sprintf("%d/%d", ready, s.Want.Size)
	st.Size = int32(len(members)) //nolint:gosec // At most seven.
	if s.Members != nil {
		st.Size = int32(len(s.Members)) //nolint:gosec // At most seven.
	}
	st.Leader, st.ClusterID = "", ""
	if l := s.Leader(); l != nil {
		st.Leader = s.Name(l.ID)
	}
	if s.Known() {
		st.ClusterID = model.FormatID(s.Record.ClusterID)
	}
	st.Snapshot = snapshotStatus(s)
	if s.Open {
		st.ConnectionSecret = cluster.ConnectionSecret(s.Want.Name)
	}
}

func memberStatus(s model.State, m model.Peer) v1alpha1.EtcdMemberStatus {
	out := v1alpha1.EtcdMemberStatus{Name: m.Name, Role: v1alpha1.EtcdRoleUnknown}
	p := s.PodNamed(m.Name)
	if s.Record != nil && !hibernates(s) {
		out.Message = trouble(p)
	}
	member := s.Member(m.URL)
	if member != nil {
		out.ID = model.FormatID(member.ID)
	}
	if member != nil && !member.Published {
		out.Role = v1alpha1.EtcdUnstarted
	}
	if p == nil || p.Status == nil {
		return out
	}
	v := p.Status
	out.ID, out.Version, out.DBSize = model.FormatID(v.MemberID), v.Version, roundUp(v.DBSize)
	out.Ready = p.Ready && !p.Terminating && member != nil && s.Healthy(*member)
	switch {
	case v.Learner:
		out.Role = v1alpha1.EtcdLearner
	case v.Leader == 0:
		out.Role = v1alpha1.EtcdRoleUnknown
	case v.Leader == v.MemberID:
		out.Role = v1alpha1.EtcdLeader
	default:
		out.Role = v1alpha1.EtcdFollower
	}
	return out
}

// roundUp writes a number of bytes as the next power of two, so that it changes seldom.
func roundUp(n int64) string {
	if n <= 0 {
		return ""
	}
	return resource.NewQuantity(int64(1)<<bits.Len64(uint64(n-1)), resource.BinarySI).String()
}

// performanceHealthy says what is unusual about the members.
func performanceHealthy(s model.State) []metav1.Condition {
	if hibernates(s) {
		return []metav1.Condition{asleep(v1alpha1.ConditionPerformanceHealthy, metav1.ConditionUnknown)}
	}
	return cluster.PerformanceHealthy(s.Anomalies)
}
