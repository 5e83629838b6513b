package planner_test

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster"
)

// deleteClaim sets the deletion timestamp of a claim whose pod exists: the claim and its volume go when
// the pod ends.
func (s *simulation) deleteClaim(p *simPod) {
	if !s.spec.Persistent || !p.exists || p.server == nil || p.homeless {
		return
	}
	s.log("the claim of %s is deleted under its pod", p.name)
	p.claimDeleted = true
}

// checkEndsPod fails a step that ends a pod whose claim is being deleted and whose data no other server has.
func (s *simulation) checkEndsPod(what any, p *simPod) {
	if p.claimDeleted && p.server != nil && s.isHome(p.shard) && !s.copied(p) {
		s.fail("%s: the claim of %s is being deleted, and no other server has all of its data", what, p.name)
	}
}

// checkNoLoss fails a world in which no fault ends a pod, and an acknowledged write goes with a volume.
func (s *simulation) checkNoLoss(p *simPod) {
	for k := range sampleKeys {
		best := 0
		for _, o := range s.others(p) {
			best = max(best, o.server.Data[k])
		}
		if best < s.acked[k] {
			s.fail("%v goes with the volume of %s: %d was acknowledged, and others have %d", k, p.name, s.acked[k], best)
		}
	}
}

// namesClaim reports whether a plan names a claim that is being deleted under a pod, if there is one.
func (s *simulation) namesClaim(p cluster.Plan) bool {
	deleted := false
	for _, o := range s.staff() {
		if o.claimDeleted && strings.Contains(p.Message, "data-"+o.name) {
			return true
		}
		deleted = deleted || o.claimDeleted
	}
	return !deleted
}

// releaseClaims is a user who deletes the pods of claims that keep a cluster from being formed, as a plan says.
func (s *simulation) releaseClaims(plan cluster.Plan) {
	if !strings.Contains(plan.Message, "a pod that holds it has to be deleted, too") {
		return
	}
	for _, p := range s.staff() {
		if p.exists && p.claimDeleted && strings.Contains(plan.Message, "data-"+p.name+" ") {
			s.log("a user deletes pod %s, whose claim is being deleted", p.name)
			s.checkEndsPod(plan.Message, p)
			s.strike(p, true, 30)
		}
	}
}

// disturbPod is a fault that ends no pod: its claim, which is being deleted, stays.
func (s *simulation) disturbPod() {
	present := s.present()
	p := present[s.rnd.IntN(len(present))]
	switch s.rnd.IntN(5) {
	case 0:
		s.kill(p, 40)
	case 1:
		s.hang(p)
	case 2:
		s.cutOff(p)
	case 3:
		s.cordoned = p.node()
		s.log("node %s is cordoned", s.cordoned)
	case 4:
		s.changeParameter()
	}
}

// changeSpec is a user who changes the cluster while claims are being deleted.
func (s *simulation) changeSpec() {
	switch s.rnd.IntN(5) {
	case 0:
		s.changes++
		s.log("the template changes")
	case 1:
		s.spec.Replicas = s.rnd.IntN(3)
		s.spec.MinReplicas = min(s.spec.MinReplicas, s.spec.Replicas)
		s.log("spec.replicasPerShard is %d now", s.spec.Replicas)
	case 2:
		s.spec.Shards, s.resharded = 1+s.rnd.IntN(5), true
		s.log("spec.shards is %d now", s.spec.Shards)
	case 3:
		s.spec.Version = simVersions[s.rnd.IntN(len(simVersions))]
		s.log("spec.version is %s now", s.spec.Version)
	}
}

// loseClaims deletes claims of some or all pods, changes the specification, and returns the plan that the
// cluster ends with. No fault ends a pod.
func loseClaims(seed uint64) (*simulation, cluster.Plan) {
	s := newSimulation(seed, true)
	s.spec.Persistent, s.podsStay = true, true
	if s.converge(); s.broken != "" {
		return s, cluster.Plan{}
	}
	all := s.rnd.IntN(2) == 0
	for _, p := range s.present() {
		if all || s.rnd.IntN(3) == 0 {
			s.deleteClaim(p)
		}
	}
	s.changeSpec()
	for range 200 * s.rnd.IntN(2) {
		if s.broken != "" {
			break
		}
		s.pass()
		s.turn()
		switch s.rnd.IntN(60) {
		case 0:
			s.disturbPod()
		case 1:
			s.deleteClaim(s.pods[s.rnd.IntN(len(s.pods))])
		case 2:
			s.changeSpec()
		}
	}
	return s, s.converge()
}

// TestPlannedStepsKeepDataWhoseClaimsAreDeleted deletes claims under running pods, and then changes the
// cluster. Servers are killed, hang and are cut off, but no fault ends a pod: what goes with a volume is
// lost by a planned step.
func TestPlannedStepsKeepDataWhoseClaimsAreDeleted(t *testing.T) {
	from, n := *first, max(1, sample(*seeds)/4)
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	ends, replaced := map[string]int{}, 0
	for seed := from; seed < from+uint64(n); seed++ {
		s, end := loseClaims(seed)
		if *oneSeed != 0 {
			t.Logf("%+v\n%s", s.spec, strings.Join(s.trace, "\n"))
		}
		if s.broken != "" {
			t.Fatalf("seed %d (repeat with -run TestPlannedStepsKeepDataWhoseClaimsAreDeleted -seed %d): %s\n%+v\n%s",
				seed, seed, s.broken, s.spec, strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
		}
		ends[end.Reason]++
		replaced += s.claimsGone
	}
	t.Logf("%d runs: %d volumes went with their pods; ends (empty: settled): %v", n, replaced, ends)
	if *oneSeed == 0 && (ends[""] < n*9/10 || replaced == 0) {
		t.Error("few clusters settle on other claims")
	}
}
