package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultRotationHold is how long clients may take to follow their Secret: three times what a mounted Secret takes, which
// the kubelet looks at every minute and a half at the latest.
const DefaultRotationHold = 5 * time.Minute

// GetConditions returns status.conditions.
func (c *EtcdCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// GetConditions returns status.conditions.
func (c *RedisCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// IsPaused reports whether the operator must not change anything but certificates that would expire.
func (c *EtcdCluster) IsPaused() bool { return value(c.Spec.Paused, false) }

// IsPaused reports whether the operator must not change anything but certificates that would expire.
func (c *RedisCluster) IsPaused() bool { return value(c.Spec.Paused, false) }

// IsHibernated reports whether no member of the cluster is to run.
func (c *EtcdCluster) IsHibernated() bool { return value(c.Spec.Hibernated, false) }

// GetConditions returns status.conditions.
func (u *EtcdUser) GetConditions() []metav1.Condition { return u.Status.Conditions }

// IsPaused is false: a user has no such field. Where its cluster is paused, the planner waits.
func (u *EtcdUser) IsPaused() bool { return false }

// Username returns the name in etcd with its default applied.
func (u *EtcdUser) Username() string { return value(u.Spec.Username, u.Name) }

// GetConditions returns status.conditions.
func (u *RedisUser) GetConditions() []metav1.Condition { return u.Status.Conditions }

// IsPaused is false: a user has no such field. Where its cluster is paused, the planner waits.
func (u *RedisUser) IsPaused() bool { return false }

// Username returns the name on the servers with its default applied.
func (u *RedisUser) Username() string { return value(u.Spec.Username, u.Name) }

// TLSMode returns the mode with its default applied.
func (t *TLSSpec) TLSMode() TLSMode {
	if t == nil {
		return TLSManaged
	}
	return value(t.Mode, TLSManaged)
}

// Issued reports whether certificates are issued for this cluster alone, one for each purpose: the common name tells which.
func (t *TLSSpec) Issued() bool {
	return t.TLSMode() == TLSManaged || t.TLSMode() == TLSCertManager
}

// Secret returns the name of the Secret of the user, empty when there is none.
func (t *TLSSpec) Secret() string {
	if t == nil {
		return ""
	}
	return value(t.SecretName, "")
}

// RotateAfter returns the time before which the certificate authority must not have been made, zero when there is none.
func (t *TLSSpec) RotateAfter() time.Time {
	if t == nil || t.Rotation == nil {
		return time.Time{}
	}
	return value(t.Rotation.After, metav1.Time{}).Time
}

// RotationHold returns how long the former passwords work beside the new ones, with the default applied.
func (a *AuthSpec) RotationHold() time.Duration {
	if a == nil || a.Rotation == nil {
		return DefaultRotationHold
	}
	return value(a.Rotation.Hold, metav1.Duration{Duration: DefaultRotationHold}).Duration
}

// RotationHold returns how long clients may take to follow their Secret, with the default applied.
func (t *TLSSpec) RotationHold() time.Duration {
	if t == nil || t.Rotation == nil {
		return DefaultRotationHold
	}
	return value(t.Rotation.Hold, metav1.Duration{Duration: DefaultRotationHold}).Duration
}

// AuthMode returns the mode with its default applied.
func (a *AuthSpec) AuthMode() AuthMode {
	if a == nil {
		return AuthPassword
	}
	return value(a.Mode, AuthPassword)
}

// Secret returns the name of the Secret of the user, empty when the operator generates the password.
func (a *AuthSpec) Secret() string {
	if a == nil {
		return ""
	}
	return value(a.SecretName, "")
}

// ServerEngine returns the engine with its default applied.
func (s *RedisClusterSpec) ServerEngine() RedisEngine { return value(s.Engine, EngineRedis) }

// IsReplicated reports whether there is one primary that holds all data.
func (s *RedisClusterSpec) IsReplicated() bool { return value(s.Mode, RedisSharded) == RedisReplicated }

// ShardCount returns the number of shards: in the mode Replicated, the only primary and its replicas are one.
func (s *RedisClusterSpec) ShardCount() int {
	if s.IsReplicated() {
		return 1
	}
	return int(s.Shards)
}

// Replicas returns the replicas of each shard with the default applied.
func (s *RedisClusterSpec) Replicas() int { return int(value(s.ReplicasPerShard, 1)) }

func value[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// After returns how long after its loss a quorum is recovered without approval, zero for never.
func (r *RecoverySpec) After() time.Duration {
	if r == nil || r.AutomaticAfter == nil {
		return 0
	}
	return r.AutomaticAfter.Duration
}

// ByWeight returns what makes slots weigh, empty when their number counts alone.
func (r *RedisRebalanceSpec) ByWeight() RebalanceBy {
	if r == nil || value(r.By, RebalanceBySlots) == RebalanceBySlots {
		return ""
	}
	return *r.By
}

// Automatic reports whether slots move because of their weights without approval.
func (r *RedisRebalanceSpec) Automatic() bool {
	return r != nil && value(r.Mode, RebalancePropose) == RebalanceAutomatic
}

// Cooled returns how long to wait after a rebalance, with the default applied.
func (r *RedisRebalanceSpec) Cooled() time.Duration {
	if r == nil || r.CoolDown == nil {
		return time.Hour
	}
	return r.CoolDown.Duration
}

// AssignsEmpty reports whether the slots of a lost shard are served empty without approval.
func (r *RedisRecoverySpec) AssignsEmpty() bool {
	return r != nil && value(r.LostShard, LostShardHold) == LostShardAssignEmpty
}

// ReplacesDead reports whether a dead primary is replaced also when it is about to be started again in place.
func (r *RedisRecoverySpec) ReplacesDead() bool {
	return r != nil && value(r.DeadPrimary, DeadPrimaryWait) == DeadPrimaryReplace
}

// GetConditions returns status.conditions.
func (b *Backup) GetConditions() []metav1.Condition { return b.Status.Conditions }

// IsPaused is false: a backup has no such field.
func (b *Backup) IsPaused() bool { return false }

// Deletes reports whether the stored data goes with the resource.
func (b *Backup) Deletes() bool {
	return value(b.Spec.DeletionPolicy, DeletionRetain) == DeletionDelete
}

// Verifies reports whether the backup is to be checked as soon as it is complete.
func (b *Backup) Verifies() bool { return value(b.Spec.Verify, false) }

// GetConditions returns status.conditions.
func (s *BackupSchedule) GetConditions() []metav1.Condition { return s.Status.Conditions }

// IsPaused is false: a schedule that is suspended still looks after the backups that there are.
func (s *BackupSchedule) IsPaused() bool { return false }

// IsSuspended reports whether no new backups are taken.
func (s *BackupSchedule) IsSuspended() bool { return value(s.Spec.Suspend, false) }

// Forbids reports whether a backup is skipped while another one is being taken.
func (s *BackupSchedule) Forbids() bool {
	return value(s.Spec.ConcurrencyPolicy, ConcurrencyForbid) == ConcurrencyForbid
}

// Zone returns the time zone with its default applied.
func (s *BackupSchedule) Zone() string { return value(s.Spec.TimeZone, "UTC") }

// Deadline returns how late a backup may begin, with the default applied.
func (s *BackupSchedule) Deadline() time.Duration {
	return value(s.Spec.StartingDeadline, metav1.Duration{Duration: time.Hour}).Duration
}

// Jitter returns by how much a schedule may be late on purpose.
func (s *BackupSchedule) Jitter() time.Duration {
	return value(s.Spec.Jitter, metav1.Duration{}).Duration
}

// After returns how long a change waits before it is stored, with the default applied.
func (b *BackupIncremental) After() time.Duration {
	return value(b.Interval, metav1.Duration{Duration: 10 * time.Second}).Duration
}

// RestoreSource returns the backup that the cluster is to begin with, nil for none.
func (b *BootstrapSpec) RestoreSource() *RestoreSource {
	if b == nil {
		return nil
	}
	return b.Restore
}

// GetConditions returns status.conditions.
func (r *Restore) GetConditions() []metav1.Condition { return r.Status.Conditions }

// IsPaused is false: a restore has no such field.
func (r *Restore) IsPaused() bool { return false }

// OnlyLost reports whether only slots of lost shards are restored.
func (r *Restore) OnlyLost() bool { return value(r.Spec.Slots, RestoreAll) == RestoreLost }

// SavesCurrent reports whether what the cluster has is backed up before it is replaced.
func (r *Restore) SavesCurrent() bool {
	return r.Spec.Cluster.Kind == KindRedisCluster && !r.OnlyLost() && value(r.Spec.SaveCurrent, true)
}

// Wanted reports whether there is to be a PodMonitor.
func (p *PodMonitorSpec) Wanted() bool { return p == nil || value(p.Enabled, true) }

// ScrapeInterval returns the interval with its default applied.
func (p *PodMonitorSpec) ScrapeInterval() time.Duration {
	if p == nil {
		return DefaultScrapeInterval
	}
	return value(p.Interval, metav1.Duration{Duration: DefaultScrapeInterval}).Duration
}

// GetConditions returns status.conditions.
func (a *Autoscaler) GetConditions() []metav1.Condition { return a.Status.Conditions }

// IsPaused is false: an autoscaler has no such field. Where its cluster is paused, the planner waits.
func (a *Autoscaler) IsPaused() bool { return false }

// AutoscalerMode returns the mode with its default applied.
func (s *AutoscalerSpec) AutoscalerMode() AutoscalerMode { return value(s.Mode, AutoscalerAuto) }
