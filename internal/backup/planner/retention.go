package planner

import (
	"cmp"
	"slices"
	"time"
)

// Retention says how many backups are kept. Every rule keeps what it keeps, whatever the others say. All zero: everything is kept.
type Retention struct {
	// Last is how many of the newest are kept.
	Last int
	// Hourly, Daily, Weekly and Monthly keep the newest of every hour, day, week (from Monday, ISO 8601) and month, for so many of these as
	// have a backup at all: a time without backups ages nothing.
	Hourly, Daily, Weekly, Monthly int
}

// Kept is a backup that a retention decides on.
type Kept struct {
	ID string
	// Taken is when the data is from.
	Taken time.Time
	// Complete: there is a manifest. Verified: it was restored and proven. InUse: somebody reads it, a restore for example.
	Complete, Verified, InUse bool
}

// unfinished is how long a backup without a manifest may be one that is being taken.
const unfinished = 24 * time.Hour

// Expired returns what goes, the oldest first. zone says when days, weeks and months begin. It never returns
//
//   - the newest backup that is complete, and the newest that is verified as well,
//   - one that is in use,
//   - one that is newer than now: some clock is wrong, so nothing is known of its age, and it takes the place of no other one,
//   - one that is not complete, unless it is more than a day old and a newer one is complete: it may be being taken, or be all there is.
func (r Retention) Expired(all []Kept, now time.Time, zone *time.Location) []Kept {
	if r.Last <= 0 && r.Hourly <= 0 && r.Daily <= 0 && r.Weekly <= 0 && r.Monthly <= 0 {
		return nil
	}
	past := slices.DeleteFunc(slices.Clone(all), func(k Kept) bool { return k.Taken.After(now) })
	slices.SortFunc(past, func(a, b Kept) int {
		return cmp.Or(b.Taken.Compare(a.Taken), cmp.Compare(b.ID, a.ID)) // The newest first.
	})
	complete := slices.DeleteFunc(slices.Clone(past), func(k Kept) bool { return !k.Complete })
	keep := r.wanted(complete, zone)
	if len(complete) > 0 {
		keep[complete[0].ID] = true
	}
	if i := slices.IndexFunc(complete, func(k Kept) bool { return k.Verified }); i >= 0 {
		keep[complete[i].ID] = true
	}
	var expired []Kept
	for _, k := range slices.Backward(past) {
		switch {
		case k.InUse, k.Complete && keep[k.ID]:
		case !k.Complete && (now.Sub(k.Taken) <= unfinished || len(complete) == 0 || !complete[0].Taken.After(k.Taken)):
		default:
			expired = append(expired, k)
		}
	}
	return expired
}

// wanted are the ids of what the rules keep of complete backups, which come with the newest first.
func (r Retention) wanted(complete []Kept, zone *time.Location) map[string]bool {
	keep := map[string]bool{}
	for _, k := range complete[:min(max(r.Last, 0), len(complete))] {
		keep[k.ID] = true
	}
	for _, rule := range []struct {
		count int
		of    func(time.Time) period
	}{{r.Hourly, hour}, {r.Daily, day}, {r.Weekly, week}, {r.Monthly, month}} {
		seen := map[period]bool{}
		for _, k := range complete {
			if rule.count <= 0 {
				break
			}
			this := rule.of(k.Taken.In(zone))
			if seen[this] {
				continue
			}
			if len(seen) >= rule.count {
				break
			}
			seen[this], keep[k.ID] = true, true
		}
	}
	return keep
}

// period is an hour, a day, a week or a month of one of the rules, by the numbers that tell it from the others.
type period struct{ year, number, hour, offset int }

// hour has the offset from UTC in it: at the end of summer time one hour of the clock comes twice.
func hour(t time.Time) period {
	_, offset := t.Zone()
	return period{t.Year(), t.YearDay(), t.Hour(), offset}
}

func day(t time.Time) period   { return period{year: t.Year(), number: t.YearDay()} }
func month(t time.Time) period { return period{year: t.Year(), number: int(t.Month())} }

func week(t time.Time) period {
	year, week := t.ISOWeek()
	return period{year: year, number: week}
}
