package plan

import (
	"errors"
	"time"
)

// Schedule says when backups are taken.
type Schedule struct {
	Cron, Zone       string
	Jitter, Deadline time.Duration
	UID              string
}

// Check tells what is wrong with a schedule.
func (s Schedule) Check() error { return errors.ErrUnsupported }

// Due tells whether a run is due.
func (s Schedule) Due(last, created, now time.Time) (due *time.Time, missed int, next time.Time, err error) {
	return nil, 0, time.Time{}, errors.ErrUnsupported
}
