// Package chaos runs test/chaos on the kind cluster: ten minutes of faults and planned changes, from a seed, with all promises checked.
package chaos

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/test/chaos"
	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/harness"
	"github.com/quorate/quorate/test/need"
)

// The defaults of DURATION and SEED.
const (
	defaultDuration = 10 * time.Minute
	defaultSeed     = 7
)

func TestMain(m *testing.M) {
	if os.Getenv(chaos.GuardVariable) != "" {
		os.Exit(chaos.Guard())
	}
	os.Exit(m.Run())
}

// TestEveryPromiseIsKeptInChaos takes DURATION, SEED and KINDS (etcd, redis, valkey; by default all) from the environment.
func TestEveryPromiseIsKeptInChaos(t *testing.T) {
	if err := harness.NoCluster(); err != nil {
		need.Missing(t, "%v", err)
	}
	o := options(t)
	// A signal ends the run as its time would, and puts back what is broken.
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cluster, err := harness.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Deploy(ctx); err != nil {
		t.Fatal(err)
	}
	o.Dir = filepath.Join(cluster.Root, "bin/chaos", strconv.FormatUint(o.Seed, 10))
	run, err := chaos.Run(ctx, cluster, o)
	if err != nil {
		t.Fatal(err)
	}
	figures(run)
	for _, v := range run.Verdicts {
		if !v.Kept {
			t.Errorf("%s: %s", v.Promise, v.Text)
		}
	}
}

// options reads the environment.
func options(t *testing.T) chaos.Options {
	t.Helper()
	o := chaos.Options{Seed: defaultSeed, Duration: defaultDuration, Out: os.Stdout}
	var err error
	if v := os.Getenv("DURATION"); v != "" {
		if o.Duration, err = time.ParseDuration(v); err != nil {
			t.Fatalf("DURATION: %v", err)
		}
	}
	if v := os.Getenv("SEED"); v != "" {
		if o.Seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("SEED: %v", err)
		}
	}
	o.Command = fmt.Sprintf("make chaos DURATION=%s SEED=%d", o.Duration, o.Seed)
	if v := os.Getenv("KINDS"); v != "" {
		for name := range strings.SplitSeq(v, ",") {
			s := schedule.Store(name)
			if s != schedule.Etcd && s != schedule.Redis && s != schedule.Valkey {
				t.Fatalf("KINDS: there is no %q: write etcd, redis or valkey, with commas between them", name)
			}
			o.Stores = append(o.Stores, s)
		}
		o.Command += " KINDS=" + v
	}
	return o
}

// figures prints what was measured, in lines that are easy to find.
func figures(run *report.Run) {
	for _, f := range run.Faults {
		fmt.Printf("FIGURE chaos: round %d: %s of %s: Ready again after %s, longest write gap %s\n", f.Round, f.Drawn.Kind, f.Target, f.Recovery(), run.Gap(f))
	}
	for _, c := range run.Changes {
		fmt.Printf("FIGURE chaos: round %d: %s: %s: %.0f s\n", c.Round, c.Drawn.Cluster, c.What, c.Ended.Sub(c.Began).Seconds())
	}
}
