package redis

import (
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
// could wait: clients stand still until it is done.
func assignRoles(v *view) (cluster.Plan, bool) {
	leader := v.leader()
	if leader == nil {
		return cluster.Pass()
	}
	copies := v.copies(leader)
	step := AssignRoles{Appointment: Appointment{Pod: leader.Name, History: leader.Node.Replication.ID}}
	if len(copies) > 0 {
		step.Appointment.Guard = v.guardOn(leader)
	}
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Role == v.role(p, leader) {
			continue
		}
		step.Pods = append(step.Pods, PodRole{p.ref(), v.role(p, leader)})
		if p.Role == RolePrimary && v.hung(p) {
			step.Ends = append(step.Ends, p.ref())
		}
	}
	if len(step.Pods) == 0 && step.Appointment == v.Appointed {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "clients are to find %s as the primary, and %d replicas in sync", leader.Name, len(copies))
	plan.After = soon
	return plan, ok
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
	case len(copies) > 0 && !leader.guardsWrites():
		return cluster.Do(GuardWrites{leader.Name, 1}, "%s has a replica in sync, and stops taking writes should it lose touch with all of them", leader.Name)
	case len(copies) == 0 && leader.guardsWrites():
		return cluster.Do(GuardWrites{leader.Name, 0}, "%s has no replica in sync, and would take no writes", leader.Name)
	}
	return cluster.Pass()
}

// unguarded is a step that takes pods away. Where no replica in sync stays, the primary is first let off its guard: it would refuse
// writes from the moment that the last one has left.
func (v *view) unguarded(step cluster.Step, leaves func(p *Pod) bool) cluster.Step {
	leader := v.leader()
	if leader == nil || !leader.guardsWrites() || slices.ContainsFunc(v.copies(leader), func(p *Pod) bool { return !leaves(p) }) {
		return step
	}
	lone := v.Appointed
	lone.Guard = 0
	return Unguarded{AssignRoles{Appointment: lone}, GuardWrites{leader.Name, 0}, step}
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

// handOver is the same hand-over in the terms of the mode Replicated: the primary begins it.
func (v *view) handOver(f Failover) cluster.Step {
	from, to := v.podNamed(f.From), v.podNamed(f.To)
	record := AssignRoles{
		// Its own history is known when it is the primary. It needs a replica from its first write on, see HandOver.Guard.
		Appointment: Appointment{Pod: to.Name, History: from.Node.Replication.ID, Guard: v.guardLag(to)},
		Pods:        []PodRole{{from.ref(), RoleReplica}, {to.ref(), RolePrimary}}, // It copies the other one by the time that this is written.
	}
	return HandOver{from.Name, to.Name, to.Addr, record}
}
