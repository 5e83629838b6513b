// Package users decides how a user of a Redis or Valkey cluster gets onto all of its servers, and
// off them. It takes values and returns values: it must not talk to a server or to Kubernetes. The
// ACL rules of a user come from redis.Account.
package users

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// State is what was observed of a user. Where something could not be read, it says so; it never leaves a gap that could
// be taken for "there is none".
type State struct {
	// Name of the resource and of the user, and of the cluster that it belongs to.
	Name, Username, ClusterName string
	// Want is the wanted user. Without a name: its password is not known.
	Want acl.User
	// Deleting says that the resource is being deleted, Protected that it stays until the user is gone from the servers.
	Deleting, Protected bool
	// Rival is an older resource for the same user, nil when there is none.
	Rival *Rival
	// Cluster is nil when there is none of the wanted name.
	Cluster *Cluster
	// Published says that the connection Secret is in place.
	Published bool
}

// Rival is another resource for the same user.
type Rival struct {
	Name    string
	Leaving bool
}

// Cluster is the cluster that the user belongs to.
type Cluster struct {
	// Leaving says that it is being deleted.
	Leaving bool
	// Paused says that nothing of it may be changed.
	Paused bool
	// Auth says that its clients must authenticate.
	Auth bool
	// Copies is how many servers it is to have.
	Copies int
	// Pods are those that exist.
	Pods []model.Pod
}

// Reasons for waiting and refusing, for conditions and events.
const (
	// ReasonNoCluster says that there is no cluster of the wanted name, or that it is being deleted.
	ReasonNoCluster = "ClusterMissing"
	// ReasonUnreachable says that servers of the cluster do not answer.
	ReasonUnreachable = "ServersUnreachable"
	// ReasonAuthOff says that the cluster asks no client who it is.
	ReasonAuthOff = "AuthDisabled"
	// ReasonRival says that another resource is for the same user.
	ReasonRival = "UsernameTaken"
	// ReasonForeign says that a server has a user of this name that was not made for this resource.
	ReasonForeign = "ForeignUser"
)

const (
	// whileWaiting is how soon to look again at servers that do not answer.
	whileWaiting = 5 * time.Second
	// Poll is how often a user that is in place is looked at: so long may a change by other hands last.
	Poll = 30 * time.Second
)

const settled = "the user is as specified"

// Protect adds the finalizer, so that the resource stays until its user is gone from the servers.
type Protect struct{}

// Publish writes the connection Secret.
type Publish struct{}

// Release removes the finalizer, and with it the resource.
type Release struct{}

func (Protect) String() string { return "add the finalizer" }
func (Publish) String() string { return "write the connection Secret" }
func (Release) String() string { return "remove the finalizer" }

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
	if s.Cluster == nil || s.Cluster.Leaving {
		return cluster.Do(Release{}, "RedisCluster %s is gone or going, and its users with it", s.ClusterName)
	}
	return cluster.Pass()
}

func waitForCluster(s State) (cluster.Plan, bool) {
	switch {
	case s.Cluster == nil:
		return cluster.Wait(ReasonNoCluster, 0, "there is no RedisCluster %s in this namespace: create it", s.ClusterName)
	case s.Cluster.Leaving:
		return cluster.Wait(ReasonNoCluster, 0, "RedisCluster %s is being deleted", s.ClusterName)
	}
	return cluster.Pass()
}

func refuseWithoutAuth(s State) (cluster.Plan, bool) {
	if s.Cluster.Auth {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonAuthOff, "RedisCluster %s asks no client who it is (its spec.auth.mode is Disabled), so a user "+
		"would restrict nobody: use a cluster with mode Password, or delete this resource", s.ClusterName)
}

// refuseRival leaves the user to the older of two resources. When that one goes, it takes the user along, and this one makes
// it anew.
func refuseRival(s State) (cluster.Plan, bool) {
	switch {
	case s.Rival == nil:
		return cluster.Pass()
	case s.Rival.Leaving:
		return cluster.Wait(ReasonRival, whileWaiting, "RedisUser %s for the same user %q of RedisCluster %s is being deleted",
			s.Rival.Name, s.Username, s.ClusterName)
	}
	return cluster.Refuse(ReasonRival, "RedisUser %s is older and for the same user %q of RedisCluster %s: delete one of the two, "+
		"or create one with another spec.username", s.Rival.Name, s.Username, s.ClusterName)
}

func waitWhilePaused(s State) (cluster.Plan, bool) {
	if !s.Cluster.Paused {
		return cluster.Pass()
	}
	return cluster.Wait(cluster.ReasonPaused, 0, "spec.paused of RedisCluster %s is true, so its users are not changed either", s.ClusterName)
}

func refuseForeign(s State) (cluster.Plan, bool) {
	for _, p := range s.Cluster.Pods {
		if u, ok := s.on(p); ok && u.MadeFor() != s.Name {
			return cluster.Refuse(ReasonForeign, "the server of pod %s has a user %q that was not made for this resource: delete it "+
				"(ACL DELUSER %s), or create a RedisUser with another spec.username", p.Name, s.Username, s.Username)
		}
	}
	return cluster.Pass()
}

// protect comes before the first command to a server, which nobody would undo otherwise.
func protect(s State) (cluster.Plan, bool) {
	if s.Protected {
		return cluster.Pass()
	}
	return cluster.Do(Protect{}, "the resource is to stay until its user is gone from the servers")
}

// setUser makes the user what it is to be on all servers that answer.
func setUser(s State) (cluster.Plan, bool) {
	var step steps.SetUsers
	for _, p := range s.Cluster.Pods {
		if p.Node == nil || p.Node.Users == nil {
			continue
		}
		if u, ok := s.on(p); !ok || !u.IsAccount(s.Want, p.Node.Software()) {
			step.Pods = append(step.Pods, steps.PodUsers{Pod: p.Name, Users: []acl.User{s.Want}, Admits: p.Node.Admits})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "user %q of servers is not as specified", s.Username)
}

// on finds the user on the server of a pod.
func (s State) on(p model.Pod) (acl.User, bool) {
	if p.Node == nil {
		return acl.User{}, false
	}
	i := slices.IndexFunc(p.Node.Users, func(u acl.User) bool { return u.Name == s.Username })
	if i < 0 {
		return acl.User{}, false
	}
	return p.Node.Users[i], true
}

// waitForServers waits until every server was read: one that does not answer may lack the user, or still have it.
func waitForServers(s State) (cluster.Plan, bool) {
	for _, p := range s.Cluster.Pods {
		if p.Node == nil || p.Node.Users == nil {
			return cluster.Wait(ReasonUnreachable, whileWaiting, "pod %s of RedisCluster %s does not answer%s", p.Name, s.ClusterName, why(p))
		}
	}
	if n := len(s.Cluster.Pods); n < s.Cluster.Copies && !s.Deleting {
		return cluster.Wait(ReasonUnreachable, whileWaiting, "%d of %d pods of RedisCluster %s exist", n, s.Cluster.Copies, s.ClusterName)
	}
	return cluster.Pass()
}

func why(p model.Pod) string {
	if p.Error == "" {
		return ""
	}
	return fmt.Sprintf(": %s", p.Error)
}

// publish comes last: what the Secret says works on every server.
func publish(s State) (cluster.Plan, bool) {
	if s.Published {
		return cluster.Pass()
	}
	return cluster.Do(Publish{}, "the connection Secret of user %q is not up to date", s.Username)
}

// deleteUser deletes the user, unless somebody else made it.
func deleteUser(s State) (cluster.Plan, bool) {
	var step steps.DeleteUsers
	for _, p := range s.Cluster.Pods {
		if u, ok := s.on(p); ok && u.MadeFor() == s.Name {
			step.Pods = append(step.Pods, steps.PodUsers{Pod: p.Name, Users: []acl.User{{Name: s.Username}}, Admits: p.Node.Admits})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "user %q is removed from the servers, because its resource is being deleted", s.Username)
}

func release(State) (cluster.Plan, bool) {
	return cluster.Do(Release{}, "no server has the user any more")
}
