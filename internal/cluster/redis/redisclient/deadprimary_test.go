package redisclient_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// unhurried is a node timeout in which no server misses another one while a test runs.
const unhurried = 20 * time.Second

// newUnhurried is a cluster of three shards with a replica each whose servers do not notice for long that one of them is dead.
func newUnhurried(t *testing.T, engine string) *world {
	t.Helper()
	w := newWorld(t, engine, 3, 1, true)
	w.cluster.Spec.Config.NodeTimeout = &metav1.Duration{Duration: unhurried}
	w.cluster.Spec.Recovery = &v1alpha1.RedisRecoverySpec{DeadPrimary: ptr.To(v1alpha1.DeadPrimaryReplace)}
	w.startAll()
	w.settle()
	w.write(w.clients())
	return w
}

// untilElected looks at a cluster until somebody is to be elected.
func (w *world) untilElected(t *testing.T) (model.State, steps.Elect) {
	t.Helper()
	for end := time.Now().Add(unhurried / 2); ; pause(t.Context(), 20*time.Millisecond) {
		s := w.observe(t.Context())
		plan := planner.Next(s)
		if elect, ok := plan.Step.(steps.Elect); ok {
			return s, elect
		}
		if plan.Step != nil || time.Now().After(end) {
			t.Fatalf("planned %v (%s: %s), want an election", plan.Step, plan.Reason, plan.Message)
		}
	}
}

// TestADeadPrimaryIsReplacedBeforeItIsMissed kills a primary while a client writes. Its replica is voted for by primaries that have not
// noticed, and the dead one comes back as a replica.
func TestADeadPrimaryIsReplacedBeforeItIsMissed(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newUnhurried(t, engine)
			k := w.count()
			pause(t.Context(), time.Second)
			dead := w.pods[w.primary(t, 0)]
			id := w.nodeID(dead)
			before := k.acks()
			pause(t.Context(), 200*time.Millisecond)
			w.kill(dead)
			began := time.Now()
			crash := k.acks()

			s, elect := w.untilElected(t)
			for _, p := range s.Pods {
				if p.Node == nil {
					continue
				}
				if peer, ok := p.Node.Peer(id); !ok || peer.Failing || peer.Failed {
					t.Errorf("%s has noticed that %s is dead: %+v", p.Name, dead.name, peer)
				}
			}
			s.Spec.ReplaceDead = false
			if plan := planner.Next(s); plan.Step != nil {
				t.Errorf("planned %s, and it is to be waited for", plan.Step)
			}
			if err := w.act(t.Context(), elect); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %s after the kill", elect, time.Since(began).Round(time.Millisecond))
			if got := w.primary(t, 0); got != elect.To {
				t.Errorf("%s is the primary, want %s", got, elect.To)
			}
			t.Logf("all slots are served %s after the kill", (time.Since(began) + w.untilAvailable()).Round(time.Millisecond))

			w.run(dead) // In place, with its disk.
			w.settle()
			if got := w.primary(t, 0); got != elect.To {
				t.Errorf("%s is the primary, want %s", got, elect.To)
			}
			k.expectSince(t, before, crash)
			w.expect(w.clients())
			w.wantShards(3, 2)
		})
	}
}

// TestAPrimaryThatIsBackIsNotReplaced has a primary come back between the decision to replace it and the command.
func TestAPrimaryThatIsBackIsNotReplaced(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newUnhurried(t, engine)
			former := w.pods[w.primary(t, 0)]
			pause(t.Context(), 2*time.Second) // What was written is on the disk by then (appendfsync everysec).
			w.kill(former)
			_, elect := w.untilElected(t)
			w.run(former)
			w.settle()
			if err := w.act(t.Context(), elect); err == nil || !strings.Contains(err.Error(), "is back") {
				t.Errorf("%s: %v", elect, err)
			}
			if got := w.primary(t, 0); got != former.name {
				t.Errorf("%s is the primary, want %s", got, former.name)
			}
			w.expect(w.clients())
		})
	}
}

// TestAnOldCopyIsNotElected has a primary die whose replica has been kept from copying it for so long that it lacks too much. The primary
// comes back with everything.
func TestAnOldCopyIsNotElected(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.cluster.Spec.Config.NodeTimeout = &metav1.Duration{Duration: time.Second}
			w.startAll()
			w.settle()
			primary := w.pods[w.primary(t, 0)]
			for _, args := range [][]any{{"ACL", "SETUSER", acl.UserReplication, "off"}, {"CLIENT", "KILL", "TYPE", "replica"}} {
				if err := w.do(primary, args...); err != nil {
					t.Fatal(err)
				}
			}
			w.write(w.clients())
			pause(t.Context(), config.Validity(time.Second)+2*time.Second)
			w.kill(primary)
			pause(t.Context(), 8*time.Second) // An election takes three or four.
			w.run(primary)
			w.answers(primary)
			w.settle()
			if got := w.primary(t, 0); got != primary.name {
				t.Errorf("%s is the primary, want %s", got, primary.name)
			}
			w.expect(w.clients())
		})
	}
}
