package backup

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// BenchmarkParts is about the throughput of the whole way: hashes, compression, encryption, a disk.
func BenchmarkParts(b *testing.B) {
	const size = 256 << 20
	identity := fuzzKeys.Identities
	for name, fill := range map[string]func(io.Writer) error{"noise": noise(1, size), "rows": rows(size)} {
		for kind, k := range map[string]Keys{"plain": {}, "encrypted": {Recipients: fuzzRecipients, Identities: identity}} {
			s, err := Open(b.Context(), Location{URL: "file://" + b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			var part Part
			b.Run(name+"/"+kind+"/write", func(b *testing.B) {
				b.SetBytes(size)
				for range b.N {
					if part, err = s.WritePart(b.Context(), "b", "p", k, fill); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(part.StoredSize)/float64(part.Size), "stored/plain")
			})
			b.Run(name+"/"+kind+"/read", func(b *testing.B) {
				b.SetBytes(size)
				for range b.N {
					if err := s.ReadPart(b.Context(), "b", part, k, func(io.Reader) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			})
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// rows compress as data does that programs write.
func rows(size int64) func(io.Writer) error {
	random := rand.New(rand.NewPCG(1, 2))
	var block []byte
	for i := 0; len(block) < 16<<20; i++ {
		block = fmt.Appendf(block, "{\"order\":%d,\"customer\":\"%016x\",\"state\":\"shipped\",\"total\":%d}\n", i, random.Uint64(), random.IntN(100000))
	}
	return func(w io.Writer) error {
		for left := size; left > 0; left -= int64(len(block)) {
			if _, err := w.Write(block[:min(left, int64(len(block)))]); err != nil {
				return err
			}
		}
		return nil
	}
}
