package skew

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// tellTime makes the test's own program one that tells the time, in nanoseconds, for each line that it is sent.
const tellTime = "QUORATE_TELL_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(tellTime) == "" {
		os.Exit(m.Run())
	}
	began, in := time.Now(), bufio.NewScanner(os.Stdin)
	for in.Scan() {
		now := time.Now()
		fmt.Println(now.UnixNano(), int64(now.Sub(began)))
	}
}

func TestAProcessHasAnotherTimeOfDay(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (pid string, now func() time.Time){"Go": startGo, "Redis": startRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid, now := start(t)
			off := func() time.Duration { return time.Until(now()).Round(2 * time.Second) }
			if got := off(); got != 0 {
				t.Fatalf("it is off by %s at first", got)
			}
			for _, by := range []time.Duration{time.Hour, -time.Hour, 2 * time.Minute} {
				err := Process(t.Context(), Here, pid, by)
				if errors.Is(err, ErrUnsupported) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := off(); got != by {
					t.Errorf("it is off by %s, and was to be by %s", got, by)
				}
			}
			for range 2 { // The second time there is nothing to end. No process has the last id.
				if _, err := Here(t.Context(), End, pid, "4194305"); err != nil {
					t.Fatal(err)
				}
				if got := off(); got != 0 {
					t.Errorf("it is off by %s in the end", got)
				}
			}
		})
	}
}

// startGo runs a static program that asks for monotonic time as well, which has to go on.
func startGo(t *testing.T) (pid string, now func() time.Time) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), tellTime+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	began, lines := time.Now(), bufio.NewReader(out)
	return strconv.Itoa(cmd.Process.Pid), func() time.Time {
		var wall, mono int64
		if _, err := fmt.Fprintln(in, "?"); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if _, scan := fmt.Sscan(line, &wall, &mono); err != nil || scan != nil {
			t.Fatal(err, scan)
		}
		if mono < 0 || time.Duration(mono) > time.Since(began) {
			t.Errorf("its monotonic clock says %s after %s", time.Duration(mono), time.Since(began))
		}
		return time.Unix(0, wall)
	}
}

// startRedis runs a program that is linked with the C library.
func startRedis(t *testing.T) (pid string, now func() time.Time) {
	t.Helper()
	port := strconv.Itoa(loopback.Port(t))
	cmd := exec.CommandContext(t.Context(), stores.Newest(t, "redis-8.0").Program(), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, MaxRetries: 20})
	t.Cleanup(func() { _ = c.Close() })
	return strconv.Itoa(cmd.Process.Pid), func() time.Time {
		now, err := c.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
}

func TestWhatCannotBeRedirectedIsSaid(t *testing.T) {
	if err := Process(t.Context(), Here, "4194305", time.Hour); err == nil {
		t.Error("no process has the last id, and nothing is said")
	}
	image, err := Here(t.Context(), peek, strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	nonsense := func(context.Context, string, ...string) (string, error) { return strings.ToLower(image), nil }
	if err := Process(t.Context(), nonsense, strconv.Itoa(os.Getpid()), time.Hour); err == nil {
		t.Error("what is no vDSO is written to")
	}
}
