package planner

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // Images may have no time zones.

	"github.com/robfig/cron/v3"
)

// Schedule says when backups are taken.
type Schedule struct {
	// Cron has five fields (minute, hour, day of month, month, day of week) or is one of @hourly, @daily, @weekly, @monthly, @yearly.
	Cron string
	// Zone is the name of a time zone such as Europe/Berlin, which Cron is in. Empty: UTC.
	//
	// A time that summer time leaves out does not come on that day, and one in the hour that comes twice comes twice, as
	// https://pkg.go.dev/github.com/robfig/cron/v3 has it. Schedules that mind are better given in UTC.
	Zone string
	// Jitter spreads schedules that name the same time: each is late by a part of it, always the same one, which follows from UID.
	Jitter time.Duration
	// Deadline is how late a run may begin. 0: at any time, until the next one is due.
	Deadline time.Duration
	// UID of the schedule.
	UID string
	// Suspend: nothing is due, and nothing is counted as missed. Without it the newest run that was missed is due again, within Deadline.
	Suspend bool
}

const (
	// maxMissed is up to how many missed runs are counted.
	maxMissed = 100
	// wrongClock is how far the last run may be ahead of now before it is taken for the word of a wrong clock.
	wrongClock = 10 * time.Minute
)

// Check tells what is wrong with a schedule and what to write instead.
func (s Schedule) Check() error {
	_, _, err := s.parse()
	return err
}

func (s Schedule) parse() (cron.Schedule, *time.Location, error) {
	if strings.Contains(s.Cron, "TZ=") {
		return nil, nil, errors.New("the schedule names a time zone: it has a field of its own")
	}
	if strings.HasPrefix(strings.TrimSpace(s.Cron), "@every") {
		return nil, nil, errors.New("@every counts from a start that is not kept: write a time such as */15 * * * * or @hourly")
	}
	times, err := cron.ParseStandard(s.Cron)
	if err != nil {
		return nil, nil, fmt.Errorf("the schedule cannot be read, an example is \"30 2 * * *\" for half past two every night: %w", err)
	}
	if s.Zone == "Local" {
		return nil, nil, errors.New("the time zone Local is a different one on every machine: write one such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		return nil, nil, fmt.Errorf("the time zone is not known, an example is Europe/Berlin: %w", err)
	}
	if s.Jitter < 0 || s.Deadline < 0 {
		return nil, nil, errors.New("jitter and deadline must not be negative")
	}
	// In a year that is followed by a leap year, to find the 29th of February.
	if times.Next(time.Date(2027, 1, 1, 0, 0, 0, 0, zone)).IsZero() {
		return nil, nil, fmt.Errorf("the schedule %q never comes", s.Cron)
	}
	return times, zone, nil
}

// Due tells which run is due now, nil: none is. last is the time of the last run that was begun, as Due returned it, zero: none was yet;
// created is when the schedule was made, before which it owes nothing.
//
// due is the time by Cron: it names the run, however late it begins. missed counts the runs that passed since last and are not run, because
// a later one is due, or because of Deadline; it ends at 100. next is when to look again, jitter included, zero: never.
//
// The work is the same after years of absence: times are found by bisection and not by counting.
func (s Schedule) Due(last, created, now time.Time) (due *time.Time, missed int, next time.Time, err error) {
	times, zone, err := s.parse()
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	if s.Suspend {
		return nil, 0, time.Time{}, nil
	}
	late := s.lateness()
	limit := now.Add(-late).In(zone) // What is due by now, without jitter.
	if next = times.Next(limit); !next.IsZero() {
		next = next.Add(late)
	}
	since := created
	if !last.IsZero() && last.Before(now.Add(wrongClock)) && last.After(created) {
		since = last
	}
	newest, ok := newestBetween(times, since.In(zone), limit)
	if !ok {
		return nil, 0, next, nil
	}
	for t := times.Next(since.In(zone)); t.Before(newest) && missed < maxMissed; t = times.Next(t) {
		missed++
	}
	if s.Deadline > 0 && now.Sub(newest.Add(late)) > s.Deadline {
		return nil, min(missed+1, maxMissed), next, nil
	}
	return &newest, missed, next, nil
}

// lateness is the same for a schedule at all times, from 0 to Jitter.
func (s Schedule) lateness() time.Duration {
	seconds := uint64(s.Jitter / time.Second) //nolint:gosec // Not negative, see parse.
	if seconds == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.UID))                             // A hash takes everything.
	return time.Duration(h.Sum64()%(seconds+1)) * time.Second //nolint:gosec // At most Jitter.
}

// newestBetween finds the newest time after since and not after limit.
func newestBetween(times cron.Schedule, since, limit time.Time) (time.Time, bool) {
	reached := func(from time.Time) bool {
		t := times.Next(from)
		return !t.IsZero() && !t.After(limit)
	}
	if !reached(since) {
		return time.Time{}, false
	}
	// Another time comes after low, none after high.
	low, high := since, limit
	for high.Sub(low) > time.Second {
		middle := low.Add(high.Sub(low) / 2)
		if reached(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return times.Next(low), true
}
