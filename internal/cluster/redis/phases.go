package redis

import (
	"github.com/quorate/quorate/internal/cluster"
)

type phase = cluster.Phase[*view]

// shardedPhases returns the rules of Next in the mode Sharded, in their order. A rule decides only if all
// rules before it leave the decision to it.
func shardedPhases() []phase {
	return []phase{
		access, membership, unresponsive, mesh, perServer, replaceData, strayedCopies, canary, damaged, answers, slotsOwned,
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
	access = cluster.NewPhase("access", "without its own users and passwords the operator cannot do anything below, and each server can be changed alone",
		cluster.NewRule("setUsers", "a new version of the operator may need commands that its user lacks", setUsers),
		cluster.NewRule("setReplicationPasswords", "a replica with another password does not copy, whatever else is right", setReplicationPasswords),
	)
	unresponsive = cluster.NewPhase("unresponsive", "a server that does not answer holds up every rule that reads it",
		cluster.NewRule("endUnresponsive", "a frozen server keeps its role until it ends", endUnresponsive),
		cluster.NewRule("keepAppendOnlyFile", "a server must write its log before it may end", keepAppendOnlyFile),
		cluster.NewRule("replaceStuck", "a pod of an outdated template that cannot start is never replaced by its StatefulSet", replaceStuck),
	)
	replaceData = cluster.NewPhase("replace data", "a server without its data starts empty and copies the primary",
		cluster.NewRule("replaceDisks", "a lost disk is replaced while another server has the data", replaceDisks),
		cluster.NewRule("replaceDamaged", "a server that cannot read its data is no copy", replaceDamaged),
		cluster.NewRule("replaceStranded", "a pod that cannot be scheduled at its volume is no copy either", replaceStranded),
	)
	canary = cluster.NewPhase("canary", "the first pod with new settings does not answer, and the wait below would not say why",
		cluster.NewRule("refuseCanary", "the others keep the settings they have", exceptReload(refuseCanary)),
	)
	answers = cluster.NewPhase("every server answers", "no rule below decides by a guess",
		cluster.NewRule("waitForAll", "every wanted pod exists and answers", exceptReload(waitForAll)),
		cluster.NewRule("replacePasswords", "a password changes when every server is known to take it", replacePasswords),
	)
	versions = cluster.NewPhase("versions and replicas", "restarts below need a version that can be reached and replicas that are in sync",
		cluster.NewRule("refuseVersion", "a version that the data cannot follow is refused before the first restart", exceptUpkeep(refuseVersion)),
		cluster.NewRule("refuseUnsynced", "a new pod that answers and does not sync stops the rollout", exceptUpkeep(refuseUnsynced)),
		cluster.NewRule("waitForReplicas", "every shard has its copies before one goes away", exceptReload(waitForReplicas)),
		cluster.NewRule("discardClaims", "claims of pods that have left go when no server needs them", discardClaims),
	)
	restarts = cluster.NewPhase("roll out", "every server is healthy, so one of each shard may restart",
		cluster.NewRule("refuseLessMemory", "a restart with less memory than is used would end in a crash", exceptUpkeep(refuseLessMemory)),
		cluster.NewRule("waitForLoad", "a load that is disturbed starts again from the beginning", waitForLoad),
		cluster.NewRule("restartReplicas", "replicas restart first: no client writes to them", restartReplicas),
		cluster.NewRule("failOver", "a primary restarts as a replica, after a hand-over", failOver),
		cluster.NewRule("surge", "a shard without replicas gets one for the time of its restart", surge),
		cluster.NewRule("waitForReady", "Kubernetes sends clients to ready pods only", exceptReload(waitForReady)),
		cluster.NewRule("loadBackup", "a backup is loaded when all servers serve", loadBackup),
	)
	remarks = cluster.NewPhase("report", "nothing waits for these; they say what is left",
		cluster.NewRule("waitForLessMemory", "the process has not given memory back yet", waitForLessMemory),
		cluster.NewRule("waitForResize", "Kubernetes has not changed the resources of a pod yet", waitForResize),
		cluster.NewRule("refuseMaxMemory", "maxMemory is below what is used; the server keeps what it has", refuseMaxMemory),
		cluster.NewRule("refuseStorage", "a change of storage that is not carried out is named", refuseStorage),
		cluster.NewRule("reportTerminating", "claims whose servers are not restarted are named with the cure", reportTerminating),
		cluster.NewRule("waitForExternal", "the cluster works inside without access from outside", waitForExternal),
	)
)

// The mode Sharded has these.
var (
	membership = cluster.NewPhase("membership", "who belongs to the cluster, and who leads each shard, decides what every rule below means",
		cluster.NewRule("partForeignCluster", "nodes of another cluster must not be taken for lost ones of this one", partForeignCluster),
		cluster.NewRule("failOverImmediately", "a primary that Kubernetes knows to be dead is replaced before the node timeout", failOverImmediately),
		cluster.NewRule("reopenSlots", "an open slot that one side has forgotten loses keys until it is open again", reopenSlots),
	)
	mesh = cluster.NewPhase("mesh", "servers that find each other heal much by themselves, and none of this waits for other pods",
		cluster.NewRule("refuseDisjointClusters", "two groups with data must not meet: one side's data would go", refuseDisjointClusters),
		cluster.NewRule("reintroduce", "servers with other addresses do not find each other without help", reintroduce),
		cluster.NewRule("attachReplicas", "an empty node is of use when it copies its primary", attachReplicas),
		cluster.NewRule("allowReplication", "a primary that restarted in place is copied again", allowReplication),
		cluster.NewRule("handOverFromEmpty", "an empty primary must not be copied: its replica has the data", handOverFromEmpty),
		cluster.NewRule("restartBroken", "outdated settings may be what keeps a replica unhealthy, and rules below wait for it", restartBroken),
		cluster.NewRule("restartMisdirectedReplica", "a replica that follows a wrong address reads the right one at its start", restartMisdirectedReplica),
		cluster.NewRule("blockEvictions", "evictions are blocked before the last copy of a shard could go", blockEvictions),
		cluster.NewRule("setMinReplicas", "writes that too few replicas acknowledge are refused by the primary, as was asked for", setMinReplicas),
		cluster.NewRule("leavePod", "a primary on a node that is being drained hands over before it is evicted", leavePod),
	)
	perServer = cluster.NewPhase("per server", "each of these changes one server or shard, and may be what it needs to get healthy",
		cluster.NewRule("syncAccounts", "a new server lacks the accounts of clients", syncAccounts),
		cluster.NewRule("takeOver", "a dead primary that the servers do not replace is replaced by the operator", takeOver),
		cluster.NewRule("cancelMigrations", "a migration that begins again and again holds up every hand-over", cancelMigrations),
		cluster.NewRule("refuseStuck", "a stuck pod may hold the only copy, so nothing below replaces it", refuseStuck),
		cluster.NewRule("configure", "settings take effect without a restart where they can", configure),
		cluster.NewRule("announce", "clients are sent to the right host as soon as it is known", announce),
		cluster.NewRule("resizePods", "more memory may be what a server needs", resizePods),
		cluster.NewRule("shrink", "surplus pods without slots go, whatever the others do", shrink),
		cluster.NewRule("dropUnstarted", "a shard that never started and is not wanted any more goes", dropUnstarted),
	)
	strayedCopies = cluster.NewPhase("strayed copies", "a server with keys and without a primary is in no shard",
		cluster.NewRule("replaceStrayed", "it starts empty, when its shard's primary has all it has", replaceStrayed),
	)
	damaged = cluster.NewPhase("damaged", "the only copy cannot be read, and the wait below would not say so",
		cluster.NewRule("refuseDamaged", "only a user can give up the data", refuseDamaged),
	)
	slotsOwned = cluster.NewPhase("slots", "every slot gets its owner back before anything is restarted or moved",
		cluster.NewRule("settleClaims", "retained claims may hold newer data than the servers that run", settleClaims),
		cluster.NewRule("setConfigEpochs", "epochs can be set only before nodes meet", setConfigEpochs),
		cluster.NewRule("meetNodes", "the nodes of a new cluster meet", meetNodes),
		cluster.NewRule("reintroduceForgotten", "a node that was forgotten and came back is introduced again", reintroduceForgotten),
		cluster.NewRule("recordRefilled", "a restore of lost slots ends when all have an owner", recordRefilled),
		cluster.NewRule("waitForElection", "the servers elect a replica themselves, if one may be", waitForElection),
		cluster.NewRule("refillUnknown", "a shard is restored also if no server knows its former owner", refillUnknown),
		cluster.NewRule("waitForMigrations", "no rule below may touch slots that servers move themselves", waitForMigrations),
		cluster.NewRule("promoteCandidate", "a shard without slots may hold keys of one that was on its way", promoteCandidate),
		cluster.NewRule("mergeOwners", "two owners in one shard become one before slots are closed", mergeOwners),
		cluster.NewRule("closeSlots", "a slot that is open without a move redirects clients for nothing", closeSlots),
		cluster.NewRule("finishMoves", "a move that was begun is finished before another begins", finishMoves),
		cluster.NewRule("forgetDepartedNodes", "a departed node is forgotten when all pods are known, so that its id cannot come back", forgetDepartedNodes),
		cluster.NewRule("addSlots", "slots that never had an owner are assigned", addSlots),
		cluster.NewRule("loseUnowned", "slots without an owner are given up only when a user allows it", loseUnowned),
		cluster.NewRule("waitForGossip", "rules below compare servers, which agree after a moment", waitForGossip),
		cluster.NewRule("keepReplicationAllowed", "a server stays copyable over a restart when its disk holds its data", keepReplicationAllowed),
	)
	emptyShards = cluster.NewPhase("empty shards", "a shard without slots leaves before memory is compared and pods restart",
		cluster.NewRule("dropShard", "the last shard goes first", dropShard),
	)
	slotsMoved = cluster.NewPhase("balance", "slots and primaries move when nothing else is to be done",
		cluster.NewRule("spreadPrimaries", "primaries of several shards on one node are lost together", spreadPrimaries),
		cluster.NewRule("reloadCertificates", "servers read a renewed certificate when their Secret has it", reloadCertificates),
		cluster.NewRule("waitForHosts", "clients are redirected to hosts that every server has to know first", waitForHosts),
		cluster.NewRule("moveAddress", "servers change what they announce one at a time", moveAddress),
		cluster.NewRule("waitForOutside", "a hand-over that clients outside could not follow waits", waitForOutside),
		cluster.NewRule("retirePasswords", "a former password ends when no client has a reason to use it", retirePasswords),
		cluster.NewRule("moveSlots", "slots follow the number of shards", moveSlots),
		cluster.NewRule("waitForLeavingPods", "surplus pods are gone before their Services go", waitForLeavingPods),
		cluster.NewRule("deleteUnannouncedServices", "Services that no server announces any more are deleted", deleteUnannouncedServices),
		cluster.NewRule("waitForMinReplicas", "primaries hold to min-replicas-to-write again", waitForMinReplicas),
		cluster.NewRule("waitForAppendOnlyFile", "append-only files are on again", waitForAppendOnlyFile),
		cluster.NewRule("countLoad", "weights are counted before slots move by them", countLoad),
		cluster.NewRule("rebalance", "slots move by weight when the number of slots is right", rebalance),
		cluster.NewRule("waitForRetry", "a failed election is tried again after four node timeouts", waitForRetry),
	)
)

// The mode Replicated has these.
var (
	leadership = cluster.NewPhase("primary", "who the primary is comes before everything that needs one",
		cluster.NewRule("refuseTwoPrimaries", "two primaries with writes: only a user can choose", refuseTwoPrimaries),
		cluster.NewRule("appointFirstPrimary", "a new cluster appoints its first primary", appointFirstPrimary),
		cluster.NewRule("appointCandidate", "a dead primary is replaced before clients wait longer", appointCandidate),
		cluster.NewRule("assignRoles", "Services lead to the appointed primary", assignRoles),
		cluster.NewRule("leavePod", "a primary on a node that is being drained hands over before it is evicted", leavePod),
		cluster.NewRule("waitForFormerPrimary", "a former primary ends before its replica takes writes", waitForFormerPrimary),
		cluster.NewRule("allowFollowers", "a primary that restarted in place is copied again", allowFollowers),
		cluster.NewRule("setMinReplicasOfPrimary", "a primary without replicas must not take writes, as was asked for", setMinReplicasOfPrimary),
		cluster.NewRule("followPrimary", "replicas follow the appointed primary", followPrimary),
		cluster.NewRule("restartBroken", "outdated settings may be what keeps a replica unhealthy, and rules below wait for it", restartBroken),
		cluster.NewRule("blockEvictions", "evictions are blocked before the last copy could go", blockEvictions),
	)
	perServerReplicated = cluster.NewPhase("per server", "each of these changes one server, and may be what it needs to get healthy",
		cluster.NewRule("syncAccounts", "a new server lacks the accounts of clients", syncAccounts),
		cluster.NewRule("configure", "settings take effect without a restart where they can", configure),
		cluster.NewRule("resizePods", "more memory may be what a server needs", resizePods),
		cluster.NewRule("shrink", "surplus pods go, whatever the others do", shrink),
	)
	settledReplicated = cluster.NewPhase("settle", "what comes when nothing else is to be done",
		cluster.NewRule("reloadCertificates", "servers read a renewed certificate when their Secret has it", reloadCertificates),
		cluster.NewRule("retirePasswords", "a former password ends when no client has a reason to use it", retirePasswords),
		cluster.NewRule("waitForLeavingPods", "surplus pods are gone before the cluster is Ready", waitForLeavingPods),
		cluster.NewRule("waitForAppendOnlyFile", "append-only files are on again", waitForAppendOnlyFile),
	)
)
