package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
)

// Window is a time of the day on some days of the week, in which maintenance may begin.
type Window struct {
	// Hour and Minute at which it opens, by the clock of Zone.
	Hour, Minute int
	Zone         *time.Location
	Duration     time.Duration
	// Days on which it opens, none: every day.
	Days []time.Weekday
}

// ParseWindow reads a window, nil when none is asked for.
func ParseWindow(w *v1alpha1.MaintenanceWindow) (*Window, error) {
	if w == nil {
		return nil, nil
	}
	at, err := time.Parse("15:04", w.Start)
	if err != nil {
		return nil, fmt.Errorf("start %q is not a time such as 02:30", w.Start)
	}
	out := &Window{Hour: at.Hour(), Minute: at.Minute(), Zone: time.UTC, Duration: w.Duration.Duration}
	if w.TimeZone != nil {
		if out.Zone, err = time.LoadLocation(*w.TimeZone); err != nil {
			return nil, fmt.Errorf("timeZone %q is not in the IANA time zone database: use a name such as Europe/Berlin", *w.TimeZone)
		}
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if slices.Contains(w.Days, v1alpha1.Weekday(d.String())) {
			out.Days = append(out.Days, d)
		}
	}
	return out, nil
}

// Open reports whether the window is open. One that begins today may still be open from yesterday.
func (w *Window) Open(now time.Time) bool {
	local := now.In(w.Zone)
	for _, ago := range []int{0, 1} {
		begin := time.Date(local.Year(), local.Month(), local.Day()-ago, w.Hour, w.Minute, 0, 0, w.Zone)
		on := len(w.Days) == 0 || slices.Contains(w.Days, begin.Weekday())
		if on && !now.Before(begin) && now.Before(begin.Add(w.Duration)) {
			return true
		}
	}
	return false
}
