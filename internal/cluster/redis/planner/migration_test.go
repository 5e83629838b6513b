package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/redistest"
)

// able is a cluster whose servers move slots by themselves, and are about to give some to a fourth shard.
func able() *fixture {
	f := formed()
	f.grow()
	f.pair()
	f.Spec.Access = &acl.Access{Passwords: redistest.Passwords()}
	f.Spec.HandedOut = true
	for i := range f.Pods {
		n := f.Pods[i].Node
		n.Users, _ = f.Spec.Access.Users(f.Pods[i].Name, n.Software())
		n.Migrations = []model.Migration{}
	}
	return f
}

// past puts a migration to the fourth shard into the books of the first one.
func (f *fixture) past(state model.MigrationState, ago time.Duration) {
	n := f.pod("c-0-0").Node
	n.Migrations = append(n.Migrations, model.Migration{
		Name: name(state, len(n.Migrations)), Slots: slots.Set{{From: 0, To: 99}}, Source: id("c-0-0"), Target: id("c-3-0"), State: state,
		Message: "Connection lost to target", Updated: now.Add(-ago),
	})
}

func name(s model.MigrationState, n int) string { return string(s) + strings.Repeat("'", n) }

func TestTheBestEngineMovesSlots(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*fixture)
		// want is the step, or what is waited for.
		want string
	}{
		"both servers can by themselves": {
			nil, "*MigrateSlots: move 1366 slots from c-0-0 to c-3-0, 1365 slots from c-1-0 to c-3-0, 1365 slots from c-2-0 to c-3-0",
		},
		"one source cannot": {
			func(f *fixture) { f.pod("c-1-0").Node.Migrations = nil },
			"*MigrateSlots: move 1366 slots from c-0-0 to c-3-0, 1365 slots from c-2-0 to c-3-0",
		},
		"the target cannot": {func(f *fixture) { f.pod("c-3-0").Node.Migrations = nil }, "*MoveSlots: move 1366 slots from c-0-0"},
		"nobody knows the passwords": {
			func(f *fixture) { f.Spec.Access = nil }, "*MoveSlots: move 1366 slots from c-0-0",
		},
		"there is much in a slot": {
			func(f *fixture) { f.pod("c-0-0").Node.Memory = model.Memory{Used: 5462 << 24} }, "*MigrateSlots: move 64 slots from c-0-0",
		},
		"there is very much in a slot": {
			func(f *fixture) { f.pod("c-0-0").Node.Memory = model.Memory{Used: 5462 << 31} }, "*MigrateSlots: move 1 slots from c-0-0",
		},
		"a migration runs": {
			func(f *fixture) { f.past("snapshotting", 0) }, "servers move slots by themselves: 100 from c-0-0 to c-3-0 (snapshotting)",
		},
		"it runs while a replica is to restart": {
			func(f *fixture) { f.past("replicating", 0); f.pod("c-1-1").Outdated = true }, "servers move slots by themselves",
		},
		"the target cleans up": {
			func(f *fixture) {
				f.pod("c-3-0").Node.Migrations = []model.Migration{{Name: "x", Importing: true, Slots: slots.Set{{From: 0, To: 9}}, Target: id("c-3-0"), State: "cleaning-up"}}
			}, "servers move slots by themselves: 10 from node  to c-3-0 (cleaning-up)",
		},
		"a replica keeps track": {
			func(f *fixture) {
				f.pod("c-3-1").Node.Migrations = []model.Migration{{Name: "x", Importing: true, Slots: slots.Set{{From: 0, To: 9}}, State: "occurring-on-primary"}}
			}, "*MigrateSlots: move 1366 slots from c-0-0",
		},
		"one has just broken": {
			func(f *fixture) { f.past(model.MigrationFailed, time.Second) }, "*MigrateSlots: move 1365 slots from c-1-0 to c-3-0, 1365 slots from c-2-0 to c-3-0",
		},
		"one has just broken, and nothing else is to move": {
			func(f *fixture) {
				f.past(model.MigrationFailed, time.Second)
				f.views(id("c-2-0"), func(p *model.Peer) { p.Slots = slots.Set{{From: 12288, To: 16383}} })
				f.views(id("c-1-0"), func(p *model.Peer) { p.Slots = slots.Set{{From: 8192, To: 12287}} })
				f.views(id("c-3-0"), func(p *model.Peer) { p.Slots = slots.Set{{From: 5462, To: 8191}} })
			}, "c-0-0 did not get its slots to c-3-0, and is to try again: Connection lost to target",
		},
		"one broke a while ago": {
			func(f *fixture) { f.past(model.MigrationFailed, 2*time.Second) }, "*MigrateSlots: move 1366 slots from c-0-0",
		},
		"the second broke": {
			func(f *fixture) {
				f.past(model.MigrationFailed, 2*time.Second)
				f.past(model.MigrationFailed, time.Minute)
			}, "*MigrateSlots: move 1365 slots from c-1-0",
		},
		"its clock is ahead": {
			func(f *fixture) { f.past(model.MigrationFailed, -time.Hour) }, "*MigrateSlots: move 1366 slots from c-0-0",
		},
		"one broke before one that did not": {
			func(f *fixture) {
				f.past(model.MigrationSuccess, time.Second)
				f.past(model.MigrationFailed, time.Second)
			}, "*MigrateSlots: move 1366 slots from c-0-0",
		},
		"too many broke": {
			func(f *fixture) {
				for range migrationTries {
					f.past(model.MigrationFailed, time.Second)
				}
				f.pod("c-1-0").Node.Migrations, f.pod("c-2-0").Node.Migrations = nil, nil
			}, "*MoveSlots: move 1366 slots from c-0-0",
		},
		"slots are open": {
			func(f *fixture) { f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-3-0", false) },
			"*MoveSlots: move 2 slots from c-0-0 to c-3-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := able()
			if tc.spoil != nil {
				tc.spoil(f)
			}
			p := Next(f.State)
			got := p.Message
			switch step := p.Step.(type) {
			case steps.MigrateSlots:
				got = "*MigrateSlots: " + step.String()
			case steps.MoveSlots:
				got = "*MoveSlots: " + step.String()
			}
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s: %s: %s, want %s", p.Reason, p.Message, got, tc.want)
			}
		})
	}
}

// pulling is able with servers that are told at the target.
func pulling() *fixture {
	f := able()
	for i := range f.Pods {
		f.Pods[i].Node.Pulls = true
	}
	return f
}

// pulled puts a migration from the first shard to the fourth into the books of both.
func (f *fixture) pulled(source, target model.MigrationState, retries int, ago time.Duration) {
	m := model.Migration{
		Name: "0123456789abcdef", Slots: slots.Set{{From: 0, To: 99}}, Source: id("c-0-0"), Target: id("c-3-0"), State: source,
		Message: "Connection lost", Retries: retries, Updated: now.Add(-ago),
	}
	f.pod("c-0-0").Node.Migrations = append(f.pod("c-0-0").Node.Migrations, m)
	m.Importing, m.State = true, target
	f.pod("c-3-0").Node.Migrations = append(f.pod("c-3-0").Node.Migrations, m)
}

func TestTargetsPull(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*fixture)
		want  string
	}{
		"a target gets slots from one source at a time": {nil, "*MigrateSlots: move 1366 slots from c-0-0 to c-3-0"},
		"only one of the two pulls": {
			func(f *fixture) { f.pod("c-3-0").Node.Pulls = false },
			"*MoveSlots: move 1366 slots from c-0-0 to c-3-0, 1365 slots from c-1-0 to c-3-0, 1365 slots from c-2-0 to c-3-0",
		},
		"it runs": {
			func(f *fixture) { f.pulled("send-stream", "accumulate-buffer", 0, 0) }, "servers move slots by themselves: 100 from c-0-0 to c-3-0 (send-stream)",
		},
		"the target begins anew": {
			func(f *fixture) { f.pulled(model.MigrationFailed, model.MigrationRetrying, 1, 0) }, "servers move slots by themselves: 100 from c-0-0 to c-3-0 (retrying)",
		},
		"the source has been told to stop, and the target has not": {
			func(f *fixture) { f.pulled(model.MigrationCancelled, model.MigrationRetrying, 1, 0) }, "servers move slots by themselves: 100 from c-0-0 to c-3-0 (retrying)",
		},
		"the target began anew too often": {
			func(f *fixture) { f.pulled(model.MigrationFailed, model.MigrationRetrying, 3, 0) }, "*CancelMigration: cancel migration 01234567 of c-3-0, c-0-0",
		},
		"the target began anew too often, and a server is away": {
			func(f *fixture) {
				f.pulled(model.MigrationFailed, model.MigrationRetrying, 3, 0)
				f.pod("c-2-1").Node = nil
			},
			"*CancelMigration: cancel migration 01234567 of c-3-0, c-0-0",
		},
		"the target began anew too often, and its source is away": {
			func(f *fixture) {
				f.pulled(model.MigrationFailed, model.MigrationRetrying, 3, 0)
				f.pod("c-0-0").Node = nil
			},
			"*CancelMigration: cancel migration 01234567 of c-3-0",
		},
		"it runs, and a server is away": {
			func(f *fixture) { f.pulled("send-stream", "streaming-buffer", 7, 0); f.pod("c-2-1").Node = nil }, "7 of 8 servers answer; the first that does not is c-2-1",
		},
		"the target began anew often, and now it goes on": {
			func(f *fixture) { f.pulled("send-stream", "streaming-buffer", 7, 0) }, "servers move slots by themselves: 100 from c-0-0 to c-3-0 (send-stream)",
		},
		"it was cancelled after too many attempts": {
			func(f *fixture) { f.pulled(model.MigrationCancelled, model.MigrationCancelled, 3, time.Minute) },
			"*MigrateSlots: move 1365 slots from c-1-0 to c-3-0",
		},
		"somebody has cancelled it": {
			func(f *fixture) { f.pulled(model.MigrationCancelled, model.MigrationCancelled, 0, time.Minute) }, "*MigrateSlots: move 1366 slots from c-0-0 to c-3-0",
		},
		"the target has taken over, and the source had given up": {
			func(f *fixture) { f.pulled(model.MigrationFailed, model.MigrationSuccess, 3, 0) }, "*MigrateSlots: move 1366 slots from c-0-0 to c-3-0",
		},
		"the target has restarted, and the source knows that it broke": {
			func(f *fixture) {
				f.pulled(model.MigrationFailed, model.MigrationRetrying, 0, 0)
				f.pod("c-3-0").Node.Migrations = []model.Migration{}
			}, "*MigrateSlots: move 1366 slots from c-0-0 to c-3-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := pulling()
			if tc.spoil != nil {
				tc.spoil(f)
			}
			p := Next(f.State)
			got := p.Message
			switch step := p.Step.(type) {
			case steps.MigrateSlots:
				got = "*MigrateSlots: " + step.String()
				if told := step.Calls()[0].Pod; told != "c-3-0" {
					t.Errorf("%s is told", told)
				}
			case steps.MoveSlots:
				got = "*MoveSlots: " + step.String()
			case steps.CancelMigration:
				got = "*CancelMigration: " + step.String()
			}
			if got != tc.want {
				t.Errorf("%s: %s: %s, want %s", p.Reason, p.Message, got, tc.want)
			}
		})
	}
}

func TestAFailoverWaitsForMigrations(t *testing.T) {
	f := able()
	f.past("failover-granted", 0)
	f.pod("c-0-0").Outdated, f.pod("c-0-1").Outdated = true, true
	if p := Next(f.State); p.Step != nil || p.Reason != steps.ReasonMoveSlots {
		t.Errorf("%v, %s: %s", p.Step, p.Reason, p.Message)
	}
	if facts.AtRest(model.NewView(f.State)) {
		t.Error("slots are said to be at rest")
	}
}

func TestWhatAMigrationMovesIsEstimated(t *testing.T) {
	n := &model.Node{Keys: 400, Memory: model.Memory{Used: 1400, Empty: 400}, Peers: []model.Peer{{Myself: true, Slots: slots.Set{{From: 0, To: 99}}}}}
	for name, tc := range map[string]struct {
		slots slots.Set
		want  model.Moved
	}{
		"before it is over": {slots.Set{{From: 50, To: 74}}, model.Moved{Slots: 25, Keys: 100, Bytes: 250}},
		"when it is over":   {slots.Set{{From: 100, To: 199}}, model.Moved{Slots: 100, Keys: 200, Bytes: 500}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, steps.Share(n, model.Migration{Slots: tc.slots})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
