package redis

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/redistest"
)

func TestValuesAreComparedInTheFormOfTheServers(t *testing.T) {
	for _, tc := range []struct{ name, wanted, answer string }{
		{"repl-backlog-size", "64mb", "67108864"},
		{"repl-backlog-size", "64m", "64000000"},
		{"repl-backlog-size", "1g", "1000000000"},
		{"client-query-buffer-limit", "1gb", "1073741824"},
		{"maxmemory-clients", "5%", "5%"},
		{"maxmemory-clients", "1kb", "1024"},
		{"hz", "0", "1"},
		{"hz", "1000", "500"},
		{"hz", "50", "50"},
		{"notify-keyspace-events", "KEA", "AKE"},
		{"notify-keyspace-events", "Kgl", "glK"},
		{"notify-keyspace-events", "", ""},
		{"latency-tracking-info-percentiles", "50 99  99.9 ", "50 99 99.9"},
		{"client-output-buffer-limit", "replica 256mb 64mb 60", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
		{"client-output-buffer-limit", "pubsub 64mb 16mb 90 normal 1mb 0 0", "normal 1048576 0 0 slave 268435456 67108864 60 pubsub 67108864 16777216 90"},
	} {
		if got, want := Normal(tc.name, tc.wanted), Normal(tc.name, tc.answer); got != want {
			t.Errorf("%s %q is compared as %q, the answer %q as %q", tc.name, tc.wanted, got, tc.answer, want)
		}
	}
	if Normal("notify-keyspace-events", "KE") == Normal("notify-keyspace-events", "KEA") || Normal("repl-backlog-size", "64mb") == Normal("repl-backlog-size", "64m") {
		t.Error("different values count as the same")
	}
}

// pinnedAnd adds the values that no field of the specification decides.
func pinnedAnd(values map[string]string) map[string]string {
	maps.Copy(values, map[string]string{
		"appendonly": "yes", "cluster-allow-replica-migration": "no", "cluster-replica-validity-factor": "7", "cluster-require-full-coverage": "no",
		"protected-mode": "no", "repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0", "replica-read-only": "yes", "save": "",
		"tls-auth-clients": "optional", "tls-cluster": "yes", "tls-replication": "yes",
	})
	return values
}

// TestEveryParameterOfOursIsComparedOrCannotChange reads redis.conf and lists what a running server's value is not compared with.
func TestEveryParameterOfOursIsComparedOrCannotChange(t *testing.T) {
	unchangeable := []string{
		"dir", "daemonize", "aclfile", "appenddirname", "cluster-enabled", "cluster-config-file", // Immutable, or protected.
		"masteruser",                                   // setReplicationPasswords.
		"cluster-preferred-endpoint-type", "replicaof", // announce, and follow in the mode Replicated.
		"port", "tls-port", // Probes fail, and the container restarts with the configured one.
		"tls-cert-file", "tls-key-file", "tls-ca-cert-file", // reloadCertificates.
	}
	for _, mode := range []v1alpha1.RedisMode{v1alpha1.RedisSharded, v1alpha1.RedisReplicated} {
		c := redistest.Cluster(v1alpha1.EngineValkey, "8.1.1")
		c.Spec.Mode = ptr.To(mode)
		lines, err := settings(&c.Spec)
		if err != nil {
			t.Fatal(err)
		}
		live, err := LiveConfig(&c.Spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range lines {
			_, compared := live[d.name]
			if asked := slices.Contains(LiveParameters(), d.name); compared != asked || compared == slices.Contains(unchangeable, d.name) {
				t.Errorf("%s, mode %s: compared %v, asked for %v", d.name, mode, compared, asked)
			}
		}
	}
}

// TestOneServerOfAShardWritesItsLogAgainAtATime has a client switch off the append-only files.
func TestOneServerOfAShardWritesItsLogAgainAtATime(t *testing.T) {
	off := func(pods ...string) func(f *fixture) {
		return func(f *fixture) {
			f.Spec.Live = map[string]string{appendOnly: "yes"}
			for i := range f.Pods {
				f.Pods[i].Node.Config = map[string]string{appendOnly: "yes"}
			}
			for _, name := range pods {
				f.pod(name).Node.Config[appendOnly], f.pod(name).Node.OnDisk = "no", false
			}
		}
	}
	on := func(pods ...string) Configure {
		var s Configure
		for _, name := range pods {
			s.Pods = append(s.Pods, PodSettings{name, map[string]string{appendOnly: "yes"}})
		}
		return s
	}
	for name, tc := range map[string]row{
		"the primaries of two shards come first": {
			state: formed(), spoil: off("c-0-0", "c-0-1", "c-1-0", "c-1-1"), step: on("c-0-0", "c-1-0"),
		},
		"a replica waits for the rewrite of its primary": {
			state: formed(), spoil: func(f *fixture) {
				off("c-0-1")(f)
				f.pod("c-0-0").Node.OnDisk, f.pod("c-0-0").Node.Forked = false, true
			},
			reason: ReasonDisk,
		},
		"a replica does not wait for a rewrite that has failed": {
			state: formed(), spoil: func(f *fixture) { off("c-0-1")(f); f.pod("c-0-0").Node.OnDisk = false }, step: on("c-0-1"),
		},
		"a server that loads its data is told afterwards, and its replica now": {
			state: formed(), spoil: func(f *fixture) { off("c-0-0", "c-0-1")(f); f.pod("c-0-0").Node.Loading = true }, step: on("c-0-1"),
		},
	} {
		t.Run(name, tc.Check)
	}
}

func TestWhatIsSetInRunningServers(t *testing.T) {
	c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
	hash := hashOf(t, testBuilder(c))
	got, err := LiveConfig(&c.Spec)
	if err != nil {
		t.Fatal(err)
	}
	want := pinnedAnd(map[string]string{"appendfsync": "everysec", "cluster-node-timeout": "5000", "maxmemory": "0", "maxmemory-policy": "noeviction"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without a configuration (-want +got):\n%s", diff)
	}
	c.Spec.Config = &v1alpha1.RedisConfig{
		MaxMemory: ptr.To(resource.MustParse("512Mi")), AppendFsync: ptr.To("always"),
		Extra: map[string]v1alpha1.ConfigValue{"hz": "20", "lua-time-limit": "100", "timeout": "60"},
	}
	if got, err = LiveConfig(&c.Spec); err != nil {
		t.Fatal(err)
	}
	want = pinnedAnd(map[string]string{
		"appendfsync": "always", "cluster-node-timeout": "5000", "maxmemory": "536870912", "maxmemory-policy": "noeviction",
		"hz": "20", "busy-reply-threshold": "100", "timeout": "60",
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with one (-want +got):\n%s", diff)
	}
	if hashOf(t, testBuilder(c)) != hash {
		t.Error("what takes no restart changes the hash")
	}
	if got := LiveNames(c.Spec.Config); got != "hz,lua-time-limit,timeout" {
		t.Errorf("names %q", got)
	}
	c.Spec.Config.Extra["tcp-backlog"] = "100"
	if hashOf(t, testBuilder(c)) == hash || strings.Contains(LiveNames(c.Spec.Config), "tcp-backlog") {
		t.Error("what takes a restart does not change the hash")
	}
	if got := JoinNames("hz,timeout", "activedefrag,hz"); got != "activedefrag,hz,timeout" {
		t.Errorf("names %q", got)
	}
}

func TestAParameterThatIsRemovedTakesARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		pod, wanted string
		want        bool
	}{
		"nothing":       {"", "", false},
		"another value": {"hz,timeout", "hz,timeout", false},
		"one more":      {"hz", "hz,timeout", false},
		"one less":      {"hz,timeout", "hz", true},
		"none left":     {"hz", "", true},
	} {
		if got := Retired(tc.pod, tc.wanted); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestServersAreConfigured(t *testing.T) {
	differ := func(f *fixture) {
		f.Spec.Live, f.Spec.LiveNames = map[string]string{"hz": "20", "maxmemory": "100", "set-max-listpack-entries": "5"}, "hz"
		for i := range f.Pods {
			f.Pods[i].Node.Config = map[string]string{"hz": "20", "maxmemory": "100"}
		}
	}
	for name, tc := range map[string]row{
		"settings that are as wanted, or not known to the server": {state: formed(), spoil: differ},
		"settings that differ": {
			state: formed(), spoil: func(f *fixture) {
				differ(f)
				f.pod("c-0-1").Node.Config["hz"] = "10"
				f.pod("c-2-0").Node.Config["maxmemory"] = "0"
			},
			step: Configure{[]PodSettings{{"c-0-1", map[string]string{"hz": "20"}}, {"c-2-0", map[string]string{"maxmemory": "100"}}}, "hz"},
		},
		"while another server is unknown and a replica is not in sync": {
			state: formed(), spoil: func(f *fixture) {
				differ(f)
				f.unlink("c-0-1")
				f.pod("c-0-1").Node.Config["hz"] = "10"
				f.pod("c-2-0").Node = nil
			},
			step: Configure{[]PodSettings{{"c-0-1", map[string]string{"hz": "20"}}}, "hz"},
		},
		"a server that may not be asked": {
			state: formed(), spoil: func(f *fixture) { differ(f); f.pod("c-0-1").Node.Config = nil },
		},
	} {
		t.Run(name, tc.Check)
	}
}
