package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

type phase = cluster.Phase[*model.View]

// shardedPhases returns the rules of Next in the mode Sharded, in their order. A rule decides only if all
// rules before it leave the decision to it.
func shardedPhases() []phase {
	return []phase{
		access, membership, unresponsive, mesh, perServer, replaceData, strayedCopies, canary, damaged, answers, slotOwnership,
		versions, emptyShards, restarts, slotsMoved, remarks,
	}
}

// replicatedPhases returns the rules of Next in the mode Replicated, in their order.
func replicatedPhases() []phase {
	return []phase{
		access, unresponsive, leadership, perServerReplicated, replaceData, canary, answers, versions, restarts, settledReplicated, remarks,
	}
}

// Both modes have these phases.
var (
	access = cluster.NewPhase("access", "rules below may need commands that the operator's user lacks; users and passwords of one server depend on no other",
		cluster.NewRule("setUsers", "a new version of the operator may need commands that its user lacks", setUsers),
		cluster.NewRule("setReplicationPasswords", "a replica with another password cannot reconnect once that password is retired", setReplicationPasswords),
	)
	unresponsive = cluster.NewPhase("unresponsive", "hung servers, failed starts and writes that are not fsynced cannot wait for other servers",
		cluster.NewRule("endUnresponsive", "a hung process does not end itself and may pass its probes, so its pod is deleted", endUnresponsive),
		cluster.NewRule("setFsyncAlways", "after a server's clock went back, everysec stops fsyncing until the clock catches up; always does not", setFsyncAlways),
		cluster.NewRule("replaceStuck", "a pod of an outdated template that cannot start is never replaced by its StatefulSet", replaceStuck),
	)
	replaceData = cluster.NewPhase("replace data", "a server without its data starts empty and copies the primary",
		cluster.NewRule("replaceDisks", "a lost disk is replaced while another server has the data", replaceDisks),
		cluster.NewRule("replaceDamaged", "a server that cannot read its data is no copy", replaceDamaged),
		cluster.NewRule("replaceStranded", "a pod that cannot be scheduled at its volume is no copy either", replaceStranded),
	)
	canary = cluster.NewPhase("canary", "the first pod with new settings does not answer, and the wait below would not say why",
		cluster.NewRule("reloadWhileCanaryFails", "the refusal below may last longer than a certificate, and a reload depends on no other server", reloadWhileCanaryFails),
		cluster.NewRule("refuseCanary", "the others keep the settings they have", refuseCanary),
	)
	answers = cluster.NewPhase("every server answers", "no rule below decides by a guess",
		cluster.NewRule("reloadWhileIncomplete", "a server may be away for longer than the certificates of the others are valid", reloadWhileIncomplete),
		cluster.NewRule("waitForAll", "every wanted pod exists and answers", waitForAll),
		cluster.NewRule("handOutPasswords", "a password changes when every server is known to take it", handOutPasswords),
	)
	versions = cluster.NewPhase("versions and replicas", "restarts below need a version that can be reached and replicas that are in sync",
		cluster.NewRule("reloadWhileRefused", "certificates expire while one of the next two refusals lasts", reloadWhileRefused),
		cluster.NewRule("retireWhileRefused", "former passwords stay valid while one of the next two refusals lasts", retireWhileRefused),
		cluster.NewRule("refuseVersion", "a downgrade, or an image whose version differs from spec.version, stops the rollout", refuseVersion),
		cluster.NewRule("refuseUnsynced", "a new pod that answers and does not sync stops the rollout", refuseUnsynced),
		cluster.NewRule("reloadWhileUnsynced", "a replica may be out of sync for longer than a certificate is valid", reloadWhileUnsynced),
		cluster.NewRule("waitForReplicas", "every shard has its copies before one goes away", waitForReplicas),
		cluster.NewRule("discardClaims", "claims of pods that have left go when no server needs them", discardClaims),
	)
	restarts = cluster.NewPhase("roll out", "all servers answer and are in sync, so one pod of each shard may restart",
		cluster.NewRule("reloadWhileMemoryRefused", "certificates expire while the memory below is refused", reloadWhileMemoryRefused),
		cluster.NewRule("retireWhileMemoryRefused", "former passwords stay valid while the memory below is refused", retireWhileMemoryRefused),
		cluster.NewRule("refuseLessMemory", "memory is not lowered, with or without a restart, below what the data needs", refuseLessMemory),
		cluster.NewRule("waitForLoad", "a load that is disturbed starts again from the beginning", waitForLoad),
		cluster.NewRule("restartReplicas", "replicas restart first: no client writes to them", restartReplicas),
		cluster.NewRule("failOverOutdated", "a primary restarts as a replica, after a hand-over", failOverOutdated),
		cluster.NewRule("surge", "a shard without replicas gets one for the time of its restart", surge),
		cluster.NewRule("reloadWhileUnready", "a pod may be unready for longer than a certificate is valid", reloadWhileUnready),
		cluster.NewRule("waitForReady", "Kubernetes sends clients to ready pods only", waitForReady),
		cluster.NewRule("loadBackup", "a backup is loaded when all servers serve", loadBackup),
	)
	remarks = cluster.NewPhase("report", "nothing waits for these; they say what is left",
		cluster.NewRule("waitForLessMemory", "the process has not given memory back yet", waitForLessMemory),
		cluster.NewRule("waitForResize", "Kubernetes has not changed the resources of a pod yet", waitForResize),
		cluster.NewRule("refuseMaxMemory", "maxMemory is below what is used; the server keeps what it has", refuseMaxMemory),
		cluster.NewRule("refuseStorage", "a change of storage that is not carried out is named", refuseStorage),
		cluster.NewRule("reportTerminating", "claims that are being deleted under running servers are named, with the cure", reportTerminating),
		cluster.NewRule("waitForExternal", "the cluster works inside without access from outside", waitForExternal),
	)
)

// The mode Sharded has these.
var (
	membership = cluster.NewPhase("membership", "members, primaries and open slots must be right before rules below use them",
		cluster.NewRule("forgetForeignNodes", "nodes of another cluster must not be taken for lost ones of this one", forgetForeignNodes),
		cluster.NewRule("failOverImmediately", "a primary that Kubernetes reports as ended is replaced before the servers vote", failOverImmediately),
		cluster.NewRule("reopenSlots", "if one side forgot an open slot, its owner reports keys that have moved as missing", reopenSlots),
	)
	mesh = cluster.NewPhase("mesh", "connections, replication and protection of copies do not wait for servers of other shards",
		cluster.NewRule("refuseDisjointClusters", "two groups with data must not meet: one side's data would go", refuseDisjointClusters),
		cluster.NewRule("reintroduce", "servers with other addresses do not find each other without help", reintroduce),
		cluster.NewRule("attachReplicas", "an empty node is of use when it copies its primary", attachReplicas),
		cluster.NewRule("allowReplication", "a server that restarted in place may deny replication until it is allowed again", allowReplication),
		cluster.NewRule("failOverFromEmpty", "a primary that came back with far fewer keys than a replica must not be copied", failOverFromEmpty),
		cluster.NewRule("restartBroken", "outdated settings may be what keeps a replica unhealthy, and rules below wait for it", restartBroken),
		cluster.NewRule("restartMisdirectedReplica", "a replica that follows a wrong address reads the right one at its start", restartMisdirectedReplica),
		cluster.NewRule("guardEvictions", "evictions are blocked before the last copy of a shard could go", guardEvictions),
		cluster.NewRule("setMinReplicasToWrite", "min-replicas-to-write follows the specification, except for replicas that are starting or ending", setMinReplicasToWrite),
		cluster.NewRule("handOverFromLeavingPod", "a primary whose pod is being deleted or whose node is drained hands over before it ends", handOverFromLeavingPod),
	)
	perServer = cluster.NewPhase("per server", "none of this needs every server to answer, and it may be what a server needs to become healthy",
		cluster.NewRule("syncAccounts", "a new server lacks the accounts of clients", syncAccounts),
		cluster.NewRule("settleClaimsBeforeTakeOver", "retained claims may hold newer data than the replica that takes over", settleClaimsBeforeTakeOver),
		cluster.NewRule("takeOver", "a dead primary that the servers do not replace is replaced by the operator", takeOver),
		cluster.NewRule("cancelMigrations", "a migration that begins again and again holds up every hand-over", cancelMigrations),
		cluster.NewRule("refuseStuck", "deleting a stuck pod could delete the only copy of a shard, so a user must decide", refuseStuck),
		cluster.NewRule("configure", "settings take effect without a restart where they can", configure),
		cluster.NewRule("announce", "clients are sent to the right host as soon as it is known", announce),
		cluster.NewRule("resizePods", "more memory may be what a server needs", resizePods),
		cluster.NewRule("shrink", "surplus pods go once the rest of their shard is in sync and on disk; a surplus primary hands over first", shrink),
		cluster.NewRule("dropUnstarted", "a surplus shard that holds nothing and has unstarted pods goes; the wait for all servers could last forever", dropUnstarted),
	)
	strayedCopies = cluster.NewPhase("strayed copies", "a primary without slots cannot become a replica while it holds keys",
		cluster.NewRule("replaceStrayed", "a primary without slots that holds a copy must be emptied before it can follow its shard's primary", replaceStrayed),
	)
	damaged = cluster.NewPhase("damaged", "data that cannot be read needs a user, and the wait below would not say so",
		cluster.NewRule("refuseDamaged", "only a user can give up the data", refuseDamaged),
	)
	slotOwnership = cluster.NewPhase("slots", "every slot has one owner before the rollout and before slots are rebalanced",
		cluster.NewRule("settleClaims", "retained claims may hold newer data than the servers that run", settleClaims),
		cluster.NewRule("setConfigEpochs", "epochs can be set only before nodes meet", setConfigEpochs),
		cluster.NewRule("meetNodes", "the nodes of a new cluster meet", meetNodes),
		cluster.NewRule("reintroduceForgotten", "a node that was forgotten and came back is introduced again", reintroduceForgotten),
		cluster.NewRule("recordRefilled", "a restore of lost slots ends when all have an owner", recordRefilled),
		cluster.NewRule("recoverSlotsWithoutOwner", "slots of a missing owner get another one by election while a server has a copy", recoverSlotsWithoutOwner),
		cluster.NewRule("beginRefill", "a confirmed restore is recorded before a server imports lost slots, or before they are served empty", beginRefill),
		cluster.NewRule("refill", "lost slots are loaded before they get an owner, also if no server knows the former one", refill),
		cluster.NewRule("assignLostSlots", "slots without a copy are served empty if a user allows it or the backup is loaded afterwards", assignLostSlots),
		cluster.NewRule("waitForMigrations", "no rule below may touch slots that servers move themselves", waitForMigrations),
		cluster.NewRule("promoteWithoutSlots", "replicas of a dead primary without slots may hold keys of a migrating slot and are never elected", promoteWithoutSlots),
		cluster.NewRule("mergeOwners", "two owners in one shard become one before slots are closed", mergeOwners),
		cluster.NewRule("closeSlots", "a slot that is open without a move redirects clients for nothing", closeSlots),
		cluster.NewRule("finishMoves", "a move that was begun is finished before another begins", finishMoves),
		cluster.NewRule("forgetDepartedNodes", "a departed node is forgotten when all pods are known, so that its id cannot come back", forgetDepartedNodes),
		cluster.NewRule("addSlots", "slots that never had an owner are assigned", addSlots),
		cluster.NewRule("beginUnownedRefill", "a confirmed restore is recorded before slots without an owner are given up", beginUnownedRefill),
		cluster.NewRule("loseUnowned", "slots without an owner are given up only when a user allows it", loseUnowned),
		cluster.NewRule("waitForGossip", "rules below compare servers, which agree after a moment", waitForGossip),
		cluster.NewRule("keepReplicationAllowed", "a server stays copyable over a restart when its disk holds its data", keepReplicationAllowed),
	)
	emptyShards = cluster.NewPhase("empty shards", "a shard without slots leaves before memory is compared and pods restart",
		cluster.NewRule("dropShard", "surplus shards go from the highest number down; a wanted shard without slots goes if its claim is being deleted", dropShard),
	)
	slotsMoved = cluster.NewPhase("settle", "everything is healthy: addresses, certificates, passwords, Services, primaries and slots follow in turn",
		cluster.NewRule("spreadPrimaries", "primaries of several shards on one node are lost together", spreadPrimaries),
		cluster.NewRule("reloadCertificates", "servers read a renewed certificate when their Secret has it", reloadCertificates),
		cluster.NewRule("waitForHosts", "clients are redirected to hosts that every server has to know first", waitForHosts),
		cluster.NewRule("moveAddress", "servers change what they announce one at a time", moveAddress),
		cluster.NewRule("waitForOutside", "rules below wait for a hand-over whose new primary outside clients cannot reach yet", waitForOutside),
		cluster.NewRule("retirePasswords", "a former password ends when no client has a reason to use it", retirePasswords),
		cluster.NewRule("moveSlots", "slots follow the number of shards", moveSlots),
		cluster.NewRule("waitForLeavingPods", "surplus pods are gone before their Services go", waitForLeavingPods),
		cluster.NewRule("deleteUnannouncedServices", "Services that no server announces any more are deleted", deleteUnannouncedServices),
		cluster.NewRule("waitForMinReplicas", "primaries hold to min-replicas-to-write again", waitForMinReplicas),
		cluster.NewRule("waitForAppendOnlyFile", "append-only files are on again", waitForAppendOnlyFile),
		cluster.NewRule("countLoad", "weights are counted before slots move by them", countLoad),
		cluster.NewRule("rebalance", "slots move by weight when the number of slots is right", rebalance),
		cluster.NewRule("waitForRetry", "a replica that stood for election lately cannot win another election for about four node timeouts", waitForRetry),
	)
)

// The mode Replicated has these.
var (
	leadership = cluster.NewPhase("primary", "who the primary is comes before everything that needs one",
		cluster.NewRule("refuseTwoPrimaries", "several servers are primaries and none was appointed: only a user can choose", refuseTwoPrimaries),
		cluster.NewRule("waitForFirstServers", "the first primary is chosen by the keys of all servers", waitForFirstServers),
		cluster.NewRule("settleFirstClaims", "retained claims may hold newer data than the servers that run", settleFirstClaims),
		cluster.NewRule("appointFirstPrimary", "a new cluster appoints its first primary", appointFirstPrimary),
		cluster.NewRule("finishHandOver", "while a hand-over is under way, clients that connect find a replica that takes no writes", finishHandOver),
		cluster.NewRule("waitForFence", "a primary that does not answer may take writes until it has missed its replicas for long enough", waitForFence),
		cluster.NewRule("waitForUnreachableCandidate", "a server that does not answer may have newer data than those that do", waitForUnreachableCandidate),
		cluster.NewRule("reinstateWithMore", "a former primary that acknowledged writes which no replica was sent comes before any replica", reinstateWithMore),
		cluster.NewRule("waitForHandOver", "a hand-over that is nearly over has chosen the primary", waitForHandOver),
		cluster.NewRule("redirectReplicas", "a replica that reconnected to the former primary would acknowledge its writes", redirectReplicas),
		cluster.NewRule("promoteFurthest", "without a primary no client can write: the server with the most copied data is promoted", promoteFurthest),
		cluster.NewRule("reinstate", "the former primary comes back when no other server has any of its data", reinstate),
		cluster.NewRule("endFormerPrimary", "a former primary that hangs would answer its clients when it goes on, before it has heard of the new one", endFormerPrimary),
		cluster.NewRule("assignRoles", "Services lead to the appointed primary", assignRoles),
		cluster.NewRule("handOverFromLeavingPod", "a primary whose pod is being deleted or whose node is drained hands over before it ends", handOverFromLeavingPod),
		cluster.NewRule("waitForLeavingPrimary", "a primary that is being deleted first passes all data to its replicas; no rule below may interfere", waitForLeavingPrimary),
		cluster.NewRule("allowFollowers", "a server that restarted in place may deny replication until it is allowed again", allowFollowers),
		cluster.NewRule("setMinReplicasOfPrimary", "min-replicas-to-write is 1 while a replica is in sync, so that an isolated primary stops taking writes; otherwise 0", setMinReplicasOfPrimary),
		cluster.NewRule("followPrimary", "replicas follow the appointed primary", followPrimary),
		cluster.NewRule("restartBroken", "outdated settings may be what keeps a replica unhealthy, and rules below wait for it", restartBroken),
		cluster.NewRule("guardEvictions", "evictions are blocked before the last copy could go", guardEvictions),
	)
	perServerReplicated = cluster.NewPhase("per server", "none of this needs every server to answer, and it may be what a server needs to become healthy",
		cluster.NewRule("syncAccounts", "a new server lacks the accounts of clients", syncAccounts),
		cluster.NewRule("configure", "settings take effect without a restart where they can", configure),
		cluster.NewRule("resizePods", "more memory may be what a server needs", resizePods),
		cluster.NewRule("shrink", "surplus pods go once the rest of their shard is in sync and on disk; a surplus primary hands over first", shrink),
	)
	settledReplicated = cluster.NewPhase("settle", "what comes when nothing else is to be done",
		cluster.NewRule("reloadCertificates", "servers read a renewed certificate when their Secret has it", reloadCertificates),
		cluster.NewRule("retirePasswords", "a former password ends when no client has a reason to use it", retirePasswords),
		cluster.NewRule("waitForLeavingPods", "surplus pods are gone before the cluster is Ready", waitForLeavingPods),
		cluster.NewRule("waitForAppendOnlyFile", "append-only files are on again", waitForAppendOnlyFile),
	)
)
