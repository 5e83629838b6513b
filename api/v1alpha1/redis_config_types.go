package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RedisConfig is the configuration of the server: typed known parameters, and any other by its own name in extra.
type RedisConfig struct {
	// maxMemory in bytes that the data of one server may take, at least 1Mi and
	// below resources.limits.memory, for example 512Mi. It is not set below what
	// a server uses, unless maxMemoryPolicy evicts any key. Default: three
	// quarters of resources.limits.memory without the replication backlog, and
	// no limit without one.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('[-+eE]') && isQuantity(string(self))`,message="config.maxMemory must be a number with or without a unit, for example 512Mi: no sign, no exponent"
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('[-+eE]') || !isQuantity(string(self)) || (quantity(string(self)).isInteger() && quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0)`,message="config.maxMemory must be a whole number of bytes, at least 1Mi, for example 512Mi"
	MaxMemory *resource.Quantity `json:"maxMemory,omitempty"`
	// maxMemoryPolicy says which keys go when maxMemory is reached. Default:
	// noeviction (writes fail instead).
	// +optional
	// +kubebuilder:validation:Enum=noeviction;allkeys-lru;allkeys-lfu;allkeys-random;volatile-lru;volatile-lfu;volatile-random;volatile-ttl
	MaxMemoryPolicy *string `json:"maxMemoryPolicy,omitempty"`
	// nodeTimeout is how long a server may be silent before the others call it
	// failed: between 1s and 60s. A lost primary is replaced after about 1.5
	// times as long. With mode Replicated, a primary that nobody hears from stops
	// taking writes by itself after as long, in whole seconds. Default: 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(ms|s|m))+$') && duration(self) >= duration('1s') && duration(self) <= duration('60s')`,message="config.nodeTimeout must be a duration from 1s to 60s, for example 5s"
	NodeTimeout *metav1.Duration `json:"nodeTimeout,omitempty"`
	// appendFsync says how often the append-only file is forced to disk: always,
	// everysec or no. Default: everysec.
	// +optional
	// +kubebuilder:validation:Enum=always;everysec;no
	AppendFsync *string `json:"appendFsync,omitempty"`
	// minReplicasToWrite is how many replicas of a primary have to be connected
	// for it to take writes, at most replicasPerShard: it bounds what is lost
	// when a primary is cut off. A replica counts as long as it was heard of
	// within nodeTimeout, at least 2s (min-replicas-max-lag). One that Quorate
	// restarts, or that starts, is not missed. With mode Replicated the operator
	// always asks for one. Default: 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 5`,message="config.minReplicasToWrite must be from 0 to 5"
	MinReplicasToWrite *int32 `json:"minReplicasToWrite,omitempty"`
	// extra sets further parameters under the names of redis.conf, for example
	// hz: "50". Parameters that identity, addresses, persistence, certificates
	// or users depend on belong to the operator. A name or a value that no server
	// of this version would start with is refused. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.size() <= 64 && k.matches('^[a-z][a-z0-9-]*$'))`,message="config.extra: a parameter is written in lower case letters, digits and -, at most 64 of them"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['replicaof', 'slaveof', 'replica-read-only', 'slave-read-only', 'repl-diskless-sync', 'repl-diskless-sync-delay'] || ['cluster-', 'replica-announce', 'slave-announce', 'sentinel'].exists(p, k.startsWith(p)) && k != 'cluster-node-timeout')`,message="config.extra: cluster-*, replica-announce*, slave-announce*, replicaof, slaveof, replica-read-only, slave-read-only, repl-diskless-sync, repl-diskless-sync-delay and sentinel* belong to the operator: it looks after the shape of the cluster; remove them"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['port', 'protected-mode'] || ['bind', 'unixsocket', 'rdma-'].exists(p, k.startsWith(p)))`,message="config.extra: port, bind*, protected-mode, unixsocket* and rdma-* belong to the operator: it looks after addresses and ports; remove them"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k.startsWith('tls-'))`,message="config.extra: tls-* belong to the operator: it looks after certificates; use spec.tls"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['aclfile', 'requirepass'] || ['user', 'master', 'primary'].exists(p, k.startsWith(p)))`,message="config.extra: aclfile, user*, requirepass, master* and primary* belong to the operator: it looks after users and passwords; use spec.auth"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['dir', 'dbfilename', 'save', 'appendonly', 'appenddirname', 'appendfilename'])`,message="config.extra: dir, dbfilename, save, appendonly, appenddirname and appendfilename belong to the operator: it looks after files; use spec.storage"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['include', 'rename-command'] || ['loadmodule', 'module', 'enable-'].exists(p, k.startsWith(p)))`,message="config.extra: include, loadmodule*, module*, rename-command and enable-* belong to the operator: they change what the server executes; remove them"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k in ['daemonize', 'pidfile', 'logfile', 'supervised'] || ['syslog-', 'shutdown-'].exists(p, k.startsWith(p)))`,message="config.extra: daemonize, pidfile, logfile, syslog-*, supervised and shutdown-* belong to the operator: it looks after the process and its log; remove them"
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k in ['acllog-max-len', 'active-defrag-cycle-max', 'active-defrag-cycle-min', 'active-defrag-ignore-bytes', 'active-defrag-max-scan-fields', 'active-defrag-threshold-lower', 'active-defrag-threshold-upper', 'active-expire-effort', 'activedefrag', 'activerehashing', 'aof-load-truncated', 'aof-rewrite-incremental-fsync', 'aof-timestamp-enabled', 'aof-use-rdb-preamble', 'auto-aof-rewrite-min-size', 'auto-aof-rewrite-percentage', 'busy-reply-threshold', 'client-output-buffer-limit', 'client-query-buffer-limit', 'dynamic-hz', 'hash-max-listpack-entries', 'hash-max-listpack-value', 'hll-sparse-max-bytes', 'hz', 'io-threads', 'io-threads-do-reads', 'jemalloc-bg-thread', 'latency-monitor-threshold', 'latency-tracking', 'latency-tracking-info-percentiles', 'lazyfree-lazy-eviction', 'lazyfree-lazy-expire', 'lazyfree-lazy-server-del', 'lazyfree-lazy-user-del', 'lazyfree-lazy-user-flush', 'lfu-decay-time', 'lfu-log-factor', 'list-compress-depth', 'list-max-listpack-size', 'loglevel', 'lua-time-limit', 'maxclients', 'maxmemory-clients', 'maxmemory-eviction-tenacity', 'maxmemory-samples', 'min-replicas-max-lag', 'no-appendfsync-on-rewrite', 'notify-keyspace-events', 'proto-max-bulk-len', 'rdb-save-incremental-fsync', 'rdbchecksum', 'rdbcompression', 'repl-backlog-size', 'repl-backlog-ttl', 'repl-disable-tcp-nodelay', 'repl-ping-replica-period', 'repl-timeout', 'replica-lazy-flush', 'set-max-intset-entries', 'set-max-listpack-entries', 'set-max-listpack-value', 'slowlog-log-slower-than', 'slowlog-max-len', 'stop-writes-on-bgsave-error', 'stream-node-max-bytes', 'stream-node-max-entries', 'tcp-backlog', 'tcp-keepalive', 'timeout', 'tracking-table-max-keys', 'zset-max-listpack-entries', 'zset-max-listpack-value'] || k in ['aclfile', 'appenddirname', 'appendfilename', 'appendfsync', 'appendonly', 'daemonize', 'dbfilename', 'dir', 'include', 'logfile', 'maxmemory', 'maxmemory-policy', 'min-replicas-to-write', 'pidfile', 'port', 'protected-mode', 'rename-command', 'repl-diskless-sync', 'repl-diskless-sync-delay', 'replica-read-only', 'replicaof', 'requirepass', 'save', 'slave-read-only', 'slaveof', 'supervised', 'cluster-node-timeout'] || ['bind', 'cluster-', 'enable-', 'loadmodule', 'master', 'module', 'primary', 'rdma-', 'replica-announce', 'sentinel', 'shutdown-', 'slave-announce', 'syslog-', 'tls-', 'unixsocket', 'user'].exists(p, k.startsWith(p)) || !k.matches('^[a-z][a-z0-9-]*$'))`,message="config.extra: there is no such parameter that may be set, and the server would not start with it; check the name"
	// +kubebuilder:validation:XValidation:rule=`['acllog-max-len', 'auto-aof-rewrite-percentage', 'busy-reply-threshold', 'hash-max-listpack-entries', 'hash-max-listpack-value', 'hll-sparse-max-bytes', 'hz', 'latency-monitor-threshold', 'lfu-decay-time', 'lfu-log-factor', 'list-compress-depth', 'lua-time-limit', 'min-replicas-max-lag', 'repl-backlog-ttl', 'set-max-intset-entries', 'set-max-listpack-entries', 'set-max-listpack-value', 'slowlog-max-len', 'stream-node-max-entries', 'tcp-backlog', 'tcp-keepalive', 'timeout', 'tracking-table-max-keys', 'zset-max-listpack-entries', 'zset-max-listpack-value'].all(k, !(k in self) || self[k].matches('^(0|[1-9][0-9]{0,8})$'))`,message="config.extra: write a whole number below 1000000000, for example 50 (acllog-max-len, auto-aof-rewrite-percentage, busy-reply-threshold, hash-max-listpack-entries, hash-max-listpack-value, hll-sparse-max-bytes, hz, latency-monitor-threshold, lfu-decay-time, lfu-log-factor, list-compress-depth, lua-time-limit, min-replicas-max-lag, repl-backlog-ttl, set-max-intset-entries, set-max-listpack-entries, set-max-listpack-value, slowlog-max-len, stream-node-max-entries, tcp-backlog, tcp-keepalive, timeout, tracking-table-max-keys, zset-max-listpack-entries, zset-max-listpack-value)"
	// +kubebuilder:validation:XValidation:rule=`['active-defrag-cycle-max', 'active-defrag-cycle-min'].all(k, !(k in self) || self[k].matches('^([1-9]|[1-9][0-9])$'))`,message="config.extra: write a percentage from 1 to 99, without a sign (active-defrag-cycle-max, active-defrag-cycle-min)"
	// +kubebuilder:validation:XValidation:rule=`['active-defrag-ignore-bytes', 'auto-aof-rewrite-min-size', 'repl-backlog-size', 'stream-node-max-bytes'].all(k, !(k in self) || self[k].matches('^[1-9][0-9]{0,11}([kmg]b?)?$'))`,message="config.extra: write a number of bytes, for example 64mb (active-defrag-ignore-bytes, auto-aof-rewrite-min-size, repl-backlog-size, stream-node-max-bytes)"
	// +kubebuilder:validation:XValidation:rule=`['active-defrag-max-scan-fields', 'repl-ping-replica-period', 'repl-timeout'].all(k, !(k in self) || self[k].matches('^[1-9][0-9]{0,8}$'))`,message="config.extra: write a whole number from 1, for example 60 (active-defrag-max-scan-fields, repl-ping-replica-period, repl-timeout)"
	// +kubebuilder:validation:XValidation:rule=`['active-defrag-threshold-lower', 'active-defrag-threshold-upper', 'maxmemory-eviction-tenacity'].all(k, !(k in self) || self[k].matches('^(0|[1-9][0-9]?|100)$'))`,message="config.extra: write a percentage from 0 to 100, without a sign (active-defrag-threshold-lower, active-defrag-threshold-upper, maxmemory-eviction-tenacity)"
	// +kubebuilder:validation:XValidation:rule=`['activedefrag', 'activerehashing', 'aof-load-truncated', 'aof-rewrite-incremental-fsync', 'aof-timestamp-enabled', 'aof-use-rdb-preamble', 'dynamic-hz', 'io-threads-do-reads', 'jemalloc-bg-thread', 'latency-tracking', 'lazyfree-lazy-eviction', 'lazyfree-lazy-expire', 'lazyfree-lazy-server-del', 'lazyfree-lazy-user-del', 'lazyfree-lazy-user-flush', 'no-appendfsync-on-rewrite', 'rdb-save-incremental-fsync', 'rdbchecksum', 'rdbcompression', 'repl-disable-tcp-nodelay', 'replica-lazy-flush', 'stop-writes-on-bgsave-error'].all(k, !(k in self) || self[k].matches('^(yes|no)$'))`,message="config.extra: write yes or no (activedefrag, activerehashing, aof-load-truncated, aof-rewrite-incremental-fsync, aof-timestamp-enabled, aof-use-rdb-preamble, dynamic-hz, io-threads-do-reads, jemalloc-bg-thread, latency-tracking, lazyfree-lazy-eviction, lazyfree-lazy-expire, lazyfree-lazy-server-del, lazyfree-lazy-user-del, lazyfree-lazy-user-flush, no-appendfsync-on-rewrite, rdb-save-incremental-fsync, rdbchecksum, rdbcompression, repl-disable-tcp-nodelay, replica-lazy-flush, stop-writes-on-bgsave-error)"
	// +kubebuilder:validation:XValidation:rule=`['client-output-buffer-limit'].all(k, !(k in self) || self[k].matches('^((normal|replica|pubsub) (0|[1-9][0-9]{0,11}([kmg]b?)?) (0|[1-9][0-9]{0,11}([kmg]b?)?) [0-9]{1,6}( |$))+$'))`,message="config.extra: write a class, a hard limit, a soft limit and seconds, for example pubsub 64mb 16mb 90 (client-output-buffer-limit)"
	// +kubebuilder:validation:XValidation:rule=`['client-query-buffer-limit', 'proto-max-bulk-len'].all(k, !(k in self) || self[k].matches('^[1-9][0-9]{0,5}[mg]b$'))`,message="config.extra: write a number of mb or gb, for example 512mb (client-query-buffer-limit, proto-max-bulk-len)"
	// +kubebuilder:validation:XValidation:rule=`['io-threads'].all(k, !(k in self) || self[k].matches('^([1-9]|1[0-6])$'))`,message="config.extra: write a whole number from 1 to 16 (io-threads)"
	// +kubebuilder:validation:XValidation:rule=`['latency-tracking-info-percentiles'].all(k, !(k in self) || self[k].matches('^([0-9]{1,2}([.][0-9]{1,3})?( |$))*$'))`,message="config.extra: write percentiles below 100 with spaces between them, for example 50 99 99.9 (latency-tracking-info-percentiles)"
	// +kubebuilder:validation:XValidation:rule=`['list-max-listpack-size'].all(k, !(k in self) || self[k].matches('^-?[1-9][0-9]{0,4}$'))`,message="config.extra: write a number of entries, or from -1 to -5 for 4 to 64 KiB (list-max-listpack-size)"
	// +kubebuilder:validation:XValidation:rule=`['loglevel'].all(k, !(k in self) || self[k].matches('^(debug|verbose|notice|warning)$'))`,message="config.extra: write debug, verbose, notice or warning (loglevel)"
	// +kubebuilder:validation:XValidation:rule=`['maxclients'].all(k, !(k in self) || self[k].matches('^[1-9][0-9]{0,5}$'))`,message="config.extra: write a whole number from 1 to 999999 (maxclients)"
	// +kubebuilder:validation:XValidation:rule=`['maxmemory-clients'].all(k, !(k in self) || self[k].matches('^(0|[1-9][0-9]{0,11}([kmg]b?)?|[1-9][0-9]?%)$'))`,message="config.extra: write a number of bytes or a percentage of maxMemory, for example 5% (maxmemory-clients)"
	// +kubebuilder:validation:XValidation:rule=`['active-expire-effort'].all(k, !(k in self) || self[k].matches('^([1-9]|10)$'))`,message="config.extra: write a whole number from 1 to 10 (active-expire-effort)"
	// +kubebuilder:validation:XValidation:rule=`['maxmemory-samples'].all(k, !(k in self) || self[k].matches('^([1-9]|[1-5][0-9]|6[0-4])$'))`,message="config.extra: write a whole number from 1 to 64 (maxmemory-samples)"
	// +kubebuilder:validation:XValidation:rule=`['notify-keyspace-events'].all(k, !(k in self) || self[k].matches('^[KEglshzxetdmnA]*$'))`,message="config.extra: write letters out of KEglshzxetdmnA, or nothing (notify-keyspace-events)"
	// +kubebuilder:validation:XValidation:rule=`['slowlog-log-slower-than'].all(k, !(k in self) || self[k].matches('^(-1|0|[1-9][0-9]{0,11})$'))`,message="config.extra: write a number of microseconds, or -1 to switch it off (slowlog-log-slower-than)"
	// +kubebuilder:validation:XValidation:rule=`!('appendfsync' in self)`,message="config.extra: instead of appendfsync use spec.config.appendFsync"
	// +kubebuilder:validation:XValidation:rule=`!('cluster-node-timeout' in self)`,message="config.extra: instead of cluster-node-timeout use spec.config.nodeTimeout"
	// +kubebuilder:validation:XValidation:rule=`!('maxmemory' in self)`,message="config.extra: instead of maxmemory use spec.config.maxMemory"
	// +kubebuilder:validation:XValidation:rule=`!('maxmemory-policy' in self)`,message="config.extra: instead of maxmemory-policy use spec.config.maxMemoryPolicy"
	// +kubebuilder:validation:XValidation:rule=`!('min-replicas-to-write' in self)`,message="config.extra: instead of min-replicas-to-write use spec.config.minReplicasToWrite"
	// +kubebuilder:validation:MaxProperties=64
	Extra map[string]ConfigValue `json:"extra,omitempty"`
}
