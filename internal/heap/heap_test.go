package heap

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestSpare(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for limit, want := range map[int64]int64{256 << 20: 256 << 20 / 100 * 80, math.MaxInt64: math.MaxInt64} {
		debug.SetMemoryLimit(limit)
		Spare()
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("limit %d: want %d, got %d", limit, want, got)
		}
	}
}
