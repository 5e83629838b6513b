package steps_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// part is a server in a hand-over.
type part struct {
	steps.Client
	began time.Time
	// failover is what it answers when it is to take over, and hold when it is to hold writes.
	failover, hold error
	// stays is what it answers when it is to stay the primary.
	stays error
	// leads tells whether it is the primary after so long (nil: it is), and silent when it does not answer.
	leads  func(after time.Duration) bool
	silent func(after time.Duration) bool
	// refuses says that nobody answers at its address, and busy when it does not let clients write again.
	refuses bool
	busy    func(after time.Duration) bool
	told    *[]string
}

var errSilent = errors.New("no answer")

func (p *part) Failover(context.Context, steps.FailoverMode) error {
	time.Sleep(2 * time.Second)
	return p.failover
}

func (p *part) Leads(ctx context.Context) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if after := time.Since(p.began); p.silent == nil || !p.silent(after) {
		return p.leads == nil || p.leads(after), nil
	}
	if p.refuses {
		return false, steps.ErrNotRunning
	}
	time.Sleep(2 * time.Second)
	return false, errSilent
}

func (p *part) tell(what string) { *p.told = append(*p.told, what) }

func (p *part) HoldWrites(_ context.Context, d time.Duration) error {
	p.tell("hold for " + d.String())
	return p.hold
}

func (p *part) ReleaseWrites(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if p.busy != nil && p.busy(time.Since(p.began)) {
		return errSilent
	}
	p.tell("release after " + time.Since(p.began).Truncate(time.Second).String())
	return nil
}

func (p *part) Uphold(context.Context) error {
	p.tell("uphold")
	return p.stays
}

// handOverRow is what a hand-over meets, and what it tells the former primary.
type handOverRow struct {
	heir, former part
	told         []string
	fails        string
	// refused says that the candidate did not start an election.
	refused bool
	// ends says that the operator is told to end meanwhile.
	ends bool
}

func (r handOverRow) Check(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		heir, former := r.heir, r.former
		heir.told, former.told, heir.began, former.began = &[]string{}, &told, time.Now(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if r.ends {
			cancel()
		}
		err := steps.Failover{Shard: 0, From: "c-0-0", To: "c-0-1"}.Run(ctx, &former, &heir)
		if diff := cmp.Diff(r.told, told); diff != "" {
			t.Errorf("told to the former primary (-want +got):\n%s", diff)
		}
		if len(*heir.told) > 0 {
			t.Errorf("told to its heir: %v", *heir.told)
		}
		switch {
		case err != nil && errors.Is(err, steps.ErrStood) != !r.refused:
			t.Errorf("error %v tells wrongly whether it stood for election", err)
		case r.fails == "" && err != nil:
			t.Error(err)
		case r.fails != "" && (err == nil || !strings.Contains(err.Error(), r.fails)):
			t.Errorf("error %v does not tell %q", err, r.fails)
		}
	})
}

// TestWritesAreHeldUntilAHandOverIsDecided: a hand-over that is not decided soon holds the writes
// of the former primary until the candidate has reported its role.
func TestWritesAreHeldUntilAHandOverIsDecided(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) func(time.Duration) bool {
		return func(now time.Duration) bool { return now >= d }
	}
	until := func(d time.Duration) func(time.Duration) bool { return func(now time.Duration) bool { return now < d } }
	never := func(time.Duration) bool { return false }
	for name, r := range map[string]handOverRow{
		"the replica takes over": {former: part{leads: until(0)}},
		"the primary hears of its successor a moment after the operator": {former: part{leads: until(2*time.Second + 500*time.Millisecond)}},
		"the primary hears of its successor long after the operator": {
			former: part{leads: until(4 * time.Second)}, told: []string{"hold for 20s", "release after 4s"},
		},
		"the primary hears of its successor long after the operator, and cannot be told to hold": {
			former: part{leads: until(4 * time.Second), hold: errSilent}, told: []string{"hold for 20s", "release after 4s"},
		},
		"the new primary reports to the operator, and to no server": {
			heir: part{silent: until(time.Hour)},
			told: []string{"hold for 20s", "uphold", "release after 16s"}, fails: "c-0-0 stays the primary, because it says nothing",
		},
		"the replica refuses": {refused: true, heir: part{failover: errors.New("ERR Master is down")}, fails: "Master is down"},
		"the replica takes over late": {
			heir: part{failover: steps.ErrUndecided, leads: after(3 * time.Second)}, former: part{leads: until(3 * time.Second)},
			told: []string{"hold for 20s", "release after 3s"},
		},
		"the replica takes over late, when the operator is to end": {
			heir: part{failover: steps.ErrUndecided, leads: after(3 * time.Second)}, former: part{leads: until(3 * time.Second)},
			told: []string{"hold for 20s", "release after 3s"}, ends: true,
		},
		"the primary hears of its successor later": {
			heir: part{failover: steps.ErrUndecided, leads: after(3 * time.Second)}, former: part{leads: until(5 * time.Second)},
			told: []string{"hold for 20s", "release after 5s"},
		},
		"the primary does not hear of its successor": {
			heir: part{failover: steps.ErrUndecided, leads: after(3 * time.Second)}, former: part{leads: until(time.Hour)},
			told: []string{"hold for 20s"}, fails: "has not heard of it",
		},
		"the replica gives up": {
			heir: part{failover: steps.ErrUndecided, leads: never}, told: []string{"hold for 20s", "release after 5s"}, fails: "c-0-0 stays the primary",
		},
	} {
		t.Run(name, r.Check)
	}
}

func TestWritesAreReleasedWhenAServerHangs(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) func(time.Duration) bool {
		return func(now time.Duration) bool { return now >= d }
	}
	until := func(d time.Duration) func(time.Duration) bool { return func(now time.Duration) bool { return now < d } }
	never := func(time.Duration) bool { return false }
	for name, r := range map[string]handOverRow{
		"the replica hangs, and was elected": {
			heir:   part{failover: steps.ErrUndecided, leads: after(0), silent: until(9 * time.Second)},
			former: part{leads: until(10 * time.Second)}, told: []string{"hold for 20s", "release after 10s"},
		},
		"the replica hangs, and asks for votes when it goes on": {
			heir:   part{failover: steps.ErrUndecided, leads: after(9*time.Second + 300*time.Millisecond), silent: until(9 * time.Second)},
			former: part{leads: until(10 * time.Second)}, told: []string{"hold for 20s", "release after 10s"},
		},
		"the replica does not answer for long": {
			heir: part{failover: steps.ErrUndecided, silent: until(time.Hour)},
			told: []string{"hold for 20s", "uphold", "release after 17s"}, fails: "c-0-0 stays the primary, because it says nothing",
		},
		"the replica does not answer for long, after its primary has heard of it": {
			heir:   part{failover: steps.ErrUndecided, silent: until(time.Hour)},
			former: part{leads: until(5 * time.Second)}, told: []string{"hold for 20s", "release after 16s"},
		},
		"the replica does not run any more": {
			heir: part{failover: steps.ErrUndecided, silent: until(time.Hour), refuses: true},
			told: []string{"hold for 20s", "uphold", "release after 6s"}, fails: "c-0-0 stays the primary, because it says nothing",
		},
		"the primary answers late": {
			heir:   part{failover: steps.ErrUndecided, leads: never},
			former: part{busy: until(7 * time.Second)}, told: []string{"hold for 20s", "release after 7s"}, fails: "c-0-0 stays the primary",
		},
		"the primary answers no more": {
			heir:   part{failover: steps.ErrUndecided, leads: never},
			former: part{busy: until(time.Hour)}, told: []string{"hold for 20s"}, fails: "c-0-0 does not answer, and holds writes for up to 20s",
		},
		"the primary cannot be told to stay": {
			heir:   part{failover: steps.ErrUndecided, silent: until(time.Hour)},
			former: part{stays: errSilent}, told: []string{"hold for 20s", "uphold"}, fails: "c-0-0 cannot be told to stay",
		},
		"the primary cannot be told to hold": {
			heir: part{failover: steps.ErrUndecided}, former: part{hold: errSilent}, told: []string{"hold for 20s", "uphold", "release after 3s"}, fails: "cannot be told to hold",
		},
	} {
		t.Run(name, r.Check)
	}
}
