// Package goroutine starts goroutines whose panics become errors. Go ends the process when a
// goroutine panics: without this package, one reply of one server could stop the operator for all
// clusters. A test forbids goroutines that start any other way.
package goroutine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxText bounds the text of a panic in characters. It may quote a server, and goes into the status.
const maxText = 300

// PanicError is the panic of a function that Try called.
type PanicError struct{ Value any }

func (e *PanicError) Error() string {
	return fmt.Sprintf("panic: %.*s", maxText, fmt.Sprint(e.Value))
}

// Panicked reports whether an error is a panic of a function that Try called.
func Panicked(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

// Try returns the error of f, or its panic as a *PanicError. The stack trace goes to stderr.
func Try(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v}
			_, _ = fmt.Fprintf(os.Stderr, "%v\n\n%s", err, debug.Stack()) // As the runtime would.
		}
	}()
	return f()
}

// Go calls f in a new goroutine, and then end with the result of Try. end must not panic.
func Go(f func() error, end func(error)) {
	go func() { end(Try(f)) }()
}

// Each calls f for the numbers below n in parallel, waits for all, and returns their errors by
// number.
func Each(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = Try(func() error { return f(i) }) })
	}
	wg.Wait()
	return errs
}

// Group is an errgroup.Group whose functions may panic.
type Group struct{ group *errgroup.Group }

// NewGroup returns a Group and a context that ends with its first error, or with Wait.
func NewGroup(ctx context.Context) (Group, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	return Group{group}, ctx
}

// Go calls f in a new goroutine.
func (g Group) Go(f func() error) {
	g.group.Go(func() error { return Try(f) })
}

// Wait waits for all functions and returns the first error.
func (g Group) Wait() error { return g.group.Wait() }
