package planner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
)

var testNow = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// taken is a backup that is complete, with nothing left to do.
func taken(change func(*State)) State {
	s := State{
		Now: testNow, Name: "nightly", Protected: true, Deletes: true,
		Source: &Source{Noun: "EtcdCluster orders"},
		Stored: &job.Stored{Directory: "orders-1", Size: 3 << 20, StoredSize: 1 << 20},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// asked is a backup that is yet to be taken.
func asked(change func(*State)) State {
	s := taken(nil)
	s.Stored = nil
	if change != nil {
		change(&s)
	}
	return s
}

// leaving is a backup that is being deleted.
func leaving(change func(*State)) State {
	s := taken(nil)
	s.Deleting, s.Source = true, nil
	if change != nil {
		change(&s)
	}
	return s
}

func running(name string) *Job { return &Job{Name: name, UID: "uid-" + name, Since: testNow} }

func ended(name string, r *job.Report) *Job {
	j := running(name)
	j.Ended, j.Report = true, r
	return j
}

func failed(name string, ago time.Duration, p *job.Problem) *Job {
	j := ended(name, &job.Report{Problem: p})
	j.Failed, j.Since = true, testNow.Add(-ago)
	return j
}

// held is a Job whose agent has ended so long ago, while another container keeps its pod running.
func held(j *Job, ago time.Duration) *Job {
	j.Held, j.Since = true, testNow.Add(-ago)
	return j
}

// heldBefore is a held Job of which Kubernetes would make another attempt.
func heldBefore(name string, ago time.Duration) *Job {
	j := held(failed(name, 0, &job.Problem{Reason: "DestinationStalled", Message: "no answer."}), ago)
	j.Again = true
	return j
}

var noRight = &job.Problem{Reason: "NotAllowed", Message: "the store says no.", Final: true}

// unpulledFor is a check whose pod has waited for its image for a while.
func unpulledFor(d time.Duration) *Job {
	j := running("c")
	j.Unpulled, j.Waiting, j.Trouble = "etcd:3.6.16", testNow.Add(-d), "ImagePullBackOff: no such tag"
	return j
}

// made is a Job that does nothing before somebody lets it.
func made(name string) *Job {
	j := running(name)
	j.Suspended = true
	return j
}

func TestNext(t *testing.T) {
	for name, tc := range map[string]struct {
		state State
		want  string // the step, or the reason
		says  string
	}{
		"complete":                      {taken(nil), "", "complete: 3.0 MiB of data, 1.0 MiB stored in orders-1"},
		"complete and verified":         {taken(func(s *State) { s.Checked = &job.Checked{Took: 1500 * time.Millisecond} }), "", "restored within 1.5s"},
		"not protected yet":             {asked(func(s *State) { s.Protected = false }), "add the finalizer", "goes with the resource"},
		"data stays":                    {asked(func(s *State) { s.Deletes = false }), "remove the finalizer", "stays when the resource goes"},
		"no finalizer where data stays": {asked(func(s *State) { s.Deletes, s.Protected = false, false }), Take{}.String(), ""},
		"asked for":                     {asked(nil), "start the Job that takes the backup", "a backup of EtcdCluster orders is asked for"},
		"no cluster":                    {asked(func(s *State) { s.Source = nil }), ReasonClusterMissing, "correct spec.cluster"},
		"a cluster that goes":           {asked(func(s *State) { s.Source.Leaving = true }), ReasonClusterMissing, ""},
		"a cluster that hibernates":     {asked(func(s *State) { s.Source.Missing = "it is hibernated" }), ReasonWaiting, "it is hibernated"},
		"being taken":                   {asked(func(s *State) { s.Take = running("t") }), ReasonTaking, "Job t has been there for 0s"},
		"made, and runs when nobody is in the way": {asked(func(s *State) { s.Take = made("t") }), "let Job t run", "nobody replaces the data"},
		"made, and the cluster is being replaced":  {asked(func(s *State) { s.Take, s.Source.Missing = made("t"), "it is being restored itself" }), "delete Job t", ""},
		"made, and the cluster is gone":            {asked(func(s *State) { s.Take, s.Source = made("t"), nil }), "delete Job t", ""},
		"being taken when the cluster is replaced": {asked(func(s *State) { s.Take, s.Source.Missing = running("t"), "it is being restored itself" }), ReasonTaking, ""},
		"being taken of a cluster that went":       {asked(func(s *State) { s.Take, s.Source = running("t"), nil }), ReasonTaking, ""},
		"being taken after the history changed":    {asked(func(s *State) { s.Take, s.Source.History = running("t"), "t2"; s.Take.For = "t1" }), "delete Job t", "goes back to something else"},
		"made before the history changed":          {asked(func(s *State) { s.Take, s.Source.History = made("j"), "t2"; s.Take.For = "t1" }), "delete Job j", "goes back to something else"},
		"being taken of the same history":          {asked(func(s *State) { s.Take, s.Source.History = running("t"), "t1"; s.Take.For = "t1" }), ReasonTaking, ""},
		"being taken by what an earlier one made":  {asked(func(s *State) { s.Take, s.Source.History = running("t"), "t1" }), ReasonTaking, ""},
		"failed":                               {asked(func(s *State) { s.Failed = noRight }), "NotAllowed", "the store says no. Create another Backup"},
		"failed, its Job is there":             {asked(func(s *State) { s.Failed, s.Take = noRight, failed("t", 0, noRight) }), "NotAllowed", ""},
		"ended without a word":                 {asked(func(s *State) { s.Take = ended("t", nil) }), "delete Job t", "left no word"},
		"a Job that goes":                      {asked(func(s *State) { s.Take = ended("t", nil); s.Take.Leaving = true }), ReasonStopping, "Job t is being deleted"},
		"taken, and its pod runs on":           {taken(func(s *State) { s.Take = held(ended("t", &job.Report{Backup: s.Stored}), 0) }), "delete Job t", "another container keeps its pod running"},
		"taken, its pod ran on, and it goes":   {taken(func(s *State) { s.Take = held(ended("t", &job.Report{Backup: s.Stored}), 0); s.Take.Leaving = true }), ReasonStopping, ""},
		"failed for good, its pod runs on":     {asked(func(s *State) { s.Failed, s.Take = noRight, held(failed("t", 0, noRight), 59*time.Minute) }), "NotAllowed", ""},
		"and an hour later":                    {asked(func(s *State) { s.Failed, s.Take = noRight, held(failed("t", 0, noRight), time.Hour) }), "delete Job t", ""},
		"failed once, its pod runs on":         {asked(func(s *State) { s.Take = heldBefore("t", 59*time.Second) }), ReasonTaking, "another one is made within a minute: no answer"},
		"failed once, its pod has run on":      {asked(func(s *State) { s.Take = heldBefore("t", time.Minute) }), "delete Job t", "another one is made: no answer"},
		"ended without a word, its pod runs":   {asked(func(s *State) { s.Take = held(ended("t", nil), 0) }), "delete Job t", ""},
		"checked, and its pod runs on":         {taken(func(s *State) { s.Check, s.Checked = held(ended("c", &job.Report{}), 0), &job.Checked{} }), "delete Job c", "another container"},
		"a check that failed, its pod runs on": {taken(func(s *State) { s.Verifies, s.Check = true, held(failed("c", 0, noRight), 59*time.Minute) }), ReasonVerifyFailed, ""},
		"a check that failed an hour ago":      {taken(func(s *State) { s.Verifies, s.Check = true, held(failed("c", 0, noRight), time.Hour) }), "delete Job c", ""},
		"a check that failed once":             {taken(func(s *State) { s.Check = heldBefore("c", 0) }), ReasonVerifying, "no answer"},
		"a check that failed once, and rested": {taken(func(s *State) { s.Check = heldBefore("c", time.Minute) }), "delete Job c", ""},
		"deleted, taken, and its pod runs on":  {leaving(func(s *State) { s.Take = held(ended("t", nil), 0) }), "delete Job t", "the pod of Job t still runs"},
		"data is deleted, its pod runs on":     {leaving(func(s *State) { s.Remove = held(ended("r", nil), 0) }), "remove the finalizer", ""},
		"a check is asked for":                 {taken(func(s *State) { s.Verifies = true }), "start the Job that checks the backup", ""},
		"a check was made":                     {taken(func(s *State) { s.Verifies, s.Checked = true, &job.Checked{} }), "", "verified"},
		"a check of what is not there yet":     {asked(func(s *State) { s.Verifies = true }), "start the Job that takes the backup", ""},
		"being checked":                        {taken(func(s *State) { s.Check = running("c") }), ReasonVerifying, "is being checked"},
		"being checked again":                  {taken(func(s *State) { s.Check, s.Checked = running("c"), &job.Checked{} }), ReasonVerifying, ""},
		"a check that waits for its image":     {taken(func(s *State) { s.Check = unpulledFor(time.Minute) }), ReasonVerifying, "is being checked"},
		"a check that waits for it in vain":    {taken(func(s *State) { s.Check = unpulledFor(3 * time.Minute) }), ReasonImage, "image etcd:3.6.16 cannot be pulled, in which a server would be started. Make it available"},
		"a check that has waited for too long": {taken(func(s *State) { s.Check = unpulledFor(time.Hour) }), "delete Job c", "image etcd:3.6.16 cannot be pulled"},
		"a check that has its image, at last":  {taken(func(s *State) { s.Check = unpulledFor(time.Hour); s.Check.Unpulled = "" }), ReasonVerifying, ""},
		"a check that ended without its image": {taken(func(s *State) { s.Check = unpulledFor(time.Hour); s.Check.Ended, s.Check.Failed = true, true }), ReasonVerifyFailed, ""},
		"a check that failed":                  {taken(func(s *State) { s.Check = failed("c", 0, noRight) }), ReasonVerifyFailed, "the store says no"},
		"a check that failed, its Job is gone": {taken(func(s *State) { s.Verifies, s.Unverified, s.Checked = true, noRight, &job.Checked{} }), ReasonVerifyFailed, "did not pass its check: the store says no"},
		"a check that failed, and had not":     {taken(func(s *State) { s.Check, s.Checked = failed("c", 0, nil), &job.Checked{} }), ReasonVerifyFailed, "Job c failed and left no word"},
		"a check that ended without a word":    {taken(func(s *State) { s.Check = ended("c", nil) }), "delete Job c", ""},
		"a check that is over":                 {taken(func(s *State) { s.Check, s.Checked = ended("c", &job.Report{}), &job.Checked{} }), "", "verified"},
		"deleted, data stays":                  {leaving(func(s *State) { s.Deletes = false }), "remove the finalizer", "the stored data stays"},
		"deleted, data stays, a Job runs":      {leaving(func(s *State) { s.Deletes = false; s.Take = running("t") }), "remove the finalizer", ""},
		"deleted, held by somebody else":       {leaving(func(s *State) { s.Deletes, s.Protected = false, false }), "", "the stored data stays"},
		"deleted, and done":                    {leaving(func(s *State) { s.Protected = false }), "", ""},
		"deleted while it is taken":            {leaving(func(s *State) { s.Stored, s.Take = nil, running("t") }), "delete Job t", "still works on it"},
		"deleted while it is checked":          {leaving(func(s *State) { s.Check = running("c") }), "delete Job c", ""},
		"deleted, its Job goes":                {leaving(func(s *State) { s.Take = running("t"); s.Take.Leaving = true }), ReasonStopping, ""},
		"deleted, its Jobs have ended":         {leaving(func(s *State) { s.Take, s.Check = ended("t", nil), ended("c", nil) }), "start the Job that deletes the stored data", ""},
		"deleted while somebody reads":         {leaving(func(s *State) { s.Readers = []string{"EtcdCluster a", "EtcdCluster b"} }), ReasonInUse, "until EtcdCluster a, EtcdCluster b is done with it"},
		"deleted, read, and Retain by now":     {leaving(func(s *State) { s.Readers, s.Deletes = []string{"EtcdCluster a"}, false }), "remove the finalizer", ""},
		"deleted, nothing was taken":           {leaving(func(s *State) { s.Stored = nil }), "start the Job that deletes the stored data", ""},
		"data goes with its claim":             {leaving(func(s *State) { s.Vanishing = true }), "remove the finalizer", "goes with its claim"},
		"no Job can mount a claim that goes":   {leaving(func(s *State) { s.Vanishing, s.Remove = true, running("r") }), "remove the finalizer", ""},
		"nobody reads from a claim that went":  {leaving(func(s *State) { s.Vanishing, s.Readers = true, []string{"EtcdCluster copy"} }), "remove the finalizer", ""},
		"data is being deleted":                {leaving(func(s *State) { s.Remove = running("r") }), ReasonDeleting, ""},
		"data is being deleted, its Job goes":  {leaving(func(s *State) { s.Remove = ended("r", nil); s.Remove.Leaving = true }), ReasonStopping, ""},
		"data could not be deleted":            {leaving(func(s *State) { s.Remove = failed("r", 59*time.Second, noRight) }), ReasonNotDeleted, "the store says no. Set spec.deletionPolicy to Retain"},
		"data could not be deleted for long":   {leaving(func(s *State) { s.Remove = failed("r", time.Minute, noRight) }), "delete Job r", "tried again"},
		"data could not be deleted, Retain":    {leaving(func(s *State) { s.Remove, s.Deletes = failed("r", 0, noRight), false }), "remove the finalizer", ""},
		"data is deleted":                      {leaving(func(s *State) { s.Remove = ended("r", nil) }), "remove the finalizer", "the stored data is deleted"},
		"a deletion that was stopped half-way": {taken(func(s *State) { s.Remove = running("r"); s.Remove.Leaving = true }), ReasonStopping, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := Next(tc.state)
			got := p.Reason
			if p.Step != nil {
				got = p.Step.String()
			}
			if got != tc.want || !strings.Contains(p.Message, tc.says) {
				t.Errorf("%q (%s), want %q (...%s...)", got, p.Message, tc.want, tc.says)
			}
			if p.Step == nil && p.Reason != "" && p.After == 0 && !p.Stalled {
				t.Error("it waits without a time limit")
			}
		})
	}
}

func TestConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		state              State
		err                error
		complete, verified string // status, reason
		says               string
	}{
		"complete":           {taken(nil), nil, "True BackupComplete", "False NotVerified", "3.0 MiB of data, 1.0 MiB stored"},
		"being taken":        {asked(func(s *State) { s.Take = running("t") }), nil, "False TakingBackup", "False NotVerified", "is being taken"},
		"failed":             {asked(func(s *State) { s.Failed = noRight }), nil, "False NotAllowed", "False NotVerified", "the store says no"},
		"an error":           {asked(nil), errors.New("broken"), "False ReconcileError", "False NotVerified", "broken"},
		"an error afterward": {taken(nil), errors.New("broken"), "True BackupComplete", "False NotVerified", ""},
		"being checked":      {taken(func(s *State) { s.Check = running("c") }), nil, "True BackupComplete", "False VerifyingBackup", ""},
		"verified":           {taken(func(s *State) { s.Checked = &job.Checked{Keys: 7, Took: 2 * time.Second} }), nil, "True BackupComplete", "True BackupVerified", ""},
		"verified before, damaged by now": {
			taken(func(s *State) { s.Checked, s.Check = &job.Checked{}, failed("c", 0, noRight) }), nil, "True BackupComplete", "False NotAllowed", "",
		},
		"verified, and checked again": {
			taken(func(s *State) { s.Checked, s.Check = &job.Checked{}, running("c") }), nil, "True BackupComplete", "True BackupVerified", "",
		},
		"damaged, and the Job is gone": {
			taken(func(s *State) { s.Unverified = noRight }), nil, "True BackupComplete", "False NotAllowed", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := Conditions(tc.state, Next(tc.state), tc.err)
			word := func(typ string) (string, string) {
				for _, c := range conditions {
					if c.Type == typ {
						return string(c.Status) + " " + c.Reason, c.Message
					}
				}
				return "none", ""
			}
			complete, says := word(v1alpha1.ConditionComplete)
			verified, _ := word(v1alpha1.ConditionVerified)
			if complete != tc.complete || verified != tc.verified || !strings.Contains(says, tc.says) {
				t.Errorf("Complete %s (%s), Verified %s", complete, says, verified)
			}
			for _, typ := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
				if got, _ := word(typ); got == "none" {
					t.Errorf("there is no condition %s", typ)
				}
			}
			for _, c := range conditions {
				if c.Reason == "" || c.Status == "" || c.Status == metav1.ConditionUnknown {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

func TestACheckSaysWhatItDid(t *testing.T) {
	c := job.Checked{Keys: 7, Took: 2 * time.Second, Server: "etcd 3.6.16"}
	s := taken(func(s *State) { s.Checked = &c })
	message := func() string { return verified(s).Message }
	if got := message(); got != "7 keys were restored within 2s, and a throw-away etcd 3.6.16 served them" {
		t.Error(got)
	}
	c.Server = ""
	if got := message(); !strings.Contains(got, "no server was started") {
		t.Error(got)
	}
}

func TestAJobThatNeedsMoreMemoryNamesTheCure(t *testing.T) {
	j := failed("c", 0, nil)
	j.Starved, j.Trouble = true, "container backup needs more memory than its limit"
	j.Advise(job.MemoryCure)
	s := taken(func(s *State) { s.Check = j })
	if c := verified(s); c.Reason != job.ReasonMemory || !strings.Contains(c.Message, "memory than its limit: raise spec.resources.limits.memory of the Backup") {
		t.Errorf("%+v", c)
	}
	if p := Next(s); p.Reason != ReasonVerifyFailed || !strings.Contains(p.Message, "spec.resources") {
		t.Errorf("%+v", p)
	}
	j = failed("c", 0, noRight)
	j.Advise(job.MemoryCure)
	if got := j.problem(); got != *noRight {
		t.Errorf("%+v", got)
	}
	(*Job)(nil).Advise(job.MemoryCure)
}

func TestHowFarAJobIs(t *testing.T) {
	for want, j := range map[string]Job{
		"Job t has been there for 5s":   {Name: "t", Since: testNow.Add(-5 * time.Second)},
		"Job t has been there for 59s":  {Name: "t", Since: testNow.Add(-59 * time.Second), Podless: true},
		"Job t has been there for 1m":   {Name: "t", Since: testNow.Add(-time.Minute)},
		"Job t has been there for 10m":  {Name: "t", Since: testNow.Add(-10*time.Minute - 59*time.Second)},
		"Job t has been there for 3h2m": {Name: "t", Since: testNow.Add(-3*time.Hour - 2*time.Minute - 14*time.Second)},
		"Job t has no pod: Kubernetes has not made it: if that lasts, `kubectl -n shop describe job t` says why (a quota, a limit range, an admission policy)": {
			Name: "t", Namespace: "shop", Since: testNow.Add(-time.Minute), Podless: true,
		},
		"no node has room":                                 {Name: "t", Trouble: "no node has room"},
		"storing, 1.0 MiB of 4.0 MiB at 512.0 KiB/s":       {Flow: &job.Flow{Doing: "storing", Bytes: 1 << 20, Total: 4 << 20, Seconds: 2}},
		"beginning, 0 B":                                   {Flow: &job.Flow{Doing: "beginning"}},
		"storing, 9 B (the attempt before: store is away)": {Flow: &job.Flow{Doing: "storing", Bytes: 9}, Trouble: "store is away"},
	} {
		if got := j.Progress(testNow); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestABackupThatCannotBeCheckedSaysWhichImageIsMissing(t *testing.T) {
	s := taken(func(s *State) { s.Check = unpulledFor(3 * time.Minute) })
	conditions := Conditions(s, Next(s), nil)
	for typ, reason := range map[string]string{v1alpha1.ConditionVerified: ReasonImage, v1alpha1.ConditionStalled: ReasonImage} {
		if c := meta.FindStatusCondition(conditions, typ); c == nil || c.Reason != reason || !strings.Contains(c.Message, "spec.template.imagePullSecrets") {
			t.Errorf("%s: %+v", typ, c)
		}
	}
}
