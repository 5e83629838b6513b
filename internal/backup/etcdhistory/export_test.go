package etcdhistory

import (
	"bytes"
	"context"
	"testing"
)

// Encode writes a segment with the given records: those of the kind Beyond are left out.
func Encode(tb testing.TB, h Header, records []Record) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := newWriter(&out, h)
	for _, r := range records {
		if r.Kind != Granted && r.Revision != w.last {
			w.revision(r.Revision, r.Time)
		}
		switch r.Kind {
		case Put:
			w.put(r.KV)
		case Delete:
			w.delete(r.KV.Key)
		default:
			w.lease(r.Lease)
		}
	}
	if err := w.finish(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// Ask asks for the newest revision.
func (r *Recorder) Ask(ctx context.Context) (int64, error) { return r.ask(ctx) }
