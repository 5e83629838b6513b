package v1alpha1

// Labels and annotations that Quorate sets on what it makes. The recommended labels of Kubernetes
// (app.kubernetes.io/...) are listed in internal/cluster.
const (
	// LabelShard carries the number of the shard that a Redis pod, claim or StatefulSet belongs to.
	LabelShard = "quorate.dev/shard"
	// LabelServing is "true" on an etcd pod that the client Service may send clients to, and "false" while its member is
	// defragmented. It has no part in whether the pod is ready.
	LabelServing = "quorate.dev/serving"
	// LabelRole is "primary" or "replica" on a pod of a RedisCluster in the mode Replicated, as its server says of itself, and
	// absent while it is neither. The Services of the roles go by it.
	LabelRole = "quorate.dev/role"
	// LabelSchedule is on a Backup the BackupSchedule that it was made for.
	LabelSchedule = "quorate.dev/schedule"
	// LabelBackupAccount with "true" on a ServiceAccount allows that pods of backups run as it (destination.serviceAccountName).
	LabelBackupAccount = "quorate.dev/backup-account"
	// LabelRestore is on a Backup the Restore that it was made before, and AnnotationRestoreUID the UID of that
	// and what it is for.
	LabelRestore         = "quorate.dev/restore"
	AnnotationRestoreUID = "quorate.dev/restore-uid"
	// AnnotationTemplateHash is the hash of everything in a pod template that needs a restart when it changes. It
	// leaves out the operator's own image, so that an operator upgrade restarts no pod.
	AnnotationTemplateHash = "quorate.dev/template-hash"
	// AnnotationAppointed is, on the Service of the primary of a cluster in the mode Replicated, the pod that is the primary
	// while the Service names another one already, which is about to be; empty if there was none before.
	AnnotationAppointed = "quorate.dev/appointed"
	// AnnotationHistory is, on the Service of the primary of a cluster in the mode Replicated, the replication id of the server
	// that it leads to.
	AnnotationHistory = "quorate.dev/replication-id"
	// AnnotationGuarded is there for how long that server takes writes at most that no replica acknowledges, for example
	// "5s"; without it, for as long as it likes.
	AnnotationGuarded = "quorate.dev/writes-guarded"
	// AnnotationCandidateHistory is, on that Service while it names a pod that is about to be promoted, the replication id that
	// the server of that pod was chosen by.
	AnnotationCandidateHistory = "quorate.dev/candidate-replication-id"
	// AnnotationRerouted is, on that Service while it leads to a pod that the primary is about to hand over to, since when.
	AnnotationRerouted = "quorate.dev/rerouted"
	// AnnotationVersion is the version of the data store that a pod was made with, and on a Backup before an upgrade the one that it
	// is taken from.
	AnnotationVersion = "quorate.dev/version"
	// AnnotationRecover approves of what is to be done about data that was lost for good: to recover the quorum of an etcd
	// cluster, or to serve the slots of a lost shard empty. Its value is the incident that the status names, so that what is
	// approved is what was read.
	AnnotationRecover = "quorate.dev/recover"
	// AnnotationRebalance approves of the proposal to rebalance a Redis cluster that the status names.
	AnnotationRebalance = "quorate.dev/rebalance"
	// AnnotationConfirm confirms a Restore. Its value is the plan that the status names, so that what is confirmed is what was read.
	AnnotationConfirm = "quorate.dev/confirm"
	// AnnotationTargetVersion is the version that a Backup before an upgrade was made on the way to.
	AnnotationTargetVersion = "quorate.dev/target-version"
	// AnnotationHistoryOf is on a Backup before an upgrade the UID of the cluster that it is of, and the history that this had.
	AnnotationHistoryOf = "quorate.dev/history-of"
	// AnnotationDue is on a Backup the time at which its schedule had it due (RFC 3339).
	AnnotationDue = "quorate.dev/due"
	// AnnotationUnplanned is on a Backup that its schedule made out of turn the history whose changes could not be recorded without.
	AnnotationUnplanned = "quorate.dev/unplanned"
)

// Finalizer keeps a resource until what it made outside Kubernetes is removed.
const Finalizer = "quorate.dev/finalizer"

// Component names, the value of app.kubernetes.io/component.
const (
	ComponentEtcd     = "etcd"
	ComponentRedis    = "redis"
	ComponentEtcdUser = "etcd-user"
	// ComponentRedisUser is a user of a Redis or Valkey cluster.
	ComponentRedisUser = "redis-user"
	// ComponentEtcdSnapshot is a Backup that was made before an upgrade of etcd, and the claim that it is kept on.
	ComponentEtcdSnapshot = "etcd-snapshot"
	// ComponentBackup is what takes, checks and deletes backups.
	ComponentBackup = "backup"
	// ComponentBackupSchedule is what a schedule makes.
	ComponentBackupSchedule = "backup-schedule"
	// ComponentRestore is what looks up a backup that is put into a cluster.
	ComponentRestore = "restore"
	// ComponentRedisExporter is what tells the metrics of the servers of a Redis or Valkey cluster.
	ComponentRedisExporter = "redis-exporter"
	// ComponentAutoscaler is what changes the specification of a cluster as it needs it.
	ComponentAutoscaler = "autoscaler"
)
