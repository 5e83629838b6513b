package planner

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// A claim with a deletion timestamp stays until its pod ends (pvc-protection), and takes the volume with
// it then. A member that runs on one has its data only as long as its pod runs.

const (

	// ReasonUnlabelledClaim says that a claim without labels of the cluster has the name of the one that
	// the next member is to get.
	ReasonUnlabelledClaim = "ClaimUnlabelled"
)

// terminating returns the claims that are being deleted under members.
func terminating(s model.State) []model.Claim {
	return slices.DeleteFunc(slices.Clone(s.Claims), func(c model.Claim) bool {
		return !c.Leaving || c.Pending || c.Lost != "" || c.Ordinal >= len(s.Want.Peers) || leftCluster(s, c.Ordinal)
	})
}

// leftCluster reports whether the quorum lists no member of an ordinal.
func leftCluster(s model.State, ordinal int) bool {
	return s.Members != nil && s.Member(s.Want.Peers[ordinal].URL) == nil
}

// keepLastCopy lets no rule end a pod whose claim is being deleted, unless the other members hold its
// data. The rules after it go on, since growing the cluster is the cure; reportTerminating says what
// waits.
func keepLastCopy(s model.State, p cluster.Plan) (cluster.Plan, bool) {
	if p.Step == nil || !losesData(s, p.Step) {
		return p, true
	}
	if s.Members == nil {
		return refuseTerminating(s, p.Step.String()) // The rules after it would only wait for the members.
	}
	return cluster.Pass()
}

// losesData reports whether a step ends pods with the last healthy copy of data.
func losesData(s model.State, step cluster.Step) bool {
	if !s.Known() || restoresInPlace(s) {
		return false // Nothing was acknowledged, or a user confirmed that a backup takes the place of the data.
	}
	switch step := step.(type) {
	case steps.DeletePod:
		return slices.ContainsFunc(terminating(s), func(c model.Claim) bool {
			return s.Want.Peers[c.Ordinal].Name == step.Name && !spares(s, c.Ordinal)
		})
	case steps.Resize:
		return slices.ContainsFunc(terminating(s), func(c model.Claim) bool { return c.Ordinal >= step.To && !spares(s, c.Ordinal) })
	case steps.SetRecovery:
		return step.To.Phase == model.RecoveryHeld && len(terminating(s)) > 0
	case steps.Hibernate, steps.StartRestore:
		return len(terminating(s)) > 0
	}
	return false
}

// spares reports whether the data of an ordinal is on a healthy quorum without it, or was gone before.
func spares(s model.State, ordinal int) bool {
	if p := s.PodNamed(s.Want.Peers[ordinal].Name); p != nil && p.Gone {
		return true
	}
	voters, others := 0, 0
	for _, m := range s.Members {
		if m.Learner {
			continue
		}
		voters++
		if s.Ordinal(m) != ordinal && s.Healthy(m) {
			others++
		}
	}
	return voters > 0 && others >= model.Quorum(voters)
}

// replaceTerminating gives a member on a claim that is being deleted another one, like one whose disk is lost: it leaves
// and joins again. It comes before any restart, which would take the volume from a member that still votes.
func replaceTerminating(s model.State) (cluster.Plan, bool) {
	claims := terminating(s)
	if len(claims) == 0 || len(s.Members) < enough || !allVote(s) || moves(s) || goingBack(s) {
		return cluster.Pass()
	}
	c := nextToReplace(s, claims)
	return replaceMember(s, c, "claim", c.Name+" is being deleted and goes with its pod", len(claims))
}

// reportTerminating says what to do about claims whose members cannot be replaced.
func reportTerminating(s model.State) (cluster.Plan, bool) {
	if len(terminating(s)) == 0 {
		return cluster.Pass()
	}
	return refuseTerminating(s, "any step that ends their pods")
}

// terminatingNames returns the names of claims that are being deleted under pods.
func terminatingNames(s model.State) (names []string) {
	for _, c := range terminating(s) {
		names = append(names, c.Name)
	}
	return names
}

func refuseTerminating(s model.State, what string) (cluster.Plan, bool) {
	var names, pods []string
	for _, c := range terminating(s) {
		names, pods = append(names, c.Name), append(pods, s.Want.Peers[c.Ordinal].Name)
	}
	cure := "create a Backup of this cluster"
	switch {
	case s.Members == nil:
		cure = "bring a quorum of members back, or delete pods " + strings.Join(pods, ", ") + " to go on without their data"
	case s.Want.Size < enough:
		cure = "set spec.size to 3, which copies the data to members with claims of their own (kubectl scale etcdcluster " + s.Want.Name +
			" --replicas=3), or " + cure
	}
	return cluster.Refuse(steps.ReasonTerminatingClaims, "claims %s are being deleted, and their volumes go when their pods end: %s would lose data. "+
		"Kubernetes cannot take the deletion back: %s", strings.Join(names, ", "), what, cure)
}

// inTheWay returns the claim without labels of the cluster that the next member would mount, nil if there is none.
func inTheWay(s model.State) *model.Claim {
	have := len(s.Record.Members)
	if c := s.Claim(have); have < s.Want.Size && c != nil && c.Unlabelled {
		return c
	}
	return nil
}

// refuseUnlabelled says what to do about a claim that keeps the cluster from growing: etcd does not start from the data
// of a member that left, and without its labels nothing says that the cluster may delete it.
func refuseUnlabelled(s model.State) (cluster.Plan, bool) {
	c := inTheWay(s)
	if c == nil {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonUnlabelledClaim, "claim %s lacks labels of this cluster, and %s, which spec.size %d asks for, would mount it by its name: "+
		"etcd cannot join with the data of another member, and Quorate does not delete what may not be its own. "+
		"Keep what you need of it, and delete it: kubectl -n %s delete pvc %s",
		c.Name, s.Want.Peers[c.Ordinal].Name, s.Want.Size, s.Want.Namespace, c.Name)
}
