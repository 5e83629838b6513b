package users_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

const role = "quorate:orders-app:app"

var (
	appPrefix = users.Permission{Keys: users.Keys{From: "/app/", End: "/app0"}, Access: v1alpha1.EtcdReadWrite}
	oneKey    = users.Permission{Keys: users.Keys{From: "/flag"}, Access: v1alpha1.EtcdRead}
)

// fresh is a resource that was just created, for a cluster that is Ready.
func fresh(change func(*users.State)) users.State {
	s := users.State{
		Want: users.Want{
			Name: "orders-app", ClusterName: "orders", Username: "app", Permissions: []users.Permission{appPrefix, oneKey}, Generated: true,
		},
		Cluster: &users.Cluster{Auth: true, Open: true},
		Etcd:    &users.Etcd{Enabled: true},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// inPlace is a user as specified.
func inPlace(change func(*users.State)) users.State {
	s := fresh(nil)
	s.Protected, s.Published = true, true
	s.Etcd.Role = &users.Role{Permissions: []users.Permission{appPrefix, oneKey}}
	s.Etcd.User = &users.User{Roles: []string{role}, Password: users.PasswordRight}
	if change != nil {
		change(&s)
	}
	return s
}

func leaving(s users.State) users.State {
	s.Deleting = true
	return s
}

// byHand is a cluster in which somebody else has made the user.
func byHand(s *users.State) {
	s.Protected, s.Published = false, false
	s.Etcd.Role, s.Etcd.User = nil, &users.User{Roles: []string{"theirs"}, Password: users.PasswordWrong}
}

func grant(p users.Permission) users.Change  { return users.Change{Permission: p} }
func revoke(p users.Permission) users.Change { return users.Change{Permission: p, Revoke: true} }

func TestNext(t *testing.T) {
	for name, tc := range map[string]struct {
		state users.State
		step  cluster.Step
		// reason of a plan without a step; empty: settled.
		reason  string
		stalled bool
		says    string
	}{
		"the resource is held before anything is written": {state: fresh(nil), step: users.Protect{}},
		"the role comes first": {
			state: fresh(func(s *users.State) { s.Protected = true }), step: users.AddRole{Role: role},
		},
		"then its permissions": {
			state: fresh(func(s *users.State) { s.Protected, s.Etcd.Role = true, &users.Role{} }),
			step:  users.SetPermissions{Role: role, Changes: []users.Change{grant(appPrefix), grant(oneKey)}},
			says:  `grant ReadWrite on prefix "/app/", grant Read on key "/flag"`,
		},
		"then the user": {
			state: inPlace(func(s *users.State) { s.Etcd.User, s.Published = nil, false }), step: users.AddUser{User: "app"},
		},
		"then the user gets the role": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Roles, s.Published = nil, false }), step: users.GrantRole{User: "app", Role: role},
		},
		"the Secret comes last":       {state: inPlace(func(s *users.State) { s.Published = false }), step: users.Publish{}},
		"what is right is left alone": {state: inPlace(nil), says: "the user is as specified"},
		"a user without permissions is in place": {
			state: inPlace(func(s *users.State) { s.Want.Permissions, s.Etcd.Role.Permissions = nil, nil }),
		},

		"a revoked permission is granted again": {
			state: inPlace(func(s *users.State) { s.Etcd.Role.Permissions = []users.Permission{oneKey} }),
			step:  users.SetPermissions{Role: role, Changes: []users.Change{grant(appPrefix)}}, says: `grant ReadWrite on prefix "/app/"`,
		},
		"an added permission is revoked": {
			state: inPlace(func(s *users.State) {
				s.Want.Permissions = []users.Permission{oneKey}
			}),
			step: users.SetPermissions{Role: role, Changes: []users.Change{revoke(appPrefix)}}, says: `revoke ReadWrite on prefix "/app/"`,
		},
		"a deleted user is made anew": {state: inPlace(func(s *users.State) { s.Etcd.User = nil }), step: users.AddUser{User: "app"}},
		"a changed password is set back": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Password = users.PasswordWrong }), step: users.SetPassword{User: "app"},
		},
		"a further role is revoked": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Roles = []string{"admin", role, "root"} }),
			step:  users.RevokeRoles{User: "app", Roles: []string{"admin", "root"}}, says: "admin, root",
		},
		"a deleted role of a user with the operator's own password is made anew": {
			state: inPlace(func(s *users.State) { s.Etcd.Role, s.Etcd.User.Roles = nil, nil }), step: users.AddRole{Role: role},
		},
		"a user without a password is made anew": {
			state: inPlace(func(s *users.State) { s.Etcd.User.Password = users.PasswordNone }), step: users.DeleteUser{User: "app"},
		},

		"a user of somebody else is left alone": {
			state: fresh(byHand), reason: users.ReasonForeign, stalled: true, says: "etcdctl user delete app",
		},
		"one that happens to have the same given password as well": {
			state: fresh(func(s *users.State) {
				byHand(s)
				s.Want.Generated, s.Etcd.User.Password = false, users.PasswordRight
			}), reason: users.ReasonForeign, stalled: true,
		},
		"one made by hand after ours was deleted as well": {
			state:  inPlace(func(s *users.State) { s.Etcd.User = &users.User{Password: users.PasswordWrong} }),
			reason: users.ReasonForeign, stalled: true,
		},
		"a crash between adding the user and granting its role is no riddle": {
			state: inPlace(func(s *users.State) { s.Want.Generated, s.Etcd.User.Roles = false, nil }),
			step:  users.GrantRole{User: "app", Role: role},
		},

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

		"deleted: first the user":        {state: leaving(inPlace(nil)), step: users.DeleteUser{User: "app"}},
		"deleted: then the role":         {state: leaving(inPlace(func(s *users.State) { s.Etcd.User = nil })), step: users.DeleteRole{Role: role}},
		"deleted: then the resource":     {state: leaving(fresh(nil)), step: users.Release{}},
		"deleted: with its cluster":      {state: leaving(inPlace(func(s *users.State) { s.Cluster, s.Etcd = nil, nil })), step: users.Release{}},
		"deleted: with a cluster going":  {state: leaving(inPlace(func(s *users.State) { s.Cluster.Leaving, s.Etcd = true, nil })), step: users.Release{}},
		"deleted: others' users stay":    {state: leaving(fresh(byHand)), step: users.Release{}},
		"deleted: rivals do not matter":  {state: leaving(inPlace(func(s *users.State) { s.Rival = &users.Rival{Name: "elder"} })), step: users.DeleteUser{User: "app"}},
		"deleted: nor does the switch":   {state: leaving(inPlace(func(s *users.State) { s.Cluster.Auth, s.Etcd.Enabled = false, false })), step: users.DeleteUser{User: "app"}},
		"deleted: a pause is waited out": {state: leaving(inPlace(func(s *users.State) { s.Cluster.Paused = true })), reason: v1alpha1.ReasonPaused},
		"deleted: so is a night": {
			state: leaving(inPlace(func(s *users.State) { s.Cluster.Hibernated, s.Etcd = true, nil })), reason: v1alpha1.ReasonHibernated,
		},
		"deleted: so is a silence": {
			state:  leaving(inPlace(func(s *users.State) { s.Etcd, s.Unreachable = nil, errors.New("timed out") })),
			reason: users.ReasonUnreachable, says: "EtcdCluster orders does not answer: timed out",
		},
		"deleted: a user just added goes too": {
			state: leaving(inPlace(func(s *users.State) { s.Want.Generated, s.Etcd.User.Roles = false, nil })), step: users.DeleteUser{User: "app"},
		},
		"deleted: a user whose password cannot be tried stays": {
			state: leaving(inPlace(func(s *users.State) { s.Etcd.User = &users.User{} })), step: users.DeleteRole{Role: role},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := users.Next(tc.state)
			if diff := cmp.Diff(tc.step, p.Step); diff != "" {
				t.Errorf("step (-want +got):\n%s\nplan: %+v", diff, p)
			}
			if tc.step == nil && (p.Reason != tc.reason || p.Stalled != tc.stalled) {
				t.Errorf("plan %+v, want reason %q, stalled %v", p, tc.reason, tc.stalled)
			}
			if !strings.Contains(p.Message, tc.says) || p.Message == "" {
				t.Errorf("it says %q, want %q in it", p.Message, tc.says)
			}
			if p.Settled() && p.After != users.Poll {
				t.Errorf("a user in place is looked at again after %s", p.After)
			}
		})
	}
}

func TestReadyIsTrueOnlyForAUserInPlace(t *testing.T) {
	status := func(p cluster.Plan, err error, typ string) metav1.ConditionStatus {
		for _, c := range users.Conditions(p, err) {
			if c.Type == typ {
				return c.Status
			}
		}
		return "missing"
	}
	for name, tc := range map[string]struct {
		state                       users.State
		err                         error
		ready, reconciling, stalled metav1.ConditionStatus
	}{
		"in place":  {inPlace(nil), nil, "True", "False", "False"},
		"at work":   {fresh(nil), nil, "False", "True", "False"},
		"refused":   {fresh(byHand), nil, "False", "False", "True"},
		"failed":    {inPlace(nil), errors.New("no answer"), "False", "True", "False"},
		"unwilling": {inPlace(nil), cluster.Refusal{Reason: "InvalidSpec", Message: "no Secret: create it"}, "False", "False", "True"},
	} {
		t.Run(name, func(t *testing.T) {
			p := users.Next(tc.state)
			for typ, want := range map[string]metav1.ConditionStatus{
				v1alpha1.ConditionReady: tc.ready, v1alpha1.ConditionReconciling: tc.reconciling, v1alpha1.ConditionStalled: tc.stalled,
			} {
				if got := status(p, tc.err, typ); got != want {
					t.Errorf("%s is %s, want %s", typ, got, want)
				}
			}
		})
	}
}
