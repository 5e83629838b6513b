package v1alpha1

// Condition types. Every one that applies to a kind is always present in its status.
const (
	// ConditionReady is True when the cluster is in its desired state and serves reads and writes, or the user is in place.
	ConditionReady = "Ready"
	// ConditionAvailable is True while clients can read and write, whatever else is going on.
	ConditionAvailable = "Available"
	// ConditionReconciling is True while the operator is changing something or waits for a change to take effect.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the operator cannot go on without a human; the message says what to do.
	ConditionStalled = "Stalled"
	// ConditionTLSReady is True when the certificates that the specification asks for are in place.
	ConditionTLSReady = "TLSReady"
	// ConditionQuorumHealthy is True while a majority of the voting etcd members answers and has a leader.
	ConditionQuorumHealthy = "QuorumHealthy"
	// ConditionSpaceHealthy is True while no etcd database is full or about to be.
	ConditionSpaceHealthy = "SpaceHealthy"
	// ConditionSlotsCovered is True while all 16384 Redis hash slots have one owner that every node agrees on.
	ConditionSlotsCovered = "SlotsCovered"
	// ConditionBalanced: no shard of a Redis cluster is too heavy, going by spec.rebalance.
	ConditionBalanced = "Balanced"
	// ConditionMemoryHealthy is True while no Redis server uses more than the limit of its memory leaves for data.
	ConditionMemoryHealthy = "MemoryHealthy"
	// ConditionTimeoutHealthy is True while no Redis server is held up by a fork for so long that the others may call it failed.
	ConditionTimeoutHealthy = "TimeoutHealthy"
	// ConditionPerformanceHealthy is True while no server is slow, unsteady, behind, short of room soon, or off in its clock.
	ConditionPerformanceHealthy = "PerformanceHealthy"
	// ConditionComplete is True when a backup is stored or restored in full, and False when it is not or will not be.
	ConditionComplete = "Complete"
	// ConditionVerified is True when a backup was read back, restored into a throw-away server and found to be whole.
	ConditionVerified = "Verified"
	// ConditionConfirmed is True when the plan of a restore was confirmed, and nothing keeps it from being carried out.
	ConditionConfirmed = "Confirmed"
	// ConditionBackupHealthy is True while the newest backup of a schedule is no older than the schedule says, and as verified as it asks. On a
	// cluster it is the worst of its schedules, and absent where there is none.
	ConditionBackupHealthy = "BackupHealthy"
	// ConditionMonitoringReady is True when what spec.monitoring asks for is in place. It is absent where nothing is asked for.
	ConditionMonitoringReady = "MonitoringReady"
	// ConditionLimited is True when a cluster needs more than its Autoscaler may give it, and False when it does not.
	ConditionLimited = "Limited"
)

// Condition and event reasons shared by all kinds. Reasons that belong to one data store are declared next to
// its planner.
const (
	// ReasonSettled says that nothing is left to do.
	ReasonSettled = "Settled"
	// ReasonPaused says that spec.paused is true.
	ReasonPaused = "Paused"
	// ReasonHibernated says that spec.hibernated is true and no member runs.
	ReasonHibernated = "Hibernated"
	// ReasonUnknown says that the state could not be read, so nothing is changed.
	ReasonUnknown = "Unknown"
	// ReasonReconcileError says that the last attempt failed; it is tried again.
	ReasonReconcileError = "ReconcileError"
	// ReasonInvalidSpec says that the specification cannot be carried out; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonForeignObject says that an object of a needed name belongs to somebody else.
	ReasonForeignObject = "ForeignObject"
	// ReasonPreviousCluster says that objects of an earlier cluster of the same name are still being deleted.
	ReasonPreviousCluster = "PreviousCluster"
	// ReasonIssued says that all certificates are in place.
	ReasonIssued = "Issued"
	// ReasonIntroducingCA says that a new certificate authority is trusted beside the old one, and signs nothing yet.
	ReasonIntroducingCA = "IntroducingCA"
	// ReasonReplacingCertificates says that certificates of the new authority are handed out, and the old one is still
	// trusted.
	ReasonReplacingCertificates = "ReplacingCertificates"
	// ReasonExpiring says that certificates are in place, and that nobody has renewed one which soon expires.
	ReasonExpiring = "Expiring"
	// ReasonExposed says that certificates of others act as a server of the cluster; the message names the field.
	ReasonExposed = "Exposed"
	// ReasonCertManager says that cert-manager has not issued what it was asked for; the message says what it lacks.
	ReasonCertManager = "WaitingForCertManager"
	// ReasonDisabled says that the feature is switched off in the specification.
	ReasonDisabled = "Disabled"
	// ReasonMonitored says that all is in place for metrics to be read.
	ReasonMonitored = "Monitored"
	// ReasonMonitoringPending says that it is about to be.
	ReasonMonitoringPending = "MonitoringPending"
	// ReasonPodMonitorCRDMissing says that the API server knows no PodMonitors, so that none can be made.
	ReasonPodMonitorCRDMissing = "PodMonitorCRDMissing"
	// ReasonExporterNotReady says that the exporter of Redis metrics does not serve; the message says why.
	ReasonExporterNotReady = "ExporterNotReady"
	// ReasonNotStalled says that nothing needs a human.
	ReasonNotStalled = "NotStalled"
)
