package planner

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// assignRoles writes down who is the primary, and labels the pods that clients may be sent to. It comes before everything that
// could wait: clients stand still until it is done. The Service comes first: what the new primary may do without is written down
// before clients find it. After a hand-over the Service leads to it already, whatever its label is, and goes on to do so until it
// has the label.
func assignRoles(v *model.View) (cluster.Plan, bool) {
	leader := facts.ActingPrimary(v)
	if leader == nil {
		return cluster.Pass()
	}
	is := appointmentOf(v, leader)
	step := steps.Appoint{Appointment: is}
	if v.Candidate.Planned() && v.Candidate.Pod == leader.Name && leader.Role != model.RolePrimary {
		step.Candidate = v.Candidate
	}
	var labels steps.AssignRoles
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Role != role(v, p, leader) && (p == leader || !isHungFormer(v, p, leader)) {
			labels.Pods = append(labels.Pods, steps.PodRole{Pod: ref(p), Role: role(v, p, leader)})
		}
	}
	why := fmt.Sprintf("clients are to find %s as the primary, and %d replicas in sync", leader.Name, len(facts.Copies(v, leader)))
	switch {
	case step != steps.Appoint{Appointment: v.Appointed, Candidate: v.Candidate}:
		plan, ok := cluster.Do(step, "%s", why)
		plan.After = atOnce
		return plan, ok
	case len(labels.Pods) > 0:
		plan, ok := cluster.Do(labels, "%s", why)
		plan.After = facts.Soon
		return plan, ok
	}
	return cluster.Pass()
}

// endFormerPrimary ends pods that hang and were the primary before another server became it: going on, they would answer what clients
// have sent them before they notice that no replica copies them. The label says which pods that are, until they are about to end.
func endFormerPrimary(v *model.View) (cluster.Plan, bool) {
	leader := facts.ActingPrimary(v)
	if leader == nil {
		return cluster.Pass()
	}
	step := steps.End{Former: true}
	for i := range v.Pods {
		if p := &v.Pods[i]; p != leader && isHungFormer(v, p, leader) {
			step.Pods = append(step.Pods, ref(p))
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%s is the primary: going on, the former one would answer what clients have sent it", leader.Name)
	plan.After = atOnce
	return plan, ok
}

// isHungFormer tells whether a pod was the primary, hangs, and was not told to end within a moment. A primary that
// has handed over to leader is none: it became a replica before leader took its first write, so that it answers
// nothing that its clients have sent it, and one failed read does not cost a copy.
func isHungFormer(v *model.View, p, leader *model.Pod) bool {
	handedOver := v.Candidate.Planned() && v.Candidate.Pod == leader.Name
	return p.Role == model.RolePrimary && hasHung(v, p) && !p.EndsSoon && !handedOver
}

// appointmentOf returns what is to be recorded of a primary. How long it takes writes without a
// replica stays as recorded while v.LookingAhead is set, see lookAhead.
func appointmentOf(v *model.View, leader *model.Pod) model.Appointment {
	a := model.Appointment{Pod: leader.Name, History: leader.Node.Replication.ID}
	switch {
	case v.LookingAhead && v.Appointed.Pod == a.Pod && v.Appointed.History == a.History:
		a.Guard = v.Appointed.Guard
	case len(facts.Copies(v, leader)) > 0 && !v.RelaxesLastReplica:
		a.Guard = guardOn(v, leader)
	}
	return a
}

// hasHung tells whether a server does not answer that has run for as long as it took until another one could take its place.
func hasHung(v *model.View, p *model.Pod) bool {
	return facts.Unheard(p) && v.Now.Sub(p.Started) > config.MaxSilence(v.Spec.NodeTimeout)+facts.Noticed
}

// role is the label that a pod is to have. Whoever cannot be read keeps it, unless somebody else is the primary.
func role(v *model.View, p, leader *model.Pod) string {
	switch {
	case p == leader:
		return model.RolePrimary
	case p.Node == nil && p.Role != model.RolePrimary:
		return p.Role
	case p.Node != nil && !p.Deleting && facts.InSync(v, p, leader):
		return model.RoleReplica
	}
	return ""
}

// guardOn is for how long a primary takes writes at most that no replica acknowledges, by what it was told and by what it is about to be told;
// 0: for as long as it likes.
func guardOn(v *model.View, leader *model.Pod) time.Duration {
	if !guardsWrites(leader) {
		return 0
	}
	return facts.GuardLag(v, leader)
}

func guardsWrites(p *model.Pod) bool {
	n, known := p.Node.Config[model.WriteGuard]
	return known && n != "0"
}

// setMinReplicasOfPrimary lets the primary take writes only while a replica acknowledges them, as long as there is one, see waitForFence. That
// it does not need one any more is written down before it is told, and that it does afterwards.
func setMinReplicasOfPrimary(v *model.View) (cluster.Plan, bool) {
	leader := facts.ActingPrimary(v)
	if leader == nil || leader.Node.Config == nil {
		return cluster.Pass()
	}
	switch copies := facts.Copies(v, leader); {
	case len(copies) > 0 && !guardsWrites(leader) && !v.RelaxesLastReplica && !v.LookingAhead:
		return cluster.Do(steps.GuardWrites{Pod: leader.Name, Replicas: 1}, "%s has a replica in sync, and stops taking writes should it lose touch with all of them", leader.Name)
	case len(copies) == 0 && guardsWrites(leader):
		return cluster.Do(steps.GuardWrites{Pod: leader.Name, Replicas: 0}, "%s has no replica in sync, and would take no writes", leader.Name)
	}
	return cluster.Pass()
}

// takesLastReplica tells whether a step takes away the last replica in sync of a primary.
func takesLastReplica(v *model.View, step cluster.Step) bool {
	var leaves func(p *model.Pod) bool
	switch s := step.(type) {
	case steps.Restart:
		leaves = func(p *model.Pod) bool { return slices.Contains(s.Pods, ref(p)) }
	case steps.ScaleShards:
		leaves = func(p *model.Pod) bool { return p.Ordinal >= s.Sets[0].To }
	default:
		return false
	}
	leader := facts.ActingPrimary(v)
	return leader != nil && !slices.ContainsFunc(facts.Copies(v, leader), func(p *model.Pod) bool { return !leaves(p) })
}

// unguard is what has to come before a step that takes the last replica in sync away: its primary would refuse writes from then on.
// That it does not need a replica any more is written down before it is told. Nil: nothing has to.
func unguard(v *model.View, step cluster.Step) cluster.Step {
	leader := facts.ActingPrimary(v)
	switch {
	case !takesLastReplica(v, step) || !guardsWrites(leader):
		return nil
	case v.Appointed.Guard > 0:
		lone := v.Appointed
		lone.Guard = 0
		return steps.Appoint{Appointment: lone, Candidate: v.Candidate}
	}
	return steps.GuardWrites{Pod: leader.Name, Replicas: 0}
}

// allowFollowers lets others copy servers that restarted in place: nobody is told to copy one that is not the primary.
func allowFollowers(v *model.View) (cluster.Plan, bool) {
	step := steps.AdmitReplicas{How: model.AdmitsForGood}
	for _, p := range v.Readable {
		if p.Node.Admits == model.AdmitsNobody && !p.Node.Loading {
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
func followPrimary(v *model.View) (cluster.Plan, bool) {
	leader := facts.ActingPrimary(v)
	if leader == nil || leader.Deleting {
		return cluster.Pass()
	}
	var step steps.Follow
	for _, p := range v.Readable {
		if p != leader && !p.Node.Loading && (p.Node.Replication.Primary || p.Node.Asks != leader.Addr) {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	step.Primary, step.Addr = leader.Name, leader.Addr
	plan, ok := cluster.Do(step, "%s is the primary, and the others are to copy it", leader.Name)
	plan.After = facts.Soon
	return plan, ok
}

// maxRerouted is how long the Service may lead to the candidate of a hand-over before Available becomes False.
const maxRerouted = 5 * time.Second

// led is the condition Available: True while the primary answers and clients are sent to it.
func led(v *model.View) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: ReasonServing}
	leader := facts.ActingPrimary(v)
	switch {
	case v.Spec.Name == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "the state could not be read"
	case facts.Unfit(v.Restore) != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, planner.ReasonRestoring, facts.Unfit(v.Restore)
	case leader == nil || leader.Name != v.Appointed.Pod:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonNotServing, "there is no primary that answers and that clients are sent to"
	case v.Candidate.Pod != "" && v.Candidate.Pod != leader.Name && v.Now.Sub(v.Candidate.Since) > maxRerouted:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNotServing
		c.Message = fmt.Sprintf("%s is the primary, and the Service leads to %s, which takes no writes", leader.Name, v.Candidate.Pod)
	default:
		c.Message = "the primary answers, and clients are sent to it"
	}
	return c
}
