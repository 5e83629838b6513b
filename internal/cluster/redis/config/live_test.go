package config

import (
	"slices"
	"testing"

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
