package redisclient_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/test/skew"
)

// TestAClockThatIsPutBack lets the time of day of a server go an hour ahead and come back. With appendfsync everysec, the disk would keep nothing for that hour.
func TestAClockThatIsPutBack(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 1, 1, true)
			w.startAll()
			w.settle()
			w.processes = history.Processes{}
			p := w.pods[w.primary(t, 0)]
			pid := strconv.Itoa(p.cmd.Process.Pid)
			keeps := func() bool { return w.keeps(t, p) }
			err := skew.Process(t.Context(), skew.Here, pid, time.Hour)
			if errors.Is(err, skew.ErrUnsupported) {
				t.Skip(err)
			}
			must(t, err)
			w.loopUntil(keeps) // An hour ahead it does.
			_, err = skew.Here(t.Context(), skew.End, pid)
			must(t, err)
			pause(t.Context(), 500*time.Millisecond) // It looks at the clock ten times a second.
			for w.pending(t, p) {                    // What it has begun before.
				pause(t.Context(), 50*time.Millisecond)
			}
			if keeps() {
				t.Error("the disk keeps what a server writes whose clock was put back: is the operator's step needed?")
			}
			w.steps = nil
			w.loopUntil(keeps)
			if said := strings.Join(w.steps, "\n"); !strings.Contains(said, "the clock of "+p.name+" was put back") {
				t.Errorf("it is not said why:\n%s", said)
			}
			w.loopUntil(func() bool { return keeps() && w.told(t, p, "appendfsync") == "everysec" })
			for range 3 { // It goes on like that.
				pause(t.Context(), time.Second)
				if !keeps() {
					t.Error("the disk keeps nothing in the end")
				}
			}
			t.Log(strings.Join(w.steps, "\n"))
		})
	}
}

// keeps writes to a server for two seconds and tells whether its disk was made to keep that: at once, or by the thread that does it every second, which wakes up for
// that alone. WAITAOF would not do: some servers have the disk keep what a client waits for.
func (w *world) keeps(t *testing.T, p *process) bool {
	t.Helper()
	c := w.client(p)
	defer func() { _ = c.Close() }()
	woken := wakes(t, p.cmd.Process.Pid)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); pause(t.Context(), 50*time.Millisecond) {
		must(t, c.Set(t.Context(), "written", time.Now().String(), 0).Err())
	}
	return w.told(t, p, "appendfsync") == "always" || wakes(t, p.cmd.Process.Pid) > woken
}

// wakes counts how often the thread of a server that has its disk keep the append-only file has waited for something.
func wakes(t *testing.T, pid int) (n int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	must(t, err)
	found := false
	for _, thread := range threads {
		name, err := os.ReadFile(filepath.Join(thread, "comm"))
		must(t, err)
		if !strings.HasPrefix(string(name), "bio_aof") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(thread, "status"))
		must(t, err)
		_, counts, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		waits, err := strconv.Atoi(strings.Fields(counts)[0])
		must(t, err)
		n, found = n+waits, true
	}
	if !found {
		t.Fatal("the server has no thread for its append-only file")
	}
	return n
}

// pending tells whether the disk is being made to keep something.
func (w *world) pending(t *testing.T, p *process) bool {
	t.Helper()
	c := w.client(p)
	defer func() { _ = c.Close() }()
	info, err := c.Info(t.Context(), "persistence").Result()
	must(t, err)
	return !strings.Contains(info, "aof_pending_bio_fsync:0")
}

// told is a parameter of a server.
func (w *world) told(t *testing.T, p *process, name string) string {
	t.Helper()
	c := w.client(p)
	defer func() { _ = c.Close() }()
	got, err := c.ConfigGet(t.Context(), name).Result()
	must(t, err)
	return got[name]
}
