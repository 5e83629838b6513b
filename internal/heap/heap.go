// Package heap keeps a process below the memory limit of its container. It sets the memory limit of
// the Go runtime only: it must not free or cache anything itself.
package heap

import (
	"math"
	"runtime/debug"
)

// percent of the memory limit of the environment is what the runtime may use: the rest is for what it does not count.
const percent = 80

// Spare has the garbage collector stay below the limit that GOMEMLIMIT names, in bytes, which is that of the container, by a fifth of it.
// Without GOMEMLIMIT nothing changes.
func Spare() {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 100 * percent)
	}
}
