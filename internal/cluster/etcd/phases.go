package etcd

import (
	"github.com/quorate/quorate/internal/cluster"
)

type phase = cluster.Phase[State]

// phases returns the rules of Next in their order. A rule decides only if all rules before it leave
// the decision to it.
func phases() []phase {
	return []phase{
		beginning, withoutQuorum, identity, repair, rollout, removal, maintenance, growth, report,
	}
}

var beginning = cluster.NewPhase("begin", "without a record or without members, the other rules have nothing to look at",
	cluster.NewRule("hibernate", "a hibernated cluster has no members, and every rule below expects some", hibernate),
	cluster.NewRule("writeRecord", "the record decides whether an empty disk may found the cluster, so it exists before the first pod", writeRecord),
	cluster.NewRule("bootstrapOverEmptyClaims", "members that wait for data which was never written would wait for ever below", bootstrapOverEmptyClaims),
)

var withoutQuorum = cluster.NewPhase("without a quorum", "these need no answer from the members, and may be what brings the quorum back",
	cluster.NewRule("setVersion", "a member that cannot run may need exactly the other version", setVersion),
	cluster.NewRule("keepAgreedVersion", "after a version was set back, pods must not start with one that the data has left", keepAgreedVersion),
	cluster.NewRule("revertTransport", "a change of listeners that is not wanted any more may be why members do not answer", revertTransport),
	cluster.NewRule("revertRejected", "settings that the first member does not start with are set back before anything waits for that member", revertRejected),
	cluster.NewRule("restartStuck", "a pod of an outdated template that cannot start is never replaced by its StatefulSet (kubernetes#67250)", restartStuck),
	cluster.NewRule("recreateStatefulSet", "a volume that cannot be provisioned may keep members from running, and needs another claim template", recreateStatefulSet),
	cluster.NewRule("deletePendingClaims", "a claim of the old template without a volume blocks its pod, and follows once the template is right", deletePendingClaims),
	cluster.NewRule("expandVolumes", "a full disk may keep members from running, and a larger claim takes nothing from anybody", expandVolumes),
	cluster.NewRule("restoreInPlace", "a confirmed restore ends all members: it comes before any rule that would heal them", restoreInPlace),
	cluster.NewRule("recoverQuorum", "while a recovery runs, only the rules above it may act", recoverQuorum),
	cluster.NewRule("refusePassword", "with a wrong password every member seems to be away, and the rules below would wait for them", refusePassword),
	cluster.NewRule("restartLeaderless", "outdated settings may be why there is no leader, and there is no quorum to lose", restartLeaderless),
	cluster.NewRule("bringBackLeaving", "a leaving member still has a vote that the others need", bringBackLeaving),
	cluster.NewRule("listenForRetained", "retained members find each other only if both listen for the same transport", listenForRetained),
)

var identity = cluster.NewPhase("identity and access", "from here on the members answer; nothing is written to etcd before its identity is recorded",
	cluster.NewRule("waitForMembers", "all rules below decide by what a quorum reports", waitForMembers),
	cluster.NewRule("keepIdentity", "members of another cluster must not be touched by any rule below", keepIdentity),
	cluster.NewRule("recordIdentity", "once recorded, no member with an empty disk can found the cluster again", recordIdentity),
	cluster.NewRule("authenticate", "clients are let in only after authentication is as specified", authenticate),
	cluster.NewRule("finishRestoreInPlace", "a restore ends when its members have a quorum, an identity and a password", finishRestoreInPlace),
	cluster.NewRule("openToClients", "the first acknowledged write comes after identity and password are safe", openToClients),
	cluster.NewRule("refuseUnknownMembers", "members that are not of this cluster make every count of a quorum wrong", refuseUnknownMembers),
)

var repair = cluster.NewPhase("repair", "redundancy comes back before anything that takes a member away",
	cluster.NewRule("keepBudget", "an eviction during a repair must not cost the quorum", keepBudget),
	cluster.NewRule("recordListedMembers", "a listed member without a place in the record has no pod, and may be the vote that is missing", recordListedMembers),
	cluster.NewRule("replaceLost", "a member without data counts for the quorum until it is removed", replaceLost),
	cluster.NewRule("checkCorruption", "a restart could spread wrong data, so it is judged before rules that restart", checkCorruption),
	cluster.NewRule("promote", "a learner that has caught up is one vote more, at no cost", promote),
	cluster.NewRule("healSpaceOfUnhealthy", "while the space alarm is on, no write gets through, and everything below waits for members", healSpaceOfUnhealthy),
	cluster.NewRule("rejoin", "a member that was removed comes back before the next one may leave", rejoin),
	cluster.NewRule("reportForeignPeers", "a member that finds peers of another cluster is named before the wait for it begins", reportForeignPeers),
	cluster.NewRule("refuseStorage", "a storage change that cannot be made is refused before a rule below acts on a part of it", refuseStorage),
	cluster.NewRule("correctPeerURL", "a member that is not reachable at its listed URL cannot become healthy, which is waited for below", correctPeerURL),
	cluster.NewRule("removeUnhealthySurplus", "a surplus member that is unhealthy need not be waited for", removeUnhealthySurplus),
	cluster.NewRule("waitForVersion", "before a member goes back by a minor version, it has to be known that it can", waitForVersion),
	cluster.NewRule("restartUnhealthy", "outdated settings may be why a member is unhealthy, and the others are a quorum without it", restartUnhealthy),
	cluster.NewRule("snapshotForUnhealthy", "a patch that may cure a member waits for its snapshot only", snapshotForUnhealthy),
	cluster.NewRule("waitForHealth", "everything below takes a member away, so all have to be healthy", waitForHealth),
	cluster.NewRule("replaceTerminating", "a claim that is being deleted goes with its pod: the member moves before any restart", replaceTerminating),
)

var rollout = cluster.NewPhase("roll out", "all members are healthy, so one at a time may restart",
	cluster.NewRule("refuseVersion", "once all members run another minor version, etcd does not go back", refuseVersion),
	cluster.NewRule("waitForLag", "the next member to restart may be one that the others need to catch up from", waitForLag),
	cluster.NewRule("updatePeerURLs", "peers use the new URLs before the old listeners close", updatePeerURLs),
	cluster.NewRule("closeOldListeners", "listeners that no peer or client uses any more close with the next restart", closeOldListeners),
	cluster.NewRule("rollOut", "members restart one at a time, followers first, the leader after it has handed over", rollOut),
	cluster.NewRule("recordProven", "settings with which all members are healthy are what a failed rollout goes back to", recordProven),
	cluster.NewRule("switchClients", "clients switch when every member listens for both transports", switchClients),
)

var removal = cluster.NewPhase("remove", "members leave only from a cluster that is healthy and up to date",
	cluster.NewRule("shrink", "spec.size is smaller: the highest ordinal leaves first", shrink),
	cluster.NewRule("deleteLeftClaims", "a claim of a member that left must be gone before a new member could start from it", deleteLeftClaims),
	cluster.NewRule("replaceVolumes", "a member whose volume has to change leaves and joins again, when no other is away", replaceVolumes),
)

var maintenance = cluster.NewPhase("maintain", "it needs all members, and a rollout may have brought the larger quota",
	cluster.NewRule("healSpace", "compaction and defragmentation make room where the quota did not", healSpace),
	cluster.NewRule("leaveNode", "the leader leaves a cordoned node before its pod is evicted", leaveNode),
)

var growth = cluster.NewPhase("upgrade and grow", "what adds work comes when nothing is left to repair or to roll out",
	cluster.NewRule("cancelDowngrade", "a downgrade that is not wanted any more ends before another step of a version", cancelDowngrade),
	cluster.NewRule("waitForAgreement", "members agree on one version before the next is chosen", waitForAgreement),
	cluster.NewRule("downgrade", "the members agree to go back before any pod does", downgrade),
	cluster.NewRule("flushLog", "a newer version cannot read old entries of the log, so a snapshot is written first", flushLog),
	cluster.NewRule("upgrade", "the next minor or patch version, one at a time", upgrade),
	cluster.NewRule("grow", "a new member joins when no version changes", grow),
	cluster.NewRule("switchTransport", "a change of the transport restarts members twice, so it comes after everything else", switchTransport),
	cluster.NewRule("snapshotFirst", "the snapshot before an upgrade is taken when nothing else is left, so that it is recent", snapshotFirst),
)

var report = cluster.NewPhase("report", "nothing waits for these; they say what is left, or use the quiet",
	cluster.NewRule("reportRejected", "settings that were set back are named when the cluster is well without them", reportRejected),
	cluster.NewRule("refuseUnlabelled", "a claim without labels keeps the cluster from growing, and only a user can tell whose it is", refuseUnlabelled),
	cluster.NewRule("reportTerminating", "claims whose members cannot be replaced are named with the cure", reportTerminating),
	cluster.NewRule("defragmentWhereWorthIt", "a defragmentation keeps clients of a member waiting, so it comes when nothing else is due", defragmentWhereWorthIt),
	cluster.NewRule("waitForVolumes", "volumes are resized by Kubernetes; nothing else waits for that", waitForVolumes),
)
