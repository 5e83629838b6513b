package planner

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// anyYoung reports whether a pod is about to end, or etcd was started so recently that it may still find its leader.
func anyYoung(s model.State) bool {
	return slices.ContainsFunc(s.Pods, func(p model.Pod) bool {
		return p.Terminating || (!p.Started.IsZero() && s.Now.Sub(p.Started) < youth)
	})
}

// readyPods counts the pods that the kubelet finds ready.
func readyPods(s model.State) int {
	n := 0
	for _, p := range s.Pods {
		if p.Ready && !p.Terminating {
			n++
		}
	}
	return n
}

// waitForMembers waits while the members could not be read. Nothing below may decide on a guess.
func waitForMembers(s model.State) (cluster.Plan, bool) {
	if s.Members != nil {
		return cluster.Pass()
	}
	reason, what := ReasonNoQuorum, "no quorum of members answers"
	switch {
	case !s.Known():
		reason, what = steps.ReasonStarting, fmt.Sprintf("waiting for the first quorum of %d members", len(s.Record.Members))
		if s.Record.Restores() {
			reason, what = steps.ReasonRestoring, fmt.Sprintf("%d members are being restored from %s%s", len(s.Record.Members), s.Record.Restore.Directory, otherBackup(s))
		}
	case starting(s):
		reason, what = steps.ReasonStarting, "the members are starting"
	}
	return cluster.Wait(reason, pace(s), "%s%s%s%s%s%s", what, troubles(s), unheard(s), inDoubt(s), apart(s), whyNoWayBack(s))
}

// apart says what to look at where enough members for a quorum answer the operator, and have had the time to elect a leader; empty otherwise.
func apart(s model.State) string {
	voters, leaderless := 0, 0
	for _, m := range s.Record.Members {
		p := s.PodNamed(m.Name)
		if !mayVote(p) {
			continue
		}
		voters++
		if p != nil && !p.Terminating && p.Status != nil && p.Status.Leader == 0 && s.Now.Sub(p.Started) >= youth {
			leaderless++
		}
	}
	if voters == 0 || leaderless < model.Quorum(voters) {
		return ""
	}
	return fmt.Sprintf(". If that lasts, look at what keeps them from reaching each other at port %d: network policies, a service mesh, the network between their nodes", model.PeerPort)
}

// starting reports whether all pods have just been made, or are about to be: after hibernation, or when they were deleted.
func starting(s model.State) bool {
	return !slices.ContainsFunc(s.Pods, func(p model.Pod) bool { return p.Age >= youth })
}

// pace returns how soon to reconcile again for what the members settle among themselves: often
// while enough of them run for a quorum and one has just been started. Before that, the watch
// reports the pods; and what has failed for a while has a cause that takes longer to go.
func pace(s model.State) time.Duration {
	run, young := 0, false
	for _, p := range s.Pods {
		if p.Started.IsZero() || p.Terminating {
			continue
		}
		run++
		young = young || s.Now.Sub(p.Started) < youth
	}
	if young && run >= model.Quorum(len(s.Record.Members)) {
		return whileStarting
	}
	return whileWaiting
}

// waitForHealth waits until every member is well. A rollout goes on only from there.
func waitForHealth(s model.State) (cluster.Plan, bool) {
	all, healthy := s.Voters()
	switch {
	case allHealthy(s):
		return cluster.Pass()
	case healthy < model.Quorum(all):
		return cluster.Wait(ReasonNoQuorum, whileWaiting, "%d of %d members are healthy%s", healthy, all, troubles(s))
	}
	return cluster.Wait(ReasonMembersNotReady, whileWaiting, "%d of %d members are ready%s", readyMembers(s), all, troubles(s))
}

// allHealthy reports whether there is a quorum and every member is healthy and ready.
func allHealthy(s model.State) bool {
	all, healthy := s.Voters()
	return healthy >= model.Quorum(all) && readyMembers(s) == len(s.Members)
}

func readyMembers(s model.State) int {
	n := 0
	for _, m := range s.Members {
		if p := s.Pod(m); p != nil && p.Ready && s.Healthy(m) {
			n++
		}
	}
	return n
}

// troubles says in words what is wrong with which pod, empty when nothing is known to be.
func troubles(s model.State) string {
	var parts []string
	unmade := ""
	for i, m := range s.Record.Members {
		p := s.PodNamed(m.Name)
		t := trouble(p)
		if t == "" {
			continue
		}
		if p == nil && unmade == "" { // The others are not there for the same reason.
			unmade = whyNotCreated(s, i)
			t += unmade
		}
		parts = append(parts, m.Name+" "+t)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// whyNotCreated says how to find out why the pod of an ordinal is not there, empty while the StatefulSet is not to have made it.
func whyNotCreated(s model.State, ordinal int) string {
	if s.Set == nil || !s.Set.Overdue || ordinal >= s.Set.Replicas {
		return ""
	}
	return ": " + cluster.Unmade("statefulset", s.Want.Namespace, s.Want.Name)
}

func trouble(p *model.Pod) string {
	switch {
	case p == nil:
		return "has no pod yet"
	case p.Terminating:
		return "is being deleted"
	case p.Gate != nil:
		return "is held back: " + p.Gate.Message
	case p.Problem != "":
		return p.Problem
	case p.Status == nil:
		return "does not answer" + because(p.Unreachable)
	case p.Status.Leader == 0:
		return "has no leader"
	case !p.Ready:
		return "is not ready yet"
	}
	return ""
}

// ownEnd is our end of a connection in an error, which is another one each time.
var ownEnd = regexp.MustCompile(`[^ ]+->`)

// because says what lies at the bottom of an error, empty where there was no answer in time.
func because(err error) string {
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return " (" + ownEnd.ReplaceAllString(err.Error(), "") + ")"
}
