package steps

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
// in the servers' source). It may even have told the operator that it is the primary, and not yet its own. So whoever began the hand-over
// sees to it that the primary holds them until the replica has said what it is, and the primary has heard of it.
//
// A replica that says nothing for long is given up. Had it been elected, the servers know its epoch, and the former primary gets a
// newer one, which everybody believes more. One that has not even asked for votes could still do so when it goes on, for the tenth of a
// second until it looks at the time: against that there is nothing to be done but to have waited.
const (
	// serversHold is how long a primary holds writes by itself.
	serversHold = 5 * time.Second
	// mostHeld is how long a replica is waited for that says nothing.
	mostHeld = 15 * time.Second
	// soundFor is for how long a replica has to say that it is one: by then it has looked at the time.
	soundFor = 500 * time.Millisecond
	// spread is how long the servers are given to tell each other of a new epoch.
	spread = time.Second
	// heldPoll is how often servers are asked.
	heldPoll = 50 * time.Millisecond
)

// Run has the replica take over.
func (s Failover) Run(ctx context.Context, former, heir Client) error {
	began := time.Now()
	err := heir.Failover(ctx, FailoverPlanned)
	if err != nil && !errors.Is(err, ErrUndecided) {
		return err
	}
	if err := s.finish(ctx, former, heir, began, err == nil); err != nil {
		return fmt.Errorf("%w: %w", ErrStood, err)
	}
	return nil
}

// finish completes a hand-over in which the candidate started an election. won says that the
// candidate reported itself as the primary.
func (s Failover) finish(ctx context.Context, former, heir Client, began time.Time, won bool) error {
	ctx = context.WithoutCancel(ctx) // An operator that is to end does not leave writes held.
	if won && s.heard(ctx, former, spread) {
		return nil
	}
	if former.HoldWrites(ctx, mostHeld+serversHold) != nil { // It may have been told, and only its answer is missing.
		if won {
			return s.yield(ctx, former)
		}
		return s.uphold(ctx, former, "cannot be told to hold writes until it has said so")
	}
	switch s.await(ctx, heir, began) {
	case saysPrimary:
		return s.yield(ctx, former)
	case saysReplica:
		return errors.Join(fmt.Errorf("%s does not take over: %s stays the primary", s.To, s.From), s.release(ctx, former))
	}
	return s.uphold(ctx, former, "stays the primary, because it says nothing")
}

// answer is the role that the candidate reports.
type answer int

const (
	saysNothing answer = iota
	saysReplica
	saysPrimary
)

// await returns the role of the candidate. It counts as a replica when it reports that for a while
// after its primary gave up, and as silent when it does not run, or does not answer for long.
func (s Failover) await(ctx context.Context, heir Client, began time.Time) answer {
	var sound time.Time // since when it says that it is a replica
	for end := began.Add(mostHeld); time.Now().Before(end); time.Sleep(heldPoll) {
		primary, err := heir.Leads(ctx)
		now := time.Now()
		over := now.Sub(began) > serversHold+soundFor
		switch {
		case err == nil && primary:
			return saysPrimary
		case over && errors.Is(err, ErrNotRunning):
			return saysNothing
		case err != nil:
			sound = time.Time{}
		case sound.IsZero():
			sound = now
		case over && now.Sub(sound) >= soundFor:
			return saysReplica
		}
	}
	return saysNothing
}

// heard waits until the former primary knows that it is none any more, and tells whether it does.
func (Failover) heard(ctx context.Context, former Client, limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(heldPoll) {
		if primary, err := former.Leads(ctx); err == nil && !primary {
			return true
		}
	}
	return false
}

// yield waits for the former primary to hear of it, which no write may come before.
func (s Failover) yield(ctx context.Context, former Client) error {
	if s.heard(ctx, former, serversHold) {
		return s.release(ctx, former)
	}
	return fmt.Errorf("%s has taken over, and %s has not heard of it", s.To, s.From)
}

// uphold keeps the former primary, with an epoch that is newer than the candidate's: a later report
// of the candidate that it was elected has no effect.
func (s Failover) uphold(ctx context.Context, former Client, why string) error {
	if primary, err := former.Leads(ctx); err == nil && !primary {
		return s.release(ctx, former) // The candidate had told it so before it fell silent.
	}
	if former.Uphold(ctx) != nil {
		return fmt.Errorf("%s does not take over, and %s cannot be told to stay the primary", s.To, s.From)
	}
	time.Sleep(spread)
	return errors.Join(fmt.Errorf("%s does not take over: %s %s", s.To, s.From, why), s.release(ctx, former))
}

// release lets clients write again. What is held ends by itself, but not soon.
func (s Failover) release(ctx context.Context, former Client) error {
	for end := time.Now().Add(serversHold); time.Now().Before(end); time.Sleep(heldPoll) {
		if former.ReleaseWrites(ctx) == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer, and holds writes for up to %s", s.From, mostHeld+serversHold)
}
