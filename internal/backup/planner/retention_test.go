package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ids(kept []Kept) []string {
	var names []string
	for _, k := range kept {
		names = append(names, k.ID)
	}
	return names
}

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestRetention(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
	at := func(id string, age time.Duration, flags string) Kept {
		return Kept{ID: id, Taken: now.Add(-age), Complete: !slices.Contains([]byte(flags), 'i'), Verified: slices.Contains([]byte(flags), 'v'), InUse: slices.Contains([]byte(flags), 'u')}
	}
	const hours, days = time.Hour, 24 * time.Hour
	for name, c := range map[string]struct {
		r    Retention
		all  []Kept
		want []string
	}{
		"nothing":                             {Retention{Last: 1}, nil, nil},
		"no rule keeps all":                   {Retention{}, []Kept{at("a", 900*days, ""), at("b", 0, "")}, nil},
		"negative rules keep all":             {Retention{Last: -1, Daily: -5}, []Kept{at("a", 900*days, ""), at("b", 0, "")}, nil},
		"the last two":                        {Retention{Last: 2}, []Kept{at("a", 3*hours, ""), at("b", 2*hours, ""), at("c", hours, "")}, []string{"a"}},
		"in any order, the oldest first":      {Retention{Last: 1}, []Kept{at("b", 2*hours, ""), at("c", hours, ""), at("a", 3*hours, "")}, []string{"a", "b"}},
		"the newest verified one stays":       {Retention{Last: 1}, []Kept{at("a", 4*hours, "v"), at("b", 3*hours, "v"), at("c", 2*hours, ""), at("d", hours, "")}, []string{"a", "c"}},
		"one in use stays":                    {Retention{Last: 1}, []Kept{at("a", 3*hours, "u"), at("b", 2*hours, ""), at("c", hours, "")}, []string{"b"}},
		"a later one takes no place":          {Retention{Last: 1}, []Kept{at("a", 3*hours, ""), at("b", 2*hours, ""), at("z", -300*days, "v")}, []string{"a"}},
		"unfinished for an hour":              {Retention{Last: 1}, []Kept{at("a", 2*hours, "i"), at("b", hours, "")}, nil},
		"unfinished for days":                 {Retention{Last: 1}, []Kept{at("a", 3*days, "i"), at("b", hours, "")}, []string{"a"}},
		"unfinished and the newest":           {Retention{Last: 1}, []Kept{at("b", 4*days, ""), at("a", 3*days, "i")}, nil},
		"unfinished, in use":                  {Retention{Last: 1}, []Kept{at("a", 3*days, "iu"), at("b", hours, "")}, nil},
		"unfinished ones count for nothing":   {Retention{Last: 1}, []Kept{at("a", 3*days, ""), at("b", 2*hours, "i"), at("c", hours, "iv")}, nil},
		"only later ones":                     {Retention{Last: 1}, []Kept{at("a", -hours, ""), at("b", -2*hours, "")}, nil},
		"days, and one of a day":              {Retention{Daily: 2}, []Kept{at("a", 49*hours, ""), at("b", 25*hours, ""), at("c", 24*hours, ""), at("d", hours, "")}, []string{"a", "b"}},
		"a time without backups ages none":    {Retention{Daily: 2}, []Kept{at("a", 400*days, ""), at("b", 300*days, ""), at("c", hours, "")}, []string{"a"}},
		"two at one time":                     {Retention{Last: 1}, []Kept{at("a", hours, ""), at("b", hours, "")}, []string{"a"}},
		"weeks begin on Monday":               {Retention{Weekly: 2}, []Kept{at("sunday", 3*days, ""), at("monday", 2*days, ""), at("now", 0, ""), at("monday before", 9*days, "")}, []string{"monday before", "monday"}},
		"months":                              {Retention{Monthly: 2}, []Kept{at("april", 41*days, ""), at("may", 12*days, ""), at("june", 0, "")}, []string{"april"}},
		"rules keep what others let go":       {Retention{Last: 1, Monthly: 2}, []Kept{at("may", 12*days, ""), at("early june", 5*days, ""), at("now", 0, "")}, []string{"early june"}},
		"the turn of the year is in one week": {Retention{Weekly: 1}, []Kept{{ID: "a", Taken: time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC), Complete: true}, {ID: "b", Taken: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Complete: true}}, []string{"a"}},
	} {
		before := slices.Clone(c.all)
		if got := ids(c.r.Expired(c.all, now, time.UTC)); !cmp.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if !cmp.Equal(c.all, before) {
			t.Errorf("%s: what was given is changed", name)
		}
	}
}

// The hour from 2 to 3 comes twice on the last Sunday of October, and is left out on that of March.
func TestHoursAndDaysAreThoseOfTheClockWhenSummerTimeEnds(t *testing.T) {
	t.Parallel()
	berlin := zoneOf(t, "Europe/Berlin")
	for name, c := range map[string]struct {
		from   time.Time
		hourly int
		day    int
	}{
		"October": {time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), 25, 25},
		"March":   {time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC), 23, 23},
	} {
		var all []Kept
		for i := range c.day { // Every hour of the day.
			all = append(all, Kept{ID: fmt.Sprintf("%02d", i), Taken: c.from.Add(time.Duration(i) * time.Hour), Complete: true})
		}
		now := c.from.Add(time.Duration(c.day)*time.Hour - time.Minute)
		if got := (Retention{Hourly: c.hourly}).Expired(all, now, berlin); len(got) != 0 {
			t.Errorf("%s: of %d hours go %v", name, c.hourly, ids(got))
		}
		if got := (Retention{Daily: 1}).Expired(all, now, berlin); len(got) != c.day-1 {
			t.Errorf("%s: of one day go %v", name, ids(got))
		}
	}
}

// Two years of hourly backups, of which some are late, fail, are verified or in use, with retention after each. What must hold, holds after
// each, and in the end there is what was promised.
func TestRetentionOverTwoYearsOfHourlyBackups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone string
		r    Retention
	}{
		{"Europe/Berlin", Retention{Last: 24, Hourly: 48, Daily: 14, Weekly: 8, Monthly: 12}},
		{"Australia/Lord_Howe", Retention{Daily: 7}},
		{"America/Sao_Paulo", Retention{Hourly: 5, Monthly: 30}},
		{"UTC", Retention{Last: 1}},
	} {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 1))
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			zone := zoneOf(t, c.zone)
			start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
			var all, ever []Kept
			for i := range 2 * 365 * 24 {
				now := start.Add(time.Duration(i)*time.Hour + time.Duration(random.IntN(600))*time.Second)
				for j := range all {
					all[j].InUse = all[j].InUse != (random.IntN(2000) == 0)
				}
				k := Kept{ID: fmt.Sprintf("%06d", i), Taken: now, Complete: random.IntN(20) > 0, Verified: random.IntN(50) == 0}
				all, ever = append(all, k), append(ever, k)
				now = now.Add(time.Minute)
				expired := c.r.Expired(all, now, zone)
				checkExpired(t, all, expired, now)
				all = slices.DeleteFunc(all, func(k Kept) bool { return slices.ContainsFunc(expired, func(e Kept) bool { return e.ID == k.ID }) })
				if i%24 == 0 {
					if again := c.r.Expired(all, now, zone); len(again) > 0 {
						t.Fatalf("at once again, %v go", ids(again))
					}
				}
				if t.Failed() {
					return
				}
			}
			checkPromise(t, c.r, all, ever, zone)
		})
	}
}

func checkExpired(t *testing.T, all, expired []Kept, now time.Time) {
	t.Helper()
	newest := func(good func(Kept) bool) string {
		id := ""
		for _, k := range all { // In the order of time.
			if good(k) {
				id = k.ID
			}
		}
		return id
	}
	complete := newest(func(k Kept) bool { return k.Complete })
	verified := newest(func(k Kept) bool { return k.Complete && k.Verified })
	for _, e := range expired {
		switch {
		case e.ID == complete, e.ID == verified:
			t.Errorf("the last good one goes: %+v", e)
		case e.InUse:
			t.Errorf("one in use goes: %+v", e)
		case e.Taken.After(now):
			t.Errorf("one of the future goes: %+v", e)
		case !e.Complete && (now.Sub(e.Taken) <= 24*time.Hour || complete < e.ID):
			t.Errorf("one goes that may be being taken: %+v", e)
		}
	}
}

// checkPromise counts periods by another way than the code: by local fields, and from everything there ever was.
func checkPromise(t *testing.T, r Retention, left, ever []Kept, zone *time.Location) {
	t.Helper()
	isLeft := map[string]bool{}
	for _, k := range left {
		isLeft[k.ID] = true
	}
	type key struct{ year, period, offset int }
	for name, rule := range map[string]struct {
		count int
		of    func(time.Time) key
	}{
		"hourly":  {r.Hourly, func(t time.Time) key { _, offset := t.Zone(); return key{t.Year(), t.YearDay()*24 + t.Hour(), offset} }},
		"daily":   {r.Daily, func(t time.Time) key { return key{t.Year(), t.YearDay(), 0} }},
		"weekly":  {r.Weekly, func(t time.Time) key { year, week := t.ISOWeek(); return key{year, week, 0} }},
		"monthly": {r.Monthly, func(t time.Time) key { return key{t.Year(), int(t.Month()), 0} }},
		"last":    {r.Last, func(t time.Time) key { return key{int(t.Unix()), t.Nanosecond(), 0} }},
	} {
		seen := map[key]bool{}
		for _, k := range slices.Backward(ever) {
			if period := rule.of(k.Taken.In(zone)); k.Complete && !seen[period] && len(seen) < rule.count {
				seen[period] = true
				if !isLeft[k.ID] {
					t.Errorf("%s: %s from %s is gone", name, k.ID, k.Taken.In(zone))
				}
			}
		}
	}
	// What is there beside them is in use, verified, of the last day, or one that the rules overlap in.
	most := r.Last + r.Hourly + r.Daily + r.Weekly + r.Monthly + 2 + 24
	for _, k := range left {
		if k.InUse {
			most++
		}
	}
	if len(left) > most {
		t.Errorf("%d are left, and at most %d should be", len(left), most)
	}
}
