package planner

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// refuseOtherIdentity refuses to touch anything when a member belongs to another cluster.
func refuseOtherIdentity(s model.State) (cluster.Plan, bool) {
	id, agree := s.ClusterID()
	if !agree {
		return cluster.Refuse(ReasonIdentity, "the members belong to different etcd clusters%s: "+
			"delete the pod and the claim of the one that is wrong", identities(s))
	}
	if s.Record.ClusterID != 0 && id != 0 && id != s.Record.ClusterID {
		return cluster.Refuse(ReasonIdentity, "the members belong to etcd cluster %s, but this is cluster %s: "+
			"bring back the volumes of that cluster", model.FormatID(id), model.FormatID(s.Record.ClusterID))
	}
	return cluster.Pass()
}

func identities(s model.State) string {
	var parts []string
	for _, p := range s.Pods {
		if p.Status != nil {
			parts = append(parts, p.Name+" to "+model.FormatID(p.Status.ClusterID))
		}
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// authenticate switches authentication on and gets root's password right.
func authenticate(s model.State) (cluster.Plan, bool) {
	leader := s.Leader()
	if leader == nil {
		return cluster.Wait(ReasonNoQuorum, pace(s), "the members have no leader that a quorum follows%s", troubles(s))
	}
	if s.Auth == nil {
		return cluster.Wait(ReasonAuth, pace(s), "waiting for etcd to tell whether authentication is on (%v)", s.AuthError)
	}
	via := s.Speaker(leader).Name
	switch {
	case !s.Want.Auth && s.Auth.Enabled:
		return cluster.Refuse(ReasonAuth, "etcd requires a password, but spec.auth.mode is Disabled, and cannot change: "+
			"switch authentication off as the user root: etcdctl --user root auth disable")
	case !s.Want.Auth:
		return cluster.Pass()
	case !s.Auth.Enabled:
		return cluster.Do(steps.EnableAuth{Pod: via}, "spec.auth.mode is Password and authentication is off")
	case s.Auth.PasswordWorks && s.Want.NewPassword:
		return cluster.Do(steps.RecordPassword{}, "root has its new password: clients get it too")
	case s.Auth.PasswordWorks:
		return cluster.Pass()
	case s.Want.CertificateIsRoot || s.Auth.Root:
		return cluster.Do(steps.SetRootPassword{Pod: via}, "root has another password than the Secret")
	}
	return wrongPassword(s)
}

// refusePassword stops where members answer, but only to say that the password is wrong.
func refusePassword(s model.State) (cluster.Plan, bool) {
	if s.Members == nil && s.Auth != nil && s.Auth.Enabled && !s.Auth.PasswordWorks {
		return wrongPassword(s)
	}
	return cluster.Pass()
}

func wrongPassword(s model.State) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonAuth, "etcd does not accept the password of root: put the right one under the key password "+
		"into Secret %s", s.Want.PasswordSecret)
}

// recordIdentity writes down the cluster id as soon as a quorum follows one leader: before anything is written to etcd,
// so that no member can found the cluster again once there is something to lose.
func recordIdentity(s model.State) (cluster.Plan, bool) {
	if s.Known() {
		return cluster.Pass()
	}
	id, _ := s.ClusterID()
	all, healthy := s.Voters()
	if id == 0 || s.Leader() == nil {
		return cluster.Wait(steps.ReasonStarting, pace(s), "waiting for a quorum of members%s", troubles(s))
	}
	return cluster.Do(steps.RecordClusterID{ClusterID: id}, "%d of %d members have formed cluster %s", healthy, all, model.FormatID(id))
}

// openToClients opens the cluster, last: nobody gets a write acknowledged before its identity is safe, and nobody gets
// in without a password.
func openToClients(s model.State) (cluster.Plan, bool) {
	if s.Open {
		return cluster.Pass()
	}
	return cluster.Do(steps.LetClientsIn{}, "the identity of the cluster is recorded and authentication is as specified")
}

// refuseForeignPeers stops at a member without data whose peers are those of another cluster.
func refuseForeignPeers(s model.State) (cluster.Plan, bool) {
	for _, p := range s.Pods {
		if !p.Terminating && p.Gate != nil && p.Gate.Reason == model.GateForeignPeers {
			return cluster.Refuse(ReasonIdentity, "%s", p.Gate.Message)
		}
	}
	return cluster.Pass()
}

// cureOf names what to do about a member that should not be there. To remove it is right only while all that should be
// there are: otherwise the members are known by other names than those of the specification.
func cureOf(s model.State, stranger model.Member) string {
	for _, p := range s.Record.Members {
		if s.Member(p.URL) == nil {
			return ": the members were made with another DNS domain of the Kubernetes cluster; set it back"
		}
	}
	return ": remove it with etcdctl member remove " + model.FormatID(stranger.ID)
}

func describe(peers []model.Peer) string {
	if len(peers) == 0 {
		return "no members"
	}
	return fmt.Sprintf("%d members (%s ...)", len(peers), peers[0].URL)
}
