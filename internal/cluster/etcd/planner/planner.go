package planner

import (
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Reasons for waiting and refusing, for conditions and events.
const (

	// ReasonNoQuorum says that a majority of the members does not answer.
	ReasonNoQuorum = "NoQuorum"
	// ReasonMembersNotReady says that the quorum holds, but not every member is well.
	ReasonMembersNotReady = "MembersNotReady"
	// ReasonClaimsLeaving says that claims of an earlier cluster of this name are being deleted.
	ReasonClaimsLeaving = "ClaimsLeaving"
	// ReasonIdentity says that members belong to another cluster than the recorded one.
	ReasonIdentity = "IdentityMismatch"
	// ReasonMembership says that the members are not those of the specification.
	ReasonMembership = "MembershipMismatch"
	// ReasonMemberLost says that a member lost its data.
	ReasonMemberLost = "MemberLost"
	// ReasonJoining says that a member is on its way into the cluster.
	ReasonJoining = "MemberJoining"
	// ReasonCatchingUp says that a learner does not have enough of the log to vote.
	ReasonCatchingUp = "LearnerCatchingUp"
	// ReasonLeaving says that what a member leaves behind is being deleted.
	ReasonLeaving = "MemberLeaving"
	// ReasonAuth says that the state of authentication is not one that the operator can change.
	ReasonAuth = "AuthMismatch"
	// ReasonAlarm says that etcd has raised an alarm.
	ReasonAlarm = "Alarm"
	// ReasonRollout says that a needed restart would lose data.
	ReasonRollout = "RolloutRefused"
	// ReasonStorage says that the storage cannot be changed.
	ReasonStorage = "StorageMismatch"
	// ReasonVersion says that a member runs another minor version than the wanted one.
	ReasonVersion = "VersionMismatch"
)

// How soon to look again when no watch is going to tell.
const (
	// whileStarting bounds the time between etcd's first quorum and our notice of it.
	whileStarting = 200 * time.Millisecond
	// whileLeaving bounds the time between the end of a leaving member and our notice of it.
	whileLeaving = 200 * time.Millisecond
	// whileJoining bounds the time between a learner's having the data and our notice of it.
	whileJoining = 500 * time.Millisecond
	// whileWaiting is for what pods and claims announce themselves.
	whileWaiting = 2 * time.Second
	// youth is how long after its start a member may still be on its way to its leader.
	youth = 30 * time.Second
)

// Next decides what to do: see phases for the order.
func Next(s model.State) cluster.Plan {
	plan, _ := keepServing(s, cluster.Decide(s, phases(), keepLastCopy))
	return plan.WithTerminating(terminatingNames(s))
}

// Explain names the rule that Next decides by.
func Explain(s model.State) cluster.Explanation {
	if _, replaced := keepServing(s, cluster.Decide(s, phases(), keepLastCopy)); replaced {
		return cluster.Explanation{Phase: "serve", Rule: "keepServing", Why: "a running defragmentation is waited for; afterwards its member returns to the client Service first"}
	}
	return cluster.Explain(s, phases(), keepLastCopy)
}

// Outline lists the rules of Next in their order.
func Outline() []cluster.Section { return cluster.Outline(phases()) }

func refuseStorage(s model.State) (cluster.Plan, bool) {
	if !s.Want.StorageChanged {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonStorage, "spec.storage was added or removed, and the data of a running cluster stays where it is: set it back")
}
