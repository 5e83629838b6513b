package anomaly

import (
	"slices"
	"time"
)

const (
	// changesWithin is how long a change counts.
	changesWithin = time.Hour
	// maxChanges bounds the memory: more are not told apart.
	maxChanges = 50
)

// Changes counts how often something was given up that should last: the process of a server, or who leads.
type Changes struct {
	last    string
	excused bool
	at      []time.Time
}

// Next takes what is there now, empty for nothing, and returns how often something else, or nothing, has come in the place of something
// within the last hour. What was excused, when it was last seen or is now, does not count: it is part of a change that somebody asked for.
func (c *Changes) Next(now time.Time, what string, excused bool) int {
	if c.last != "" && what != c.last && !excused && !c.excused {
		c.at = append(c.at, now)
		c.at = slices.Clone(c.at[max(0, len(c.at)-maxChanges):])
	}
	c.last, c.excused = what, excused
	c.at = slices.DeleteFunc(c.at, func(t time.Time) bool { return now.Sub(t) > changesWithin })
	return len(c.at)
}

// Tally counts the changes of several subjects, by their names.
type Tally map[string]*Changes

// Next counts for one subject.
func (t Tally) Next(now time.Time, subject, what string, excused bool) int {
	if t[subject] == nil {
		t[subject] = &Changes{}
	}
	return t[subject].Next(now, what, excused)
}

// Keep forgets all subjects but those that are named.
func (t Tally) Keep(subjects []string) {
	for name := range t {
		if !slices.Contains(subjects, name) {
			delete(t, name)
		}
	}
}
