package planner_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisplanner "github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// simRestore is a backup, who asks for it, what was written down, and the Job that loads it.
type simRestore struct {
	// backup is what was acknowledged when it was taken.
	backup    map[redisfake.Key]int
	confirmed *model.Confirmed
	record    *model.RestoreRecord
	job       *simJob
	jobs      int
}

// simJob loads keys, a few at a time.
type simJob struct {
	uid   string
	step  steps.LoadBackup
	state planner.Job
	// processes that the attempt loads, nil before it begins; left are the keys that they do not have yet, and misses the answers of
	// servers that did not take one.
	processes    map[string]string
	left         []redisfake.Key
	tries, waits int
}

func (r *simRestore) observe(state *model.State) {
	if r == nil {
		return
	}
	if r.confirmed != nil && (r.record == nil || r.record.Token != r.confirmed.Token) {
		if state.Confirmed = r.confirmed; r.confirmed != nil && r.confirmed.Lost { // Whoever finds something else lost confirms that.
			again := *r.confirmed
			again.Loss, _, _ = redisplanner.Refilling(*state)
			state.Confirmed = &again
		}
	}
	if r.record == nil || r.record.Restored != nil {
		return
	}
	loading := &planner.Loading{Noun: "backup b"}
	if r.job != nil {
		job := r.job.state
		job.Name, job.UID, job.For, job.Since = "c-load", r.job.uid, r.job.step.Sum(), state.Now.Add(-40_000_000_000)
		loading.Job = &job
	}
	state.Restore = &model.Restore{RestoreRecord: *r.record, Loading: loading}
}

// act carries out the steps of a restore.
func (r *simRestore) act(s *simulation, step cluster.Step) bool {
	switch st := step.(type) {
	case steps.RecordBackup:
		if !s.dies() {
			r.record = &st.Record
		}
	case steps.LoadBackup:
		if !s.dies() {
			r.jobs++
			r.job = &simJob{uid: fmt.Sprint(r.jobs), step: st}
		}
	case planner.DropRestoreJob:
		if !s.dies() && r.job != nil && r.job.uid == st.UID {
			r.job = nil
		}
	case planner.NoteLoaded:
		if !s.dies() {
			r.record.Restored = &st.Restored
		}
	case steps.OwnLoaded:
		r.checkFilled(s, s.pod(st.Pod).server, st.Slots)
		if err := st.Run(context.Background(), &mortal{s, s.pod(st.Pod).server}); err != nil {
			s.logError(err)
			return true
		}
		r.promise(s, st.Slots)
	case steps.Adopt:
		if r != nil && r.record != nil && r.record.Restored == nil && st.Slots.Overlaps(r.record.Slots) {
			s.fail("%s: they are to be loaded", st)
		}
		return false
	case steps.AssignEmpty:
		if r != nil && r.record != nil && r.record.Restored == nil && !r.record.Served && st.Slots.Overlaps(r.record.Slots) {
			s.fail("%s: they are to be loaded before", st)
		}
		return false
	default:
		return false
	}
	return true
}

// serves reports whether it was said that slots are served before they are loaded.
func (r *simRestore) serves(slots slots.Set) bool {
	return r != nil && r.record != nil && r.record.Served && len(slots.Minus(r.record.Slots)) == 0
}

// checkFilled insists that a server has all that the backup has of slots.
func (r *simRestore) checkFilled(s *simulation, w *redisfake.Server, slots slots.Set) {
	for k, value := range r.backup {
		if slots.Has(k.Slot) && (w == nil || w.Data[k] < value) {
			s.fail("slot %d is about to be served by %s without %v", k.Slot, s.podOf(w), k)
		}
	}
}

// promise has clients rely on what was restored.
func (r *simRestore) promise(s *simulation, slots slots.Set) {
	for k, value := range r.backup {
		if slots.Has(k.Slot) {
			s.acked[k] = max(s.acked[k], value)
		}
	}
}

// work is what the Job does in a while.
func (r *simRestore) work(s *simulation) {
	if r == nil || r.job == nil || r.job.state.Ended {
		return
	}
	j := r.job
	if j.step.Replaces() {
		clear(s.acked) // What clients write meanwhile can be lost.
	}
	switch {
	case j.processes == nil && !j.begin(s, r):
		return
	case s.rnd.IntN(60) == 0 || j.waits > 40:
		s.log("the Job is interrupted")
		j.again()
		return
	}
	for range 1 + s.rnd.IntN(3) {
		if len(j.left) == 0 {
			break
		}
		k := j.left[0]
		if w := j.server(s, k.Slot); w == nil || w.Restore(k, r.backup[k]) != nil {
			j.waits++
			return
		}
		j.left = j.left[1:]
	}
	if len(j.left) == 0 {
		j.finish(s, r)
	}
}

func (j *simJob) again() {
	j.processes, j.waits = nil, 0
	if j.tries++; j.tries > 4 {
		j.state.Ended, j.state.Failed = true, true
	}
}

// wants tells whether the Job loads a slot.
func (j *simJob) wants(slot int) bool { return len(j.step.Slots) == 0 || j.step.Slots.Has(slot) }

// server is the one that takes the keys of a slot.
func (j *simJob) server(s *simulation, slot int) *redisfake.Server {
	if len(j.step.Into) == 0 {
		return s.owner(slot)
	}
	for _, to := range j.step.Into {
		if to.Slots.Has(slot) {
			return s.pod(to.Pod).server
		}
	}
	return nil
}

// begin starts an attempt, as soon as all servers answer.
func (j *simJob) begin(s *simulation, r *simRestore) bool {
	seen := j.look(s)
	if seen == nil {
		return false
	}
	j.processes, j.left = seen, nil
	for k := range sampleKeys {
		if j.step.Replaces() {
			delete(j.server(s, k.Slot).Data, k)
		}
		taken := len(j.step.Into) == 0 || slices.ContainsFunc(j.step.Into, func(to steps.Refill) bool { return to.Slots.Has(k.Slot) })
		if r.backup[k] > 0 && j.wants(k.Slot) && taken {
			j.left = append(j.left, k)
		}
	}
	return true
}

// look is which process of which pod takes keys; nil: not all answer.
func (j *simJob) look(s *simulation) map[string]string {
	var servers []*redisfake.Server
	for _, to := range j.step.Into {
		servers = append(servers, s.pod(to.Pod).server)
	}
	for slot := range sampleSlots {
		if len(j.step.Into) == 0 && j.wants(slot) {
			servers = append(servers, s.owner(slot))
		}
	}
	out := map[string]string{}
	for _, w := range servers {
		if w == nil || !w.Up || w.Cut || w.Primary() != "" {
			return nil
		}
		out[s.podOf(w)], _ = w.Process(context.Background())
	}
	return out
}

// finish ends the Job if all servers are still the same.
func (j *simJob) finish(s *simulation, r *simRestore) {
	if !maps.Equal(j.look(s), j.processes) {
		j.again()
		return
	}
	var into []string
	for _, to := range j.step.Into {
		into = append(into, redisplanner.LoadedInto(to.Pod, j.processes[to.Pod], to.Slots))
	}
	s.log("the Job is done")
	j.state.Ended, j.state.Report = true, &job.Report{Restored: &job.Restored{Keys: 1, Into: strings.Join(into, " ")}}
	if len(j.step.Into) > 0 {
		return // Nobody is served from there yet.
	}
	for k := range sampleKeys {
		if j.wants(k.Slot) {
			r.checkFilled(s, j.server(s, k.Slot), slots.Set{{From: k.Slot, To: k.Slot}})
			r.promise(s, slots.Set{{From: k.Slot, To: k.Slot}})
		}
	}
}

// disturb does one bad thing to a restore. The disks of servers that are being loaded may be lost as well.
func (r *simRestore) disturb(s *simulation) {
	present := s.present()
	p := present[s.rnd.IntN(len(present))]
	fills := r.record != nil && r.record.Restored == nil && len(r.record.Slots) > 0 && !r.record.Served
	switch s.rnd.IntN(6) {
	case 0, 1:
		s.kill(p, 40)
	case 2:
		s.cutOff(p)
	case 3:
		s.log("the Restore is deleted")
		if r.record != nil {
			r.confirmed = nil
		}
	case 4:
		s.spec.Shards = 2 + s.rnd.IntN(4)
		s.resharded = true
		s.log("spec.shards is %d now", s.spec.Shards)
	case 5:
		if fills && p.server != nil && len(p.server.Slots()) == 0 && p.server.Imports() {
			s.log("fault: pod %s, which is being loaded, and its disk are lost", p.name)
			s.strike(p, true, 30)
		}
	}
}

// simulateRestore loses shards, unless everything is to be replaced, and has a backup put into the cluster.
func simulateRestore(seed uint64) (*simulation, *simRestore) {
	s := newSimulation(seed, true)
	s.claimsStay = true
	s.spec.Persistent, s.spec.AssignEmpty, s.spec.Shards, s.spec.Rebalance = true, false, 2+s.rnd.IntN(4), model.Rebalance{}
	s.spec.Version, s.external = "8.0.2", false
	s.ensure()
	s.converge()
	if s.broken != "" {
		return s, nil
	}
	lost := seed%3 > 0
	r := &simRestore{backup: maps.Clone(s.acked)}
	s.restore = r
	s.pass()
	shards, replicas := s.spec.Shards, s.spec.Replicas
	if shards < 5 && s.rnd.IntN(3) == 0 { // Slots are on their way when it happens.
		s.spec.Shards, s.resharded = shards+1, true
		for range s.rnd.IntN(60) {
			s.pass()
			s.turn()
		}
	}
	if lost {
		n := 1 // Of three or more, the others are a majority.
		if s.rnd.IntN(3) == 0 {
			n += s.rnd.IntN(shards - 1)
		}
		r.loseShards(s, n)
	}
	end, never, faults := s.net.Now().Add(2*giveUp), s.net.Now().Add(10*giveUp), 0
	var p cluster.Plan
	for s.broken == "" && (r.record == nil || r.record.Restored == nil) && s.net.Now().Before(end) && s.net.Now().Before(never) {
		s.pass()
		if s.anyComesBack() {
			end = s.net.Now().Add(2 * giveUp)
		}
		before := p.Message
		if p = s.turn(); p.Message != before {
			s.log("%s: %s", p.Reason, p.Message)
		}
		s.correctVersion(p)
		s.releaseClaims(p)
		s.dropStray(p)
		if p.Stalled && p.Reason == redisplanner.ReasonRetained { // The replicas that were taken away may have what their primary had.
			s.log("a human has %d replicas again", replicas)
			s.spec.Replicas = replicas
		}
		wanted := !lost || (p.Stalled && (p.Reason == redisplanner.ReasonShardLost || p.Reason == redisplanner.ReasonSlotsUnassigned))
		if wanted && r.confirmed == nil && r.record == nil {
			r.confirmed = &model.Confirmed{Noun: "Restore r", Lost: lost, RestoreRecord: model.RestoreRecord{Directory: "b", Token: "u"}}
		}
		if s.rnd.IntN(30) == 0 && faults < 5 {
			faults++
			r.disturb(s)
		}
	}
	kept := r.record == nil && r.confirmed == nil && p.Settled() // A replica that was away has brought it back.
	if s.broken == "" && !kept && (r.record == nil || r.record.Restored == nil) {
		s.fail("the restore does not end: %s: %s", p.Reason, p.Message)
	}
	s.bereft = false // What was lost is back.
	s.converge()
	return s, r
}

// loseShards takes all disks of some shards.
func (r *simRestore) loseShards(s *simulation, n int) {
	for shard := range n {
		for _, p := range s.present() {
			if p.shard == shard {
				s.log("fault: pod %s and its disk are lost", p.name)
				s.strike(p, true, 10)
			}
		}
	}
}

// TestSimulationOfRestores puts backups into clusters while servers fail: lost slots are served only when they are loaded, or it was said
// that they would be before, nothing that is restored gets lost, and it comes to an end.
func TestSimulationOfRestores(t *testing.T) {
	if *oneSeed != 0 {
		s, _ := simulateRestore(*oneSeed)
		t.Logf("%+v\n%s", s.spec, strings.Join(s.trace, "\n"))
		if s.broken != "" {
			t.Fatal(s.broken)
		}
		return
	}
	filled, served, replaced, kept, jobs := 0, 0, 0, 0, 0
	n := sample(*seeds / 2)
	for seed := uint64(1); seed <= uint64(n); seed++ {
		s, r := simulateRestore(seed)
		if s.broken != "" {
			t.Fatalf("seed %d (repeat with -run TestSimulationOfRestores -seed %d): %s\n%+v\n%s", seed, seed, s.broken, s.spec, strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
		}
		jobs += r.jobs
		switch {
		case r.record == nil:
			kept++
		case len(r.record.Slots) == 0:
			replaced++
		case r.record.Served:
			served++
		default:
			filled++
		}
	}
	t.Logf("%d runs: lost slots were loaded before they were served in %d and afterwards in %d, everything was replaced in %d, by %d Jobs, and nothing was lost in %d", n, filled, served, replaced, jobs, kept)
	if filled == 0 || served == 0 || replaced == 0 {
		t.Error("not every way was taken")
	}
}
