package backup

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// heapLimit is what writing and reading may take, with everything else of this process: a Job has 128 MiB for all of its memory.
const heapLimit = 80 << 20

// Not parallel, and with the smallest target for the collector: what counts is what is needed, not what is left lying about.
func TestMemoryUseDoesNotDependOnTheSizeOfAPart(t *testing.T) {
	size := 256 << 20
	if testing.Short() {
		size = 96 << 20
	}
	server := startS3(t, false)
	for name, s := range map[string]*Store{"S3": server.open(t, bucketOfTest, rootID, rootKey), "directory": openStore(t, "file://"+t.TempDir(), "")} {
		for kind, k := range map[string]Keys{"plain": {}, "encrypted": newKeys(t)} {
			dir := "b-" + kind
			var part Part
			wrote := peakHeap(t, func() (err error) {
				part, err = s.WritePart(t.Context(), dir, "p", k, noise(1, int64(size)))
				return err
			})
			read := peakHeap(t, func() error {
				return s.ReadPart(t.Context(), dir, part, k, func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
			})
			t.Logf("FIGURE %s, %s, %d MiB: the heap had at most %d MiB while it was written, %d MiB while it was read", name, kind, size>>20, wrote>>20, read>>20)
			if wrote > heapLimit || read > heapLimit/2 {
				t.Errorf("%s, %s: the heap had %d MiB while %d MiB were written, and %d MiB while they were read", name, kind, wrote>>20, size>>20, read>>20)
			}
		}
	}
}

// streamHeap is what each part takes that is written at the same time as others, see plan.Access.
const streamHeap = 56 << 20

func TestMemoryUseGrowsWithThePartsThatAreWrittenAtOnce(t *testing.T) {
	const parts, size = 3, 48 << 20
	s := startS3(t, false).open(t, bucketOfTest, rootID, rootKey)
	wrote := peakHeap(t, func() error {
		var group errgroup.Group
		for i := range parts {
			group.Go(func() error {
				_, err := s.WritePart(t.Context(), "shards", fmt.Sprint(i), Keys{}, noise(uint64(i), size))
				return err
			})
		}
		return group.Wait()
	})
	t.Logf("FIGURE S3, %d parts of %d MiB at once: the heap had at most %d MiB", parts, size>>20, wrote>>20)
	if wrote > parts*streamHeap {
		t.Errorf("the heap had %d MiB while %d parts were written", wrote>>20, parts)
	}
}

// peakHeap is the most that the heap had meanwhile, in bytes, what was not collected yet included.
func peakHeap(t *testing.T, work func() error) uint64 {
	t.Helper()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	runtime.GC()
	debug.FreeOSMemory()
	var peak atomic.Uint64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
		for ticker := time.NewTicker(time.Millisecond); ; {
			select {
			case <-done:
				ticker.Stop()
				return
			case <-ticker.C:
				metrics.Read(sample)
				peak.Store(max(peak.Load(), sample[0].Value.Uint64()+sample[1].Value.Uint64()))
			}
		}
	}()
	err := work()
	close(done)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	return peak.Load()
}
