package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func TestSchedulesThatCannotWorkSayWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s    Schedule
		want string // empty: it works
	}{
		"hourly":                     {Schedule{Cron: "@hourly"}, ""},
		"every night":                {Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, ""},
		"leap days":                  {Schedule{Cron: "0 0 29 2 *"}, ""},
		"empty":                      {Schedule{}, "30 2 * * *"},
		"six fields":                 {Schedule{Cron: "0 0 2 * * *"}, "30 2 * * *"},
		"minute 60":                  {Schedule{Cron: "60 * * * *"}, "30 2 * * *"},
		"a zone inside":              {Schedule{Cron: "CRON_TZ=Asia/Tokyo 0 2 * * *"}, "field of its own"},
		"a zone inside, the old way": {Schedule{Cron: "TZ=Asia/Tokyo 0 2 * * *"}, "field of its own"},
		"every so often":             {Schedule{Cron: "@every 1h"}, "@hourly"},
		"a day that never comes":     {Schedule{Cron: "0 0 30 2 *"}, "never"},
		"an unknown zone":            {Schedule{Cron: "@daily", Zone: "Berlin"}, "Europe/Berlin"},
		"the zone of the machine":    {Schedule{Cron: "@daily", Zone: "Local"}, "every machine"},
		"a zone that leads away":     {Schedule{Cron: "@daily", Zone: "../../etc/passwd"}, "zone"},
		"negative jitter":            {Schedule{Cron: "@daily", Jitter: -1}, "negative"},
		"negative deadline":          {Schedule{Cron: "@daily", Deadline: -1}, "negative"},
	} {
		err := c.s.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if _, _, _, dueErr := c.s.Due(time.Time{}, time.Time{}, time.Now()); (dueErr == nil) != (err == nil) {
			t.Errorf("%s: Due says %v", name, dueErr)
		}
	}
}

func TestWhatIsDue(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		parsed, err := time.Parse("2006-01-02 15:04:05", text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	hourly := Schedule{Cron: "@hourly"}
	for name, c := range map[string]struct {
		s                  Schedule
		last, created, now string
		due                string
		missed             int
		next               string
	}{
		"just made":                           {hourly, "", "2026-05-01 12:30:00", "2026-05-01 12:30:00", "", 0, "2026-05-01 13:00:00"},
		"a second before":                     {hourly, "", "2026-05-01 12:30:00", "2026-05-01 12:59:59", "", 0, "2026-05-01 13:00:00"},
		"to the second":                       {hourly, "", "2026-05-01 12:30:00", "2026-05-01 13:00:00", "2026-05-01 13:00:00", 0, "2026-05-01 14:00:00"},
		"made to the second":                  {hourly, "", "2026-05-01 13:00:00", "2026-05-01 13:00:00", "", 0, "2026-05-01 14:00:00"},
		"begun already":                       {hourly, "2026-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 13:00:01", "", 0, "2026-05-01 14:00:00"},
		"two were missed":                     {hourly, "2026-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 16:20:00", "2026-05-01 16:00:00", 2, "2026-05-01 17:00:00"},
		"away for ten years":                  {Schedule{Cron: "* * * * *"}, "2016-05-01 13:00:00", "2016-05-01 12:30:00", "2026-05-01 16:20:30", "2026-05-01 16:20:00", 100, "2026-05-01 16:21:00"},
		"away for ten years, each new year":   {Schedule{Cron: "0 0 1 1 *"}, "2016-05-01 13:00:00", "2016-05-01 12:30:00", "2026-05-01 16:20:30", "2026-01-01 00:00:00", 9, "2027-01-01 00:00:00"},
		"made at no time":                     {hourly, "", "", "2026-05-01 16:20:00", "2026-05-01 16:00:00", 100, "2026-05-01 17:00:00"},
		"within the deadline":                 {Schedule{Cron: "@hourly", Deadline: 20 * time.Minute}, "2026-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 16:20:00", "2026-05-01 16:00:00", 2, "2026-05-01 17:00:00"},
		"past the deadline":                   {Schedule{Cron: "@hourly", Deadline: 20 * time.Minute}, "2026-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 16:20:01", "", 3, "2026-05-01 17:00:00"},
		"suspended":                           {Schedule{Cron: "@hourly", Suspend: true}, "2026-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 16:20:01", "", 0, ""},
		"the clock was a year ahead":          {hourly, "2027-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 16:20:00", "2026-05-01 16:00:00", 3, "2026-05-01 17:00:00"},
		"the clock goes back by a second":     {hourly, "2026-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 12:59:59", "", 0, "2026-05-01 13:00:00"},
		"a last run from before it was made":  {hourly, "2020-05-01 13:00:00", "2026-05-01 12:30:00", "2026-05-01 12:59:59", "", 0, "2026-05-01 13:00:00"},
		"a zone":                              {Schedule{Cron: "30 2 * * *", Zone: "Asia/Tokyo"}, "", "2026-05-01 12:30:00", "2026-05-01 17:31:00", "2026-05-01 17:30:00", 0, "2026-05-02 17:30:00"},
		"the night that has no half past two": {Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28 01:30:00", "2026-01-01 00:00:00", "2026-03-29 12:00:00", "", 0, "2026-03-30 00:30:00"},
		"half past two comes twice":           {Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-25 00:30:00", "2026-01-01 00:00:00", "2026-10-25 12:00:00", "2026-10-25 01:30:00", 0, "2026-10-26 01:30:00"},
		"every hour of the night with 25":     {Schedule{Cron: "0 * * * *", Zone: "Europe/Berlin"}, "2026-10-24 22:00:00", "2026-01-01 00:00:00", "2026-10-25 23:00:00", "2026-10-25 23:00:00", 24, "2026-10-26 00:00:00"},
	} {
		due, missed, next, err := c.s.Due(at(c.last), at(c.created), at(c.now))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := time.Time{}
		if due != nil {
			got = *due
		}
		if !got.Equal(at(c.due)) || missed != c.missed || !next.Equal(at(c.next)) {
			t.Errorf("%s: got %s, %d missed, next %s; want %s, %d, %s", name, got.UTC(), missed, next.UTC(), c.due, c.missed, c.next)
		}
	}
}

func TestJitterIsTheSameEveryTimeAndSpreadsSchedules(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)
	seen := map[time.Duration]bool{}
	for _, uid := range strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z") {
		s := Schedule{Cron: "@hourly", Jitter: 10 * time.Minute, UID: uid}
		_, _, next, err := s.Due(time.Time{}, created, created)
		if err != nil {
			t.Fatal(err)
		}
		nominal := time.Date(2026, 5, 1, 13, 0, 0, 0, time.UTC)
		late := next.Sub(nominal)
		if late < 0 || late > 10*time.Minute {
			t.Errorf("%s begins at %s", uid, next)
		}
		seen[late] = true
		if due, _, _, _ := s.Due(time.Time{}, created, next.Add(-time.Second)); due != nil {
			t.Errorf("%s is due before its time", uid)
		}
		due, _, following, _ := s.Due(time.Time{}, created, next)
		if due == nil || !due.Equal(nominal) || !following.Equal(next.Add(time.Hour)) {
			t.Errorf("%s: due %v, then %s", uid, due, following)
		}
		if again, _, _, _ := s.Due(nominal, created, next.Add(time.Minute)); again != nil {
			t.Errorf("%s is due twice", uid)
		}
	}
	if len(seen) < 15 {
		t.Errorf("26 schedules have %d different times", len(seen))
	}
}

// Whoever looks every few minutes over a year, whatever the zone, begins every run exactly once and in time.
func TestNoRunIsLeftOutOrBegunTwice(t *testing.T) {
	t.Parallel()
	zones := []string{"Europe/Berlin", "UTC", "Australia/Lord_Howe", "America/Havana", "Asia/Kathmandu"}
	if testing.Short() {
		zones = zones[:1]
	}
	for _, zone := range zones {
		for _, expression := range []string{"*/20 * * * *", "30 2 * * *", "0 0 * * 1", "15 3 1 * *", "0 0 * * *"} {
			s := Schedule{Cron: expression, Zone: zone, Jitter: 5 * time.Minute, UID: zone}
			times, err := cron.ParseStandard(expression)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			want := times.Next(start.In(zoneOf(t, zone)))
			var last time.Time
			look := 59 * time.Minute
			if expression == "*/20 * * * *" {
				look = 11 * time.Minute
			}
			for now := start; now.Before(start.AddDate(1, 0, 0)); now = now.Add(look) {
				due, missed, next, err := s.Due(last, start, now)
				if err != nil || missed > 0 || !next.After(now) {
					t.Fatalf("%s in %s at %s: %d missed, next %s, %v", expression, zone, now, missed, next, err)
				}
				if due == nil {
					continue
				}
				if !due.Equal(want) || now.Sub(*due) > s.Jitter+look {
					t.Fatalf("%s in %s at %s: due is %s and not %s", expression, zone, now, due, want)
				}
				last, want = *due, times.Next(want)
			}
			if last.IsZero() {
				t.Errorf("%s in %s never began", expression, zone)
			}
		}
	}
}
