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

// row is a state and what is decided on it.
type row struct {
	state users.State
	step  cluster.Step
	// reason of a plan without a step; empty: settled.
	reason  string
	stalled bool
	says    string
}

func (r row) check(t *testing.T) {
	t.Helper()
	p := users.Next(r.state)
	if diff := cmp.Diff(r.step, p.Step); diff != "" {
		t.Errorf("step (-want +got):\n%s\nplan: %+v", diff, p)
	}
	if r.step == nil && (p.Reason != r.reason || p.Stalled != r.stalled) {
		t.Errorf("plan %+v, want reason %q, stalled %v", p, r.reason, r.stalled)
	}
	if !strings.Contains(p.Message, r.says) || p.Message == "" {
		t.Errorf("it says %q, want %q in it", p.Message, r.says)
	}
	if p.Settled() && p.After != users.Poll {
		t.Errorf("a user in place is looked at again after %s", p.After)
	}
}

// runRows checks every row in a subtest of its name.
func runRows(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, r.check)
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
