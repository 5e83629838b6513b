package plan

import "time"

// Retention says how many backups are kept.
type Retention struct{ Last, Hourly, Daily, Weekly, Monthly int }

// Kept is a backup that a retention decides on.
type Kept struct {
	ID                        string
	Taken                     time.Time
	Complete, Verified, InUse bool
}

// Expired returns what goes.
func (r Retention) Expired(all []Kept, now time.Time, zone *time.Location) []Kept { return nil }
