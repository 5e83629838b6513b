package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

type phase = cluster.Phase[model.State]

// phases returns the rules of Next in their order. A rule decides only if all rules before it leave
// the decision to it.
func phases() []phase {
	return []phase{
		beginning, withoutQuorum, identity, repair, rollout, removal, maintenance, growth, report,
	}
}

var beginning = cluster.NewPhase("begin", "without a record or without members, the other rules have nothing to look at",
	cluster.NewRule("hibernate", "a hibernated cluster runs no pods, and the rules below would start them or wait for them", hibernate),
	cluster.NewRule("writeRecord", "the record decides whether an empty disk may found the cluster, so it exists before the first pod", writeRecord),
	cluster.NewRule("bootstrapOverEmptyClaims", "members that wait for data which was never written would wait for ever below", bootstrapOverEmptyClaims),
)

var withoutQuorum = cluster.NewPhase("without a quorum", "these rules need no quorum, and some of them may restore it",
	cluster.NewRule("setVersion", "a member that cannot run may need exactly the other version", setVersion),
	cluster.NewRule("keepAgreedVersion", "after an upgrade was set back, pods must not start with a version older than the agreed cluster version", keepAgreedVersion),
	cluster.NewRule("revertTransport", "a change of listeners that is not wanted any more may be why members do not answer", revertTransport),
	cluster.NewRule("revertRejected", "settings with which the first member does not become ready are set back before any rule waits for that member", revertRejected),
	cluster.NewRule("restartStuck", "with OnDelete only the operator replaces outdated pods; one that cannot start is replaced before any rule waits for it", restartStuck),
	cluster.NewRule("recreateStatefulSet", "a volume that cannot be provisioned may keep members from running, and needs another claim template", recreateStatefulSet),
	cluster.NewRule("deletePendingClaims", "a claim of the old template without a volume blocks its pod, and follows once the template is right", deletePendingClaims),
	cluster.NewRule("expandVolumes", "a full disk may keep members from running, and a larger claim takes nothing away", expandVolumes),
	cluster.NewRule("restoreInPlace", "a confirmed restore replaces the data, so it is recorded before a recovery or a wait for members", restoreInPlace),
	cluster.NewRule("recoverQuorum", "until a recovery has its survivor, no rule below may act; a restored cluster is founded by the rules below", recoverQuorum),
	cluster.NewRule("refusePassword", "with a wrong password the member list is unreadable, which the rules below would take for a lost quorum", refusePassword),
	cluster.NewRule("restartLeaderless", "outdated settings may be why there is no leader, and there is no quorum to lose", restartLeaderless),
	cluster.NewRule("bringBackLeaving", "a leaving member may still have a vote that the others need for a quorum", bringBackLeaving),
	cluster.NewRule("listenForBothTransports", "peer URLs on retained volumes may be plain text or TLS, so members listen for both", listenForBothTransports),
)

var identity = cluster.NewPhase("identity and access", "from here on the members answer; nothing is written to etcd before its identity is recorded",
	cluster.NewRule("refuseQuarantinedData", "members with quarantined data of an earlier cluster must not found a new one", refuseQuarantinedData),
	cluster.NewRule("reportLostQuorum", "only too many lost members justify a recovery; otherwise the next rule waits for a quorum", reportLostQuorum),
	cluster.NewRule("waitForMembers", "all rules below decide by what a quorum reports", waitForMembers),
	cluster.NewRule("refuseOtherIdentity", "members of another cluster must not be touched by any rule below", refuseOtherIdentity),
	cluster.NewRule("refuseUnknownFounders", "the recorded identity is that of the specified members, not of others that have formed a cluster", refuseUnknownFounders),
	cluster.NewRule("recordIdentity", "once recorded, no member with an empty disk can found the cluster again", recordIdentity),
	cluster.NewRule("authenticate", "clients are let in only after authentication is as specified", authenticate),
	cluster.NewRule("finishRestoreInPlace", "a restore ends when its members have a quorum, an identity and authentication as specified", finishRestoreInPlace),
	cluster.NewRule("openToClients", "the first acknowledged write comes after identity and authentication are as specified", openToClients),
	cluster.NewRule("refuseUnknownMembers", "without a match of listed and specified members, members have no pod, and a quorum cannot be counted", refuseUnknownMembers),
)

var repair = cluster.NewPhase("repair", "failed members and members about to lose data are repaired or replaced before a rollout restarts healthy ones",
	cluster.NewRule("keepBudget", "an eviction during a repair must not cost the quorum", keepBudget),
	cluster.NewRule("settleUnrecordedMembers", "a listed member outside the record gets a pod if wanted; otherwise it is removed after its pod has ended", settleUnrecordedMembers),
	cluster.NewRule("replaceLost", "a member whose data is lost or unusable counts for the quorum until it is removed", replaceLost),
	cluster.NewRule("checkCorruption", "a CORRUPT alarm stops promotion, joins and rollouts until hashes show whose data is right", checkCorruption),
	cluster.NewRule("promote", "a learner that has caught up gets its vote before other members are restarted or removed", promote),
	cluster.NewRule("rejoin", "a recorded member that etcd does not list is added as a learner before another member may leave", rejoin),
	cluster.NewRule("healSpaceWhileUnhealthy", "NOSPACE blocks all writes, and healSpace would wait until every member is healthy", healSpaceWhileUnhealthy),
	cluster.NewRule("waitForRejoin", "a member that is on its way into the cluster is waited for before another member may leave", waitForRejoin),
	cluster.NewRule("refuseForeignPeers", "a member that finds peers of another cluster is named before the wait for it begins", refuseForeignPeers),
	cluster.NewRule("refuseStorage", "adding or removing spec.storage on a running cluster is refused before a rollout or a volume replacement", refuseStorage),
	cluster.NewRule("correctPeerURL", "a member that is not reachable at its listed URL cannot become healthy, which is waited for below", correctPeerURL),
	cluster.NewRule("removeDispensableSurplus", "surplus members without a vote or health leave before a rule waits for them", removeDispensableSurplus),
	cluster.NewRule("recordRemoval", "a surplus member that etcd does not list leaves the record before a rule waits for its pod", recordRemoval),
	cluster.NewRule("waitForVersion", "before a member goes back by a minor version, it has to be known that it can", waitForVersion),
	cluster.NewRule("restartUnhealthy", "outdated settings may be why a member is unhealthy, and the others are a quorum without it", restartUnhealthy),
	cluster.NewRule("snapshotForUnhealthy", "a patch that may cure a member waits for its snapshot only", snapshotForUnhealthy),
	cluster.NewRule("waitForHealth", "rules below restart or remove healthy members one at a time, so all must be healthy first", waitForHealth),
	cluster.NewRule("replaceTerminating", "a terminating claim is deleted with its pod, so its member rejoins with another claim before the rollout", replaceTerminating),
)

var rollout = cluster.NewPhase("roll out", "all members are healthy, so one at a time may restart",
	cluster.NewRule("refuseVersion", "spec.image may hold another minor version: the rollout stops while the image alone can still be set back", refuseVersion),
	cluster.NewRule("waitForLag", "the next member to restart may be one that the others need to catch up from", waitForLag),
	cluster.NewRule("updatePeerURLs", "peers use the new URLs before the old listeners close", updatePeerURLs),
	cluster.NewRule("closeOldListeners", "listeners that no peer or client uses any more close with the next restart", closeOldListeners),
	cluster.NewRule("rollOut", "members restart one at a time, followers first, the leader after it has handed over", rollOut),
	cluster.NewRule("recordProven", "settings with which all members are healthy are what a failed rollout goes back to", recordProven),
	cluster.NewRule("switchClients", "peers and clients switch when every member serves both transports; rules below wait until the change is over", switchClients),
)

var removal = cluster.NewPhase("remove", "healthy surplus members leave only when all members are healthy; a rollout comes first where a member can be spared",
	cluster.NewRule("shrink", "spec.size is smaller: the highest ordinal leaves first", shrink),
	cluster.NewRule("deleteLeftClaims", "a claim of a member that left must be gone before a new member could start from it", deleteLeftClaims),
	cluster.NewRule("replaceVolumes", "a member whose volume has to change leaves and joins again, when no other is away", replaceVolumes),
)

var maintenance = cluster.NewPhase("maintain", "space is freed after the rollout, which may raise the quota; leadership moves only while all members are healthy",
	cluster.NewRule("healSpace", "compaction and defragmentation make room where the quota did not", healSpace),
	cluster.NewRule("moveLeadershipOffNode", "leadership moves off a cordoned node before the leader's pod is evicted", moveLeadershipOffNode),
)

var growth = cluster.NewPhase("upgrade and grow", "what adds work comes when nothing is left to repair or to roll out",
	cluster.NewRule("cancelDowngrade", "a downgrade that is not wanted any more ends before another step of a version", cancelDowngrade),
	cluster.NewRule("waitForAgreement", "members agree on one version before the next is chosen", waitForAgreement),
	cluster.NewRule("downgrade", "the members agree to go back before any pod does", downgrade),
	cluster.NewRule("flushLog", "a newer version cannot read old entries of the log, so a snapshot is written first", flushLog),
	cluster.NewRule("upgrade", "the next minor or patch version, one at a time", upgrade),
	cluster.NewRule("grow", "a member is added only when no version step is in progress", grow),
	cluster.NewRule("switchTransport", "switching TLS restarts members twice, so it begins after repairs, rollouts, resizes and version steps", switchTransport),
	cluster.NewRule("backUpBeforeUpgrade", "the Backup that an upgrade waits for is taken when nothing else is left, so that it is recent", backUpBeforeUpgrade),
)

var report = cluster.NewPhase("report", "these rules report what is left or defragment; no rule of an earlier phase depends on them",
	cluster.NewRule("reportRejected", "settings that were set back are named when the cluster is well without them", reportRejected),
	cluster.NewRule("refuseUnlabelled", "a claim without labels keeps the cluster from growing, and only a user can tell whose it is", refuseUnlabelled),
	cluster.NewRule("reportTerminating", "claims whose members cannot be replaced are named with the cure", reportTerminating),
	cluster.NewRule("defragmentWhereWorthIt", "defragmentation takes a member out of service, so it runs when no change is due", defragmentWhereWorthIt),
	cluster.NewRule("waitForVolumes", "Kubernetes resizes volumes; impossible storage requests are refused last, because other rules do not need them", waitForVolumes),
)
