package redisclient_test

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// opened is a cluster with a key of a slot that one server is to give to another one.
type opened struct {
	*world
	from, to *process
	move     steps.SlotMove
	key      string
}

func newOpened(t *testing.T, engine string) *opened {
	t.Helper()
	w := newWorld(t, engine, 3, 1, true)
	w.cluster.Spec.Config.NodeTimeout = &metav1.Duration{Duration: 2 * time.Second}
	w.startAll()
	w.settle()
	o := &opened{world: w, from: w.pods[w.primary(t, 0)], to: w.pods[w.primary(t, 1)]}
	o.move = w.oneSlot(o.from, o.to)
	c := w.clients()
	o.key = w.keyOf(c, int64(o.move.Slots[0].From))
	must(t, c.Set(t.Context(), o.key, "before", 0).Err())
	w.write(c)
	return o
}

// expectKey insists on the value of the key.
func (o *opened) expectKey(want string) {
	o.t.Helper()
	if got, err := o.clients().Get(o.t.Context(), o.key).Result(); err != nil || got != want {
		o.t.Errorf("%s is %q (%v), want %q", o.key, got, err, want)
	}
}

// heir is the server that has been elected in the place of the former owner; nil: there is none yet.
func (o *opened) heir() *process {
	for _, p := range o.pods {
		if p.shard != o.from.shard || p == o.from {
			continue
		}
		c := o.connect(p)
		n, err := c.Read(o.t.Context())
		_ = c.Close()
		if err == nil && !n.Self().Replica && n.Self().Slots.Has(o.move.Slots[0].From) {
			return p
		}
	}
	return nil
}

// writeAs writes the key as a client does that has found the heir.
func (o *opened) writeAs(heir *process, value string) {
	o.t.Helper()
	err := o.do(heir, "SET", o.key, value)
	if err != nil && strings.HasPrefix(err.Error(), "ASK") {
		c := o.client(o.to)
		_, err = c.Pipelined(o.t.Context(), func(p goredis.Pipeliner) error {
			p.Do(o.t.Context(), "ASKING")
			return p.Set(o.t.Context(), o.key, value, 0).Err()
		})
		_ = c.Close()
	}
	must(o.t, err)
}

// interrupted has something happen when keys are asked for, once for each time.
type interrupted struct {
	steps.Mover
	before []func()
}

func (m *interrupted) Keys(ctx context.Context, slots slots.Set, limit int) (map[int][]model.Key, error) {
	if len(m.before) > 0 {
		m.before[0]()
		m.before = m.before[1:]
	}
	return m.Mover.Keys(ctx, slots, limit)
}

// TestASlotDoesNotLeaveWhoHasBeenReplaced stops a server that has given its keys away until its replica is elected and has got a write, and lets
// it go on: it says that the slot is empty, and must not be believed.
func TestASlotDoesNotLeaveWhoHasBeenReplaced(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := newOpened(t, engine)
			source, target := o.mover(o.from), o.mover(o.to)
			defer func() { _, _ = source.Close(), target.Close() }()
			_, err := o.move.Run(t.Context(), &interrupted{source, []func(){func() {}, func() {
				must(t, o.from.cmd.Process.Signal(syscall.SIGSTOP))
				heir := o.heir()
				for end := time.Now().Add(30 * time.Second); heir == nil && time.Now().Before(end); heir = o.heir() {
					pause(t.Context(), 50*time.Millisecond)
				}
				if heir == nil {
					t.Fatal("nobody was elected")
				}
				o.writeAs(heir, "after")
				must(t, o.from.cmd.Process.Signal(syscall.SIGCONT))
			}}}, target, func() bool { return true })
			if err == nil || !strings.Contains(err.Error(), "a replica") {
				t.Errorf("the move ended with %v", err)
			}
			o.settle()
			o.expectKey("after")
			o.expect(o.clients())
		})
	}
}

// TestAnHeirLearnsOfOpenSlots kills a server that has given a key of a slot away, and has it stay away: clients find the key where it is
// as soon as they find whoever was elected.
func TestAnHeirLearnsOfOpenSlots(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := newOpened(t, engine)
			source, target := o.mover(o.from), o.mover(o.to)
			must(t, target.SetSlots(t.Context(), o.move.Slots, steps.SlotImporting, o.move.FromID))
			must(t, source.SetSlots(t.Context(), o.move.Slots, steps.SlotMigrating, o.move.ToID))
			_, err := source.Send(t.Context(), o.move.ToAddr, [][]model.Key{{{Name: o.key, Bytes: 100}}}, false, o.move.Patience)
			must(t, err)
			_, _ = source.Close(), target.Close()
			pause(t.Context(), 300*time.Millisecond) // The replica has heard that the key is gone.
			o.crash(o.from)
			o.loopUntil(func() bool { return o.heir() != nil && !o.hasOpen() })
			o.expectKey("before")
			o.revive(false, o.from)
			t.Logf("settled after %s\n%s", o.settle(), last(o.steps, 20))
			o.expectKey("before")
			o.expect(o.clients())
		})
	}
}

// hasOpen tells whether somebody awaits the slot from a server that does not know of it.
func (o *opened) hasOpen() bool {
	step := planner.Next(o.observe(o.t.Context())).Step
	_, open := step.(steps.OpenSlots)
	return open
}

// open tells both ends of the move of the slot, as a move does that is cut off.
func (o *opened) open() {
	o.t.Helper()
	source, target := o.mover(o.from), o.mover(o.to)
	defer func() { _, _ = source.Close(), target.Close() }()
	must(o.t, target.SetSlots(o.t.Context(), o.move.Slots, steps.SlotImporting, o.move.FromID))
	must(o.t, source.SetSlots(o.t.Context(), o.move.Slots, steps.SlotMigrating, o.move.ToID))
}

// holdingOpen returns the servers that report a slot as importing or migrating.
func (o *opened) holdingOpen() (pods []string) {
	for _, p := range o.observe(o.t.Context()).Pods {
		if p.Node != nil && len(p.Node.Self().Open) > 0 {
			pods = append(pods, p.Name)
		}
	}
	return pods
}

// openOnReplicasAlone opens the slot on both ends, and closes it there while their replicas are away: a move that is cut off and taken back.
func (o *opened) openOnReplicasAlone() {
	o.t.Helper()
	o.open()
	var replicas []*process
	for _, p := range o.pods {
		if (p.shard == o.from.shard || p.shard == o.to.shard) && p != o.from && p != o.to {
			replicas = append(replicas, p)
		}
	}
	for end := time.Now().Add(time.Minute); len(o.holdingOpen()) < 4; pause(o.t.Context(), 50*time.Millisecond) {
		if time.Now().After(end) {
			o.t.Fatalf("only %v have the open slot", o.holdingOpen())
		}
	}
	o.terminate(replicas...)
	for _, p := range []*process{o.to, o.from} {
		m := o.mover(p)
		must(o.t, m.SetSlots(o.t.Context(), o.move.Slots, steps.SlotStable, ""))
		_ = m.Close()
	}
	for _, p := range replicas {
		o.recreate(p, false)
	}
}

// TestASlotThatIsOpenOnReplicasAloneIsClosed has replicas miss that a slot was closed. Valkey has them keep its state on disk: while it
// is there, no shard is handed over and none of another size is made.
func TestASlotThatIsOpenOnReplicasAloneIsClosed(t *testing.T) {
	t.Parallel()
	for _, engine := range valkeys() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := newOpened(t, engine)
			o.openOnReplicasAlone()
			t.Logf("settled after %s\n%s", o.settle(), last(o.steps, 20))
			if pods := o.holdingOpen(); len(pods) > 0 {
				t.Errorf("the slot is still open on %v", pods)
			}
			o.expectKey("before")
			o.expect(o.clients())
		})
	}
}

// TestAReplicaThatAloneHasAnOpenSlotTakesOver kills the primary of such a replica, and then the one of the other end.
func TestAReplicaThatAloneHasAnOpenSlotTakesOver(t *testing.T) {
	t.Parallel()
	for _, engine := range valkeys() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := newOpened(t, engine)
			o.openOnReplicasAlone()
			o.loopUntil(func() bool { return o.followed(o.from) && o.followed(o.to) })
			for _, dead := range []*process{o.from, o.to} {
				o.crash(dead)
				o.untilAvailable()
				o.expectKey("before")
				o.revive(false, dead)
				o.settle()
			}
			t.Log(last(o.steps, 20))
			if pods := o.holdingOpen(); len(pods) > 0 {
				t.Errorf("the slot is still open on %v", pods)
			}
			o.expectKey("before")
			o.expect(o.clients())
		})
	}
}

// followed reports whether a replica is connected to a server.
func (o *opened) followed(primary *process) bool {
	for _, p := range o.observe(o.t.Context()).Pods {
		if p.Shard == primary.shard && p.Node != nil && p.Node.LinkUp {
			return true
		}
	}
	return false
}

// valkeys are the engines whose replicas learn of open slots.
func valkeys() []string {
	return slices.DeleteFunc(slices.Clone(engines), func(engine string) bool { return !strings.HasPrefix(engine, "valkey") })
}
