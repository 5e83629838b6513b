package planner

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
)

var (
	simulationSeed = flag.Uint64("simulation.seed", 0, "replay this one seed and say what happens")
	simulationRuns = flag.Int("simulation.runs", 3000, "number of seeds to run")
)

// world is a Kubernetes with one backup, a store, and a Job controller that may lose words.
type world struct {
	rng   *rand.Rand
	now   time.Time
	trace []string
	// stored says that the store holds the complete backup, writes how often one was completed there.
	stored  bool
	writes  int
	deleted bool
	// readers is how many passes a cluster still restores from it.
	readers int
	// refuses is how many more deletions the store refuses.
	refuses int

	source                       *Source
	deleting, protected, deletes bool
	verifies, gone               bool
	// vanishing says that the claim of the data is gone or going: no Job that deletes can be carried out.
	vanishing bool
	// calm says that nothing goes wrong any more, and that nobody changes anything.
	calm bool
	jobs map[string]*Job
	uid  int
	// status is what was reported last: it survives the Jobs.
	status struct {
		stored     *job.Stored
		checked    *job.Checked
		unverified *job.Problem
		failed     *job.Problem
	}
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &world{rng: rng, now: testNow, source: &Source{Noun: "EtcdCluster orders"}, jobs: map[string]*Job{}}
	w.deletes, w.verifies, w.refuses = rng.IntN(3) > 0, rng.IntN(2) == 0, rng.IntN(3)
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// observe is the state as a controller reads it, from Jobs where they are, else from what was reported.
func (w *world) observe() State {
	s := State{
		Now: w.now, Name: "nightly", Deleting: w.deleting, Protected: w.protected, Deletes: w.deletes, Verifies: w.verifies, Source: w.source,
		Vanishing: w.deleting && w.vanishing,
		Take:      w.jobs["take"], Check: w.jobs["check"], Remove: w.jobs["remove"],
		Stored: w.status.stored, Failed: w.status.failed, Checked: w.status.checked, Unverified: w.status.unverified,
	}
	if t := s.Take; t != nil && t.Ended && !t.Failed && t.Report != nil && t.Report.Backup != nil {
		s.Stored, s.Failed = t.Report.Backup, nil
	} else if p := t.Problem(); p != nil {
		s.Stored, s.Failed = nil, p
	}
	if c := s.Check; c != nil && c.Ended && !c.Failed && c.Report != nil && c.Report.Checked != nil {
		s.Checked, s.Unverified = c.Report.Checked, nil
	} else if p := c.Problem(); p != nil {
		s.Unverified = p
	}
	if w.readers > 0 {
		s.Readers = []string{"EtcdCluster copy"}
	}
	return s
}

// pass is one pass of the operator, which may crash before it carries out its step, before it reports, or not at all.
func (w *world) pass() error {
	s := w.observe()
	p := Next(s)
	crash := w.rng.IntN(6)
	if w.calm {
		crash = 2
	}
	w.note("%s: %v %s %s", w.now.Format(time.TimeOnly), p.Step, p.Reason, p.Message)
	if crash == 0 {
		return nil
	}
	if err := w.act(s, p.Step); err != nil {
		return err
	}
	if crash == 1 || w.gone {
		return nil
	}
	w.status.stored, w.status.failed, w.status.checked, w.status.unverified = s.Stored, s.Failed, s.Checked, s.Unverified
	return nil
}

func (w *world) act(s State, step cluster.Step) error {
	switch step := step.(type) {
	case Protect:
		w.protected = true
	case Release:
		if w.deleting && w.deletes && w.stored && !w.vanishing {
			return fmt.Errorf("it is released, and its data is left behind")
		}
		w.protected = false
		if w.deleting {
			w.gone = true
		}
	case Take:
		if s.Stored != nil || s.Failed != nil || w.deleting {
			return fmt.Errorf("it is taken although it is complete, has failed or is being deleted")
		}
		if err := w.start("take"); err != nil {
			return err
		}
		w.jobs["take"].Suspended = true
	case Resume:
		if j := w.jobs[step.Name]; j != nil && j.UID == step.UID {
			if s.Source == nil || s.Source.Missing != "" {
				return fmt.Errorf("it is taken of what cannot be backed up")
			}
			again := *j
			again.Suspended = false
			w.jobs[step.Name] = &again
		}
	case Check:
		return w.start("check")
	case Remove:
		switch {
		case w.vanishing:
			return fmt.Errorf("a Job is started that can never run")
		case !w.deleting || !w.deletes:
			return fmt.Errorf("data is deleted that nobody wants deleted")
		case w.readers > 0:
			return fmt.Errorf("data is deleted while it is read")
		case w.running("take") || w.running("check"):
			return fmt.Errorf("data is deleted while a Job works on it")
		}
		return w.start("remove")
	case DropJob:
		if j := w.jobs[step.Name]; j != nil && j.UID == step.UID {
			gone := *j
			gone.Leaving = true
			w.jobs[step.Name] = &gone
		}
	}
	return nil
}

func (w *world) running(name string) bool { j := w.jobs[name]; return j != nil && !j.Ended }

func (w *world) start(name string) error {
	if w.jobs[name] != nil {
		return nil // As an apply of what is there.
	}
	w.uid++
	w.jobs[name] = &Job{Name: name, UID: fmt.Sprint(w.uid), Since: w.now}
	return nil
}

// turn is what happens beside the operator: Jobs end, go, and lose their words; users and stores do what they do.
func (w *world) turn() error {
	w.now = w.now.Add(time.Duration(1+w.rng.IntN(40)) * time.Second)
	for _, name := range []string{"take", "check", "remove"} {
		switch j := w.jobs[name]; {
		case j == nil:
		case j.Leaving, j.Ended && !j.Held && !w.calm && w.rng.IntN(20) == 0: // Deleted, or expired.
			delete(w.jobs, name)
		case j.Suspended:
		case name == "remove" && w.vanishing: // Its pod waits for the claim.
		case !j.Ended && (w.calm || w.rng.IntN(3) == 0):
			if err := w.end(name, *j); err != nil {
				return err
			}
		}
	}
	if w.readers > 0 {
		w.readers--
	}
	if w.calm {
		return nil
	}
	switch w.rng.IntN(40) {
	case 0:
		w.deleting = w.protected || w.deleting
		w.gone = w.gone || !w.protected && w.rng.IntN(2) == 0
	case 1:
		w.source = nil
	case 2, 3:
		w.source = &Source{Noun: "EtcdCluster orders", Missing: []string{"", "it is hibernated"}[w.rng.IntN(2)]}
	case 4:
		w.deletes = !w.deletes
	case 6:
		w.vanishing = w.vanishing || w.deleting // Both go with the cluster.
	case 5:
		if w.stored && !w.deleting {
			w.readers = 1 + w.rng.IntN(5)
		}
	}
	return nil
}

// end ends a Job. Its word may be lost, and so may be the whole Job after its work was done.
func (w *world) end(name string, j Job) error {
	j.Ended, j.Since = true, w.now
	problem := &job.Report{Problem: &job.Problem{Reason: "NotAllowed", Message: "the store says no"}}
	fails := !w.calm && w.rng.IntN(4) == 0
	switch {
	case name == "remove" && w.refuses > 0:
		w.refuses--
		j.Failed, j.Report = true, problem
	case fails:
		j.Failed, j.Report = true, problem
	case name == "take":
		if !w.stored { // Otherwise it finds it.
			w.stored, w.writes = true, w.writes+1
		}
		j.Report = &job.Report{Backup: &job.Stored{Directory: "orders-1"}}
	case name == "check":
		if !w.stored {
			return fmt.Errorf("what is not stored is checked")
		}
		j.Report = &job.Report{Checked: &job.Checked{Keys: 1}}
	case name == "remove":
		if w.readers > 0 || !w.deleting {
			return fmt.Errorf("data goes that is in use")
		}
		w.stored, w.deleted = false, true
		j.Report = &job.Report{Backup: &job.Stored{Directory: "orders-1"}}
	}
	if w.rng.IntN(4) == 0 { // A proxy that was injected runs on.
		j.Held, j.Again = true, j.Failed && w.rng.IntN(2) == 0
	}
	if !w.calm && w.rng.IntN(4) == 0 {
		j.Report = nil
		w.note("  the word of %s is lost", name)
	}
	w.note("  %s ended, failed: %t", name, j.Failed)
	w.jobs[name] = &j
	return nil
}

// settled checks what a backup that is left alone has come to.
func (w *world) settled() error {
	s := w.observe()
	p := Next(s)
	switch {
	case w.writes > 1:
		return fmt.Errorf("it was taken %d times", w.writes)
	case w.deleted && !w.deleting:
		return fmt.Errorf("its data was deleted, and it was not")
	case w.gone:
		return nil
	case w.deleting:
		return fmt.Errorf("it is not released: %s", p.Message)
	case s.Stored != nil && !w.stored:
		return fmt.Errorf("it is called complete, and is not stored")
	case s.Stored == nil && s.Failed == nil:
		return fmt.Errorf("it ended neither complete nor failed: %s %s", p.Reason, p.Message)
	case p.Step != nil:
		return fmt.Errorf("it does not come to rest: %s", p.Step)
	case s.Take != nil && s.Take.Held && !s.Take.Failed, s.Check != nil && s.Check.Held && !s.Check.Failed:
		return fmt.Errorf("a Job stays whose pod runs for ever")
	}
	return nil
}

func (w *world) run() error {
	for range 40 + w.rng.IntN(80) {
		for _, f := range []func() error{w.pass, w.turn} {
			if err := f(); err != nil || w.gone {
				return err
			}
		}
	}
	w.source = &Source{Noun: "EtcdCluster orders"}
	w.calm = true
	for range 200 {
		for _, f := range []func() error{w.pass, w.turn} {
			if err := f(); err != nil || w.gone {
				return err
			}
		}
	}
	return w.settled()
}

func TestABackupEndsCompleteFailedOrReleasedWhateverHappens(t *testing.T) {
	seeds := []uint64{*simulationSeed}
	if *simulationSeed == 0 {
		seeds = nil
		for i := range *simulationRuns {
			seeds = append(seeds, uint64(i)+1)
		}
	}
	ends := map[string]int{}
	for _, seed := range seeds {
		w := newWorld(seed)
		err := w.run()
		if *simulationSeed != 0 {
			t.Log(strings.Join(w.trace, "\n"))
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%s\nreplay it with -simulation.seed=%d", seed, err, strings.Join(w.trace[max(0, len(w.trace)-30):], "\n"), seed)
		}
		switch s := w.observe(); {
		case w.gone && w.deleted:
			ends["released with its data"]++
		case w.gone:
			ends["released, the data stays"]++
		case s.Stored != nil:
			ends["complete"]++
		default:
			ends["failed"]++
		}
	}
	t.Logf("%d seeds: %v", len(seeds), ends)
	if *simulationSeed == 0 && len(ends) < 4 {
		t.Errorf("not every end was met: %v", ends)
	}
}
