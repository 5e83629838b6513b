package manifests

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/golden"
	"github.com/quorate/quorate/test/lockdown"
	"github.com/quorate/quorate/test/redistest"
)

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

// pinnedAnd adds the values that no field of the specification decides.
func pinnedAnd(values map[string]string) map[string]string {
	maps.Copy(values, map[string]string{
		"appendonly": "yes", "cluster-allow-replica-migration": "no", "cluster-replica-validity-factor": "7", "cluster-require-full-coverage": "no",
		"protected-mode": "no", "repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0", "replica-read-only": "yes", "save": "",
		"tls-auth-clients": "optional", "tls-cluster": "yes", "tls-replication": "yes",
	})
	return values
}

func TestWhatIsSetInRunningServers(t *testing.T) {
	c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
	hash := hashOf(t, testBuilder(c))
	got, err := config.LiveConfig(&c.Spec)
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
	if got, err = config.LiveConfig(&c.Spec); err != nil {
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
	if got := config.LiveNames(c.Spec.Config); got != "hz,lua-time-limit,timeout" {
		t.Errorf("names %q", got)
	}
	c.Spec.Config.Extra["tcp-backlog"] = "100"
	if hashOf(t, testBuilder(c)) == hash || strings.Contains(config.LiveNames(c.Spec.Config), "tcp-backlog") {
		t.Error("what takes a restart does not change the hash")
	}
	if got := config.JoinNames("hz,timeout", "activedefrag,hz"); got != "activedefrag,hz,timeout" {
		t.Errorf("names %q", got)
	}
}

// The amounts of cpu and memory are no part of the hash, and which of them there are is: that decides on the class of the pod.
func TestAmountsAreNoPartOfTheHash(t *testing.T) {
	with := func(cpu, memory, disk string) Builder {
		c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
		r := &corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
		for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: disk} {
			if value != "" {
				r.Limits[name] = resource.MustParse(value)
			}
		}
		c.Spec.Resources = r
		return testBuilder(c)
	}
	base := with("1", "1Gi", "1Gi")
	for name, tc := range map[string]struct {
		b    Builder
		same bool
	}{
		"other amounts":    {with("2", "3Gi", "1Gi"), true},
		"another disk":     {with("1", "1Gi", "2Gi"), false},
		"no limit of cpu":  {with("", "1Gi", "1Gi"), false},
		"no limits at all": {with("", "", ""), false},
	} {
		if got := hashOf(t, tc.b) == hashOf(t, base); got != tc.same {
			t.Errorf("%s: the hash stays: %v", name, got)
		}
	}
	golden.Check(t, "template-hash-resources", hashOf(t, base)+"\n")
	tpl, err := base.Template(0)
	want := `{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}`
	if got := tpl.Annotations[AnnotationResources]; err != nil || got != want {
		t.Errorf("the pod says %s, %v", got, err)
	}
	if limit := (*tpl.Spec.Containers[0].Resources.Limits)[corev1.ResourceMemory]; limit.String() != "1Gi" {
		t.Errorf("the container gets %s", limit.String())
	}
	if limit := (*tpl.Spec.InitContainers[0].Resources.Limits)[corev1.ResourceMemory]; limit.String() != "128Mi" {
		t.Errorf("the gate gets %s", limit.String())
	}
}

func TestTheWriteGuardIsNoSettingLikeOthers(t *testing.T) {
	c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
	hash := hashOf(t, testBuilder(c))
	c.Spec.Config = &v1alpha1.RedisConfig{MinReplicasToWrite: ptr.To(int32(1))}
	file, err := config.Config(&c.Spec)
	if err != nil || !strings.Contains(file, "\nmin-replicas-to-write 1\nmin-replicas-max-lag 5\n") {
		t.Errorf("servers start with %s, %v", file, err)
	}
	live, err := config.LiveConfig(&c.Spec)
	if _, told := live[model.WriteGuard]; err != nil || told || live[model.WriteGuardLag] != "5" {
		t.Errorf("servers are told %v, %v", live, err)
	}
	c.Spec.Config.Extra = map[string]v1alpha1.ConfigValue{model.WriteGuardLag: "20"}
	if live, err = config.LiveConfig(&c.Spec); err != nil || live[model.WriteGuardLag] != "20" {
		t.Errorf("servers are told %v, %v", live, err)
	}
	c.Spec.Config.Extra = nil
	if hashOf(t, testBuilder(c)) != hash {
		t.Error("it changes the hash")
	}
	if config.MinReplicas(&v1alpha1.RedisClusterSpec{Mode: ptr.To(v1alpha1.RedisReplicated), Config: c.Spec.Config}) != 0 {
		t.Error("the mode Replicated has a guard of its own")
	}
}
