package scale

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/test/loopback"
)

// manager is a process of the operator.
type manager struct {
	cmd            *exec.Cmd
	metrics, pprof int
	began          time.Time
	// ended is closed when the process has.
	ended chan struct{}
}

// buildManager builds it as the image has it.
func buildManager(tb testing.TB, root, dir string) string {
	tb.Helper()
	if *managerFlag != "" {
		return *managerFlag
	}
	program := filepath.Join(dir, "manager")
	build := exec.CommandContext(tb.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./cmd/manager")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build the manager: %v\n%s", err, out)
	}
	return program
}

// startManager starts one with what its Deployment gives it. Its log goes to a file.
func (w *world) startManager(args ...string) *manager {
	w.tb.Helper()
	m := &manager{metrics: loopback.Port(w.tb), pprof: loopback.Port(w.tb), began: time.Now(), ended: make(chan struct{})}
	args = append([]string{
		"--agent-image=quay.io/quorate/quorate:v0.1.0", "--health-probe-bind-address=0", "--metrics-authorization=false", "--cluster-domain=" + domain,
		"--metrics-bind-address=127.0.0.1:" + strconv.Itoa(m.metrics), "--pprof-bind-address=127.0.0.1:" + strconv.Itoa(m.pprof),
	}, args...)
	m.cmd = exec.CommandContext(w.ctx, w.program, args...)
	m.cmd.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig, "GOGC=50", "GOMEMLIMIT="+w.memoryLimit)
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.tb.Fatal(err)
	}
	m.cmd.Stderr = log
	if err := m.cmd.Start(); err != nil {
		w.tb.Fatal(err)
	}
	go func() {
		_ = m.cmd.Wait()
		_ = log.Close()
		close(m.ended)
	}()
	w.tb.Cleanup(func() { m.stop(syscall.SIGKILL) })
	return m
}

// stop ends the process with a signal.
func (m *manager) stop(s syscall.Signal) {
	_ = m.cmd.Process.Signal(s) // It may have ended.
	<-m.ended
}

// scrape reads the metrics.
func (w *world) scrape(m *manager) *snapshot {
	w.tb.Helper()
	s, err := scrape(w.ctx, m.metrics)
	if err != nil {
		w.tb.Fatalf("metrics of the manager: %v", err)
	}
	return s
}

// memory collects garbage and reads what is left, before the metrics are asked for: to gather them takes some MiB.
func (w *world) memory(m *manager) (out memory) {
	w.tb.Helper()
	var text bytes.Buffer
	for range 2 { // What has a finalizer goes with the second.
		text.Reset()
		if err := fetch(w.ctx, m.pprof, "heap?gc=1&debug=1", &text); err != nil {
			w.tb.Fatal(err)
		}
	}
	_, rest, _ := strings.Cut(text.String(), "\n# HeapAlloc = ")
	if n, err := fmt.Sscan(rest, &out.heap); n != 1 {
		w.tb.Fatalf("the profile does not say how large the heap is: %v", err)
	}
	if err := out.kernel(m.cmd.Process.Pid); err != nil {
		w.tb.Fatal(err)
	}
	out.goroutines = w.scrape(m).sum("go_goroutines")
	return out
}

// profile writes a profile of the manager beside the figures.
func (w *world) profile(m *manager, what, name string) {
	w.tb.Helper()
	f, err := os.Create(filepath.Join(w.out, name))
	if err != nil {
		w.tb.Fatal(err)
	}
	if err := fetch(w.ctx, m.pprof, what, f); err != nil {
		w.tb.Error(err)
	}
	if err := f.Close(); err != nil {
		w.tb.Error(err)
	}
}

func fetch(ctx context.Context, port int, what string, into io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s", port, what), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile of the manager: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(into, resp.Body)
	return err
}
