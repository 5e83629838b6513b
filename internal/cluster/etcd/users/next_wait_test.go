package users_test

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

func TestNextWaitsForTheCluster(t *testing.T) {
	runRows(t, map[string]row{
		"no cluster": {
			state: fresh(func(s *users.State) { s.Cluster, s.Etcd = nil, nil }), reason: users.ReasonNoCluster, says: "there is no EtcdCluster orders",
		},
		"a cluster that goes": {
			state: fresh(func(s *users.State) { s.Cluster.Leaving, s.Etcd = true, nil }), reason: users.ReasonNoCluster, says: "being deleted",
		},
		"a cluster without authentication": {
			state:  fresh(func(s *users.State) { s.Cluster.Auth, s.Etcd = false, nil }),
			reason: users.ReasonAuthOff, stalled: true, says: "mode Password",
		},
		"authentication switched off by hand": {
			state: inPlace(func(s *users.State) { s.Etcd.Enabled = false }), reason: users.ReasonAuthOff,
		},
		"a paused cluster": {
			state: fresh(func(s *users.State) { s.Cluster.Paused = true }), reason: v1alpha1.ReasonPaused, says: "spec.paused of EtcdCluster orders",
		},
		"a cluster that hibernates": {
			state:  fresh(func(s *users.State) { s.Cluster.Hibernated, s.Etcd = true, nil }),
			reason: v1alpha1.ReasonHibernated, says: "spec.hibernated of EtcdCluster orders is true",
		},
		"a cluster that is not open": {
			state: fresh(func(s *users.State) { s.Cluster.Open, s.Etcd = false, nil }), reason: users.ReasonNotOpen,
		},
		"a cluster that does not answer": {
			state: fresh(func(s *users.State) { s.Etcd, s.Unreachable = nil, errors.New("timed out") }), reason: users.ReasonUnreachable, says: "EtcdCluster orders does not answer: timed out",
		},
		"the older of two has the user": {
			state:  fresh(func(s *users.State) { s.Rival = &users.Rival{Name: "elder"} }),
			reason: users.ReasonRival, stalled: true, says: "EtcdUser elder is older",
		},
		"the older of two goes": {
			state: fresh(func(s *users.State) { s.Rival = &users.Rival{Name: "elder", Leaving: true} }), reason: users.ReasonRival,
		},
	})
}

func TestNextDeletesAUser(t *testing.T) {
	runRows(t, map[string]row{
		"deleted: first the user":                               {state: leaving(inPlace(nil)), step: users.DeleteUser{User: "app"}},
		"deleted: then the role":                                {state: leaving(inPlace(func(s *users.State) { s.Etcd.User = nil })), step: users.DeleteRole{Role: role}},
		"deleted: then the resource":                            {state: leaving(fresh(nil)), step: users.Release{}},
		"deleted: with its cluster":                             {state: leaving(inPlace(func(s *users.State) { s.Cluster, s.Etcd = nil, nil })), step: users.Release{}},
		"deleted: with a cluster going":                         {state: leaving(inPlace(func(s *users.State) { s.Cluster.Leaving, s.Etcd = true, nil })), step: users.Release{}},
		"deleted: others' users stay":                           {state: leaving(fresh(byHand)), step: users.Release{}},
		"deleted: rivals do not matter":                         {state: leaving(inPlace(func(s *users.State) { s.Rival = &users.Rival{Name: "elder"} })), step: users.DeleteUser{User: "app"}},
		"deleted: the switch of authentication does not matter": {state: leaving(inPlace(func(s *users.State) { s.Cluster.Auth, s.Etcd.Enabled = false, false })), step: users.DeleteUser{User: "app"}},
		"deleted: a pause is waited out":                        {state: leaving(inPlace(func(s *users.State) { s.Cluster.Paused = true })), reason: v1alpha1.ReasonPaused},
		"deleted: hibernation is waited out": {
			state: leaving(inPlace(func(s *users.State) { s.Cluster.Hibernated, s.Etcd = true, nil })), reason: v1alpha1.ReasonHibernated,
		},
		"deleted: a cluster that does not answer is waited for": {
			state:  leaving(inPlace(func(s *users.State) { s.Etcd, s.Unreachable = nil, errors.New("timed out") })),
			reason: users.ReasonUnreachable, says: "EtcdCluster orders does not answer: timed out",
		},
		"deleted: a user just added goes too": {
			state: leaving(inPlace(func(s *users.State) { s.Want.Generated, s.Etcd.User.Roles = false, nil })), step: users.DeleteUser{User: "app"},
		},
		"deleted: a user whose password cannot be tried stays": {
			state: leaving(inPlace(func(s *users.State) { s.Etcd.User = &users.User{} })), step: users.DeleteRole{Role: role},
		},
	})
}
