package autoscale

import "github.com/quorate/quorate/internal/cluster"

// phases are the rules of Next in their order.
var phases = []cluster.Phase[State]{
	cluster.NewPhase("wait", "a target that is not there, not its own or not fit is not scaled",
		cluster.NewRule("waitForCluster", "without a cluster there is nothing to scale", waitForCluster),
		cluster.NewRule("refuseRival", "of two autoscalers for one cluster, the older one counts", refuseRival),
		cluster.NewRule("refuseUnfit", "a target without anything to measure or scale is refused first", refuseUnfit),
		cluster.NewRule("waitWhileAsleep", "a paused or hibernated cluster is not changed", waitWhileAsleep),
	),
	cluster.NewPhase("volumes", "a database at its quota may keep the cluster busy, so volumes grow regardless",
		cluster.NewRule("waitForStorage", "growth is decided by measured sizes", waitForStorage),
		cluster.NewRule("growStorage", "volumes grow before they are full", growStorage),
		cluster.NewRule("waitForVolumes", "until volumes have grown, the database has no more room", waitForVolumes),
	),
	cluster.NewPhase("undo", "a change that the cluster cannot complete is undone before the next one",
		cluster.NewRule("takeBack", "shards that cannot leave any more come back, or the cluster does not go on", takeBack),
		cluster.NewRule("giveBack", "servers below the memory they need get more, or the change cannot complete", giveBack),
	),
	cluster.NewPhase("scale", "only a cluster that is not busy is measured and scaled",
		cluster.NewRule("waitWhileBusy", "a change on the way makes the figures wrong", waitWhileBusy),
		cluster.NewRule("waitForMeasurements", "without figures nothing is decided", waitForMeasurements),
		cluster.NewRule("setShards", "shards divide load and memory, so they come before more memory", setShards),
		cluster.NewRule("setMemory", "memory per server follows what is used", setMemory),
	),
}
