package planner

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

const (
	// migrationBytes is about how much one migration moves. The source holds what is written meanwhile in its memory, and a
	// migration that breaks begins anew.
	migrationBytes = 1 << 30
	// migrationTries is how many migrations between two servers may break in a row before keys are moved one by one.
	migrationTries = 4
	// migrationPause is how long to wait after the first that broke, twice as long after the second, and so on.
	migrationPause = 2 * time.Second
)

// cancelMigrations ends what a target has begun anew too often, whoever else can be read: until then its source copies the slots again and
// again, and no primary hands over.
func cancelMigrations(v *model.View) (cluster.Plan, bool) {
	for _, m := range facts.Migrations(v) {
		if m.State != model.MigrationRetrying || 1+m.Retries < migrationTries {
			continue
		}
		step := steps.CancelMigration{Name: m.Name}
		for _, id := range []string{m.Target, m.Source} {
			if p := v.ByID[id]; p != nil {
				step.Pods = append(step.Pods, p.Name)
			}
		}
		return cluster.Do(step, "%s did not get its slots from %s in %d attempts: %s", nameOf(v, m.Target), nameOf(v, m.Source), 1+m.Retries, m.Message)
	}
	return cluster.Pass()
}

// waitForMigrations waits for what servers carry out by themselves: nothing else may touch slots meanwhile, and a failover would break it.
func waitForMigrations(v *model.View) (cluster.Plan, bool) {
	running := facts.Migrations(v)
	if len(running) == 0 {
		return cluster.Pass()
	}
	return cluster.Wait(steps.ReasonMoveSlots, facts.Soon, "servers move slots by themselves: %s", steps.JoinItems(running, func(m model.Migration) string {
		return fmt.Sprintf("%d from %s to %s (%s)", m.Slots.Count(), nameOf(v, m.Source), nameOf(v, m.Target), m.State)
	}))
}

// nameOf is the name of the pod that has a node, or else what the node is called.
func nameOf(v *model.View, id string) string {
	if p := v.ByID[id]; p != nil {
		return p.Name
	}
	return "node " + model.ShortID(id)
}

// engine tells how slots go from one server to another: by themselves where both can, and that has not broken too often.
func engine(v *model.View, from, to *model.Pod) (byThemselves bool, wait time.Duration, message string) {
	if v.Spec.Access == nil || from.Node.Migrations == nil || to.Node.Migrations == nil || from.Node.Pulls != to.Node.Pulls {
		return false, 0, ""
	}
	broken, last := attempts(from.Node, to.Node)
	if broken == 0 || broken >= migrationTries {
		return broken == 0, 0, ""
	}
	// The clocks of the two machines may differ: what seems to lie ahead holds up nothing.
	pause := migrationPause << (broken - 1)
	if past := v.Now.Sub(last.Updated); past >= 0 && past < pause {
		return true, pause - past, last.Message
	}
	return true, 0, ""
}

// attempts counts the ones in a row that broke last between two servers, as the one tells it that is told to begin them.
func attempts(from, to *model.Node) (broken int, last model.Migration) {
	told := from
	if to.Pulls {
		told = to
	}
	for _, m := range told.Migrations { // The last one comes first.
		if m.Importing != told.Pulls || m.Source != from.ID || m.Target != to.ID {
			continue
		}
		if !m.Broken() {
			break
		}
		if broken == 0 {
			last = m
		}
		broken += 1 + m.Retries
	}
	return broken, last
}

// piece is as many of the slots as one migration takes, going by what its source holds on average.
func piece(from *model.Pod, slots redisslots.Set) redisslots.Set {
	held := max(1, from.Node.Memory.Used-from.Node.Memory.Empty)
	n := int64(from.Node.Self().Slots.Count()) * migrationBytes / held
	return slots.First(int(min(redisslots.Count, max(1, n))))
}
