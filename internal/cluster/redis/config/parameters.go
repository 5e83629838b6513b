package config

import (
	"fmt"
	"regexp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// Value is what a parameter of redis.conf takes.
type Value struct {
	// Pattern of all values, in the syntax of RE2. The CRD has a rule for each with the same pattern.
	Pattern string
	// Says what to write instead of a value that does not match.
	Says string
	// Good values are at the bounds of the pattern: every server takes them. Bad ones do not match.
	Good, Bad []string
}

// Check refuses a value that a server would not start with.
func (v *Value) Check(text string) error {
	if regexp.MustCompile(v.Pattern).MatchString(text) {
		return nil
	}
	return fmt.Errorf("%q cannot be its value: %s", text, v.Says)
}

const size = `[1-9][0-9]{0,11}([kmg]b?)?`

// Kinds of values.
var (
	whole = &Value{
		`^(0|[1-9][0-9]{0,8})$`, "write a whole number below 1000000000, for example 50",
		[]string{"0", "999999999"},
		[]string{"abc", "-1", "1.5", "", "01", "1000000000"},
	}
	positive = &Value{
		`^[1-9][0-9]{0,8}$`, "write a whole number from 1, for example 60",
		[]string{"1", "999999999"},
		[]string{"0", "1m", "-1"},
	}
	connections = &Value{
		`^[1-9][0-9]{0,5}$`, "write a whole number from 1 to 999999",
		[]string{"100", "999999"},
		[]string{"0", "1000000"},
	}
	small = &Value{
		`^([1-9]|[1-5][0-9]|6[0-4])$`, "write a whole number from 1 to 64",
		[]string{"1", "64"},
		[]string{"0", "65"},
	}
	tenth = &Value{
		`^([1-9]|10)$`, "write a whole number from 1 to 10",
		[]string{"1", "10"},
		[]string{"0", "11"},
	}
	threads = &Value{
		`^([1-9]|1[0-6])$`, "write a whole number from 1 to 16",
		[]string{"1", "2"},
		[]string{"0", "17"},
	}
	effort = &Value{
		`^([1-9]|[1-9][0-9])$`, "write a percentage from 1 to 99, without a sign",
		[]string{"10", "20"},
		[]string{"0", "100", "10%"},
	}
	percentage = &Value{
		`^(0|[1-9][0-9]?|100)$`, "write a percentage from 0 to 100, without a sign",
		[]string{"0", "100"},
		[]string{"101", "10%"},
	}
	signed = &Value{
		`^-?[1-9][0-9]{0,4}$`, "write a number of entries, or from -1 to -5 for 4 to 64 KiB",
		[]string{"-5", "128"},
		[]string{"0", "many"},
	}
	micros = &Value{
		`^(-1|0|[1-9][0-9]{0,11})$`, "write a number of microseconds, or -1 to switch it off",
		[]string{"-1", "0", "999999999999"},
		[]string{"-2", "10ms"},
	}
	toggle = &Value{
		`^(yes|no)$`, "write yes or no",
		[]string{"yes", "no"},
		[]string{"true", "1", "on", ""},
	}
	bytes = &Value{
		`^` + size + `$`, "write a number of bytes, for example 64mb",
		[]string{"1048576", "64mb", "1g"},
		[]string{"0", "64Mi", "-1", "mb"},
	}
	large = &Value{
		`^[1-9][0-9]{0,5}[mg]b$`, "write a number of mb or gb, for example 512mb",
		[]string{"1mb", "1gb"},
		[]string{"1048576", "512", "1kb"},
	}
	clients = &Value{
		`^(0|` + size + `|[1-9][0-9]?%)$`, "write a number of bytes or a percentage of maxMemory, for example 5%",
		[]string{"0", "1gb", "5%"},
		[]string{"100%", "5Gi"},
	}
	level = &Value{
		`^(debug|verbose|notice|warning)$`, "write debug, verbose, notice or warning",
		[]string{"debug", "notice", "warning"},
		[]string{"info", ""},
	}
	events = &Value{
		`^[KEglshzxetdmnA]*$`, "write letters out of KEglshzxetdmnA, or nothing",
		[]string{"", "KEA", "Kgl"},
		[]string{"all", "K E"},
	}
	percentiles = &Value{
		`^([0-9]{1,2}([.][0-9]{1,3})?( |$))*$`, "write percentiles below 100 with spaces between them, for example 50 99 99.9",
		[]string{"", "50 99 99.9"},
		[]string{"p99", "100"},
	}
	buffers = &Value{
		`^((normal|replica|pubsub) (0|` + size + `) (0|` + size + `) [0-9]{1,6}( |$))+$`,
		"write a class, a hard limit, a soft limit and seconds, for example pubsub 64mb 16mb 90",
		[]string{"replica 256mb 64mb 60", "normal 0 0 0 pubsub 64mb 16mb 90"},
		[]string{"pubsub 64mb", "64mb", ""},
	}
)

// Parameter is a directive of redis.conf that users may set.
type Parameter struct {
	Value *Value
	// Has tells whether a release line has the directive; nil: all have it.
	Has func(software.Capabilities) bool
}

// In tells whether a version of an engine has the parameter.
func (p Parameter) In(engine v1alpha1.RedisEngine, v software.Version) bool {
	return p.Has == nil || p.Has(software.CapabilitiesOf(engine, v))
}

// always makes parameters that every supported version has.
func always(v *Value, names ...string) map[string]Parameter {
	out := map[string]Parameter{}
	for _, name := range names {
		out[name] = Parameter{Value: v}
	}
	return out
}

// FreeParameters are the directives that spec.config.extra may set. A server does not start with one that it does not
// know, nor with a value that it cannot read; so neither is let in. The names are those that all supported versions of
// Redis and Valkey have, see redis.conf of each, except for those with Has. The rules of the CRD list the same.
var FreeParameters = func() map[string]Parameter {
	out := map[string]Parameter{}
	for _, table := range []map[string]Parameter{
		always(whole, "hz", "timeout", "tcp-keepalive", "tcp-backlog", "lfu-log-factor", "lfu-decay-time", "list-compress-depth",
			"hash-max-listpack-entries", "hash-max-listpack-value", "set-max-intset-entries", "zset-max-listpack-entries",
			"zset-max-listpack-value", "hll-sparse-max-bytes", "stream-node-max-entries", "slowlog-max-len",
			"latency-monitor-threshold", "repl-backlog-ttl", "min-replicas-max-lag",
			"auto-aof-rewrite-percentage", "busy-reply-threshold", "lua-time-limit", "tracking-table-max-keys", "acllog-max-len",
			"set-max-listpack-entries", "set-max-listpack-value"),
		always(connections, "maxclients"),
		always(positive, "repl-timeout", "repl-ping-replica-period", "active-defrag-max-scan-fields"),
		always(small, "maxmemory-samples"),
		always(tenth, "active-expire-effort"),
		always(threads, "io-threads"),
		always(effort, "active-defrag-cycle-min", "active-defrag-cycle-max"),
		always(percentage, "maxmemory-eviction-tenacity", "active-defrag-threshold-lower", "active-defrag-threshold-upper"),
		always(signed, "list-max-listpack-size"),
		always(micros, "slowlog-log-slower-than"),
		always(toggle, "dynamic-hz", "activerehashing", "activedefrag", "lazyfree-lazy-eviction", "lazyfree-lazy-expire",
			"lazyfree-lazy-server-del", "lazyfree-lazy-user-del", "lazyfree-lazy-user-flush", "replica-lazy-flush", "latency-tracking",
			"io-threads-do-reads", "repl-disable-tcp-nodelay", "aof-load-truncated", "aof-rewrite-incremental-fsync",
			"aof-timestamp-enabled", "aof-use-rdb-preamble", "no-appendfsync-on-rewrite", "rdbcompression", "rdbchecksum",
			"rdb-save-incremental-fsync", "stop-writes-on-bgsave-error", "jemalloc-bg-thread"),
		always(bytes, "stream-node-max-bytes", "repl-backlog-size",
			"auto-aof-rewrite-min-size", "active-defrag-ignore-bytes"),
		always(large, "client-query-buffer-limit", "proto-max-bulk-len"),
		always(clients, "maxmemory-clients"),
		always(level, "loglevel"),
		always(events, "notify-keyspace-events"),
		always(percentiles, "latency-tracking-info-percentiles"),
		always(buffers, "client-output-buffer-limit"),
	} {
		for name, p := range table {
			out[name] = p
		}
	}
	for _, name := range []string{"set-max-listpack-entries", "set-max-listpack-value"} {
		out[name] = Parameter{whole, func(c software.Capabilities) bool { return c.SetListpacks }}
	}
	return out
}()

// checkParameter refuses what the server would not start with.
func checkParameter(key, value string, engine v1alpha1.RedisEngine, v software.Version) error {
	p, ok := FreeParameters[key]
	if !ok {
		return fmt.Errorf("there is no such parameter that may be set: check the name")
	}
	if !p.In(engine, v) {
		return fmt.Errorf("it comes with %s: remove it", software.FirstWith(engine, p.Has))
	}
	return p.Value.Check(value)
}

// SlotStatsParameter makes a server count what commands for each slot take, which costs a little with every command. It is in no
// configuration file: a server that does not know it would not start, and one that has restarted is told anew.
const SlotStatsParameter = "cluster-slot-stats-enabled"
