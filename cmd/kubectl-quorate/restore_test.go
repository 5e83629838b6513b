package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
)

func TestAQuestionEndsWithTheCommand(t *testing.T) {
	in, keyboard := io.Pipe() // Nobody types.
	t.Cleanup(func() { _ = keyboard.Close() })
	var said bytes.Buffer
	s := newSession(streams{in: in, out: io.Discard, err: &said, typed: true})
	interrupted := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted)
	confirmed, err := s.confirm(ctx, &v1alpha1.Restore{Status: v1alpha1.RestoreStatus{Plan: "1a2b3c"}}, restoreOptions{})
	if confirmed || !errors.Is(err, interrupted) || !strings.Contains(err.Error(), "nothing is changed") || !strings.Contains(said.String(), "Type 1a2b3c") {
		t.Errorf("%t, %v; it says %s", confirmed, err, said.String())
	}
}
