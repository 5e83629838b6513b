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

// writeRecord writes the record before anything can start. Whether an empty disk may found the cluster is decided
// here, once, from the claims that are there before the first pod.
func writeRecord(s model.State) (cluster.Plan, bool) {
	if s.Record != nil {
		return cluster.Pass()
	}
	if s.Set != nil {
		return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapRecovered, Size: made(s), Version: s.Set.MadeWith(s.Want.Version), Restore: nil},
			"the record was deleted under a living cluster: it is written anew")
	}
	for _, c := range s.Claims {
		if c.Leaving {
			return cluster.Wait(ReasonClaimsLeaving, whileWaiting,
				"claim %s of an earlier cluster of this name is being deleted", c.Name)
		}
	}
	if len(s.Claims) > 0 && !s.Want.Persistent {
		var names []string
		for _, c := range s.Claims {
			names = append(names, c.Name)
		}
		return cluster.Refuse(ReasonStorage, "the claims %s of an earlier cluster of this name may hold its data, and spec.storage is not set: "+
			"delete this cluster and create it with spec.storage, or with another name, or delete the claims to do without", strings.Join(names, ", "))
	}
	size := max(s.Want.Size, claimed(s)) // A smaller cluster comes of it by scaling in.
	if s.Want.Restore != nil {
		return beginWithBackup(s, size)
	}
	if len(s.Claims) == 0 {
		return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: size, Version: s.Want.Version, Restore: nil}, "no volume of an earlier cluster exists: %d members found a new one", size)
	}
	return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapRetained, Size: size, Version: s.Want.Version, Restore: nil},
		"volumes of an earlier cluster exist: its members start with their data, and none founds a new cluster")
}

// made is the number of members of a cluster whose record is gone: that of its pods, or of its claims where it hibernated.
func made(s model.State) int {
	if s.Set.Replicas > 0 {
		return s.Set.Replicas
	}
	return max(claimed(s), 1)
}

// claimed is the number of ordinals up to the highest that has a claim.
func claimed(s model.State) int {
	n := 0
	for _, c := range s.Claims {
		n = max(n, min(c.Ordinal+1, len(s.Want.Peers)))
	}
	return n
}

// bootstrapOverEmptyClaims lets the members found a cluster when every claim that was found turned out to be empty: the
// earlier cluster had never started.
func bootstrapOverEmptyClaims(s model.State) (cluster.Plan, bool) {
	if s.Record.Bootstrap != model.BootstrapRetained || s.Record.ClusterID != 0 || len(s.Claims) > len(s.Record.Members) {
		return cluster.Pass()
	}
	for _, m := range s.Record.Members {
		p := s.PodNamed(m.Name)
		if p == nil || p.Terminating || p.Gate == nil || p.Gate.Reason != model.GateNoPeers {
			return cluster.Pass()
		}
	}
	return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: len(s.Record.Members), Version: s.Record.Version, Restore: nil},
		"every volume that was left by an earlier cluster is empty: the members found a new one")
}

// restartStuck deletes a pod that cannot run and was made from an outdated template: the StatefulSet controller would
// never do it (OnDelete), and the change that cures the pod would never reach it. Such a pod serves
// nobody, so this is safe whatever else is known, unless its data would go with it.
func restartStuck(s model.State) (cluster.Plan, bool) {
	for _, p := range s.Pods {
		if !p.Stuck || p.Ready || p.Terminating || p.Status != nil || (!s.Outdated(p) && !p.OldRevision) {
			continue
		}
		if p.EverRan && !s.Want.Persistent && s.Known() && s.Want.RestoreInPlace == nil && !restoresInPlace(s) {
			if s.Members != nil {
				continue // Its data would go with it: see restartUnhealthy.
			}
			return cluster.Refuse(ReasonRollout, "%s %s, and the change that may cure it needs a restart, which would "+
				"delete the data of a member without spec.storage: delete the pod yourself to accept that", p.Name, p.Problem)
		}
		return cluster.Do(deletePod(p), "%s %s, and the specification has changed since", p.Name, p.Problem)
	}
	return cluster.Pass()
}

// restartLeaderless restarts a member that runs with outdated settings where there is no quorum by both accounts, the
// members' and the kubelets': the settings may be the cause, and a quorum that is not there cannot be lost. One at a
// time, because the first may be all that was missing.
func restartLeaderless(s model.State) (cluster.Plan, bool) {
	founding := !s.Known() && s.Record.Bootstrap == model.BootstrapNew
	noQuorum := s.Members == nil && readyPods(s) < model.Quorum(len(s.Record.Members))
	if !noQuorum || (!s.Want.Persistent && !founding) || anyYoung(s) {
		return cluster.Pass()
	}
	i := slices.IndexFunc(s.Pods, func(p model.Pod) bool {
		sameMinor := p.Version.Minor == s.Record.Version.Minor // With another one it may not start at all.
		return sameMinor && s.Outdated(p) && p.EverRan && !p.Ready && (p.Status == nil || p.Status.Leader == 0)
	})
	if i < 0 {
		return cluster.Pass()
	}
	victim := s.Pods[i]
	return cluster.Do(deletePod(victim), "no quorum of members answers; %s %s, and the specification has changed since",
		victim.Name, trouble(&victim))
}

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

// pace is how soon to look again for what the members settle among themselves: often while enough of them run for a
// quorum and one has just been started, so that it may come true any moment. Before, pods report by themselves what
// happens to them; and what has not come true for a while has a cause that takes longer to go.
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

// refuseOtherIdentity refuses to touch anything when a member belongs to another cluster.
func refuseOtherIdentity(s model.State) (cluster.Plan, bool) {
	id, agree := s.ClusterID()
	if !agree {
		return cluster.Refuse(ReasonIdentity, "the members belong to different etcd clusters%s: "+
			"delete the pod and the claim of the one that is wrong", identities(s))
	}
	if s.Record.ClusterID != 0 && id != 0 && id != s.Record.ClusterID {
		return cluster.Refuse(ReasonIdentity, "the members belong to etcd cluster %s, but this is cluster %s: "+
			"bring back the volumes of that cluster", model.FormatID(id), model.FormatID(s.Record.ClusterID))
	}
	return cluster.Pass()
}

func identities(s model.State) string {
	var parts []string
	for _, p := range s.Pods {
		if p.Status != nil {
			parts = append(parts, p.Name+" to "+model.FormatID(p.Status.ClusterID))
		}
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// authenticate switches authentication on and gets root's password right.
func authenticate(s model.State) (cluster.Plan, bool) {
	leader := s.Leader()
	if leader == nil {
		return cluster.Wait(ReasonNoQuorum, pace(s), "the members have no leader that a quorum follows%s", troubles(s))
	}
	if s.Auth == nil {
		return cluster.Wait(ReasonAuth, pace(s), "waiting for etcd to tell whether authentication is on (%v)", s.AuthError)
	}
	via := s.Speaker(leader).Name
	switch {
	case !s.Want.Auth && s.Auth.Enabled:
		return cluster.Refuse(ReasonAuth, "etcd requires a password, but spec.auth.mode is Disabled, and cannot change: "+
			"switch authentication off as the user root: etcdctl --user root auth disable")
	case !s.Want.Auth:
		return cluster.Pass()
	case !s.Auth.Enabled:
		return cluster.Do(steps.EnableAuth{Pod: via}, "spec.auth.mode is Password and authentication is off")
	case s.Auth.PasswordWorks && s.Want.NewPassword:
		return cluster.Do(steps.RecordPassword{}, "root has its new password: clients get it too")
	case s.Auth.PasswordWorks:
		return cluster.Pass()
	case s.Want.CertificateIsRoot || s.Auth.Root:
		return cluster.Do(steps.SetRootPassword{Pod: via}, "root has another password than the Secret")
	}
	return wrongPassword(s)
}

// refusePassword stops where members answer, but only to say that the password is wrong.
func refusePassword(s model.State) (cluster.Plan, bool) {
	if s.Members == nil && s.Auth != nil && s.Auth.Enabled && !s.Auth.PasswordWorks {
		return wrongPassword(s)
	}
	return cluster.Pass()
}

func wrongPassword(s model.State) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonAuth, "etcd does not accept the password of root: put the right one under the key password "+
		"into Secret %s", s.Want.PasswordSecret)
}

// recordIdentity writes down the cluster id as soon as a quorum follows one leader: before anything is written to etcd,
// so that no member can found the cluster again once there is something to lose.
func recordIdentity(s model.State) (cluster.Plan, bool) {
	if s.Known() {
		return cluster.Pass()
	}
	id, _ := s.ClusterID()
	all, healthy := s.Voters()
	if id == 0 || s.Leader() == nil {
		return cluster.Wait(steps.ReasonStarting, pace(s), "waiting for a quorum of members%s", troubles(s))
	}
	return cluster.Do(steps.RecordClusterID{ClusterID: id}, "%d of %d members have formed cluster %s", healthy, all, model.FormatID(id))
}

// openToClients opens the cluster, last: nobody gets a write acknowledged before its identity is safe, and nobody gets
// in without a password.
func openToClients(s model.State) (cluster.Plan, bool) {
	if s.Open {
		return cluster.Pass()
	}
	return cluster.Do(steps.LetClientsIn{}, "the identity of the cluster is recorded and authentication is as specified")
}

// refuseForeignPeers stops at a member without data whose peers are those of another cluster.
func refuseForeignPeers(s model.State) (cluster.Plan, bool) {
	for _, p := range s.Pods {
		if !p.Terminating && p.Gate != nil && p.Gate.Reason == model.GateForeignPeers {
			return cluster.Refuse(ReasonIdentity, "%s", p.Gate.Message)
		}
	}
	return cluster.Pass()
}

// cureOf names what to do about a member that should not be there. To remove it is right only while all that should be
// there are: otherwise the members are known by other names than those of the specification.
func cureOf(s model.State, stranger model.Member) string {
	for _, p := range s.Record.Members {
		if s.Member(p.URL) == nil {
			return ": the members were made with another DNS domain of the Kubernetes cluster; set it back"
		}
	}
	return ": remove it with etcdctl member remove " + model.FormatID(stranger.ID)
}

func describe(peers []model.Peer) string {
	if len(peers) == 0 {
		return "no members"
	}
	return fmt.Sprintf("%d members (%s ...)", len(peers), peers[0].URL)
}

func refuseStorage(s model.State) (cluster.Plan, bool) {
	if !s.Want.StorageChanged {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonStorage, "spec.storage was added or removed, and the data of a running cluster stays where it is: set it back")
}

// restartUnhealthy restarts a member that runs with outdated settings and is not well: they may be what makes it so, and a
// rollout waits for every member. It does no harm, because those that are well are a quorum without it. While a member
// with the wanted settings is not well, these are not proved yet.
func restartUnhealthy(s model.State) (cluster.Plan, bool) {
	voters, well := 0, 0
	var sick []model.Pod
	for _, m := range s.Members {
		p := s.Pod(m)
		fine := s.Healthy(m) && p.Ready
		if !m.Learner {
			voters++
			if fine {
				well++
			}
		}
		switch {
		case fine:
		case p == nil || p.Terminating || !s.Outdated(*p):
			return cluster.Pass()
		default:
			sick = append(sick, *p)
		}
	}
	if len(sick) == 0 || well < model.Quorum(voters) {
		return cluster.Pass()
	}
	p := sick[0]
	return restart(s, p, "%s %s, and the specification has changed since", p.Name, trouble(&p))
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

// refuseVersion stops a rollout whose first member turns out to run another minor version, as spec.image can make it:
// once all have it, etcd does not go back.
func refuseVersion(s model.State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		p := s.Pod(m)
		v, err := model.ParseVersion(p.Status.Version)
		if err != nil || s.Outdated(*p) || (v.Major == s.Record.Version.Major && v.Minor == s.Record.Version.Minor) {
			continue
		}
		return cluster.Refuse(ReasonVersion, "%s runs etcd %s, and spec.version is %s: set spec.image to an image of that version",
			p.Name, v, s.Record.Version)
	}
	return cluster.Pass()
}

// rollOut restarts the members that run with outdated settings, one at a time and only while all are well: followers
// first, from the highest ordinal down, then the leader after it has handed over.
func rollOut(s model.State) (cluster.Plan, bool) {
	leader := s.Leader()
	var outdated []model.Pod
	for _, m := range s.Members {
		if p := s.Pod(m); s.Outdated(*p) {
			outdated = append(outdated, *p)
		}
	}
	if len(outdated) == 0 || (len(s.Members) < 3 && s.Want.Size != len(s.Members)) {
		return cluster.Pass() // None of two members can be spared; with another size there are more, or only one is left.
	}
	if !s.Want.Persistent && len(s.Members) == 1 {
		return cluster.Refuse(ReasonRollout, "the change needs a restart, and without spec.storage the only member loses its "+
			"data with it: set the specification back, scale out first, or create the cluster again")
	}
	slices.SortFunc(outdated, func(a, b model.Pod) int { return b.Ordinal - a.Ordinal })
	for _, p := range outdated {
		if p.Name != s.Pod(*leader).Name {
			return restart(s, p, "%s, a follower, runs with outdated settings (%d to go)", p.Name, len(outdated))
		}
	}
	if plan, ok := handOver(s, *leader, "runs with outdated settings"); ok {
		return plan, true
	}
	p := outdated[0]
	return cluster.Do(deletePod(p), "%s, the only member, runs with outdated settings", p.Name)
}

// restart deletes the pod of a member. Without a disk that outlives it, the member leaves and joins again.
func restart(s model.State, p model.Pod, format string, args ...any) (cluster.Plan, bool) {
	if s.Want.Persistent {
		return cluster.Do(deletePod(p), format, args...)
	}
	m := s.Member(s.Want.Peers[p.Ordinal].URL)
	return cluster.Do(removeMember(s, *m), format, args...)
}

// successor is the healthy voter that is furthest with applying the log, the lowest ordinal among equals. One that stays is
// better than one that spec.size does not ask for, and then one whose node stays than one whose node is being emptied.
func successor(s model.State, leader uint64) *model.Member {
	var best *model.Member
	for i, m := range s.Members {
		if m.ID == leader || m.Learner || !s.Healthy(m) {
			continue
		}
		if best == nil || goesFirst(s, m, *best) {
			best = &s.Members[i]
		}
	}
	return best
}

// goesFirst reports whether one member is a better leader than another.
func goesFirst(s model.State, a, b model.Member) bool {
	if stays, other := s.Ordinal(a) < s.Want.Size, s.Ordinal(b) < s.Want.Size; stays != other {
		return stays
	}
	pa, pb := s.Pod(a), s.Pod(b)
	if stays, other := pa.Cordoned == "", pb.Cordoned == ""; stays != other {
		return stays
	}
	return pa.Status.Applied > pb.Status.Applied
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
