package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Most parameters take effect in a running server, by CONFIG SET. They are no part of the template's hash: what a server
// says it has is compared with what it is to have, and a server that starts gets all of them from its gate anyway.
//
// What a server has without a parameter is for its version to say. So one that is taken out of spec.config.extra is not
// set to anything: pods that have or had it are restarted, see AnnotationLive. The parameters with fields of their
// own are always set, and never restart anything.

// AnnotationLive lists, on a pod, the parameters of spec.config.extra that its server was started with or told since. It is
// written before the server is told.
const AnnotationLive = "quorate.dev/live-config"

// startOnly are the parameters that some supported server reads only when it starts, or adapts to what its host allows.
var startOnly = map[string]bool{
	"dynamic-hz": true, "io-threads": true, "io-threads-do-reads": true, "maxclients": true, "rdbchecksum": true, "tcp-backlog": true,
}

// fields are the live parameters with fields of their own in spec.config.
var fields = []string{model.AppendFsync, "cluster-node-timeout", model.MaxMemory, "maxmemory-policy", model.WriteGuard}

// pinned are the parameters without a field in the specification that decide what a server keeps,
// loads after a restart, or lets clients do. The template's hash covers them, so that a new value
// restarts the servers; CONFIG SET takes them as well, so that a value that a client changes is set
// back without a restart. Every other parameter in redis.conf cannot be changed in a running server
// (immutable or protected in the servers' source: dir, dbfilename, appenddirname, aclfile,
// cluster-enabled), has a step of its own (masteruser, masterauth, tls-cert-file,
// model.AnnounceParameters), or makes the probes fail (port).
var pinned = []string{
	model.AppendOnly, "cluster-allow-replica-migration", "cluster-replica-validity-factor", "cluster-require-full-coverage", "protected-mode",
	"repl-diskless-sync", "repl-diskless-sync-delay", "replica-read-only", "save", "tls-auth-clients", "tls-cluster", "tls-replication",
}

// aliases are other names of parameters.
var aliases = map[string]string{"lua-time-limit": "busy-reply-threshold"}

// Live reports whether a parameter takes effect in a running server.
func Live(name string) bool {
	_, free := FreeParameters[name]
	return slices.Contains(fields, name) || (free && !startOnly[name])
}

// LiveParameters are the names that a server is asked for.
func LiveParameters() []string {
	names := slices.Concat(fields, pinned)
	for name := range FreeParameters {
		if Live(name) && aliases[name] == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// LiveConfig returns the values that all servers are to have, pinned ones included: under the names
// by which CONFIG GET asks for them, in the form in which it returns them. It leaves out what
// follows from the memory limit of a server, see facts.WantedSettings, and what is relaxed on a
// primary at times, see setMinReplicasToWrite in package planner.
func LiveConfig(spec *v1alpha1.RedisClusterSpec) (map[string]string, error) {
	lines, err := settings(spec)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, d := range lines {
		if !Live(d.name) && !slices.Contains(pinned, d.name) || d.name == model.WriteGuard {
			continue
		}
		name := d.name
		if other := aliases[name]; other != "" {
			name = other
		}
		out[name] = Normal(name, strings.Join(d.args, " "))
	}
	return out, nil
}

// LiveNames are the parameters of spec.config.extra that take effect in a running server, as AnnotationLive lists them.
func LiveNames(c *v1alpha1.RedisConfig) string {
	if c == nil {
		return ""
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Extra)), func(name string) bool { return !Live(name) })
	return strings.Join(names, ",")
}

// Retired reports whether a pod's server has, or had, a parameter that is not wanted any more: only a restart tells what it has
// without it.
func Retired(pod, wanted string) bool { return JoinNames(pod, wanted) != JoinNames("", wanted) }

// JoinNames is what AnnotationLive says after a server was told further parameters.
func JoinNames(a, b string) string {
	names := map[string]bool{}
	for _, name := range slices.Concat(strings.Split(a, ","), strings.Split(b, ",")) {
		if name != "" {
			names[name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// Normal is a value in the form in which servers answer CONFIG GET.
func Normal(name, value string) string {
	switch p := FreeParameters[name]; {
	case name == "hz":
		return clamp(value, 1, 500) // As the servers do.
	case p.Value == bytes, p.Value == large, p.Value == clients:
		return inBytes(value)
	case p.Value == buffers:
		return allBuffers(value)
	case p.Value == events:
		return allEvents(value)
	}
	return strings.Join(strings.Fields(value), " ")
}

func clamp(value string, least, most int) string {
	n, err := strconv.Atoi(value)
	if err != nil {
		return value
	}
	return strconv.Itoa(min(max(n, least), most))
}

// units of sizes, see memtoull in the server's source.
var units = []struct {
	suffix string
	bytes  int64
}{{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}}

// inBytes writes a size as a number of bytes; a percentage stays.
func inBytes(value string) string {
	for _, u := range units {
		if digits, ok := strings.CutSuffix(value, u.suffix); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				return strconv.FormatInt(n*u.bytes, 10)
			}
		}
	}
	return value
}

// bufferDefaults are the limits of output buffers of all supported servers, by class. A replica goes by its old name there.
var bufferDefaults = []struct{ class, limits string }{
	{"normal", "0 0 0"}, {"slave", "268435456 67108864 60"}, {"pubsub", "33554432 8388608 60"},
}

// allBuffers names all classes: one that is not named is to have its default.
func allBuffers(value string) string {
	given := map[string]string{}
	for f := range slices.Chunk(strings.Fields(value), 4) {
		if len(f) == 4 {
			given[strings.Replace(f[0], "replica", "slave", 1)] = inBytes(f[1]) + " " + inBytes(f[2]) + " " + f[3]
		}
	}
	var out []string
	for _, b := range bufferDefaults {
		limits, ok := given[b.class]
		if !ok {
			limits = b.limits
		}
		out = append(out, b.class+" "+limits)
	}
	return strings.Join(out, " ")
}

// allEvents spells out what A stands for, in one order.
func allEvents(value string) string {
	letters := strings.Split(strings.ReplaceAll(value, "A", "g$lshzxetd"), "")
	slices.Sort(letters)
	return strings.Join(slices.Compact(letters), "")
}
