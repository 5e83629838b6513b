package metrics

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
)

// objects tells what the status of all objects says.
func (s sink) objects(o Objects) {
	for i := range o.Etcd {
		s.etcd(&o.Etcd[i])
	}
	for i := range o.Redis {
		s.redis(&o.Redis[i])
	}
	for i := range o.EtcdUsers {
		s.conditions("EtcdUser", &o.EtcdUsers[i], o.EtcdUsers[i].Status.Conditions)
	}
	for i := range o.RedisUsers {
		s.conditions("RedisUser", &o.RedisUsers[i], o.RedisUsers[i].Status.Conditions)
	}
	for i := range o.Schedules {
		s.schedule(&o.Schedules[i])
	}
	for i := range o.Restores {
		s.conditions("Restore", &o.Restores[i], o.Restores[i].Status.Conditions)
	}
	for i := range o.Autoscalers {
		s.conditions("Autoscaler", &o.Autoscalers[i], o.Autoscalers[i].Status.Conditions)
	}
	s.backups(o.Backups)
}

// conditions tells those of one object, and what follows from them.
func (s sink) conditions(kind string, o metav1.Object, list []metav1.Condition) {
	for _, c := range list {
		value := -1.0
		switch c.Status {
		case metav1.ConditionTrue:
			value = 1
		case metav1.ConditionFalse:
			value = 0
		}
		s.tell(condition, value, kind, o.GetNamespace(), o.GetName(), c.Type)
	}
	if reason := waitsFor(list); reason != "" {
		s.tell(planReason, 1, kind, o.GetNamespace(), o.GetName(), reason)
	}
}

// waitsFor is what the operator does or waits for: Reconciling says it, and Stalled when only a human can go on.
func waitsFor(list []metav1.Condition) string {
	if c := meta.FindStatusCondition(list, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	if c := meta.FindStatusCondition(list, v1alpha1.ConditionReconciling); c != nil {
		return c.Reason
	}
	return ""
}

// count is how many members have a role, and how many of those are ready.
type count struct{ all, ready int }

func (s sink) members(kind string, o metav1.Object, roles map[string]count) {
	for role, n := range roles {
		s.tell(members, float64(n.all), kind, o.GetNamespace(), o.GetName(), role)
		s.tell(membersReady, float64(n.ready), kind, o.GetNamespace(), o.GetName(), role)
	}
}

func (s sink) etcd(o *v1alpha1.EtcdCluster) {
	const kind = string(v1alpha1.KindEtcdCluster)
	id := []string{kind, o.Namespace, o.Name}
	s.conditions(kind, o, o.Status.Conditions)
	s.tell(clusterInfo, 1, append(id, "etcd", o.Spec.Version, o.Status.CurrentVersion)...)
	s.tell(paused, flag(ptr.Deref(o.Spec.Paused, false)), id...)
	asleep := ptr.Deref(o.Spec.Hibernated, false)
	s.tell(hibernated, flag(asleep), id...)
	s.tell(membersDesired, float64(o.Spec.Size)*flag(!asleep), id...)
	roles := map[string]count{}
	for _, r := range []v1alpha1.EtcdMemberRole{
		v1alpha1.EtcdLeader, v1alpha1.EtcdFollower, v1alpha1.EtcdLearner, v1alpha1.EtcdUnstarted, v1alpha1.EtcdRoleUnknown,
	} {
		roles[string(r)] = count{}
	}
	var versions []string
	for _, m := range o.Status.Members {
		add(roles, string(m.Role), m.Ready)
		versions = append(versions, m.Version)
	}
	s.members(kind, o, roles)
	s.versions(id, o.Spec.Version, versions)
	s.certificates(id, o.Status.Certificates, o.Status.Conditions)
}

func add(roles map[string]count, role string, ready bool) {
	n := roles[role]
	n.all++
	if ready {
		n.ready++
	}
	roles[role] = n
}

func (s sink) redis(o *v1alpha1.RedisCluster) {
	const kind = string(v1alpha1.KindRedisCluster)
	id := []string{kind, o.Namespace, o.Name}
	s.conditions(kind, o, o.Status.Conditions)
	s.tell(clusterInfo, 1, append(id, string(ptr.Deref(o.Spec.Engine, v1alpha1.EngineRedis)), o.Spec.Version, o.Status.CurrentVersion)...)
	s.tell(paused, flag(ptr.Deref(o.Spec.Paused, false)), id...)
	s.tell(membersDesired, float64(o.Spec.ShardCount()*(1+o.Spec.Replicas())), id...)
	roles := map[string]count{string(v1alpha1.RedisPrimary): {}, string(v1alpha1.RedisReplica): {}, string(v1alpha1.RedisRoleUnknown): {}}
	var versions []string
	for _, shard := range o.Status.Shards {
		for _, n := range shard.Nodes {
			add(roles, string(n.Role), n.Ready)
			versions = append(versions, n.Version)
		}
	}
	s.members(kind, o, roles)
	s.versions(id, o.Spec.Version, versions)
	s.slots(id, o.Status)
	s.certificates(id, o.Status.Certificates, o.Status.Conditions)
}

// versions counts the members that run the wanted version, and those that run another one. The
// version of a member that is down is empty.
func (s sink) versions(id []string, wanted string, running []string) {
	current, others := 0, 0
	for _, v := range running {
		switch v {
		case wanted:
			current++
		case "":
		default:
			others++
		}
	}
	s.tell(upToDate, float64(current), id...)
	s.tell(outdated, float64(others), id...)
}

func (s sink) slots(id []string, st v1alpha1.RedisClusterStatus) {
	left := 0.0
	if st.Resharding != nil {
		left = float64(st.Resharding.SlotsLeft)
	}
	s.tell(slotsLeft, left, id...)
	covered, _, ok := strings.Cut(st.Slots, "/")
	if !ok {
		return // Not known yet, or the mode Replicated.
	}
	if n, err := strconv.Atoi(covered); err == nil {
		s.tell(slotsCovered, float64(n), id...)
	}
}

func (s sink) certificates(id []string, st *v1alpha1.CertificateStatus, conditions []metav1.Condition) {
	if st == nil {
		return
	}
	s.moment(certificates, st.CANotAfter, append(id, "ca")...)
	s.moment(certificates, st.NotAfter, append(id, "leaf")...)
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionTLSReady)
	s.tell(renewalOverdue, flag(c != nil && c.Reason == v1alpha1.ReasonExpiring), id...)
}

// moment tells a time, if there is one.
func (s sink) moment(d *Definition, at *metav1.Time, labels ...string) {
	if at != nil && !at.IsZero() {
		s.tell(d, float64(at.UnixMilli())/float64(time.Second/time.Millisecond), labels...)
	}
}

func (s sink) schedule(o *v1alpha1.BackupSchedule) {
	const kind = "BackupSchedule"
	s.conditions(kind, o, o.Status.Conditions)
	id := []string{o.Namespace, o.Name, string(o.Spec.Cluster.Kind), o.Spec.Cluster.Name}
	s.moment(lastBackup, o.Status.LastBackupTime, id...)
	s.moment(nextBackup, o.Status.NextTime, id...)
	if o.Status.LastVerifiedTime != nil {
		s.moment(lastVerified, o.Status.LastVerifiedTime, id...)
		s.tell(restoreSeconds, float64(o.Status.RestoreSeconds), id...)
	}
	if o.Status.Recording != "" {
		s.tell(recording, flag(o.Status.Recording == "Current"), id...)
	}
}

// backups tells sums: there may be hundreds of each cluster. One of servers that are nobody's counts only while it is not there: it is no backup
// of the cluster that has its name.
func (s sink) backups(list []v1alpha1.Backup) {
	type owner struct{ namespace, kind, name string }
	type sum struct {
		complete, running, stalled, verified int
		stored                               int64
	}
	sums := map[owner]sum{}
	for i := range list {
		b := &list[i]
		key := owner{b.Namespace, string(b.Spec.Cluster.Kind), b.Spec.Cluster.Name}
		n := sums[key]
		complete := meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete)
		if complete && b.Spec.External != nil {
			continue
		}
		stalled := meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionStalled)
		if complete {
			n.complete++
			n.stored += b.Status.StoredSize
		}
		if stalled {
			n.stalled++
		}
		if !complete && !stalled {
			n.running++
		}
		if meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionVerified) {
			n.verified++
		}
		sums[key] = n
	}
	for o, n := range sums {
		s.tell(backups, float64(n.complete), o.namespace, o.kind, o.name, "Complete")
		s.tell(backups, float64(n.running), o.namespace, o.kind, o.name, "Running")
		s.tell(backups, float64(n.stalled), o.namespace, o.kind, o.name, "Stalled")
		s.tell(backupsVerified, float64(n.verified), o.namespace, o.kind, o.name)
		s.tell(backupsStored, float64(n.stored), o.namespace, o.kind, o.name)
	}
}
