package main

import "fmt"

// board is one dashboard.
type board struct {
	uid, title string
	// variables are labels that one chooses by, each with the metric that tells which values there are.
	variables []variable
	panels    []panel
}

type variable struct{ name, metric string }

// panel shows one or more queries. unit is Grafana's word for it.
type panel struct {
	title, help, unit string
	// kind is timeseries, stat or table.
	kind    string
	queries []query
}

type query struct{ legend, expr string }

func graph(title, unit, legend, expr, help string) panel {
	return panel{title: title, help: help, unit: unit, kind: "timeseries", queries: []query{{legend, expr}}}
}

func stat(title, expr, help string) panel {
	return panel{title: title, help: help, unit: "short", kind: "stat", queries: []query{{expr: expr}}}
}

func table(title, expr, help string) panel {
	return panel{title: title, help: help, unit: "short", kind: "table", queries: []query{{expr: expr}}}
}

func boards() []board { return []board{fleet(), operator(), etcd(), redis(), backups()} }

const (
	// chosen are the objects that one has chosen.
	chosen = `namespace=~"$namespace",name=~"$name"`
	// pods of them, which are told apart from those of others by what is scraped with them.
	pods = `managed_by="quorate",namespace=~"$namespace",pod=~"($name)-.*"`
)

func fleet() board {
	in := `{kind=~"EtcdCluster|RedisCluster",namespace=~"$namespace"}`
	return board{
		uid: "quorate-fleet", title: "Quorate / Fleet", variables: []variable{{"namespace", "quorate_cluster_info"}},
		panels: []panel{
			stat("Clusters", `count(quorate_cluster_info`+in+`)`, "All clusters of both kinds."),
			stat("Not available", `count(quorate_condition{condition="Available",kind=~"EtcdCluster|RedisCluster",namespace=~"$namespace"} == 0) or vector(0)`,
				"Clusters that clients cannot read from or write to."),
			stat("Need a human", `count(quorate_condition{condition="Stalled",namespace=~"$namespace"} == 1) or vector(0)`, "Objects that the operator cannot go on with."),
			table("What the operator does or waits for", `quorate_plan_reason{namespace=~"$namespace",reason!="Settled"} or on() vector(0)`, "One row for each object that is not settled."),
			table("Clusters", `quorate_cluster_info`+in, "Versions: wanted, and the lowest that runs."),
			graph("Members that are missing", "short", "{{namespace}}/{{name}}",
				`quorate_members_desired`+in+` - on (kind, namespace, name) sum by (kind, namespace, name) (quorate_members_ready)`, "Wanted, and not ready."),
			graph("Ready", "bool", "{{namespace}}/{{name}}", `quorate_condition{condition="Ready",namespace=~"$namespace"}`, "1: as specified."),
			graph("Longest outage", "s", "{{namespace}}/{{name}}", `quorate_outage_longest_seconds`+in+` or on() vector(0)`, "As the operator saw it, since it leads."),
			graph("Certificates expire in", "s", "{{namespace}}/{{name}} {{certificate}}", `quorate_certificate_expiry_timestamp_seconds`+in+` - time()`, "Authorities and leaves."),
		},
	}
}

func operator() board {
	return board{
		uid: "quorate-operator", title: "Quorate / Operator",
		panels: []panel{
			stat("Leads", `sum(quorate_leading)`, "Managers that hold the lease."),
			table("Version", `quorate_build_info`, "Of each manager."),
			graph("Steps", "ops", "{{kind}} {{step}}", `sum by (kind, step) (rate(quorate_steps_total[$__rate_interval]))`, "What was done."),
			graph("Steps that did not succeed", "ops", "{{kind}} {{step}} {{result}}",
				`sum by (kind, step, result) (rate(quorate_steps_total{result!="Done"}[$__rate_interval])) or on() vector(0)`, "Held passes by itself; Refused needs a human."),
			graph("Steps, 99th percentile", "s", "{{kind}} {{step}}",
				`histogram_quantile(0.99, sum by (kind, step, le) (rate(quorate_step_duration_seconds_bucket[$__rate_interval])))`, "How long they took."),
			graph("Calls to servers, 99th percentile", "s", "{{datastore}} {{call}}",
				`histogram_quantile(0.99, sum by (datastore, call, le) (rate(quorate_datastore_call_duration_seconds_bucket[$__rate_interval])))`, "Failures included."),
			graph("Calls that failed", "ops", "{{datastore}} {{call}}",
				`sum by (datastore, call) (rate(quorate_datastore_call_errors_total[$__rate_interval])) or on() vector(0)`, "Servers that start are asked in vain as well."),
			graph("Passes", "ops", "{{controller}} {{result}}", `sum by (controller, result) (rate(controller_runtime_reconcile_total[$__rate_interval]))`, "Over all objects."),
			graph("Queue", "short", "{{name}}", `sum by (name) (workqueue_depth)`, "Objects that wait for a pass."),
			graph("Clock ahead of the API server's", "s", "{{pod}}", `quorate_clock_ahead_seconds`, "One of the two is wrong when it is not 0."),
			graph("Memory", "bytes", "{{pod}}", `process_resident_memory_bytes{job=~".*quorate.*"}`, "Of the managers."),
			graph("Scrapes that read nothing", "short", "", `increase(quorate_read_failures_total[$__rate_interval])`, "They tell nothing of clusters."),
		},
	}
}

func etcd() board {
	return board{
		uid: "quorate-etcd", title: "Quorate / etcd",
		variables: []variable{{"namespace", `quorate_cluster_info{kind="EtcdCluster"}`}, {"name", `quorate_cluster_info{kind="EtcdCluster",namespace=~"$namespace"}`}},
		panels: []panel{
			stat("Failures that the quorum bears", `min(quorate_etcd_quorum_margin{`+chosen+`})`, "No data: no majority answers, see the condition QuorumHealthy."),
			graph("Members by role", "short", "{{name}} {{role}}", `quorate_members{kind="EtcdCluster",`+chosen+`}`, ""),
			graph("Entries to apply", "short", "{{pod}}", `quorate_etcd_applied_lag_entries{`+chosen+`}`, "Compared with the member that is furthest."),
			graph("Last hand-over of the leadership", "s", "{{name}}", `quorate_handover_last_seconds{kind="EtcdCluster",`+chosen+`} or on() vector(0)`, "Made by the operator."),
			graph("fsync of the log, 99th percentile", "s", "{{pod}}",
				`histogram_quantile(0.99, sum by (namespace, pod, le) (rate(etcd_disk_wal_fsync_duration_seconds_bucket{`+pods+`}[$__rate_interval])))`, "Should be below 10 ms."),
			graph("Commits to the database, 99th percentile", "s", "{{pod}}",
				`histogram_quantile(0.99, sum by (namespace, pod, le) (rate(etcd_disk_backend_commit_duration_seconds_bucket{`+pods+`}[$__rate_interval])))`, "Should be below 25 ms."),
			graph("Database", "bytes", "{{pod}}", `etcd_mvcc_db_total_size_in_bytes{`+pods+`}`, "Size of the file."),
			graph("Database in use", "bytes", "{{pod}}", `etcd_mvcc_db_total_size_in_use_in_bytes{`+pods+`}`, "The rest is freed by a defragmentation."),
			graph("Quota used", "percentunit", "{{pod}}", `etcd_mvcc_db_total_size_in_bytes{`+pods+`} / etcd_server_quota_backend_bytes{`+pods+`}`, ""),
			graph("Proposals", "ops", "{{pod}}", `rate(etcd_server_proposals_committed_total{`+pods+`}[$__rate_interval])`, "Committed."),
			graph("Changes of the leader", "short", "{{pod}}", `increase(etcd_server_leader_changes_seen_total{`+pods+`}[$__rate_interval])`, ""),
			graph("Calls", "ops", "{{pod}} {{grpc_method}}", `sum by (pod, grpc_method) (rate(grpc_server_started_total{`+pods+`}[$__rate_interval]))`, ""),
		},
	}
}

func redis() board {
	return board{
		uid: "quorate-redis", title: "Quorate / Redis and Valkey",
		variables: []variable{{"namespace", `quorate_cluster_info{kind="RedisCluster"}`}, {"name", `quorate_cluster_info{kind="RedisCluster",namespace=~"$namespace"}`}},
		panels: []panel{
			stat("Slots covered", `min(quorate_redis_slots_covered{`+chosen+`})`, "Of 16384."),
			graph("Members by role", "short", "{{name}} {{role}}", `quorate_members{kind="RedisCluster",`+chosen+`}`, ""),
			graph("Slots to move", "short", "{{name}}", `quorate_redis_slots_to_move{`+chosen+`}`, "Between shards."),
			graph("Replicas behind", "bytes", "{{pod}}", `quorate_redis_replication_lag_bytes{`+chosen+`}`, "Of the replication stream."),
			graph("Last hand-over", "s", "{{name}}", `quorate_handover_last_seconds{kind="RedisCluster",`+chosen+`} or on() vector(0)`, "Made by the operator."),
			graph("Memory", "bytes", "{{pod}}", `redis_memory_used_bytes{`+pods+`}`, ""),
			graph("Memory of maxmemory", "percentunit", "{{pod}}", `redis_memory_used_bytes{`+pods+`} / (redis_memory_max_bytes{`+pods+`} > 0)`, ""),
			graph("Commands", "ops", "{{pod}}", `rate(redis_commands_processed_total{`+pods+`}[$__rate_interval])`, ""),
			graph("Clients", "short", "{{pod}}", `redis_connected_clients{`+pods+`}`, ""),
			graph("Keys evicted", "ops", "{{pod}}", `rate(redis_evicted_keys_total{`+pods+`}[$__rate_interval])`, ""),
			graph("Hits", "percentunit", "{{pod}}",
				`rate(redis_keyspace_hits_total{`+pods+`}[$__rate_interval]) / (rate(redis_keyspace_hits_total{`+pods+`}[$__rate_interval]) + rate(redis_keyspace_misses_total{`+pods+`}[$__rate_interval]))`, ""),
			graph("Last fork", "s", "{{pod}}", `redis_latest_fork_seconds{`+pods+`}`, "The server answers nobody meanwhile."),
		},
	}
}

func backups() board {
	in := `{namespace=~"$namespace"}`
	return board{
		uid: "quorate-backups", title: "Quorate / Backups", variables: []variable{{"namespace", "quorate_backups"}},
		panels: []panel{
			stat("Schedules that are not healthy", `count(quorate_condition{kind="BackupSchedule",condition="BackupHealthy",namespace=~"$namespace"} == 0) or vector(0)`, ""),
			graph("Age of the newest backup", "s", "{{namespace}}/{{schedule}}", `time() - quorate_backup_last_success_timestamp_seconds`+in, "What a loss would cost at most, without increments."),
			graph("Age of the last proof", "s", "{{namespace}}/{{schedule}}", `time() - quorate_backup_last_verified_timestamp_seconds`+in, "Since a backup was restored and checked."),
			graph("Time to restore, as measured", "s", "{{namespace}}/{{schedule}}", `quorate_backup_restore_seconds`+in, ""),
			graph("Next backup in", "s", "{{namespace}}/{{schedule}}", `quorate_backup_next_timestamp_seconds`+in+` - time()`, "Below 0: overdue."),
			graph("Recording is current", "bool", "{{namespace}}/{{schedule}}", `quorate_backup_recording_current`+in+` or on() vector(1)`, "With spec.incremental."),
			graph("Backups", "short", "{{namespace}}/{{cluster}} {{state}}", `quorate_backups`+in, ""),
			graph("Verified backups", "short", "{{namespace}}/{{cluster}}", `quorate_backups_verified`+in, ""),
			graph("Stored", "bytes", "{{namespace}}/{{cluster}}", `quorate_backups_stored_bytes`+in, "Compressed and encrypted."),
		},
	}
}

// model is the dashboard as Grafana reads it (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/).
func (b board) model() map[string]any {
	list := []any{map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	for _, v := range b.variables {
		list = append(list, map[string]any{
			"name": v.name, "type": "query", "datasource": source(), "refresh": 2, "sort": 1,
			"includeAll": true, "multi": true, "allValue": ".*", "query": fmt.Sprintf("label_values(%s, %s)", v.metric, v.name),
		})
	}
	panels := make([]any, 0, len(b.panels))
	for i, p := range b.panels {
		panels = append(panels, p.model(i))
	}
	return map[string]any{
		"uid": b.uid, "title": b.title, "tags": []string{"quorate"}, "schemaVersion": 39, "editable": true, "timezone": "browser",
		"refresh": "30s", "time": map[string]string{"from": "now-6h", "to": "now"},
		"templating": map[string]any{"list": list}, "panels": panels,
	}
}

func source() map[string]string {
	return map[string]string{"type": "prometheus", "uid": "${datasource}"}
}

// model is the panel, the i-th of three in a row.
func (p panel) model(i int) map[string]any {
	const width, height, columns = 8, 8, 3
	targets := make([]any, 0, len(p.queries))
	for j, q := range p.queries {
		target := map[string]any{"refId": string(rune('A' + j)), "datasource": source(), "expr": q.expr, "legendFormat": q.legend}
		if p.kind == "table" {
			target["format"], target["instant"] = "table", true
		}
		targets = append(targets, target)
	}
	return map[string]any{
		"id": i + 1, "title": p.title, "description": p.help, "type": p.kind, "datasource": source(), "targets": targets,
		"gridPos":     map[string]int{"x": i % columns * width, "y": i / columns * height, "w": width, "h": height},
		"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit}, "overrides": []any{}},
		"options":     map[string]any{},
	}
}
