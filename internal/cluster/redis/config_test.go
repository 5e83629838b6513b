package redis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/test/golden"
	"github.com/quorate/quorate/test/lockdown"
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
			if err := checkParameter(name, value, v1alpha1.EngineRedis, Version{Major: 8, Patch: 2}); err != nil {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
		for _, value := range p.Value.Bad {
			if checkParameter(name, value, v1alpha1.EngineRedis, Version{Major: 8, Patch: 2}) == nil {
				t.Errorf("%s %q is let in", name, value)
			}
		}
	}
	for _, tc := range []struct {
		engine  v1alpha1.RedisEngine
		version Version
		known   bool
	}{
		{v1alpha1.EngineRedis, Version{Major: 7, Patch: 15}, false}, {v1alpha1.EngineRedis, Version{Major: 7, Minor: 2}, true}, {v1alpha1.EngineValkey, Version{Major: 8}, true},
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
	own := ShardPassword("secret", "carts-1-0")
	for pod, same := range map[string]bool{"carts-1-1": true, "carts-1-10": true, "carts-11-0": false, "carts-0-0": false} {
		if got := ShardPassword("secret", pod); (got == own) != same {
			t.Errorf("that of %s is %s, that of carts-1-0 %s", pod, got, own)
		}
	}
	if ShardPassword("other", "carts-1-0") == own {
		t.Error("it does not depend on the secret")
	}
}

func TestParseClaim(t *testing.T) {
	type claim struct {
		shard, ordinal int
		ok             bool
	}
	for name, want := range map[string]claim{
		"data-carts-2-10":   {2, 10, true},
		"data-carts-2":      {2, 0, false},
		"data-carts-x-1":    {0, 1, false},
		"data-carts-1-2-3":  {1, 0, false},
		"data-carts-old-12": {0, 12, false},
		"logs-carts-0-0":    {0, 0, false},
	} {
		if shard, ordinal, ok := ParseClaim("carts", name); ok != want.ok || ok && (claim{shard, ordinal, ok}) != want {
			t.Errorf("%s: %d, %d, %v", name, shard, ordinal, ok)
		}
	}
}

func testBuilder(c *v1alpha1.RedisCluster) Builder {
	return Builder{
		Cluster: c, Owner: metav1ac.OwnerReference().WithName(c.Name), Domain: "cluster.local", AgentImage: "quorate:1", TLSSecret: "carts-server-tls",
		CertificateSum: "c-1",
	}
}

func TestPodsOfServersAreLockedDown(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.RedisCluster, *Builder){
		"sharded":    func(*v1alpha1.RedisCluster, *Builder) {},
		"replicated": func(c *v1alpha1.RedisCluster, _ *Builder) { c.Spec.Mode = ptr.To(v1alpha1.RedisReplicated) },
		"valkey": func(c *v1alpha1.RedisCluster, _ *Builder) {
			c.Spec.Engine, c.Spec.Version = ptr.To(v1alpha1.EngineValkey), "9.1.2"
		},
		"plain":     func(_ *v1alpha1.RedisCluster, b *Builder) { b.TLSSecret = "" },
		"ephemeral": func(c *v1alpha1.RedisCluster, _ *Builder) { c.Spec.Storage = nil },
		"open": func(c *v1alpha1.RedisCluster, _ *Builder) {
			c.Spec.Auth = &v1alpha1.AuthSpec{Mode: ptr.To(v1alpha1.AuthDisabled)}
		},
		"from a registry": func(_ *v1alpha1.RedisCluster, b *Builder) { b.Registry = "registry.example.com:5000/copies" },
	} {
		c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
		b := testBuilder(c)
		change(c, &b)
		tpl, err := b.Template(0)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := kube.Convert[corev1.PodSpec](tpl.Spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range lockdown.Faults(lockdown.Pod{Spec: *spec, Serves: true}) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

func hashOf(t *testing.T, b Builder) string {
	t.Helper()
	tpl, err := b.Template(0)
	if err != nil {
		t.Fatal(err)
	}
	return tpl.Annotations[v1alpha1.AnnotationTemplateHash]
}

// TestAnOperatorUpgradeRestartsNoPod pins that the template's hash does not depend on the operator's own image.
func TestAnOperatorUpgradeRestartsNoPod(t *testing.T) {
	before := testBuilder(redistest.Cluster(v1alpha1.EngineRedis, "8.0.2"))
	after := before
	after.AgentImage = "quorate:2"
	if hashOf(t, before) != hashOf(t, after) {
		t.Error("another agent image changes the hash")
	}
}

// The hash of a given specification is part of the contract between releases: if it changes, an operator upgrade
// restarts every server of every cluster. Change it only with a reason for the release notes.
func TestTheHashOfARelease(t *testing.T) {
	golden.Check(t, "template-hash", hashOf(t, testBuilder(redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")))+"\n")
}

func TestWhatNeedsARestartChangesTheHash(t *testing.T) {
	base := hashOf(t, testBuilder(redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")))
	changes := map[string]func(c *v1alpha1.RedisCluster){
		"the version": func(c *v1alpha1.RedisCluster) { c.Spec.Version = "8.0.3" },
		"the image":   func(c *v1alpha1.RedisCluster) { c.Spec.Image = ptr.To("example.com/redis:1") },
		"the configuration": func(c *v1alpha1.RedisCluster) {
			c.Spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"io-threads": "2"}}
		},
		"authentication": func(c *v1alpha1.RedisCluster) { c.Spec.Auth = &v1alpha1.AuthSpec{Mode: ptr.To(v1alpha1.AuthDisabled)} },
		"a pod label": func(c *v1alpha1.RedisCluster) {
			c.Spec.Template = &v1alpha1.PodTemplate{Labels: map[string]v1alpha1.TemplateValue{"team": "a"}}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
			change(c)
			if hashOf(t, testBuilder(c)) == base {
				t.Errorf("%s does not change the hash", name)
			}
		})
	}
}
