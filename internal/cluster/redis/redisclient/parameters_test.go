package redisclient_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// A server does not start with a parameter or a value that it does not know: its pods would crash for ever.
func TestEveryServerStartsWithEveryParameterThatItMayBeGiven(t *testing.T) {
	t.Parallel()
	for _, engine := range allEngines {
		for round := range 3 {
			t.Run(fmt.Sprintf("%s/values %d", engine, round), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, engine, 1, 0, false)
				w.cluster.Spec.Config.Extra = everyParameter(t, w.cluster.Spec, round)
				w.startAll()
				for _, p := range w.pods {
					w.answers(p)
				}
				t.Logf("%d parameters", len(w.cluster.Spec.Config.Extra))
			})
		}
	}
}

// everyParameter is a configuration with all parameters that a server may be given, each with one of its good values.
func everyParameter(t *testing.T, spec v1alpha1.RedisClusterSpec, round int) map[string]v1alpha1.ConfigValue {
	t.Helper()
	version, err := software.ParseVersion(spec.Version)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1alpha1.ConfigValue{}
	for name, p := range config.FreeParameters {
		if p.In(spec.ServerEngine(), version) {
			out[name] = v1alpha1.ConfigValue(p.Value.Good[round%len(p.Value.Good)])
		}
	}
	out["activedefrag"] = "no" // yes needs the allocator of the official images, which the servers built here lack.
	return out
}

// answers waits for a server's answer.
func (w *world) answers(p *process) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	c := w.connect(p)
	defer c.Close() //nolint:errcheck // The server goes away with the test.
	for ctx.Err() == nil {
		if _, err := c.Read(ctx); err == nil {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(p.dir, "server.log"))
	w.t.Errorf("%s does not start:\n%s", p.name, log[max(0, len(log)-1000):])
}
