package users

import "github.com/quorate/quorate/internal/cluster"

type phase = cluster.Phase[State]

// deletion is the order of the rules for a user that is being deleted.
var deletion = []phase{
	cluster.NewPhase("delete", "the user leaves all servers before the finalizer goes, unless the cluster goes too",
		cluster.NewRule("releaseWithCluster", "with the cluster, its users are gone", releaseWithCluster),
		cluster.NewRule("waitWhilePaused", "a paused cluster is not changed", waitWhilePaused),
		cluster.NewRule("deleteUser", "servers that answer lose the user now", deleteUser),
		cluster.NewRule("waitForServers", "a server that does not answer may still have it", waitForServers),
		cluster.NewRule("release", "the finalizer goes when no server has the user", release),
	),
}

// creation is the order of the rules for any other user.
var creation = []phase{
	cluster.NewPhase("wait", "nothing is written before it is known whose user it is, and that it may be",
		cluster.NewRule("waitForCluster", "without a cluster there is nothing to ask", waitForCluster),
		cluster.NewRule("refuseWithoutAuth", "without authentication every client has all rights", refuseWithoutAuth),
		cluster.NewRule("refuseRival", "of two resources for one user name, the older one counts", refuseRival),
		cluster.NewRule("waitWhilePaused", "a paused cluster is not changed", waitWhilePaused),
		cluster.NewRule("refuseForeign", "a user of the same name that was not made for this resource stays as it is", refuseForeign),
	),
	cluster.NewPhase("create", "servers that answer get the user now; the Secret comes when all have it",
		cluster.NewRule("protect", "the finalizer comes first, or a deletion would leave the user on servers", protect),
		cluster.NewRule("setUser", "a server takes the whole user in one command", setUser),
		cluster.NewRule("waitForServers", "a client may be sent to any server", waitForServers),
		cluster.NewRule("publish", "clients get the Secret when the login works everywhere", publish),
	),
}
