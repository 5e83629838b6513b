package controllersim

import (
	"os"
	"strconv"
	"testing"
)

// ready is how far a run was when the cluster was Ready for the first time.
type ready struct{ calls, turns int }

// scene is a stage on which a workload can be run with something that goes wrong.
type scene interface {
	// Line is the wire of the stage.
	Line() *Wire
	// Restart ends the operator, and starts another one.
	Restart()
	// Round lets the operator make a pass, and Kubernetes do its part.
	Round()
	// parts is where the workload parts from what all of its kind begin with.
	parts() ready
	// Sound fails the test when something is lost that must not be.
	Sound()
}

// Stride is how many points a sweep goes on from one fault to the next: one in make test-all, a few where time is short, and many with
// -short, because the race detector makes a run ten times as long.
func Stride(t *testing.T) int {
	t.Helper()
	if testing.Short() {
		return 23
	}
	text := os.Getenv("QUORATE_SWEEP_STRIDE")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("QUORATE_SWEEP_STRIDE is %q, which is no number of writes", text)
	}
	return n
}
