package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/test/golden"
	"github.com/quorate/quorate/test/redistest"
)

func TestConfigIsWhatItWas(t *testing.T) {
	full := &v1alpha1.RedisConfig{
		MaxMemory: ptr.To(resource.MustParse("512Mi")), MaxMemoryPolicy: ptr.To("allkeys-lru"), AppendFsync: ptr.To("always"),
		NodeTimeout: &metav1.Duration{Duration: 2 * time.Second},
		Extra: map[string]v1alpha1.ConfigValue{
			"hz": "50", "client-output-buffer-limit": "replica 256mb 64mb 60", "latency-tracking-info-percentiles": "50 99.9", "notify-keyspace-events": "",
		},
	}
	tests := map[string]struct {
		engine  v1alpha1.RedisEngine
		version string
		plain   bool
		config  *v1alpha1.RedisConfig
	}{
		"redis-7.0":        {engine: v1alpha1.EngineRedis, version: "7.0.15"},
		"redis-8.0":        {engine: v1alpha1.EngineRedis, version: "8.0.2"},
		"redis-8.0-full":   {engine: v1alpha1.EngineRedis, version: "8.0.2", config: full},
		"valkey-8.1-plain": {engine: v1alpha1.EngineValkey, version: "8.1.1", plain: true},
		"valkey-9.1":       {engine: v1alpha1.EngineValkey, version: "9.1.2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := redistest.Cluster(tc.engine, tc.version)
			c.Spec.Config = tc.config
			if tc.plain {
				c.Spec.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
			}
			common, err := Config(&c.Spec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := PodConfig(common, PodFacts{
				Name: "carts-0-0", IP: "10.0.0.1", Host: "carts-0-0.carts-peers.shop.svc.cluster.local",
				Engine: string(tc.engine), Version: tc.version, ReplicationPassword: "s3cret",
			})
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".conf", got)
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	tests := map[string]struct{ key, value string }{
		"a parameter that does not exist":   {"no-such-key", "x"},
		"a number in letters":               {"hz", "abc"},
		"a switch that is neither":          {"activedefrag", "true"},
		"a size in the units of Kubernetes": {"repl-backlog-size", "64Mi"},
		"a line break in a value":           {"hz", "10\nloadmodule /tmp/x.so"},
		"a carriage return":                 {"hz", "10\rsave 1 1"},
		"a zero byte":                       {"hz", "10\x00"},
		"other than ASCII":                  {"hz", "zehn…ä"},
		"a line break in a key":             {"hz 10\nloadmodule", "/tmp/x.so"},
		"a space in a key":                  {"hz 10", "x"},
		"an upper case key":                 {"Port", "1"},
		"an empty key":                      {"", "1"},
		"a parameter of the operator":       {"appendonly", "no"},
		"a parameter owned by its prefix":   {"tls-port", "1"},
		"another one owned by its prefix":   {"cluster-announce-ip", "1.2.3.4"},
		"a parameter with a field":          {"maxmemory", "1gb"},
		"what loads code into the server":   {"loadmodule", "/tmp/x.so"},
		"what would open a door":            {"enable-debug-command", "yes"},
		"the renaming of a needed command":  {"rename-command", "CLUSTER x"},
		"a configuration from another file": {"include", "/etc/passwd"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
			c.Spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{tc.key: v1alpha1.ConfigValue(tc.value)}}
			_, err := Config(&c.Spec)
			var refusal cluster.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "spec.config.extra") {
				t.Errorf("error %v, want a refusal that names the field", err)
			}
		})
	}
}

func TestParametersAreCheckedForTheirVersionAndKind(t *testing.T) {
	for name, p := range FreeParameters {
		if OwnsConfigKey(name) {
			t.Errorf("%s is free and owned at once", name)
		}
		for _, value := range p.Value.Good {
			if err := checkParameter(name, value, v1alpha1.EngineRedis, software.Version{Major: 8, Patch: 2}); err != nil {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
		for _, value := range p.Value.Bad {
			if checkParameter(name, value, v1alpha1.EngineRedis, software.Version{Major: 8, Patch: 2}) == nil {
				t.Errorf("%s %q is let in", name, value)
			}
		}
	}
	for _, tc := range []struct {
		engine  v1alpha1.RedisEngine
		version software.Version
		known   bool
	}{
		{v1alpha1.EngineRedis, software.Version{Major: 7, Patch: 15}, false}, {v1alpha1.EngineRedis, software.Version{Major: 7, Minor: 2}, true}, {v1alpha1.EngineValkey, software.Version{Major: 8}, true},
	} {
		if err := checkParameter("set-max-listpack-entries", "1", tc.engine, tc.version); (err == nil) != tc.known {
			t.Errorf("%s %v: %v", tc.engine, tc.version, err)
		}
	}
}

// TestOwnedConfigKeys pins what the rule in the CRD mirrors.
func TestOwnedConfigKeys(t *testing.T) {
	if !slices.IsSorted(OwnedConfigKeys) {
		t.Error("OwnedConfigKeys are not sorted")
	}
	common, err := Config(&redistest.Cluster(v1alpha1.EngineRedis, "8.0.2").Spec)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(common) {
		key, _, _ := strings.Cut(line, " ")
		if !OwnsConfigKey(key) {
			t.Errorf("the operator sets %s, and so could the user", key)
		}
	}
}

func TestOnlyPodsOfOneShardShareAPassword(t *testing.T) {
	own := acl.ShardPassword("secret", "carts-1-0")
	for pod, same := range map[string]bool{"carts-1-1": true, "carts-1-10": true, "carts-11-0": false, "carts-0-0": false} {
		if got := acl.ShardPassword("secret", pod); (got == own) != same {
			t.Errorf("that of %s is %s, that of carts-1-0 %s", pod, got, own)
		}
	}
	if acl.ShardPassword("other", "carts-1-0") == own {
		t.Error("it does not depend on the secret")
	}
}
