// Package chaos breaks clusters of etcd, Redis and Valkey on the kind cluster, from a seed, while they are changed and written to, and
// finds out what became of the promises of the operator.
//
//	schedule   what is broken, and when: drawn from the seed, without I/O
//	chaos      breaks it, changes clusters meanwhile, looks on, and puts everything back
//	report     judges what happened, and draws it
//
// Everything that is broken ends by itself: an undo belongs to each fault, and a process that outlives the run undoes what a run that
// was killed has left (see Guard).
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/harness"
)

// Options of a run.
type Options struct {
	Seed uint64
	// Duration is when the last round begins at the latest; it is finished, and then everything is checked.
	Duration time.Duration
	// Stores that there are clusters of; none: all.
	Stores []schedule.Store
	// Dir is where run.jsonl and report.html are written to.
	Dir string
	// Command repeats the run.
	Command string
	Out     io.Writer
}

// rounds is how many are drawn at most. One takes at least ten seconds.
func (o Options) rounds() int { return int(o.Duration/(10*time.Second)) + 1 }

const (
	// clustersReady is how long clusters may take to be Ready at first.
	clustersReady = 10 * time.Minute
	// steady is for how long a cluster has to be well before it counts as such: a status may be a moment old.
	steady = 5 * time.Second
)

// runner is a run that goes on.
type runner struct {
	*harness.Cluster
	o       Options
	ns      string
	control string
	workers []string
	targets []*target
	image   string

	mu   sync.Mutex
	run  *report.Run
	file *json.Encoder
	// ended are the ends of operators that were noted, noted the events.
	ended, noted map[string]bool
	// lasting are planned operations that outlive their round.
	lasting sync.WaitGroup
}

// Run makes a run and returns what happened. An error says that it could not even begin, or that the report could not be written.
func Run(ctx context.Context, c *harness.Cluster, o Options) (result *report.Run, err error) {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of the report: %w", err)
	}
	file, err := os.Create(filepath.Join(o.Dir, "run.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("write the log of the run: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r := &runner{
		Cluster: c, o: o, file: json.NewEncoder(file), ended: map[string]bool{}, noted: map[string]bool{},
		run: &report.Run{
			Seed: o.Seed, Duration: o.Duration, Command: o.Command, Pods: map[string][]report.Health{}, Ready: map[string][]report.Health{},
		},
	}
	release, err := watchOver(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	defer func() { err = errors.Join(err, r.tearDown(context.WithoutCancel(ctx))) }()
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	r.perform(ctx)
	r.conclude(context.WithoutCancel(ctx))
	return r.run, r.write()
}

// perform makes rounds until the time is over, or one of them has not come to a good end.
func (r *runner) perform(ctx context.Context) {
	rounds := schedule.Draw(r.o.Seed, r.o.rounds(), r.clusters())
	r.run.Began = time.Now()
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { r.look(watching) })
	r.say("begin", r.run.Clusters, "seed %d: up to %s of faults", r.o.Seed, r.o.Duration)
	for i, round := range rounds {
		if time.Since(r.run.Began) >= r.o.Duration || ctx.Err() != nil || r.isBroken() {
			break
		}
		r.run.Rounds = append(r.run.Rounds, round)
		r.round(ctx, i+1, round)
	}
	r.lasting.Wait()
	if ctx.Err() != nil {
		r.broken("interrupted: %v", context.Cause(ctx))
	}
	stop()
	watcher.Wait()
}

// round makes what was drawn for a round, and waits until all is well again.
func (r *runner) round(ctx context.Context, number int, drawn schedule.Round) {
	r.say("round", drawn, "round %d: %s", number, drawn)
	began := time.Now()
	var all sync.WaitGroup
	for _, o := range drawn.Operations {
		kind, running := schedule.OperationOf(o.Kind), &all
		if kind.Slow > 0 {
			running = &r.lasting
			if time.Since(r.run.Began)+kind.Bound > r.o.Duration {
				r.say("change", nil, "round %d: no %s of %s: it may take longer than the run", number, o.Kind, o.Cluster)
				continue
			}
			if r.goesOn(o) {
				r.say("change", nil, "round %d: no %s of %s: one goes on", number, o.Kind, o.Cluster)
				continue
			}
		}
		change := &report.Change{Round: number, Drawn: o}
		r.keep(func(run *report.Run) { run.Changes = append(run.Changes, change) })
		running.Go(func() { r.change(ctx, change) })
	}
	for _, f := range drawn.Faults {
		fault := &report.Fault{Round: number, Drawn: f}
		r.keep(func(run *report.Run) { run.Faults = append(run.Faults, fault) })
		all.Go(func() { r.fault(ctx, began, fault) })
	}
	all.Wait()
}

// goesOn tells whether an operation of the same kind on the same cluster has not come to its end.
func (r *runner) goesOn(o schedule.Operation) (found bool) {
	r.keep(func(run *report.Run) {
		found = slices.ContainsFunc(run.Changes, func(c *report.Change) bool {
			return c.Drawn.Kind == o.Kind && c.Drawn.Cluster == o.Cluster && c.Ended.IsZero()
		})
	})
	return found
}

// fault makes a fault, ends it, and waits until the clusters that it touches are well.
func (r *runner) fault(ctx context.Context, began time.Time, f *report.Fault) {
	if !sleep(ctx, f.Drawn.After) {
		return
	}
	f.Began = time.Now()
	undo, err := r.blow(ctx, began, f)
	switch {
	case errors.Is(err, errSkip):
		f.Skipped = strings.TrimPrefix(err.Error(), errSkip.Error()+": ")
		r.say("fault", f, "round %d: no %s: %s", f.Round, f.Drawn.Kind, f.Skipped)
		return
	case err == nil:
		r.say("fault", f, "round %d: %s: %s", f.Round, f.Drawn.Kind, f.Target)
		sleep(ctx, f.Drawn.Hold)
	}
	if undo != nil {
		err = errors.Join(err, undo(context.WithoutCancel(ctx)))
	}
	f.Ended = time.Now()
	if err == nil {
		err = r.heals(ctx, f)
	}
	if err != nil {
		f.Error = err.Error()
		r.broken("round %d: %s of %s: %v", f.Round, f.Drawn.Kind, f.Target, err)
		return
	}
	r.say("healed", f, "round %d: %s of %s is healed: Ready again after %s", f.Round, f.Drawn.Kind, f.Target, f.Recovery())
}

// heals waits until all clusters of a fault have been well for a while.
func (r *runner) heals(ctx context.Context, f *report.Fault) error {
	var bound time.Duration
	r.keep(func(run *report.Run) { bound = run.Bound(f) })
	for _, t := range r.targets {
		if !f.Touches(t.Name) {
			continue
		}
		well, err := t.wait(ctx, f.Ended, bound-time.Since(f.Ended))
		if err != nil {
			return err
		}
		if well.After(f.Healed) {
			f.Healed = well
		}
	}
	return nil
}

// conclude stops the writers, compares the members, and judges.
func (r *runner) conclude(ctx context.Context) {
	r.say("check", nil, "the writers end, and everything that was acknowledged is looked for")
	if err := r.putBack(ctx); err != nil {
		r.broken("put back what was broken: %v", err)
	}
	r.run.Ended = time.Now()
	var all sync.WaitGroup
	for _, t := range r.targets {
		for i := range t.loads {
			all.Go(func() { r.finishLoad(ctx, t, i) })
		}
	}
	all.Wait()
	for _, t := range r.targets {
		if t.Store == schedule.Etcd {
			r.compare(ctx, t)
		}
	}
	if r.isBroken() {
		r.say("dump", nil, "%s", r.Dump(ctx, r.ns))
	}
	r.run.Verdicts = report.Judge(r.run)
	for _, v := range r.run.Verdicts {
		word := "BROKEN"
		if v.Kept {
			word = "kept"
		}
		r.say("verdict", v, "%-6s %s: %s", word, v.Promise, v.Text)
	}
}

// write leaves the report.
func (r *runner) write() (err error) {
	path := filepath.Join(r.o.Dir, "report.html")
	page, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, page.Close()) }()
	r.say("end", r.run, "the report is in %s", path)
	return report.Write(page, r.run)
}

// line is one of the log.
type line struct {
	At    time.Time `json:"at"`
	What  string    `json:"what"`
	Text  string    `json:"text"`
	Value any       `json:"value,omitempty"`
}

// say notes something in the log and on the console.
func (r *runner) say(what string, value any, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := line{time.Now().UTC(), what, fmt.Sprintf(format, args...), value}
	_, _ = fmt.Fprintf(r.o.Out, "%s %s\n", l.At.Format(time.TimeOnly), l.Text)
	if err := r.file.Encode(l); err != nil {
		_, _ = fmt.Fprintln(r.o.Out, "the log cannot be written:", err)
	}
}

// note keeps something for the report and the log, and leaves the console alone.
func (r *runner) note(what string, value any) {
	_ = r.file.Encode(line{At: time.Now().UTC(), What: what, Value: value})
}

// keep changes the run while nobody else does.
func (r *runner) keep(change func(*report.Run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.run)
}

// broken notes what keeps the run from going on.
func (r *runner) broken(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.keep(func(run *report.Run) { run.Broken = append(run.Broken, text) })
	r.say("broken", nil, "BROKEN %s", text)
}

// isBroken tells whether something keeps the run from going on.
func (r *runner) isBroken() (yes bool) {
	r.keep(func(run *report.Run) { yes = len(run.Broken) > 0 })
	return yes
}

// clusters are what the schedule is drawn for.
func (r *runner) clusters() []schedule.Cluster {
	var out []schedule.Cluster
	for _, t := range r.targets {
		out = append(out, t.Cluster)
	}
	return out
}

// target finds a cluster by its name.
func (r *runner) target(name string) *target {
	return r.targets[slices.IndexFunc(r.targets, func(t *target) bool { return t.Name == name })]
}

// sleep waits, and tells whether it could.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
