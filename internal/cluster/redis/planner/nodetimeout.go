package planner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// A server does nothing else while it forks, for its append-only file or for a new replica, and the more so the more memory it has. One that
// is silent for cluster-node-timeout is called failed by the others, although it is well. In the mode Replicated a primary takes no writes then, and
// is replaced soon after.
//
// The timeout is not raised for that by itself: it is how long a dead primary goes unnoticed, which is for the user to say, and all servers
// should have the same.

// longFork is the part of cluster-node-timeout that a fork may take: the silence before and after it counts as well, because healthy servers
// call on each other no more than once in half of the timeout.
const longFork = 2

// Reasons of the condition TimeoutHealthy.
const (
	ReasonTimeoutFits = "ForksAreShort"
	ReasonLongFork    = "ForkNearTimeout"
)

// timeoutHealthy says whether healthy servers are silent for so long that the others may call them failed. It changes with the next fork.
func timeoutHealthy(v *model.View) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionTimeoutHealthy, Status: metav1.ConditionTrue, Reason: ReasonTimeoutFits}
	outcome, cure := "the others call it failed after %s", "divide the data among more shards"
	if v.Spec.Replicated {
		outcome, cure = "a primary that is silent for %s takes no writes and is replaced", "keep less data"
	}
	var worst *model.Pod
	for _, p := range v.Readable {
		if worst == nil || p.Node.Fork > worst.Node.Fork {
			worst = p
		}
	}
	switch {
	case worst == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no server could be read"
	case worst.Node.Fork*longFork >= v.Spec.NodeTimeout:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonLongFork
		c.Message = fmt.Sprintf(
			"the last fork of %s took %s, during which it answers nobody, and %s: set spec.config.nodeTimeout to %s or more, or %s",
			worst.Name, worst.Node.Fork.Round(10*time.Millisecond), fmt.Sprintf(outcome, v.Spec.NodeTimeout),
			(worst.Node.Fork*(longFork+1)).Truncate(time.Second)+time.Second, cure)
	default:
		c.Message = "forks of servers are short compared to spec.config.nodeTimeout"
	}
	return c
}
