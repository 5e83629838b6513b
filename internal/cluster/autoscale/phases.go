package autoscale

import "github.com/quorate/quorate/internal/cluster"

// phases are the rules of Next in their order.
var phases = []cluster.Phase[State]{
	cluster.NewPhase("wait", "a target that is not there, not its own or not fit is not scaled",
		cluster.NewRule("waitForCluster", "without a cluster there is nothing to scale", waitForCluster),
		cluster.NewRule("refuseRival", "of two autoscalers for one cluster, the older one counts", refuseRival),
		cluster.NewRule("refuseUnfit", "bounds that the cluster cannot follow are named first", refuseUnfit),
		cluster.NewRule("waitWhileAsleep", "a paused or hibernated cluster is not changed", waitWhileAsleep),
	),
	cluster.NewPhase("volumes", "a full volume may be why the cluster is unhealthy, so volumes grow whatever else goes on",
		cluster.NewRule("waitForStorage", "growth is decided by measured sizes", waitForStorage),
		cluster.NewRule("growStorage", "volumes grow before they are full", growStorage),
		cluster.NewRule("waitForVolumes", "Kubernetes resizes one request at a time", waitForVolumes),
	),
	cluster.NewPhase("undo", "a change that the cluster cannot complete is undone before the next one",
		cluster.NewRule("takeBack", "shards that cannot leave any more come back, or the cluster does not go on", takeBack),
		cluster.NewRule("giveBack", "servers with too little memory get it back, or the cluster does not go on", giveBack),
	),
	cluster.NewPhase("scale", "only a cluster that is not busy is measured and scaled",
		cluster.NewRule("waitWhileBusy", "a change on the way makes the figures wrong", waitWhileBusy),
		cluster.NewRule("waitForMeasurements", "without figures nothing is decided", waitForMeasurements),
		cluster.NewRule("setShards", "shards divide load and memory, so they come before more memory", setShards),
		cluster.NewRule("setMemory", "memory per server follows what is used", setMemory),
	),
}
