package redis

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/redistest"
)

// TestNobodyElseFailsOver: of two who have a replica take over, one cancels what the other has begun (Valkey issue 3996). So servers
// are not to do so when they end, whether by themselves or by a hook of their container, which only waits.
func TestNobodyElseFailsOver(t *testing.T) {
	for engine, version := range map[v1alpha1.RedisEngine]string{v1alpha1.EngineRedis: "8.0.2", v1alpha1.EngineValkey: "9.1.2"} {
		b := testBuilder(redistest.Cluster(engine, version))
		set, err := b.Set(0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range set.Spec.Template.Spec.Containers {
			if l := c.Lifecycle; l != nil && (l.PostStart != nil || !slices.Equal(l.PreStop.Exec.Command, []string{"sh", "-c", b.lastWords()})) {
				t.Errorf("%s: container %s has another hook than the one that waits for the operator", engine, *c.Name)
			}
		}
		config, err := Config(&b.Cluster.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(config, "shutdown-on-sig") || !OwnsConfigKey("shutdown-on-sigterm") {
			t.Errorf("%s: servers may be told to fail over when they end", engine)
		}
	}
}
