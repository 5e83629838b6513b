package redisclient_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// volume is what a server leaves behind.
type volume struct {
	t      *testing.T
	engine string
	dir    string
}

// start starts a server with it.
func (v volume) start(engine string, flags ...string) (server *exec.Cmd, port int, log string) {
	v.t.Helper()
	port, log = loopback.ClusterPort(v.t), filepath.Join(v.t.TempDir(), "log")
	server = exec.CommandContext(v.t.Context(), stores.Newest(v.t, engine).Program(), append([]string{
		"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", v.dir, "--cluster-enabled", "yes", "--appendonly", "yes", "--save", "",
		"--auto-aof-rewrite-percentage", "0",
	}, flags...)...)
	stores.Start(v.t, server, log)
	v.t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	return server, port, log
}

// fill has a server write keys, half of them into the base of its log.
func (v volume) fill() {
	v.t.Helper()
	server, port, _ := v.start(v.engine)
	c := goredis.NewClient(&goredis.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), MaxRetries: 100, MaxRetryBackoff: 100 * time.Millisecond,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	must(v.t, c.ClusterAddSlotsRange(ctx, 0, 16383).Err())
	set := func(from int) {
		v.t.Helper()
		for i := range 500 {
			for {
				err := c.Set(ctx, fmt.Sprintf("key-%d", from+i), strings.Repeat("v", 100), 0).Err()
				if err == nil || !strings.HasPrefix(err.Error(), "CLUSTERDOWN") {
					must(v.t, err)
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	set(0)
	must(v.t, c.BgRewriteAOF(ctx).Err())
	for {
		text, err := c.Info(ctx, "persistence").Result()
		must(v.t, err)
		if strings.Contains(text, "aof_rewrite_in_progress:0") && strings.Contains(text, "aof_rewrite_scheduled:0") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	set(500)
	must(v.t, c.Do(ctx, "cluster", "saveconfig").Err())
	_ = server.Process.Kill()
	_ = server.Wait()
}

// file is the only one of a pattern, or the last.
func (v volume) file(pattern string) string {
	v.t.Helper()
	found, err := filepath.Glob(filepath.Join(v.dir, pattern))
	if err != nil || len(found) == 0 {
		v.t.Fatalf("there is no %s: %v", pattern, err)
	}
	return found[len(found)-1]
}

// edit changes what is in a file.
func (v volume) edit(pattern string, change func([]byte) []byte) {
	v.t.Helper()
	name := v.file(pattern)
	raw, err := os.ReadFile(name)
	must(v.t, err)
	must(v.t, os.WriteFile(name, change(raw), 0o600))
}

const (
	base     = model.AppendDir + "/*.base.rdb"
	incr     = model.AppendDir + "/*.incr.aof"
	manifest = model.AppendDir + "/*.manifest"
)

// overwritten has other bytes in the middle, more than one value has.
func overwritten(with byte) func([]byte) []byte {
	return func(raw []byte) []byte {
		copy(raw[len(raw)/2:], bytes.Repeat([]byte{with}, 512))
		return raw
	}
}

func halved(raw []byte) []byte { return raw[:len(raw)/2] }

// TestServersThatCannotReadTheirDataAreToldFromOthers: what a server says at its end tells whether it could ever start from its data.
func TestServersThatCannotReadTheirDataAreToldFromOthers(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		former := cmp.Or(map[string]string{"redis-8.0": "redis-7.0", "valkey-9.1": "valkey-8.1"}[engine], engine)
		for name, damage := range map[string]struct {
			do func(volume)
			// with is the engine that is started, empty: the same; and flags are what it gets besides.
			with  string
			flags []string
			// runs says that it starts all the same, and may that what it says leaves open whether it ever could.
			runs, may bool
		}{
			"the log has zeros in the middle":     {do: func(v volume) { v.edit(incr, overwritten(0)) }},
			"the log has anything in the middle":  {do: func(v volume) { v.edit(incr, overwritten(0xa7)) }},
			"the base has anything in the middle": {do: func(v volume) { v.edit(base, overwritten(0xa7)) }},
			"the base is cut off":                 {do: func(v volume) { v.edit(base, halved) }},
			"the base is of no kind":              {do: func(v volume) { v.edit(base, func([]byte) []byte { return bytes.Repeat([]byte("x"), 4096) }) }, may: true},
			"the base is gone":                    {do: func(v volume) { must(v.t, os.Remove(v.file(base))) }},
			"the log is gone":                     {do: func(v volume) { must(v.t, os.Remove(v.file(incr))) }},
			"the manifest is nonsense":            {do: func(v volume) { v.edit(manifest, overwritten(0)) }},
			"nodes.conf is nonsense": {
				do: func(v volume) { v.edit(model.NodesFile, func([]byte) []byte { return []byte("nonsense\n") }) }, may: strings.HasPrefix(engine, "valkey"),
			},
			"the log is cut off":                  {do: func(v volume) { v.edit(incr, func(raw []byte) []byte { return raw[:len(raw)-7] }) }, runs: true},
			"a later version may have written it": {with: former, runs: former == engine, may: true},
			"it has another setting":              {flags: []string{"--no-such-setting", "1"}, may: true},
		} {
			t.Run(engine+" "+name, func(t *testing.T) {
				t.Parallel()
				v := volume{t, engine, t.TempDir()}
				v.fill()
				if damage.do != nil {
					damage.do(v)
				}
				server, _, log := v.start(cmp.Or(damage.with, engine), damage.flags...)
				patience := time.Minute
				if damage.runs {
					patience = 3 * time.Second
				}
				ended := make(chan error, 1)
				go func() { ended <- server.Wait() }()
				select {
				case err := <-ended:
					if err == nil || damage.runs {
						t.Fatalf("it ended with %v", err)
					}
				case <-time.After(patience):
					_ = server.Process.Kill()
					if err := <-ended; err == nil {
						t.Error("it was killed and ended well")
					}
					if !damage.runs {
						t.Fatal("it runs")
					}
					return
				}
				raw, err := os.ReadFile(log)
				must(t, err)
				const kept = 2048 // As much as Kubernetes keeps of what a container said.
				words := model.FatalStart(string(raw[max(0, len(raw)-kept):]))
				if (words == "") != damage.may {
					t.Errorf("%q is taken for the reason of\n%s", words, raw)
				}
				t.Log(words)
			})
		}
	}
}
