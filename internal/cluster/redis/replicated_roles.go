package redis

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// The labels of pods, see v1alpha1.LabelRole.
const (
	RolePrimary = "primary"
	RoleReplica = "replica"
)

// assignRoles writes down who is the primary, and labels the pods that clients may be sent to. It comes before everything that
// could wait: clients stand still until it is done. The Service comes first: what the new primary may do without is written down
// before clients find it. After a hand-over the Service leads to it already, whatever its label is, and goes on to do so until it
// has the label.
func assignRoles(v *view) (cluster.Plan, bool) {
	leader := v.leader()
	if leader == nil {
		return cluster.Pass()
	}
	is := v.appointmentOf(leader)
	step := Appoint{Appointment: is}
	if v.Candidate.planned() && v.Candidate.Pod == leader.Name && leader.Role != RolePrimary {
		step.Candidate = v.Candidate
	}
	var labels AssignRoles
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Role != v.role(p, leader) && (p == leader || !v.isHungFormer(p)) {
			labels.Pods = append(labels.Pods, PodRole{p.ref(), v.role(p, leader)})
		}
	}
	why := fmt.Sprintf("clients are to find %s as the primary, and %d replicas in sync", leader.Name, len(v.copies(leader)))
	switch {
	case step != Appoint{v.Appointed, v.Candidate}:
		plan, ok := cluster.Do(step, "%s", why)
		plan.After = atOnce
		return plan, ok
	case len(labels.Pods) > 0:
		plan, ok := cluster.Do(labels, "%s", why)
		plan.After = soon
		return plan, ok
	}
	return cluster.Pass()
}

// endFormerPrimary ends pods that hang and were the primary before another server became it: going on, they would answer what clients
// have sent them before they notice that no replica copies them. The label says which pods that are, until they are about to end.
func endFormerPrimary(v *view) (cluster.Plan, bool) {
	leader := v.leader()
	if leader == nil {
		return cluster.Pass()
	}
	step := End{Former: true}
	for i := range v.Pods {
		if p := &v.Pods[i]; p != leader && v.isHungFormer(p) {
			step.Pods = append(step.Pods, p.ref())
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%s is the primary: going on, the former one would answer what clients have sent it", leader.Name)
	plan.After = atOnce
	return plan, ok
}

// isHungFormer tells whether a pod was the primary, hangs, and was not told to end within a moment.
func (v *view) isHungFormer(p *Pod) bool { return p.Role == RolePrimary && v.hung(p) && !p.EndsSoon }

// appointmentOf is what is to be written down of a primary. How long it takes writes without a replica stays as it was written down
// while v looks ahead, see lookAhead.
func (v *view) appointmentOf(leader *Pod) Appointment {
	a := Appointment{Pod: leader.Name, History: leader.Node.Replication.ID}
	switch {
	case v.ahead && v.Appointed.Pod == a.Pod && v.Appointed.History == a.History:
		a.Guard = v.Appointed.Guard
	case len(v.copies(leader)) > 0 && !v.unguards:
		a.Guard = v.guardOn(leader)
	}
	return a
}

// hung tells whether a server does not answer that has run for as long as it took until another one could take its place.
func (v *view) hung(p *Pod) bool {
	return p.unheard() && v.Now.Sub(p.Started) > maxSilence(v.Spec.NodeTimeout)+noticed
}

// role is the label that a pod is to have. Whoever cannot be read keeps it, unless somebody else is the primary.
func (v *view) role(p, leader *Pod) string {
	switch {
	case p == leader:
		return RolePrimary
	case p.Node == nil && p.Role != RolePrimary:
		return p.Role
	case p.Node != nil && !p.Deleting && v.inSync(p, leader):
		return RoleReplica
	}
	return ""
}

// guardOn is for how long a primary takes writes at most that no replica acknowledges, by what it was told and by what it is about to be told;
// 0: for as long as it likes.
func (v *view) guardOn(leader *Pod) time.Duration {
	if !leader.guardsWrites() {
		return 0
	}
	return v.guardLag(leader)
}

// guardLag is how long a server that needs a replica takes writes at most without one.
func (v *view) guardLag(p *Pod) time.Duration {
	inForce := time.Duration(number(p.Node.Config[writeGuardLag])) * time.Second
	return max(inForce, maxSilence(v.Spec.NodeTimeout))
}

func (p *Pod) guardsWrites() bool {
	n, known := p.Node.Config[writeGuard]
	return known && n != "0"
}

// setMinReplicasOfPrimary lets the primary take writes only while a replica acknowledges them, as long as there is one, see waitForFence. That
// it does not need one any more is written down before it is told, and that it does afterwards.
func setMinReplicasOfPrimary(v *view) (cluster.Plan, bool) {
	leader := v.leader()
	if leader == nil || leader.Node.Config == nil {
		return cluster.Pass()
	}
	switch copies := v.copies(leader); {
	case len(copies) > 0 && !leader.guardsWrites() && !v.unguards && !v.ahead:
		return cluster.Do(GuardWrites{leader.Name, 1}, "%s has a replica in sync, and stops taking writes should it lose touch with all of them", leader.Name)
	case len(copies) == 0 && leader.guardsWrites():
		return cluster.Do(GuardWrites{leader.Name, 0}, "%s has no replica in sync, and would take no writes", leader.Name)
	}
	return cluster.Pass()
}

// takesLastReplica tells whether a step takes away the last replica in sync of a primary.
func (v *view) takesLastReplica(step cluster.Step) bool {
	var leaves func(p *Pod) bool
	switch s := step.(type) {
	case Restart:
		leaves = func(p *Pod) bool { return slices.Contains(s.Pods, p.ref()) }
	case ScaleShards:
		leaves = func(p *Pod) bool { return p.Ordinal >= s.Sets[0].To }
	default:
		return false
	}
	leader := v.leader()
	return leader != nil && !slices.ContainsFunc(v.copies(leader), func(p *Pod) bool { return !leaves(p) })
}

// unguard is what has to come before a step that takes the last replica in sync away: its primary would refuse writes from then on.
// That it does not need a replica any more is written down before it is told. Nil: nothing has to.
func (v *view) unguard(step cluster.Step) cluster.Step {
	leader := v.leader()
	switch {
	case !v.takesLastReplica(step) || !leader.guardsWrites():
		return nil
	case v.Appointed.Guard > 0:
		lone := v.Appointed
		lone.Guard = 0
		return Appoint{lone, v.Candidate}
	}
	return GuardWrites{leader.Name, 0}
}

// allowFollowers lets others copy servers that restarted in place: nobody is told to copy one that is not the primary.
func allowFollowers(v *view) (cluster.Plan, bool) {
	step := AdmitReplicas{How: AdmitsForGood}
	for _, p := range v.read {
		if p.Node.Admits == AdmitsNobody && !p.Node.Loading {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "servers that restarted in place may be copied as soon as one of them is the primary")
}

// followPrimary makes all others copy the primary: those that start, those that copied another one, and one that takes itself for the
// primary after it was replaced. What that one has and the primary has not was never copied, and is given up.
func followPrimary(v *view) (cluster.Plan, bool) {
	leader := v.leader()
	if leader == nil || leader.Deleting {
		return cluster.Pass()
	}
	var step Follow
	for _, p := range v.read {
		if p != leader && !p.Node.Loading && (p.Node.Replication.Primary || p.Node.Asks != leader.Addr) {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	step.Primary, step.Addr = leader.Name, leader.Addr
	plan, ok := cluster.Do(step, "%s is the primary, and the others are to copy it", leader.Name)
	plan.After = soon
	return plan, ok
}

// led is the condition Available: True while the primary answers and clients are sent to it.
func (v *view) led() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: ReasonServing}
	leader := v.leader()
	switch {
	case v.Spec.Name == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "the state could not be read"
	case v.Restore.unfit() != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, planner.ReasonRestoring, v.Restore.unfit()
	case leader == nil || leader.Name != v.Appointed.Pod:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonNotServing, "there is no primary that answers and that clients are sent to"
	default:
		c.Message = "the primary answers, and clients are sent to it"
	}
	return c
}
