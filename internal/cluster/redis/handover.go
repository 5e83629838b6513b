package redis

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A shard is handed over by its servers: the primary holds the writes of its clients, for no more than 5 s, until the replica has
// everything, is elected and takes over. A replica that stands still meanwhile, because its disk does not answer, does not notice that
// these 5 s pass. When it goes on it takes over all the same, if it was elected before or asks for votes before it looks at the time, and
// what the former primary has taken since is lost (CLUSTER_MF_TIMEOUT, clusterFailoverReplaceYourPrimary and manualFailoverCheckTimeout
// in the servers' source). So whoever began the hand-over sees to it that the primary holds them until the replica has said what it is.
const (
	// serversHold is how long a primary holds writes by itself.
	serversHold = 5 * time.Second
	// mostHeld is how long a replica is waited for that says nothing.
	mostHeld = 15 * time.Second
	// soundFor is for how long a replica has to say that it is one: by then it has looked at the time.
	soundFor = 500 * time.Millisecond
	// heldPoll is how often it is asked.
	heldPoll = 50 * time.Millisecond
)

// Run has the replica take over.
func (s Failover) Run(ctx context.Context, former, heir Client) error {
	began := time.Now()
	err := heir.Failover(ctx, FailoverPlanned)
	if !errors.Is(err, ErrUndecided) {
		return err
	}
	ctx = context.WithoutCancel(ctx) // An operator that is to end does not leave writes held.
	if err := former.HoldWrites(ctx, mostHeld+serversHold); err != nil {
		err = fmt.Errorf("%s does not take over, and %s cannot be told to hold writes until it has said so: %w", s.To, s.From, err)
		return errors.Join(err, former.Uphold(ctx))
	}
	if s.await(ctx, heir, began) {
		return s.yield(ctx, former)
	}
	// Should it say later on that it was elected, nobody believes it.
	if err := former.Uphold(ctx); err != nil {
		return fmt.Errorf("%s does not take over, and %s cannot be told to stay: %w", s.To, s.From, err)
	}
	return errors.Join(fmt.Errorf("%s stays the primary: %w", s.From, err), former.ReleaseWrites(ctx))
}

// await reports whether the heir has taken over. It has not when it says so for a while after its primary gave up, or nothing for long.
func (s Failover) await(ctx context.Context, heir Client, began time.Time) bool {
	var sound time.Time // since when it says that it is a replica
	for end := began.Add(mostHeld); time.Now().Before(end); {
		leads, err := heir.Leads(ctx)
		now := time.Now()
		switch {
		case err != nil:
			sound = time.Time{}
		case leads:
			return true
		case sound.IsZero():
			sound = now
		case now.Sub(sound) >= soundFor && now.Sub(began) > serversHold+soundFor:
			return false
		}
		time.Sleep(heldPoll)
	}
	return false
}

// yield waits until the former primary knows that it is none any more, which no write may come before.
func (s Failover) yield(ctx context.Context, former Client) error {
	for end := time.Now().Add(serversHold); time.Now().Before(end); time.Sleep(heldPoll) {
		if leads, err := former.Leads(ctx); err == nil && !leads {
			return former.ReleaseWrites(ctx)
		}
	}
	return fmt.Errorf("%s has taken over, and %s has not heard of it", s.To, s.From)
}
