package ttlmap

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func TestAnEntryExpiresAnHourAfterItsLastUse(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	m := Map[string, int]{New: func() *int { return new(7) }}
	*m.Get("used", start) = 1
	*m.Get("unused", start) = 2
	if n := *m.Get("new", start); n != 7 {
		t.Errorf("a new entry is %d, want what New returns", n)
	}
	m.Get("used", start.Add(40*time.Minute))
	if n := *m.Get("used", start.Add(80*time.Minute)); n != 1 {
		t.Errorf("an entry in use is %d, want 1", n)
	}
	if got := slices.Collect(maps.Keys(maps.Collect(m.All()))); !slices.Equal(got, []string{"used"}) {
		t.Errorf("entries after 80 minutes: %v", got)
	}
}
