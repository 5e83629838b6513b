package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdClusterSpec is the desired state of an etcd cluster.
// +kubebuilder:validation:XValidation:rule=`!self.?hibernated.orValue(false) || has(self.storage)`,fieldPath=".hibernated",message="spec.hibernated needs spec.storage: without it the data would end with the pods; remove spec.hibernated"
// +kubebuilder:validation:XValidation:rule=`has(self.storage) == has(oldSelf.storage)`,fieldPath=".storage",message="spec.storage cannot be added or removed: the data of a running cluster stays where it is; create a new cluster"
// +kubebuilder:validation:XValidation:rule=`!has(self.storage) || !has(self.config) || !has(self.config.quotaBackendBytes) || string(self.storage.size).matches('[-+eE]') || !isQuantity(string(self.storage.size)) || string(self.config.quotaBackendBytes).matches('[-+eE]') || !isQuantity(string(self.config.quotaBackendBytes)) || quantity(string(self.config.quotaBackendBytes)).add(quantity('384Mi')).compareTo(quantity(string(self.storage.size))) <= 0`,fieldPath=".config.quotaBackendBytes",message="spec.config.quotaBackendBytes must leave 384Mi of spec.storage.size to the write-ahead log: else the disk is full before the quota is reached; lower the quota or choose a larger volume"
// +kubebuilder:validation:XValidation:rule=`self.version.startsWith('3.5.') || !has(self.config) || !has(self.config.extra) || !self.config.extra.exists(k, k.startsWith('experimental-'))`,fieldPath=".config.extra",message="spec.config.extra: parameters named experimental-* end with etcd 3.5; later versions know them without that prefix or as a feature gate"
// +kubebuilder:validation:XValidation:rule=`!self.version.startsWith('3.5.') || !has(self.config) || !has(self.config.extra) || !self.config.extra.exists(k, k in ['bootstrap-defrag-threshold-megabytes', 'compact-hash-check-time', 'compaction-batch-limit', 'compaction-sleep-interval', 'corrupt-check-time', 'distributed-tracing-address', 'distributed-tracing-instance-id', 'distributed-tracing-sampling-rate', 'distributed-tracing-service-name', 'downgrade-check-time', 'enable-distributed-tracing', 'feature-gates', 'snapshot-catchup-entries', 'warning-apply-duration', 'warning-unary-request-duration', 'watch-progress-notify-interval'])`,fieldPath=".config.extra",message="spec.config.extra: this parameter comes with etcd 3.6; in 3.5 its name may begin with experimental-"
// +kubebuilder:validation:XValidation:rule=`self.?tls.?mode.orValue('Managed') == 'Disabled' || !self.version.matches('^3[.]5[.]1[1-3]$')`,fieldPath=".version",message="spec.version must be 3.5.14 or later with TLS: earlier ones cannot keep certificates of clients from the peer port; use a later patch of 3.5, or set tls.mode to Disabled"
type EtcdClusterSpec struct {
	// size is the number of members: 1, 3, 5 or 7. Half of them (rounded down)
	// may fail at a time. An even size costs a member more and bears no more
	// failures. Members join one at a time, without a vote until they have the
	// data, and leave one at a time, the highest ordinal first, together with
	// their volume.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self in [1, 3, 5, 7]`,message="spec.size must be 1, 3, 5 or 7: an even number of members bears no more failures than one member less, and more than 7 slow every write down"
	Size int32 `json:"size"`
	// version of etcd, for example 3.6.16. Supported: 3.5 (from 3.5.14, without
	// TLS from 3.5.11), 3.6 and 3.7. A newer one is reached minor version by minor version, one member at
	// a time; the first that does not get well is set back. An older one is
	// reached by one minor version, or by setting back what is not finished:
	// while a member runs the older one, or none has started the newer one.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches('^3[.](5[.](1[1-9]|[2-9][0-9])|[67][.](0|[1-9][0-9]?))$')`,message="spec.version must be 3.5.x (x from 11), 3.6.x or 3.7.x: write 3.6.16, without a leading v or a suffix"
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version"`
	// image overrides the container image. It must hold etcd of the given
	// version. Default: quay.io/coreos/etcd:v<version>.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$')`,message="spec.image must be an image reference, for example registry.example.com/team/etcd:v3.6.16"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image *string `json:"image,omitempty"`
	// storage of each member, of at least 512Mi. Default: none, the data lives
	// and dies with the pod. It cannot be added or removed later, but its size
	// and class can change: a cluster of three members or more serves on
	// meanwhile, and one of one member can only grow, in place.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`string(self.size).matches('[-+eE]') || !isQuantity(string(self.size)) || quantity(string(self.size)).compareTo(quantity('512Mi')) >= 0`,fieldPath=".size",message="spec.storage.size of etcd must be at least 512Mi: the write-ahead log alone takes up to 384Mi"
	Storage *StorageSpec `json:"storage,omitempty"`
	// resources of the etcd container: requests and limits of cpu (cores),
	// memory and ephemeral-storage (bytes). Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!has(self.claims) || self.claims.size() == 0`,fieldPath=".claims",message="spec.resources.claims cannot be set: the pods have no resource claims; use requests and limits"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || self.limits.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])`,fieldPath=".limits",message="spec.resources.limits may hold cpu, memory and ephemeral-storage only"
	// +kubebuilder:validation:XValidation:rule=`!has(self.requests) || self.requests.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])`,fieldPath=".requests",message="spec.resources.requests may hold cpu, memory and ephemeral-storage only"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits) || (!string(self.limits[k]).matches('[-+eE]') && isQuantity(string(self.limits[k]))))`,fieldPath=".limits",message="spec.resources.limits must be numbers with or without a unit, for example memory: 2Gi: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`!has(self.requests) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || (!string(self.requests[k]).matches('[-+eE]') && isQuantity(string(self.requests[k]))))`,fieldPath=".requests",message="spec.resources.requests must be numbers with or without a unit, for example cpu: 500m: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.limits[k])).isGreaterThan(quantity('0')))`,fieldPath=".limits",message="spec.resources.limits must be above zero"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || !has(self.requests) || ['cpu', 'memory'].all(k, !(k in self.requests) || !(k in self.limits) || string(self.requests[k]).matches('[-+eE]') || !isQuantity(string(self.requests[k])) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)`,fieldPath=".requests",message="spec.resources.requests cannot be above spec.resources.limits: lower the request or raise the limit"
	// +kubebuilder:validation:XValidation:rule=`!has(self.limits) || !has(self.requests) || ['ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || string(self.requests[k]).matches('[-+eE]') || !isQuantity(string(self.requests[k])) || string(self.limits[k]).matches('[-+eE]') || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)`,fieldPath=".requests",message="spec.resources.requests cannot be above spec.resources.limits: lower the request or raise the limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// template changes the pods of the members within what the restricted Pod
	// Security Standard allows. Default: none.
	// +optional
	Template *PodTemplate `json:"template,omitempty"`
	// config of etcd. Default: etcd's own values but for those that a field
	// below names.
	// +optional
	Config *EtcdConfig `json:"config,omitempty"`
	// tls of client and peer connections. Default: certificates managed by the
	// operator.
	// +optional
	// +default={}
	// +kubebuilder:validation:XValidation:rule=`!has(self.mode) || !has(oldSelf.mode) || (self.mode == 'CertManager') == (oldSelf.mode == 'CertManager')`,fieldPath=".mode",message="spec.tls.mode cannot change from or to CertManager yet: set it back, or create a new cluster with the wanted mode"
	// +kubebuilder:validation:XValidation:rule=`!has(self.mode) || !has(oldSelf.mode) || self.mode == oldSelf.mode || 'Disabled' in [self.mode, oldSelf.mode] || 'CertManager' in [self.mode, oldSelf.mode]`,fieldPath=".mode",message="spec.tls.mode can change to Disabled and from Disabled, not from one source of certificates to another: set it to Disabled first if plain text meanwhile is acceptable, or create a new cluster"
	TLS *TLSSpec `json:"tls,omitempty"`
	// auth of clients. Default: a root user with a generated password.
	// +optional
	// +default={}
	// +kubebuilder:validation:XValidation:rule=`!has(self.rotation)`,fieldPath=".rotation",message="spec.auth.rotation is for a RedisCluster: etcd knows one password for each user, so a new one takes the place of the old at once; remove spec.auth.rotation"
	Auth *AuthSpec `json:"auth,omitempty"`
	// maintenance says when the databases are defragmented. Default: whenever it
	// is worth it.
	// +optional
	Maintenance *EtcdMaintenanceSpec `json:"maintenance,omitempty"`
	// bootstrap says what the cluster begins with. Default: it begins empty.
	// +optional
	Bootstrap *BootstrapSpec `json:"bootstrap,omitempty"`
	// recovery of a quorum whose members have lost their data. Default: a plan is
	// reported, and carried out when it is approved.
	// +optional
	Recovery *RecoverySpec `json:"recovery,omitempty"`
	// upgrade says how a newer version is reached. Default: with a Backup before
	// the first pod.
	// +optional
	Upgrade *EtcdUpgradeSpec `json:"upgrade,omitempty"`
	// monitoring has the metrics of the members read, whether it has fields or not
	// (monitoring: {}): a PodMonitor has Prometheus do that. Default: none.
	// +optional
	Monitoring *EtcdMonitoringSpec `json:"monitoring,omitempty"`
	// paused stops the operator from changing anything of this cluster, but for
	// certificates that would expire; its status is still reported. Default:
	// false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
	// hibernated ends all pods of the cluster and keeps everything else: volumes,
	// Secrets, certificates and Services. Set back to false it brings the same
	// cluster back, with all its data. It needs spec.storage. Default: false.
	// +optional
	Hibernated *bool `json:"hibernated,omitempty"`
}

// EtcdConfig is the configuration of etcd: typed known parameters, and any other by its own name in extra.
// +kubebuilder:validation:XValidation:rule=`!(has(self.heartbeatInterval) ? self.heartbeatInterval : '100ms').matches('^([0-9]{1,6}([.][0-9]{1,6})?(ms|s|m))+$') || !(has(self.electionTimeout) ? self.electionTimeout : '1s').matches('^([0-9]{1,6}([.][0-9]{1,6})?(ms|s|m))+$') || duration((has(self.electionTimeout) ? self.electionTimeout : '1s')).getMilliseconds() >= 5 * duration((has(self.heartbeatInterval) ? self.heartbeatInterval : '100ms')).getMilliseconds()`,fieldPath=".electionTimeout",message="config.electionTimeout (default 1s) must be at least five times config.heartbeatInterval (default 100ms)"
// +kubebuilder:validation:XValidation:rule=`!has(self.autoCompactionRetention) || self.?autoCompactionMode.orValue('Periodic') != 'Periodic' || self.autoCompactionRetention.matches('^(0|([0-9]{1,5}(h|m|s))+)$')`,fieldPath=".autoCompactionRetention",message="config.autoCompactionRetention with mode Periodic must be a duration such as 1h or 30m, or 0 to switch compaction off"
// +kubebuilder:validation:XValidation:rule=`!has(self.autoCompactionRetention) || self.?autoCompactionMode.orValue('Periodic') != 'Revision' || self.autoCompactionRetention.matches('^(0|[1-9][0-9]{0,14})$')`,fieldPath=".autoCompactionRetention",message="config.autoCompactionRetention with mode Revision must be a number of revisions such as 10000, or 0 to switch compaction off"
type EtcdConfig struct {
	// quotaBackendBytes is the size of the database in bytes at which etcd stops
	// accepting writes, from 1Mi to 100Gi, for example 4Gi. Up to 8Gi is
	// recommended. It must leave 384Mi of the volume to the write-ahead log.
	// Default: etcd's own, 2Gi; on a volume below 4480Mi half of what the log
	// leaves, because a defragmentation or a received snapshot needs the room of
	// a second database (1Gi: 320Mi).
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('[-+eE]') && isQuantity(string(self))`,message="config.quotaBackendBytes must be a number with or without a unit, for example 4Gi: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('[-+eE]') || !isQuantity(string(self)) || (quantity(string(self)).isInteger() && quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('100Gi')) <= 0)`,message="config.quotaBackendBytes must be a whole number of bytes from 1Mi to 100Gi (up to 8Gi is recommended), for example 4Gi"
	QuotaBackendBytes *resource.Quantity `json:"quotaBackendBytes,omitempty"`
	// autoCompactionMode is Periodic or Revision. Default: Periodic.
	// +optional
	// +kubebuilder:validation:Enum=Periodic;Revision
	AutoCompactionMode *string `json:"autoCompactionMode,omitempty"`
	// autoCompactionRetention is a duration (mode Periodic, for example 1h) or a
	// number of revisions (mode Revision). Default: 1h for Periodic, 10000 for
	// Revision. "0" switches compaction off.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	AutoCompactionRetention *string `json:"autoCompactionRetention,omitempty"`
	// snapshotCount is the number of applied entries after which a member writes
	// a snapshot of its state. From 1 to 10000000. Default: 3072, or fewer where
	// maxRequestBytes is above 1536Ki, so that entries since the last snapshot
	// take at most 192Mi of the volume where they have 64Ki on average.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
	// heartbeatInterval is the time between two heartbeats of the leader, from
	// 10ms to 10s. Default: 100ms.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(ms|s|m))+$') && duration(self) >= duration('10ms') && duration(self) <= duration('10s')`,message="config.heartbeatInterval must be a duration from 10ms to 10s, for example 100ms"
	HeartbeatInterval *metav1.Duration `json:"heartbeatInterval,omitempty"`
	// electionTimeout after which a follower that hears nothing stands for
	// election: at least five times the heartbeatInterval, at most 50s. Default:
	// 1s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(ms|s|m))+$') && duration(self) >= duration('50ms') && duration(self) <= duration('50s')`,message="config.electionTimeout must be a duration from 50ms to 50s, for example 1s"
	ElectionTimeout *metav1.Duration `json:"electionTimeout,omitempty"`
	// maxRequestBytes is the largest request in bytes that a member accepts,
	// from 64Ki to 10Mi. Default: 1536Ki.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('[-+eE]') && isQuantity(string(self))`,message="config.maxRequestBytes must be a number with or without a unit, for example 1536Ki: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('[-+eE]') || !isQuantity(string(self)) || (quantity(string(self)).isInteger() && quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && quantity(string(self)).compareTo(quantity('10Mi')) <= 0)`,message="config.maxRequestBytes must be a whole number of bytes from 64Ki to 10Mi, for example 1536Ki"
	MaxRequestBytes *resource.Quantity `json:"maxRequestBytes,omitempty"`
	// logLevel of etcd: debug, info, warn or error. Default: info.
	// +optional
	// +kubebuilder:validation:Enum=debug;info;warn;error
	LogLevel *string `json:"logLevel,omitempty"`
	// extra sets further parameters under the names of etcd's configuration
	// file, for example max-txn-ops: "256". Parameters that identity, addresses,
	// membership, certificates or authentication depend on belong to the
	// operator. A name that etcd of this version does not know is refused.
	// Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.size() <= 64 && k.matches('^[a-z][a-z0-9-]*$'))`,message="config.extra: a parameter is written in lower case letters, digits and -, at most 64 of them"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['name', 'data-dir', 'wal-dir', 'config-file', 'strict-reconfig-check', 'max-learners'] || ['initial-', 'discovery', 'proxy', 'force-new-cluster'].exists(p, k.startsWith(p)) && k != 'initial-election-tick-advance')`,message="config.extra: name, data-dir, wal-dir, config-file, initial-*, discovery*, proxy*, force-new-cluster*, strict-reconfig-check and max-learners belong to the operator: it looks after identity, data and membership; remove them"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['metrics', 'cors', 'host-whitelist'] || ['listen-', 'advertise-', 'socket-'].exists(p, k.startsWith(p)))`,message="config.extra: listen-*, advertise-*, socket-*, metrics, cors and host-whitelist belong to the operator: it looks after addresses and ports; remove them"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['client-transport-security', 'peer-transport-security'] || ['cert', 'key-file', 'trusted-ca', 'auto-tls', 'crl-', 'allowed-', 'skip-client-san'].exists(p, k.contains(p)))`,message="config.extra: *cert*, *key-file*, *trusted-ca*, *auto-tls*, *crl-*, *allowed-*, *skip-client-san*, client-transport-security and peer-transport-security belong to the operator: it looks after certificates; use spec.tls"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k.startsWith('auth-token'))`,message="config.extra: auth-token* belong to the operator: it looks after authentication; use spec.auth"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['logger', 'log-outputs', 'log-format', 'enable-log-rotation'] || k.startsWith('log-rotation-'))`,message="config.extra: logger, log-outputs, log-format, log-rotation-* and enable-log-rotation belong to the operator: the log goes to standard error as JSON; use spec.config.logLevel"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['enable-pprof', 'experimental-initial-corrupt-check', 'experimental-compact-hash-check-enabled'] || ['unsafe-', 'v2-'].exists(p, k.startsWith(p)) || k.contains('enable-v2'))`,message="config.extra: unsafe-*, v2-*, *enable-v2*, enable-pprof, experimental-initial-corrupt-check and experimental-compact-hash-check-enabled belong to the operator: they endanger the data or the server, are always on, or no longer supported; remove them"
	// +kubebuilder:validation:XValidation:rule=`!('feature-gates' in self) || !self['feature-gates'].matches('(^|[, ])(CompactHashCheck|InitialCorruptCheck|AllAlpha|AllBeta)[ =]')`,message="config.extra: in feature-gates CompactHashCheck and InitialCorruptCheck belong to the operator, and AllAlpha and AllBeta would change them too: remove them, and name other gates one by one"
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k in ['backend-batch-interval', 'backend-batch-limit', 'backend-bbolt-freelist-type', 'bcrypt-cost', 'bootstrap-defrag-threshold-megabytes', 'cipher-suites', 'compact-hash-check-time', 'compaction-batch-limit', 'compaction-sleep-interval', 'corrupt-check-time', 'distributed-tracing-address', 'distributed-tracing-instance-id', 'distributed-tracing-sampling-rate', 'distributed-tracing-service-name', 'downgrade-check-time', 'enable-distributed-tracing', 'enable-grpc-gateway', 'experimental-bootstrap-defrag-threshold-megabytes', 'experimental-compact-hash-check-time', 'experimental-compaction-batch-limit', 'experimental-compaction-sleep-interval', 'experimental-corrupt-check-time', 'experimental-distributed-tracing-address', 'experimental-distributed-tracing-instance-id', 'experimental-distributed-tracing-sampling-rate', 'experimental-distributed-tracing-service-name', 'experimental-downgrade-check-time', 'experimental-enable-distributed-tracing', 'experimental-enable-lease-checkpoint', 'experimental-enable-lease-checkpoint-persist', 'experimental-snapshot-catch-up-entries', 'experimental-stop-grpc-service-on-defrag', 'experimental-txn-mode-write-with-shared-buffer', 'experimental-warning-apply-duration', 'experimental-watch-progress-notify-interval', 'feature-gates', 'grpc-keepalive-interval', 'grpc-keepalive-min-time', 'grpc-keepalive-timeout', 'initial-election-tick-advance', 'max-concurrent-streams', 'max-snapshots', 'max-txn-ops', 'max-wals', 'pre-vote', 'snapshot-catchup-entries', 'tls-max-version', 'tls-min-version', 'warning-apply-duration', 'warning-unary-request-duration', 'watch-progress-notify-interval'] || k in ['auto-compaction-mode', 'auto-compaction-retention', 'election-timeout', 'heartbeat-interval', 'log-level', 'max-request-bytes', 'quota-backend-bytes', 'snapshot-count'] || k in ['name', 'data-dir', 'wal-dir', 'config-file', 'strict-reconfig-check', 'max-learners', 'metrics', 'cors', 'host-whitelist', 'client-transport-security', 'peer-transport-security', 'logger', 'log-outputs', 'log-format', 'enable-log-rotation', 'enable-pprof', 'experimental-initial-corrupt-check', 'experimental-compact-hash-check-enabled'] || ['initial-', 'discovery', 'proxy', 'force-new-cluster', 'listen-', 'advertise-', 'socket-', 'auth-token', 'log-rotation-', 'unsafe-', 'v2-'].exists(p, k.startsWith(p)) || ['cert', 'key-file', 'trusted-ca', 'auto-tls', 'crl-', 'allowed-', 'skip-client-san', 'enable-v2'].exists(p, k.contains(p)) || !k.matches('^[a-z][a-z0-9-]*$'))`,message="config.extra: etcd has no such parameter that may be set, and would ignore it; check the name"
	// +kubebuilder:validation:XValidation:rule=`['backend-batch-limit', 'bcrypt-cost', 'bootstrap-defrag-threshold-megabytes', 'compaction-batch-limit', 'distributed-tracing-sampling-rate', 'experimental-bootstrap-defrag-threshold-megabytes', 'experimental-compaction-batch-limit', 'experimental-distributed-tracing-sampling-rate', 'experimental-snapshot-catch-up-entries', 'max-concurrent-streams', 'max-snapshots', 'max-txn-ops', 'max-wals', 'snapshot-catchup-entries'].all(k, !(k in self) || self[k].matches('^[0-9]{1,9}$'))`,message="config.extra: max-txn-ops and other numbers must be whole and below 1000000000, for example 128"
	// +kubebuilder:validation:XValidation:rule=`['enable-distributed-tracing', 'enable-grpc-gateway', 'experimental-enable-distributed-tracing', 'experimental-enable-lease-checkpoint', 'experimental-enable-lease-checkpoint-persist', 'experimental-stop-grpc-service-on-defrag', 'experimental-txn-mode-write-with-shared-buffer', 'initial-election-tick-advance', 'pre-vote'].all(k, !(k in self) || self[k].matches('^(true|false)$'))`,message="config.extra: pre-vote and other switches must be true or false"
	// +kubebuilder:validation:XValidation:rule=`['backend-batch-interval', 'compact-hash-check-time', 'compaction-sleep-interval', 'corrupt-check-time', 'downgrade-check-time', 'experimental-compact-hash-check-time', 'experimental-compaction-sleep-interval', 'experimental-corrupt-check-time', 'experimental-downgrade-check-time', 'experimental-warning-apply-duration', 'experimental-watch-progress-notify-interval', 'grpc-keepalive-interval', 'grpc-keepalive-min-time', 'grpc-keepalive-timeout', 'warning-apply-duration', 'warning-unary-request-duration', 'watch-progress-notify-interval'].all(k, !(k in self) || self[k].matches('^(0|([0-9]{1,6}([.][0-9]{1,6})?(ms|s|m|h))+)$'))`,message="config.extra: grpc-keepalive-interval and other times must be durations, for example 10s"
	// +kubebuilder:validation:XValidation:rule=`(!('backend-bbolt-freelist-type' in self) || self['backend-bbolt-freelist-type'].matches('^(array|map)$')) && (!('tls-min-version' in self) || self['tls-min-version'].matches('^(TLS1[.][23])$')) && (!('tls-max-version' in self) || self['tls-max-version'].matches('^(TLS1[.][23])$')) && (!('cipher-suites' in self) || self['cipher-suites'].matches('^(TLS_[A-Z0-9_]+(,TLS_[A-Z0-9_]+)*)$')) && (!('bcrypt-cost' in self) || self['bcrypt-cost'].matches('^([4-9]|1[0-4])$'))`,message="config.extra: backend-bbolt-freelist-type is array or map, tls-min-version and tls-max-version TLS1.2 or TLS1.3, cipher-suites names such as TLS_AES_128_GCM_SHA256 separated by commas, bcrypt-cost from 4 to 14"
	// +kubebuilder:validation:XValidation:rule=`!('auto-compaction-mode' in self)`,message="config.extra: instead of auto-compaction-mode use spec.config.autoCompactionMode"
	// +kubebuilder:validation:XValidation:rule=`!('auto-compaction-retention' in self)`,message="config.extra: instead of auto-compaction-retention use spec.config.autoCompactionRetention"
	// +kubebuilder:validation:XValidation:rule=`!('election-timeout' in self)`,message="config.extra: instead of election-timeout use spec.config.electionTimeout"
	// +kubebuilder:validation:XValidation:rule=`!('heartbeat-interval' in self)`,message="config.extra: instead of heartbeat-interval use spec.config.heartbeatInterval"
	// +kubebuilder:validation:XValidation:rule=`!('log-level' in self)`,message="config.extra: instead of log-level use spec.config.logLevel"
	// +kubebuilder:validation:XValidation:rule=`!('max-request-bytes' in self)`,message="config.extra: instead of max-request-bytes use spec.config.maxRequestBytes"
	// +kubebuilder:validation:XValidation:rule=`!('quota-backend-bytes' in self)`,message="config.extra: instead of quota-backend-bytes use spec.config.quotaBackendBytes"
	// +kubebuilder:validation:XValidation:rule=`!('snapshot-count' in self)`,message="config.extra: instead of snapshot-count use spec.config.snapshotCount"
	// +kubebuilder:validation:MaxProperties=64
	Extra map[string]ConfigValue `json:"extra,omitempty"`
}

// RecoverySpec says what may be done by itself about a quorum that is lost for good.
type RecoverySpec struct {
	// automaticAfter is how long after a majority of the members has lost its
	// data the survivor with the longest log goes on alone, from 10s to 24h. What
	// was acknowledged by members that are lost, and never reached the survivor,
	// is lost then. Default: never, only by annotating the cluster with
	// quorate.dev/recover and the name of the plan.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) >= duration('10s') && duration(self) <= duration('24h')`,message="spec.recovery.automaticAfter must be a duration from 10s to 24h, for example 10m"
	AutomaticAfter *metav1.Duration `json:"automaticAfter,omitempty"`
}

// EtcdMemberRole is the part that a member plays.
// +kubebuilder:validation:Enum=Leader;Follower;Learner;Unstarted;Unknown
type EtcdMemberRole string

// Member roles.
const (
	EtcdLeader    EtcdMemberRole = "Leader"
	EtcdFollower  EtcdMemberRole = "Follower"
	EtcdLearner   EtcdMemberRole = "Learner"
	EtcdUnstarted EtcdMemberRole = "Unstarted"
	// EtcdRoleUnknown is the role of a pod that is no member yet, or of a member that does not answer.
	EtcdRoleUnknown EtcdMemberRole = "Unknown"
)

// EtcdMemberStatus is what was last seen of one member.
type EtcdMemberStatus struct {
	// name of the member's pod.
	Name string `json:"name"`
	// id of the member in hexadecimal, empty while it has none.
	// +optional
	ID string `json:"id,omitempty"`
	// role of the member.
	Role EtcdMemberRole `json:"role"`
	// ready is true when the member answers and its pod is ready.
	Ready bool `json:"ready"`
	// version that the member reports.
	// +optional
	Version string `json:"version,omitempty"`
	// dbSize of the member's database, rounded up to a power of two so that it
	// changes seldom.
	// +optional
	DBSize string `json:"dbSize,omitempty"`
	// message says what is wrong with the member, empty when nothing is.
	// +optional
	Message string `json:"message,omitempty"`
}

// EtcdClusterStatus is what the operator last saw. It is output only: the operator never reads it back.
type EtcdClusterStatus struct {
	// observedGeneration is the generation of the specification that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Available, Reconciling, Stalled, QuorumHealthy,
	// SpaceHealthy, PerformanceHealthy, TLSReady, BackupHealthy (with a
	// BackupSchedule).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// clusterID of etcd in hexadecimal.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// leader is the pod of the leading member.
	// +optional
	Leader string `json:"leader,omitempty"`
	// size is the number of members that etcd itself counts.
	// +optional
	Size int32 `json:"size,omitempty"`
	// ready says how many members are ready out of how many are wanted, for
	// example 3/3.
	// +optional
	Ready string `json:"ready,omitempty"`
	// currentVersion is the lowest version among the members.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`
	// activity says in words what the operator is doing or what it is waiting
	// for.
	// +optional
	Activity string `json:"activity,omitempty"`
	// members of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []EtcdMemberStatus `json:"members,omitempty"`
	// selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// connectionSecret names the Secret that clients connect with (Service
	// Binding layout).
	// +optional
	ConnectionSecret string `json:"connectionSecret,omitempty"`
	// certificates says until when they are valid. Absent without TLS.
	// +optional
	Certificates *CertificateStatus `json:"certificates,omitempty"`
	// snapshot is the Backup that was made last before an upgrade. Absent before
	// the first.
	// +optional
	Snapshot *EtcdSnapshotStatus `json:"snapshot,omitempty"`
}

// EtcdCluster is an etcd cluster.
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,fieldPath=".metadata",message="metadata.name must be at most 40 lower case letters, digits and -, begin with a letter and end with a letter or digit: names of pods and Services are made from it"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ec,categories={all,quorate}
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.currentVersion`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Activity",type=string,JSONPath=`.status.activity`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec EtcdClusterSpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status EtcdClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is a list of etcd clusters.
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCluster `json:"items"`
}
