package users

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster"
)

// Reasons for waiting and refusing, for conditions and events.
const (
	// ReasonNoCluster says that there is no cluster of the wanted name, or that it is being deleted.
	ReasonNoCluster = "ClusterMissing"
	// ReasonNotOpen says that the cluster does not let clients in yet.
	ReasonNotOpen = "ClusterStarting"
	// ReasonUnreachable says that no member of the cluster answers.
	ReasonUnreachable = "ClusterUnreachable"
	// ReasonAuthOff says that the cluster asks no client who it is.
	ReasonAuthOff = "AuthDisabled"
	// ReasonRival says that another resource is for the same user.
	ReasonRival = "UsernameTaken"
	// ReasonForeign says that etcd has a user of this name that was not made by this resource.
	ReasonForeign = "ForeignUser"
)

// How soon to look again when no watch is going to tell.
const (
	// whileWaiting is for a cluster that does not answer.
	whileWaiting = 5 * time.Second
	// Poll is how often a user that is in place is looked at: so long may a change by other hands last. It costs the
	// cluster one entry in its log.
	Poll = 30 * time.Second
)

const settled = "the user is as specified"

// Next decides what to do: see creation and deletion for the order.
func Next(s State) cluster.Plan {
	if s.Deleting {
		return cluster.Decide(s, deletion, nil)
	}
	p := cluster.Decide(s, creation, nil)
	if p.Settled() {
		p.Message, p.After = settled, Poll
	}
	return p
}

// Conditions returns Ready, Reconciling and Stalled for the outcome of one pass.
func Conditions(p cluster.Plan, err error) []metav1.Condition {
	return append(cluster.Progress(p, err), cluster.Ready(p, err, settled))
}

// releaseWithCluster lets the resource go with its cluster, so that it does not hold up the deletion of a namespace in which the operator may still work.
func releaseWithCluster(s State) (cluster.Plan, bool) {
	if s.gone() {
		return cluster.Do(Release{}, "EtcdCluster %s is gone or going, and its users with it", s.Want.ClusterName)
	}
	return cluster.Pass()
}

func waitForCluster(s State) (cluster.Plan, bool) {
	switch {
	case s.Cluster == nil:
		return cluster.Wait(ReasonNoCluster, 0, "there is no EtcdCluster %s in this namespace: create it", s.Want.ClusterName)
	case s.Cluster.Leaving:
		return cluster.Wait(ReasonNoCluster, 0, "EtcdCluster %s is being deleted", s.Want.ClusterName)
	}
	return cluster.Pass()
}

func refuseWithoutAuth(s State) (cluster.Plan, bool) {
	if s.Cluster.Auth {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonAuthOff, "EtcdCluster %s asks no client who it is (its spec.auth.mode is Disabled), so a user "+
		"would restrict nobody: use a cluster with mode Password, or delete this resource", s.Want.ClusterName)
}

// refuseRival leaves the user to the older of two resources. When that one goes, it takes the user along, and this one makes
// it anew.
func refuseRival(s State) (cluster.Plan, bool) {
	switch {
	case s.Rival == nil:
		return cluster.Pass()
	case s.Rival.Leaving:
		return cluster.Wait(ReasonRival, whileWaiting, "EtcdUser %s for the same user %q of EtcdCluster %s is being deleted",
			s.Rival.Name, s.Want.Username, s.Want.ClusterName)
	}
	return cluster.Refuse(ReasonRival, "EtcdUser %s is older and for the same user %q of EtcdCluster %s: delete one of the two, "+
		"or create one with another spec.username", s.Rival.Name, s.Want.Username, s.Want.ClusterName)
}

func waitWhilePaused(s State) (cluster.Plan, bool) {
	if !s.Cluster.Paused {
		return cluster.Pass()
	}
	return cluster.Wait(cluster.ReasonPaused, 0, "spec.paused of EtcdCluster %s is true, so its users are not changed either",
		s.Want.ClusterName)
}

func waitWhileHibernated(s State) (cluster.Plan, bool) {
	if !s.Cluster.Hibernated {
		return cluster.Pass()
	}
	return cluster.Wait(cluster.ReasonHibernated, 0, "spec.hibernated of EtcdCluster %s is true, so no member runs", s.Want.ClusterName)
}

func waitUntilOpen(s State) (cluster.Plan, bool) {
	if s.Cluster.Open {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonNotOpen, whileWaiting, "EtcdCluster %s does not let clients in yet", s.Want.ClusterName)
}

func waitForEtcd(s State) (cluster.Plan, bool) {
	if s.Etcd != nil {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonUnreachable, whileWaiting, "EtcdCluster %s does not answer: %v", s.Want.ClusterName, s.Unreachable)
}

func waitForAuth(s State) (cluster.Plan, bool) {
	if s.Etcd.Enabled {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonAuthOff, whileWaiting, "somebody has switched off authentication in EtcdCluster %s", s.Want.ClusterName)
}

func refuseForeign(s State) (cluster.Plan, bool) {
	if s.Etcd.User == nil || s.owned() {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonForeign, "EtcdCluster %s has a user %q that was not made by this resource, because it lacks the "+
		"role %s: delete it in etcd (etcdctl user delete %s), or create an EtcdUser with another spec.username",
		s.Want.ClusterName, s.Want.Username, s.Want.Role(), s.Want.Username)
}

// protect comes before the first write to etcd, which nobody would undo otherwise.
func protect(s State) (cluster.Plan, bool) {
	if s.Protected {
		return cluster.Pass()
	}
	return cluster.Do(Protect{}, "the resource is to stay until its user is gone from etcd")
}

func addRole(s State) (cluster.Plan, bool) {
	if s.Etcd.Role != nil {
		return cluster.Pass()
	}
	return cluster.Do(AddRole{s.Want.Role()}, "etcd has no role %s", s.Want.Role())
}

func setPermissions(s State) (cluster.Plan, bool) {
	todo := changes(s.Etcd.Role.Permissions, s.Want.Permissions)
	if len(todo) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(SetPermissions{s.Want.Role(), todo}, "the permissions of user %q in etcd are not those of the specification: %s",
		s.Want.Username, describe(todo))
}

// addUser makes the user. One without a password cannot get one (UserChangePassword in server/auth/store.go).
func addUser(s State) (cluster.Plan, bool) {
	switch {
	case s.Etcd.User == nil:
		return cluster.Do(AddUser{s.Want.Username}, "etcd has no user %q", s.Want.Username)
	case s.Etcd.User.Password == PasswordNone:
		return cluster.Do(DeleteUser{s.Want.Username},
			"user %q in etcd was made without a password, so that a certificate of this name opens it: it is made anew", s.Want.Username)
	}
	return cluster.Pass()
}

func setPassword(s State) (cluster.Plan, bool) {
	if s.Etcd.User.Password == PasswordRight {
		return cluster.Pass()
	}
	return cluster.Do(SetPassword{s.Want.Username}, "user %q in etcd has another password than its Secret", s.Want.Username)
}

func setRoles(s State) (cluster.Plan, bool) {
	if !slices.Contains(s.Etcd.User.Roles, s.Want.Role()) {
		return cluster.Do(GrantRole{s.Want.Username, s.Want.Role()}, "user %q in etcd lacks its role %s", s.Want.Username, s.Want.Role())
	}
	if others := s.otherRoles(); len(others) > 0 {
		return cluster.Do(RevokeRoles{s.Want.Username, others}, "user %q in etcd has further roles, which are revoked: %s",
			s.Want.Username, strings.Join(others[:min(len(others), listed)], ", "))
	}
	return cluster.Pass()
}

// publish comes last: what the Secret says works.
func publish(s State) (cluster.Plan, bool) {
	if s.Published {
		return cluster.Pass()
	}
	return cluster.Do(Publish{}, "the connection Secret of user %q is not up to date", s.Want.Username)
}

// deleteUser deletes the user, unless somebody else made it.
func deleteUser(s State) (cluster.Plan, bool) {
	if !s.owned() {
		return cluster.Pass()
	}
	return cluster.Do(DeleteUser{s.Want.Username}, "user %q is removed from etcd, because its resource is being deleted", s.Want.Username)
}

func deleteRole(s State) (cluster.Plan, bool) {
	if s.Etcd.Role == nil {
		return cluster.Pass()
	}
	return cluster.Do(DeleteRole{s.Want.Role()}, "role %s is removed from etcd, because its resource is being deleted", s.Want.Role())
}

func release(State) (cluster.Plan, bool) {
	return cluster.Do(Release{}, "nothing of the user is left in etcd")
}
