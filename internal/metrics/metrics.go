// Package metrics is all that the operator tells Prometheus about itself and about what it runs.
//
// There are two kinds of metrics. What happens (steps, calls) is counted where it happens. What is (members, slots, backups) is read
// from the objects in the manager's cache when somebody scrapes: there is no series to set and to remove, one ends with its object,
// and there are as many as there are objects. A scrape costs no call of the API server and none of a data store.
//
// Every label has a bounded number of values: names of objects and pods, and words that this code declares. Messages, addresses and
// versions of anything but the clusters themselves are never labels. docs/metrics.md is generated from this file.
package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Type of a metric, as Prometheus calls it.
type Type string

// Types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Definition is what there is to know about one metric.
type Definition struct {
	// Name with prefix and unit.
	Name string
	Type Type
	// Help says what it is, with its unit and what its absence means.
	Help string
	// Labels in the order in which values are given.
	Labels []string
	desc   *prometheus.Desc
}

// of names one object.
var of = []string{"kind", "namespace", "name"}

// defined are all metrics, in the order of the documentation.
var defined []*Definition

func define(name string, typ Type, help string, labels ...string) *Definition {
	d := &Definition{Name: name, Type: typ, Help: help, Labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
	defined = append(defined, d)
	return d
}

// about defines a gauge of one object.
func about(name, help string, more ...string) *Definition {
	return define(name, Gauge, help, slices.Concat(of, more)...)
}

// Definitions are all metrics of the operator.
func Definitions() []Definition {
	out := make([]Definition, 0, len(defined))
	for _, d := range defined {
		out = append(out, *d)
	}
	return out
}

// The operator itself.
var (
	buildInfo = define("quorate_build_info", Gauge, "Always 1; the label tells the version of the manager.", "version")
	leading   = define("quorate_leading", Gauge,
		"1 while this manager holds the lease and works, 0 while it waits for it. Only the one that leads tells about clusters and backups.")
	clockAhead = define("quorate_clock_ahead_seconds", Gauge,
		"How far the clock of the manager's machine was ahead of the API server's at its last answer, in seconds. It is known to within 2 s.")
	readFailures = define("quorate_read_failures_total", Counter,
		"Scrapes that could not read the objects from the cache, so that they told nothing about clusters and backups.")
	steps = define("quorate_steps_total", Counter,
		"Steps by what became of them. result is Done, Failed (tried again), Held (passes by itself) or Refused (needs a human).",
		"kind", "step", "result")
	stepSeconds = define("quorate_step_duration_seconds", Histogram,
		"How long steps took to be carried out, in seconds, whatever became of them. It does not include the time until their effect was seen.",
		"kind", "step")
	callSeconds = define("quorate_datastore_call_duration_seconds", Histogram,
		"How long data stores took to answer the operator, in seconds, failures included. call is the RPC of etcd or the command of Redis; pipeline stands for several commands in one round trip.",
		"datastore", "call")
	callErrors = define("quorate_datastore_call_errors_total", Counter,
		"Calls to data stores that failed, connections that could not be made included (call is dial).", "datastore", "call")
)

// Every object.
var (
	condition = about("quorate_condition",
		"A condition of an object's status: 1 True, 0 False, -1 Unknown. Backups are counted by quorate_backups instead.", "condition")
	planReason = about("quorate_plan_reason",
		"Always 1; the label reason is the machine-readable word for what the operator does or waits for, Settled when nothing is left to do. Its sentence is in status.activity.",
		"reason")
	paused = about("quorate_paused", "1 while spec.paused is true, 0 otherwise.")
)

// Clusters of both kinds.
var (
	clusterInfo = about("quorate_cluster_info",
		"Always 1; the labels tell the engine (etcd, redis, valkey), the version that spec.version asks for, and the lowest one that runs (empty: unknown).",
		"engine", "version", "current_version")
	hibernated     = about("quorate_hibernated", "1 while spec.hibernated is true, 0 otherwise.")
	membersDesired = about("quorate_members_desired", "Members that the specification asks for: spec.size, or shards with their replicas. 0 while hibernated.")
	members        = about("quorate_members", "Members by role: Leader, Follower, Learner, Unstarted, Unknown of etcd; Primary, Replica, Unknown of Redis.", "role")
	membersReady   = about("quorate_members_ready", "Those of them that are ready.", "role")
	upToDate       = about("quorate_members_up_to_date",
		"Members that run the version of spec.version. During an upgrade it grows to quorate_members_desired.")
	outdated = about("quorate_members_outdated",
		"Members that run another version than spec.version. A member that does not answer is in neither number.")
	outageLast = about("quorate_outage_last_seconds",
		"How long the condition Available was False the last time that it became True again, in seconds, as the operator saw it: it looks after each of its steps, when a pod changes, and every 15 s. Absent before the first outage since the manager leads. The first start and hibernation are none.")
	outageLongest = about("quorate_outage_longest_seconds", "The longest of these times since the manager leads, in seconds.")
	handoverLast  = about("quorate_handover_last_seconds",
		"How long the last hand-over of the leadership that the operator made took until another member led, in seconds. Absent before the first since the manager leads.")
	handoverLongest = about("quorate_handover_longest_seconds", "The longest of these times since the manager leads, in seconds.")
	anomalies       = about("quorate_anomaly",
		"Always 1; the label finding tells what is unusual about servers of a cluster, as the condition PerformanceHealthy does with figures: MemoryForecast, SlowDisk, FlappingMember, SlowMember, ReplicationLag, ClockSkew, HotShard or Fragmented. Absent while nothing was found.",
		"finding")
	certificates = about("quorate_certificate_expiry_timestamp_seconds",
		"When certificates cease to be valid, in seconds since 1970: certificate is ca for the authority, leaf for the first one that it signed. Absent without TLS.",
		"certificate")
	renewalOverdue = about("quorate_certificate_renewal_overdue",
		"1 while less than a fifth of the life of a certificate is left and nobody has renewed it (the condition TLSReady has the reason Expiring), 0 otherwise. Absent without TLS.")
)

// One kind of cluster.
var (
	quorumMargin = about("quorate_etcd_quorum_margin",
		"How many more voting members may fail before etcd loses its quorum. Absent while no majority of them answers the operator: the condition QuorumHealthy tells whether the quorum is lost.")
	appliedLag   = about("quorate_etcd_applied_lag_entries", "Entries of the log that a member has yet to apply, compared with the one that is furthest.", "pod")
	slotsCovered = about("quorate_redis_slots_covered", "Hash slots, out of 16384, that a living primary owns. Absent with spec.mode Replicated.")
	slotsLeft    = about("quorate_redis_slots_to_move", "Hash slots that have yet to move between shards, 0 when none have.")
	replicaLag   = about("quorate_redis_replication_lag_bytes",
		"Bytes of its primary's replication stream that a replica has yet to apply. Absent while one of the two does not answer.", "pod")
)

// Backups. Those of a schedule carry the schedule's name, its cluster in cluster_kind and cluster.
var (
	ofSchedule = []string{"namespace", "schedule", "cluster_kind", "cluster"}
	lastBackup = define("quorate_backup_last_success_timestamp_seconds", Gauge,
		"When the newest complete backup of a schedule was complete, in seconds since 1970. Absent before the first.", ofSchedule...)
	lastVerified = define("quorate_backup_last_verified_timestamp_seconds", Gauge,
		"When a backup of a schedule last proved to be restorable, in seconds since 1970. Absent before the first.", ofSchedule...)
	restoreSeconds = define("quorate_backup_restore_seconds", Gauge,
		"How long reading back and restoring took then, in seconds.", ofSchedule...)
	nextBackup = define("quorate_backup_next_timestamp_seconds", Gauge,
		"When the next backup of a schedule is due, in seconds since 1970. Absent while it is suspended, or its cluster hibernates.", ofSchedule...)
	recording = define("quorate_backup_recording_current", Gauge,
		"1 while the recording of changes between backups misses nothing that was acknowledged more than a minute ago, 0 otherwise. Absent without spec.incremental.",
		ofSchedule...)
	backups = define("quorate_backups", Gauge,
		"Backups of a cluster by what became of them: state is Complete, Running or Stalled (needs a human). One whose check or deletion does is Complete and Stalled.", "namespace", "cluster_kind", "cluster", "state")
	backupsVerified = define("quorate_backups_verified", Gauge, "Backups of a cluster that proved to be restorable.", "namespace", "cluster_kind", "cluster")
	backupsStored   = define("quorate_backups_stored_bytes", Gauge,
		"What all complete backups of a cluster take where they are kept, in bytes, compressed and encrypted.", "namespace", "cluster_kind", "cluster")
)
