package redisclient_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// TestAPrimaryThatRestartedInPlaceIsCopiedWithoutAnOperator kills servers of a young cluster whose pods have never been replaced, also after
// their users were changed. Nobody looks after them when they are back.
func TestAPrimaryThatRestartedInPlaceIsCopiedWithoutAnOperator(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newUnhurried(t, engine)
			for _, p := range w.pods {
				c := w.connect(p)
				n, err := c.Read(t.Context())
				if err == nil {
					err = c.SetUsers(t.Context(), nil, n.Admits) // As a change of users does.
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			w.settle()
			primary, replica := w.pods[w.primary(t, 0)], w.pods["carts-0-1"]
			if primary == replica {
				replica = w.pods["carts-0-0"]
			}
			w.kill(primary)
			w.run(primary)
			w.answers(primary)
			c := w.connect(replica)
			var n *model.Node
			for end := time.Now().Add(unhurried); n == nil || !n.LinkUp; pause(t.Context(), 100*time.Millisecond) {
				var err error
				if n, err = c.Read(t.Context()); err != nil || time.Now().After(end) {
					t.Fatal(fmt.Errorf("%s does not copy %s: %+v, %w", replica.name, primary.name, n, err))
				}
			}
			w.expect(w.clients())
		})
	}
}

// TestNobodyCopiesAServerBeforeItIsOnDisk restarts servers in place that admit others for now, and have their users changed.
func TestNobodyCopiesAServerBeforeItIsOnDisk(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			p := w.pods["carts-0-0"]
			w.answers(p)
			admits := func() model.Admission {
				t.Helper()
				n, err := w.connect(p).Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return n.Admits
			}
			for _, how := range []model.Admission{model.AdmitsForNow, model.AdmitsForGood, model.AdmitsForNow} {
				if err := w.connect(p).AdmitReplicas(t.Context(), how); err != nil {
					t.Fatal(err)
				}
				if how == model.AdmitsForNow {
					if err := w.connect(p).SetUsers(t.Context(), nil, how); err != nil {
						t.Fatal(err)
					}
				}
				if got := admits(); got != how {
					t.Errorf("it admits %d, want %d", got, how)
				}
				unknown := acl.User{Name: "app", On: true, Commands: []string{"-@all", "+nosuchcommand"}}
				if err := w.connect(p).SetUsers(t.Context(), []acl.User{unknown}, how); err == nil {
					t.Error("a server takes a command that it does not know")
				}
				if got := admits(); got != how {
					t.Errorf("it admits %d after a user that it refuses, want %d", got, how)
				}
				w.kill(p)
				w.run(p)
				w.answers(p)
				want := map[model.Admission]model.Admission{model.AdmitsForNow: model.AdmitsNobody, model.AdmitsForGood: model.AdmitsForGood}[how]
				if got := admits(); got != want {
					t.Errorf("after %d, it admits %d when it has restarted in place, want %d", how, got, want)
				}
			}
		})
	}
}
