package planner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
)

func hourOf(h int, minutes ...int) time.Time {
	m := 0
	if len(minutes) > 0 {
		m = minutes[0]
	}
	return time.Date(2026, 5, 1, h, m, 0, 0, time.UTC)
}

// hourly is a schedule at noon whose backups of nine to twelve o'clock are complete.
func hourly(change func(*ScheduleState)) ScheduleState {
	t := ScheduleState{
		Now: hourOf(12, 30), Name: "hourly", Noun: "EtcdCluster orders", Created: hourOf(8, 30), Forbid: true,
		Take: Schedule{Cron: "@hourly", Deadline: time.Hour}, Zone: time.UTC,
	}
	for h := 9; h <= 12; h++ {
		t.Runs = append(t.Runs, Run{Name: backupAt(h), UID: "u-" + backupAt(h), Due: hourOf(h), Finished: hourOf(h, 5), Complete: true})
	}
	if change != nil {
		change(&t)
	}
	return t
}

func backupAt(h int) string { return "hourly-" + hourOf(h).Format("20060102150405") }

func (t *ScheduleState) last() *Run { return &t.Runs[len(t.Runs)-1] }

// recorded is a schedule whose changes are recorded.
func recorded(change func(*Recorder)) func(*ScheduleState) {
	return func(t *ScheduleState) {
		t.Records = true
		t.Recorder = &Recorder{Name: "hourly-recorder", UID: "r", Since: hourOf(8), Stream: &job.Stream{Revision: 7, Time: t.Now.Add(-5 * time.Second)}}
		if change != nil {
			change(t.Recorder)
		}
	}
}

func checked(at time.Time, problem string) func(*ScheduleState) {
	return func(t *ScheduleState) {
		t.Check = &Schedule{Cron: "15 12 * * *", Deadline: time.Hour}
		r := t.last()
		r.Checked, r.Verified, r.Unverified = at, problem == "" && !at.IsZero(), problem
	}
}

func both(changes ...func(*ScheduleState)) func(*ScheduleState) {
	return func(t *ScheduleState) {
		for _, change := range changes {
			change(t)
		}
	}
}

func TestNextOf(t *testing.T) {
	needs := recorded(func(r *Recorder) { r.Stream = &job.Stream{Timeline: "c1", Needs: "a gap"} })
	for name, tc := range map[string]struct {
		table ScheduleState
		want  string // the step, or the reason
		says  string
	}{
		"all is taken":                {hourly(nil), "", "the next backup of EtcdCluster orders is due at 2026-05-01T13:00:00Z"},
		"suspended":                   {hourly(func(t *ScheduleState) { t.Suspended, t.Now = true, hourOf(14) }), "", "while spec.suspend is true"},
		"deleted":                     {hourly(func(t *ScheduleState) { t.Deleting, t.Now = true, hourOf(14) }), "", "its backups stay"},
		"due":                         {hourly(func(t *ScheduleState) { t.Now = hourOf(13) }), "create Backup " + backupAt(13), "is due"},
		"due, and some were missed":   {hourly(func(t *ScheduleState) { t.Now = hourOf(15, 10) }), "create Backup " + backupAt(15), "2 before it were missed"},
		"missed for too long":         {hourly(func(t *ScheduleState) { t.Take.Cron, t.Now = "0 13 * * *", hourOf(14, 1) }), "", "2026-05-02T13:00:00Z"},
		"late, and still in time":     {hourly(func(t *ScheduleState) { t.Take.Cron, t.Now = "0 13 * * *", hourOf(14) }), "create Backup " + backupAt(13), ""},
		"the first":                   {hourly(func(t *ScheduleState) { t.Runs, t.Now = nil, hourOf(9) }), "create Backup " + backupAt(9), ""},
		"nothing is due before":       {hourly(func(t *ScheduleState) { t.Runs, t.Now = nil, hourOf(8, 59) }), "", "2026-05-01T09:00:00Z"},
		"due, and one is being taken": {hourly(func(t *ScheduleState) { t.Now = hourOf(13); t.last().Complete = false }), "", ""},
		"due, and both may":           {hourly(func(t *ScheduleState) { t.Now, t.Forbid = hourOf(13), false; t.last().Complete = false }), "create Backup " + backupAt(13), ""},
		"due, and the cluster sleeps": {hourly(func(t *ScheduleState) { t.Now, t.Asleep = hourOf(13), true }), "create Backup " + backupAt(13), ""},
		"due, and one waits until the cluster wakes up": {
			hourly(func(t *ScheduleState) { t.Now, t.Asleep, t.Forbid, t.last().Complete = hourOf(13), true, false, false }), "", "begins when it wakes up",
		},
		"due, and the last failed": {hourly(func(t *ScheduleState) { t.Now = hourOf(13); t.last().Complete = false; t.last().Failed = "no" }), "create Backup " + backupAt(13), ""},
		"due, and one is on its way out": {
			hourly(func(t *ScheduleState) { t.Now = hourOf(13); t.last().Complete = false; t.last().Leaving = true }), "create Backup " + backupAt(13), "",
		},
		"one out of turn is no turn": {
			hourly(func(t *ScheduleState) {
				t.Now = hourOf(13)
				t.Runs = append(t.Runs, Run{Name: "x", Due: t.Now, Complete: true, Unplanned: "c1"})
			}),
			"create Backup " + backupAt(13), "",
		},
		"a schedule that cannot be read":  {hourly(func(t *ScheduleState) { t.Take.Cron = "now and then" }), ReasonSchedule, "spec.schedule: "},
		"a check's that cannot be read":   {hourly(func(t *ScheduleState) { t.Check = &Schedule{Cron: "@every 1h"} }), ReasonSchedule, "spec.verify.schedule: "},
		"a check is due":                  {hourly(checked(time.Time{}, "")), "check Backup " + backupAt(12), ""},
		"a check was made":                {hourly(checked(hourOf(12, 20), "")), "", ""},
		"a check was made and failed":     {hourly(checked(hourOf(12, 20), "damaged")), "", ""},
		"a check is due, and one is made": {hourly(both(checked(time.Time{}, ""), func(t *ScheduleState) { t.Runs[0].Checking = true })), "", ""},
		"a check waits in vain": {hourly(both(checked(time.Time{}, ""), func(t *ScheduleState) {
			t.Runs[3].Checking, t.Runs[3].Stuck, t.Retention.Last = true, true, 2
		})), "delete Backup " + backupAt(9), ""},
		"a check is due of nothing":         {hourly(both(checked(time.Time{}, ""), func(t *ScheduleState) { t.Runs = nil; t.Now = hourOf(8, 40) })), "", ""},
		"a check is due of what is there":   {hourly(both(checked(time.Time{}, ""), func(t *ScheduleState) { t.last().Complete, t.last().Failed = false, "no" })), "check Backup " + backupAt(11), ""},
		"a check is made while suspended":   {hourly(both(checked(time.Time{}, ""), func(t *ScheduleState) { t.Suspended = true })), "check Backup " + backupAt(12), ""},
		"retention of two":                  {hourly(func(t *ScheduleState) { t.Retention.Last = 2 }), "delete Backup " + backupAt(9), "spec.retention does not keep"},
		"retention of three days":           {hourly(func(t *ScheduleState) { t.Retention.Daily = 3 }), "delete Backup " + backupAt(9), ""},
		"retention of four":                 {hourly(func(t *ScheduleState) { t.Retention.Last = 4 }), "", ""},
		"retention while suspended":         {hourly(func(t *ScheduleState) { t.Retention.Last, t.Suspended = 2, true }), "delete Backup " + backupAt(9), ""},
		"expired, and being restored":       {hourly(func(t *ScheduleState) { t.Retention.Last = 3; t.Runs[0].InUse = true }), "", ""},
		"expired, and being checked":        {hourly(func(t *ScheduleState) { t.Retention.Last = 3; t.Runs[0].Checking = true }), "", ""},
		"expired, and the only one proven":  {hourly(func(t *ScheduleState) { t.Retention.Last = 3; t.Runs[0].Verified = true }), "", ""},
		"expired, and on its way out":       {hourly(func(t *ScheduleState) { t.Retention.Last = 3; t.Runs[0].Leaving = true }), "", ""},
		"the only complete one":             {hourly(func(t *ScheduleState) { t.Runs, t.Retention.Last, t.Now = t.Runs[:1], 1, hourOf(9, 30) }), "", ""},
		"changes are recorded":              {hourly(recorded(nil)), "", ""},
		"changes are not recorded any more": {hourly(both(recorded(nil), func(t *ScheduleState) { t.Records = false })), "delete StatefulSet hourly-recorder", "spec.incremental"},
		"recording needs a backup":          {hourly(needs), "create Backup hourly-20260501123000", "a full backup is needed to record changes: a gap"},
		"it needs one while suspended":      {hourly(both(needs, func(t *ScheduleState) { t.Suspended = true })), "", ""},
		"it needs one, and one is taken":    {hourly(both(needs, func(t *ScheduleState) { t.last().Complete = false })), "", ""},
		"it needs one, and one just came":   {hourly(both(needs, func(t *ScheduleState) { t.last().Finished = t.Now.Add(-19 * time.Second) })), "", ""},
		"it needs one, which did not help":  {hourly(both(needs, outOfTurn(9*time.Minute))), "", ""},
		"it needs one, and that was long ago": {
			hourly(both(needs, outOfTurn(10*time.Minute))), "create Backup hourly-20260501123000", "",
		},
		"another history needs one of its own": {
			hourly(both(recorded(func(r *Recorder) { r.Stream = &job.Stream{Timeline: "c2", Needs: "none yet"} }), outOfTurn(time.Minute))), "create Backup hourly-20260501123000", "none yet",
		},
		"it needs one, and one just failed": {
			hourly(both(needs, func(t *ScheduleState) {
				t.last().Complete, t.last().Failed, t.last().Due = false, "no", t.Now.Add(-10*time.Minute)
			})), "", "",
		},
		"it needs one, and that failed long ago": {
			hourly(both(needs, func(t *ScheduleState) { t.last().Complete, t.last().Failed = false, "no" })), "create Backup hourly-20260501123000", "",
		},
		"it needs one, and a planned one is due": {hourly(both(needs, func(t *ScheduleState) { t.Now = hourOf(13) })), "create Backup " + backupAt(13), "is due"},
	} {
		t.Run(name, func(t *testing.T) {
			p := NextOfSchedule(tc.table)
			got := p.Reason
			if p.Step != nil {
				got = p.Step.String()
			}
			if d, ok := p.Step.(DeleteBackup); ok && d.UID != "u-"+d.Name {
				t.Errorf("%+v is of another Backup", d)
			}
			if got != tc.want || !strings.Contains(p.Message, tc.says) {
				t.Errorf("%q (%s), want %q (...%s...)", got, p.Message, tc.want, tc.says)
			}
			if p.Settled() && !tc.table.Deleting && (p.After < time.Second || p.After > time.Minute || (tc.table.Records && p.After > recordingPoll)) {
				t.Errorf("it is looked at again after %s", p.After)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	for name, tc := range map[string]struct {
		table ScheduleState
		want  string // status, reason
		says  string
	}{
		"all is taken":             {hourly(nil), "True BackupsInTime", "the newest backup is " + backupAt(12)},
		"none was due":             {hourly(func(t *ScheduleState) { t.Runs, t.Now = nil, hourOf(8, 59) }), "Unknown NoBackupYet", ""},
		"the first is being taken": {hourly(func(t *ScheduleState) { t.Runs, t.Now = []Run{{Name: "a", Due: hourOf(9)}}, hourOf(9, 59) }), "Unknown NoBackupYet", ""},
		"the first takes too long": {hourly(func(t *ScheduleState) { t.Runs, t.Now = []Run{{Name: "a", Due: hourOf(9)}}, hourOf(10) }), "False BackupLate", "2026-05-01T09:00:00Z is not complete 1h0m0s later"},
		"one is late":              {hourly(func(t *ScheduleState) { t.Now = hourOf(14) }), "False BackupLate", "2026-05-01T13:00:00Z"},
		"one was due an hour ago":  {hourly(func(t *ScheduleState) { t.Now = hourOf(13, 59) }), "True BackupsInTime", ""},
		"a daily one is late for hours, and cannot begin any more": {
			hourly(func(t *ScheduleState) { t.Take.Cron, t.Now = "0 13 * * *", hourOf(23) }), "False BackupLate", "2026-05-01T13:00:00Z",
		},
		"the first of a day never came": {
			hourly(func(t *ScheduleState) { t.Take.Cron, t.Now, t.Runs = "0 13 * * *", hourOf(23), nil }), "False BackupLate", "",
		},
		"late, and the cluster sleeps": {hourly(func(t *ScheduleState) { t.Now, t.Asleep = hourOf(20), true }), "Unknown Hibernated", "when it wakes up"},
		"the last failed, and the cluster sleeps": {
			hourly(func(t *ScheduleState) { t.Asleep, t.last().Complete, t.last().Failed = true, false, "it went to sleep" }), "Unknown Hibernated", "",
		},
		"the check failed, and the cluster sleeps": {hourly(both(checked(hourOf(12, 20), "damaged"), func(t *ScheduleState) { t.Asleep = true })), "False LastCheckFailed", "damaged"},
		"the recorder sleeps as well": {
			hourly(both(recorded(func(r *Recorder) { r.Stream = nil }), func(t *ScheduleState) { t.Asleep = true })), "Unknown Hibernated", "",
		},
		"the cluster woke up, and what waited for it is taken": {
			hourly(func(t *ScheduleState) {
				t.Now, t.last().Began, t.last().Finished = hourOf(20, 30), hourOf(20, 10), hourOf(20, 12)
			}), "True BackupsInTime", "",
		},
		"the cluster woke up, and the next is late": {
			hourly(func(t *ScheduleState) {
				t.Now, t.last().Began, t.last().Finished = hourOf(22), hourOf(20, 10), hourOf(20, 12)
			}), "False BackupLate", "T21:00:00Z",
		},
		"late and suspended": {hourly(func(t *ScheduleState) { t.Now, t.Suspended = hourOf(20), true }), "False BackupLate", "spec.suspend is true"},
		"the last failed":    {hourly(func(t *ScheduleState) { t.last().Complete, t.last().Failed = false, "no room" }), "False LastBackupFailed", "no room"},
		"one before failed":  {hourly(func(t *ScheduleState) { t.Runs[0].Complete, t.Runs[0].Failed = false, "no room" }), "True BackupsInTime", ""},
		"the last failed, and one is being taken": {
			hourly(func(t *ScheduleState) {
				t.last().Complete, t.last().Failed, t.Runs[2].Complete = false, "no room", true
				t.Runs = append(t.Runs, Run{Name: "next", Due: t.Now})
			}), "False LastBackupFailed", "",
		},
		"the check failed":     {hourly(checked(hourOf(12, 20), "damaged")), "False LastCheckFailed", backupAt(12) + ": damaged"},
		"the check passed":     {hourly(checked(hourOf(12, 20), "")), "True BackupsInTime", ""},
		"the check is missing": {hourly(both(checked(time.Time{}, ""), upTo(13), func(t *ScheduleState) { t.Now = hourOf(13, 20) })), "False BackupUnverified", "2026-05-01T12:15:00Z"},
		"the check has been missing for hours": {
			hourly(both(checked(time.Time{}, ""), upTo(22), func(t *ScheduleState) { t.Now = hourOf(22, 10) })), "False BackupUnverified", "2026-05-01T12:15:00Z",
		},
		"there was nothing to check": {
			hourly(both(checked(time.Time{}, ""), upTo(22), func(t *ScheduleState) { t.Runs, t.Now = t.Runs[5:], hourOf(22, 10) })), "True BackupsInTime", "",
		},
		"the check is being made": {
			hourly(both(checked(time.Time{}, ""), upTo(13), func(t *ScheduleState) { t.Now, t.last().Checking = hourOf(13, 20), true })), "True BackupsInTime", "",
		},
		"the check waits in vain": {
			hourly(both(checked(time.Time{}, ""), upTo(22), func(t *ScheduleState) {
				t.Now, t.last().Checking, t.last().Stuck = hourOf(22, 10), true, true
			})), "False BackupUnverified", "2026-05-01T12:15:00Z",
		},
		"recording is current": {hourly(recorded(nil)), "True BackupsInTime", ""},
		"recording is behind": {
			hourly(recorded(func(r *Recorder) { r.Stream.Time, r.Stream.Trouble = hourOf(12, 28), "the store is away" })), "False RecordingBehind", "the store is away",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := Health(tc.table)
			if got := string(c.Status) + " " + c.Reason; got != tc.want || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%s (%s), want %s (...%s...)", got, c.Message, tc.want, tc.says)
			}
		})
	}
}

// outOfTurn adds a backup that was not planned.
func outOfTurn(ago time.Duration) func(*ScheduleState) {
	return func(t *ScheduleState) {
		at := t.Now.Add(-ago)
		t.Runs = append(t.Runs, Run{Name: "extra", Due: at, Finished: at.Add(time.Second), Complete: true, Unplanned: "c1"})
	}
}

// upTo adds the backups from one o'clock on.
func upTo(last int) func(*ScheduleState) {
	return func(t *ScheduleState) {
		for h := 13; h <= last; h++ {
			t.Runs = append(t.Runs, Run{Name: backupAt(h), Due: hourOf(h), Finished: hourOf(h, 5), Complete: true})
		}
	}
}

func TestRecording(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*ScheduleState)
		want   string
		says   string
	}{
		"none":                              {func(*ScheduleState) {}, "", ""},
		"no pod yet":                        {func(t *ScheduleState) { t.Records = true }, RecordingStarting, "about to be made"},
		"current":                           {recorded(nil), RecordingCurrent, ""},
		"a minute behind":                   {recorded(func(r *Recorder) { r.Stream.Time = hourOf(12, 29) }), RecordingCurrent, ""},
		"more than that":                    {recorded(func(r *Recorder) { r.Stream.Time = hourOf(12, 29).Add(-time.Second) }), RecordingBehind, "may not be stored"},
		"began just now":                    {recorded(func(r *Recorder) { r.Stream, r.Since = &job.Stream{}, hourOf(12, 29) }), RecordingStarting, ""},
		"began, and nothing came of it":     {recorded(func(r *Recorder) { r.Stream, r.Since = &job.Stream{}, hourOf(12, 28) }), RecordingBehind, ""},
		"does not answer yet":               {recorded(func(r *Recorder) { r.Stream, r.Since = nil, hourOf(12, 29) }), RecordingStarting, ""},
		"does not answer":                   {recorded(func(r *Recorder) { r.Stream = nil }), RecordingBehind, "does not answer"},
		"cannot run":                        {recorded(func(r *Recorder) { r.Stream, r.Trouble = nil, "no such Secret" }), RecordingBehind, "no such Secret"},
		"needs a backup":                    {recorded(func(r *Recorder) { r.Stream = &job.Stream{Needs: "a gap"} }), RecordingBehind, "a gap"},
		"needs a backup, and there is none": {both(recorded(func(r *Recorder) { r.Stream = &job.Stream{Needs: "none yet"} }), func(t *ScheduleState) { t.Runs = nil }), RecordingStarting, "none yet"},
	} {
		if state, why := hourly(tc.change).Recording(); state != tc.want || !strings.Contains(why, tc.says) {
			t.Errorf("%s: %q (%s), want %q", name, state, why, tc.want)
		}
	}
}

func TestNextDue(t *testing.T) {
	for name, tc := range map[string]struct {
		table ScheduleState
		want  time.Time
	}{
		"later":            {hourly(nil), hourOf(13)},
		"now":              {hourly(func(t *ScheduleState) { t.Now = hourOf(13, 1) }), hourOf(13)},
		"suspended":        {hourly(func(t *ScheduleState) { t.Suspended = true }), time.Time{}},
		"asleep":           {hourly(func(t *ScheduleState) { t.Asleep = true }), time.Time{}},
		"cannot be read":   {hourly(func(t *ScheduleState) { t.Take.Cron = "?" }), time.Time{}},
		"late on purpose":  {hourly(func(t *ScheduleState) { t.Take.Jitter, t.Take.UID = 10*time.Minute, "a" }), hourOf(13).Add(Schedule{Jitter: 10 * time.Minute, UID: "a"}.lateness())},
		"never taken yet":  {hourly(func(t *ScheduleState) { t.Runs, t.Now = nil, hourOf(8, 31) }), hourOf(9)},
		"missed, too late": {hourly(func(t *ScheduleState) { t.Take.Cron, t.Now = "0 13 * * *", hourOf(15) }), hourOf(13).AddDate(0, 0, 1)},
	} {
		got, ok := NextDue(tc.table)
		if ok == tc.want.IsZero() || (ok && !got.Equal(tc.want)) {
			t.Errorf("%s: %s (%t), want %s", name, got, ok, tc.want)
		}
	}
}

func TestScheduleConditions(t *testing.T) {
	table := hourly(nil)
	for _, err := range []error{nil, errors.New("broken")} {
		got := map[string]string{}
		for _, c := range ScheduleConditions(table, NextOfSchedule(table), err) {
			got[c.Type] = string(c.Status)
		}
		ready := map[bool]string{true: "True", false: "False"}[err == nil]
		if got[v1alpha1.ConditionReady] != ready || got[v1alpha1.ConditionBackupHealthy] != "True" || got[v1alpha1.ConditionStalled] == "" || got[v1alpha1.ConditionReconciling] == "" {
			t.Errorf("%v: %v", err, got)
		}
	}
}
