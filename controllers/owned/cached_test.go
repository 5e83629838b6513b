package owned

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/test/fakeapi"
)

var decisionsOnPods = fakeapi.Decisions[*corev1.Pod]{
	"PodReady":        func(p *corev1.Pod) any { return PodReady(p) },
	"ReadySince":      func(p *corev1.Pod) any { return ReadySince(p) },
	"HasRun":          func(p *corev1.Pod) any { return HasRun(p, job.Container) },
	"StartedAt":       func(p *corev1.Pod) any { return StartedAt(p, job.Container) },
	"StuckReason":     func(p *corev1.Pod) any { return StuckReason(p) },
	"CannotRunReason": func(p *corev1.Pod) any { return CannotRunReason(p, job.Container) },
	"BackOffUntil":    func(p *corev1.Pod) any { return BackOffUntil(p, job.Container) },
	"unpulled":        func(p *corev1.Pod) any { return unpulled(p) },
	"FatalStart":      func(p *corev1.Pod) any { return FatalStart(p, func(s string) string { return s }, job.Container) },
	"StartedWith":     func(p *corev1.Pod) any { return StartedWith([]corev1.Pod{*p}, 1, "x", "x") },
	"JobState":        func(p *corev1.Pod) any { return JobState(&batchv1.Job{}, []corev1.Pod{*p}, time.Unix(1<<30, 0)) },
	"podsOf": func(p *corev1.Pod) any {
		return len(podsOf(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "x"}}, []corev1.Pod{*p}))
	},
	"CordonReason": func(p *corev1.Pod) any { return CordonReason(logr.Discard(), taintedNode(), p.Spec.Tolerations) },
	"FitsNode":     func(p *corev1.Pod) any { return FitsNode(p, nil, taintedNode()) },
	"left":         func(p *corev1.Pod) any { return left(lateCluster(), p) },
	"siblingOn":    func(p *corev1.Pod) any { return siblings(p) },
	"foundNoNode":  func(p *corev1.Pod) any { return unscheduled(p) },
}

var decisionsOnNodes = fakeapi.Decisions[*corev1.Node]{
	"CordonReason": func(n *corev1.Node) any { return CordonReason(logr.Discard(), n, nil) },
	"OutOfService": func(n *corev1.Node) any { return OutOfService(n) },
	"FitsNode": func(n *corev1.Node) any {
		return FitsNode(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"x": "x"}}}, nil, n)
	},
	"selects": func(n *corev1.Node) any {
		return selects(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}},
		}}}, n)
	},
}

var decisionsOnSets = fakeapi.Decisions[*appsv1.StatefulSet]{
	"Overdue":     func(s *appsv1.StatefulSet) any { return Overdue(s, time.Unix(1<<30, 0)) },
	"left":        func(s *appsv1.StatefulSet) any { return left(lateCluster(), s) },
	"fingerprint": func(s *appsv1.StatefulSet) any { return fingerprint(s) },
}

var decisionsOnJobs = fakeapi.Decisions[*batchv1.Job]{
	"JobState": func(j *batchv1.Job) any { return JobState(j, nil, time.Unix(1<<30, 0)) },
	"podless":  func(j *batchv1.Job) any { return podless(j, nil) },
	"podsOf": func(j *batchv1.Job) any {
		ref := metav1.OwnerReference{UID: "x", Controller: ptr.To(true)}
		return len(podsOf(j, []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ref}}}}))
	},
}

// decidedBy names the decisions above that a function makes. Others read objects, or write.
var decidedBy = map[string][]string{
	"stuckIn": {"StuckReason"}, "CordonOf": {"CordonReason"}, "ownsPod": {"left"}, "PodsOfSets": {"left"}, "Flow": {"PodReady"},
	"besideOthers": {"siblingOn", "FitsNode", "CordonReason"}, "StrandedReason": {"foundNoNode", "siblingOn", "FitsNode", "CordonReason"},
	"volumeOf": {"FitsNode"},
}

func TestACachedObjectDecidesLikeTheWholeOne(t *testing.T) {
	t.Parallel()
	decisionsOnPods.Compare(t, job.Container)
	decisionsOnNodes.Compare(t, "")
	decisionsOnSets.Compare(t, "")
	decisionsOnJobs.Compare(t, "")
	fakeapi.CheckCompared(t, decidedBy, decisionsOnPods, decisionsOnNodes, decisionsOnSets, decisionsOnJobs)
}

// siblings returns what siblingOn says of a pod, as the pod that looks and as the one that is found.
func siblings(p *corev1.Pod) []string {
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", OwnerReferences: []metav1.OwnerReference{{UID: "x", Controller: ptr.To(true)}}}}
	other.Spec.NodeName = "x"
	living := p.DeepCopy()
	living.DeletionTimestamp = nil
	return []string{siblingOn("x", other, []corev1.Pod{*living}), siblingOn("x", living, []corev1.Pod{*other}), siblingOn("x", other, []corev1.Pod{*p})}
}

// unscheduled returns what foundNoNode says of a pod when the scheduler found no node for it, and
// what it reads.
func unscheduled(p *corev1.Pod) []any {
	waits := p.DeepCopy()
	waits.Spec.NodeName, waits.DeletionTimestamp = "", nil
	for i := range waits.Status.Conditions {
		c := &waits.Status.Conditions[i]
		if c.Reason != "" {
			c.Type, c.Status, c.Reason = corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable
		}
	}
	return []any{foundNoNode(p), foundNoNode(waits), p.Spec.NodeName, len(p.Status.Conditions)}
}

func taintedNode() *corev1.Node {
	n := nodeWith(corev1.Taint{Key: "x", Value: "x", Effect: corev1.TaintEffectNoSchedule})
	n.Labels = map[string]string{"other": "other"}
	return n
}

func lateCluster() Owner {
	o := fakeapi.EtcdCluster()
	o.Name, o.CreationTimestamp = "x", metav1.NewTime(time.Unix(1<<31, 0))
	return o
}
