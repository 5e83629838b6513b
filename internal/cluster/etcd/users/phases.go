package users

import "github.com/quorate/quorate/internal/cluster"

type phase = cluster.Phase[State]

// deletion is the order of the rules for a user that is being deleted.
var deletion = []phase{
	cluster.NewPhase("wait", "a user is deleted through etcd, which must exist, be active and answer",
		cluster.NewRule("releaseWithCluster", "without the cluster, etcd cannot be asked, and the finalizer would block namespace deletion", releaseWithCluster),
		cluster.NewRule("waitWhilePaused", "a paused cluster is not changed", waitWhilePaused),
		cluster.NewRule("waitWhileHibernated", "a hibernated cluster has no members to ask", waitWhileHibernated),
		cluster.NewRule("waitForEtcd", "the deletion goes through the quorum", waitForEtcd),
	),
	cluster.NewPhase("delete", "the role identifies the operator's user, so the user is deleted before its role",
		cluster.NewRule("deleteUser", "the user is recognised by its role, so it is deleted first", deleteUser),
		cluster.NewRule("deleteRole", "the role is of this user alone", deleteRole),
		cluster.NewRule("release", "the finalizer goes when etcd has no user or role of this resource", release),
	),
}

// creation is the order of the rules for any other user.
var creation = []phase{
	cluster.NewPhase("wait", "nothing is written before it is known whose user it is, and that it may be",
		cluster.NewRule("waitForCluster", "without a cluster there is nothing to ask", waitForCluster),
		cluster.NewRule("refuseWithoutAuth", "without authentication etcd ignores users", refuseWithoutAuth),
		cluster.NewRule("refuseRival", "of two resources for one user name, the older one counts", refuseRival),
		cluster.NewRule("waitWhilePaused", "a paused cluster is not changed", waitWhilePaused),
		cluster.NewRule("waitWhileHibernated", "a hibernated cluster has no members to ask", waitWhileHibernated),
		cluster.NewRule("waitUntilOpen", "users come after root's password is in place", waitUntilOpen),
		cluster.NewRule("waitForEtcd", "users are read through the quorum", waitForEtcd),
		cluster.NewRule("waitForAuth", "a password that is set while authentication is off does not protect", waitForAuth),
		cluster.NewRule("refuseForeign", "an etcd user of this name that this resource did not create stays as it is", refuseForeign),
	),
	cluster.NewPhase("create", "a role gets its specified permissions before a new user gets the role",
		cluster.NewRule("protect", "the finalizer comes first, or a deletion would leave the user in etcd", protect),
		cluster.NewRule("addRole", "permissions need a role", addRole),
		cluster.NewRule("setPermissions", "the role has its final rights before a user gets it", setPermissions),
		cluster.NewRule("addUser", "the user begins without roles", addUser),
		cluster.NewRule("setPassword", "the password is in place before the rights", setPassword),
		cluster.NewRule("setRoles", "the last step that changes what the user may do", setRoles),
		cluster.NewRule("publish", "clients get the Secret when the login works", publish),
	),
}
