package controllersim

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

// LargestStatus is how large a status may become at most.
const LargestStatus = 1 << 20

// observedKind reports a state that was made up.
type observedKind[O owned.Owner, S any] struct {
	reconcile.Kind[O, S]
	state S
	words string
}

func (observedKind[O, S]) Ensure(context.Context, O) error         { return nil }
func (k observedKind[O, S]) Observe(context.Context, O) (S, error) { return k.state, nil }
func (k observedKind[O, S]) Next(S) cluster.Plan {
	return cluster.Plan{Reason: "Waiting", Message: k.words}
}

// Observing returns a kind that observes a given state, and whose planner waits with a given message.
func Observing[O owned.Owner, S any](kind reconcile.Kind[O, S], state S, words string) reconcile.Kind[O, S] {
	return observedKind[O, S]{kind, state, words}
}

// WrittenStatus returns the status that a kind writes to an object, as JSON.
func WrittenStatus[O owned.Owner, S any](t *testing.T, w *fakeapi.API, kind reconcile.Kind[O, S], o O) []byte {
	t.Helper()
	fakeapi.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	loop := &reconcile.Loop[O, S]{Kind: kind, Client: w, Direct: w, Events: events.NewFakeRecorder(10000)}
	if _, err := loop.Reconcile(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	fakeapi.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	raw, err := json.Marshal(o)
	fakeapi.Must(t, err)
	var object struct {
		Status json.RawMessage `json:"status"`
	}
	fakeapi.Must(t, json.Unmarshal(raw, &object))
	return object.Status
}

// LongWords are what pods may report at the largest sizes: texts of any length that JSON makes six
// times as long.
func LongWords() map[string]string {
	return map[string]string{
		"2.5 KB each":                    strings.Repeat("connection refused; ", 125),
		"64 KiB each":                    strings.Repeat("x", 64<<10),
		"control characters":             strings.Repeat("\x01", 10000),
		"characters of more than a byte": strings.Repeat("ä", 10000),
	}
}
