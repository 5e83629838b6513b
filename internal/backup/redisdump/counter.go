package redisdump

import (
	"cmp"
	"errors"
	"io"

	"github.com/klauspost/readahead"

	"github.com/quorate/quorate/internal/goroutine"
)

// Counter reads an RDB that flows through it to another writer. Finish has to be called, whatever becomes of the flow.
type Counter struct {
	to   io.Writer
	tee  *io.PipeWriter
	done chan struct{}

	summary Summary
	err     error
}

// NewCounter returns a Counter in front of a writer.
func NewCounter(to io.Writer) *Counter {
	r, w := io.Pipe()
	c := &Counter{to: to, tee: w, done: make(chan struct{})}
	goroutine.Go(func() (err error) {
		c.summary, err = countAhead(r)
		return err
	}, func(err error) {
		c.err = err
		_ = r.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // It never fails.
		close(c.done)
	})
	return c
}

// So many pieces of so many bytes wait to be counted.
const (
	aheadPieces = 4
	aheadSize   = 256 << 10
)

func countAhead(r *io.PipeReader) (Summary, error) {
	ahead, err := readahead.NewReaderSize(r, aheadPieces, aheadSize)
	if err != nil {
		return Summary{}, err
	}
	summary, err := Count(ahead)
	// What is written from now on fails: it is damaged, as is what follows the end. It also ends a read that goes on.
	_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // It never fails.
	_ = ahead.Close()
	return summary, err
}

// Write passes data on. It fails with what Count returns as soon as the data is known to be no RDB.
func (c *Counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	if err != nil {
		return n, err
	}
	// The next pieces are taken while this one is read: the pipe lets go of it when it is copied, which is before it is understood.
	if _, err := c.tee.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

// Finish tells what flowed through. Errors are those of Count: ErrDamaged also if the end has not come.
func (c *Counter) Finish() (Summary, error) {
	_ = c.tee.Close() // It never fails.
	<-c.done
	return c.summary, c.err
}
