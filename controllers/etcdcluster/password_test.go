package etcdcluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/controllersim"
)

// withPassword is a cluster whose password is in Secret chosen, and empty the name of none.
func withPassword(mode v1alpha1.TLSMode, secret string) *v1alpha1.EtcdCluster {
	o := controllersim.Persistent()
	o.Spec.TLS = &v1alpha1.TLSSpec{Mode: &mode}
	o.Spec.Auth = &v1alpha1.AuthSpec{}
	if secret != "" {
		o.Spec.Auth.SecretName = &secret
	}
	return o
}

var passwordModes = []v1alpha1.TLSMode{v1alpha1.TLSManaged, v1alpha1.TLSDisabled}

func TestThePasswordOfTheUserBecomesThatOfRoot(t *testing.T) {
	for _, mode := range passwordModes {
		t.Run(string(mode), func(t *testing.T) {
			s := newTimed(t, withPassword(mode, "chosen"), controllersim.Chosen("first"))
			s.Passes(12)
			if got := s.Password(); got != "first" {
				t.Fatalf("the password is %q", got)
			}
			pods := s.Pods()
			s.Choose("second")
			s.Passes(4)
			if got := s.Password(); got != "second" || !s.Ready() || !cmp.Equal(pods, s.Pods()) {
				t.Errorf("the password is %q, ready %t", got, s.Ready())
			}
			if auth := s.Secret("orders-auth").Data; string(auth[owned.PasswordKey]) != "second" || auth[owned.NextPasswordKey] != nil {
				t.Errorf("the Secret still holds another one: %d keys", len(auth))
			}
			writes := s.Writes
			s.Passes(3)
			if s.Writes != writes {
				t.Errorf("%d writes after the change", s.Writes-writes)
			}
		})
	}
}

// Whatever crashes when, and even if the user changes his mind meanwhile, nobody is locked out.
func TestNobodyIsLockedOutByACrashWhileThePasswordChanges(t *testing.T) {
	t.Parallel()
	for _, mode := range passwordModes {
		t.Run(string(mode), func(t *testing.T) {
			for k := 1; k <= 6; k++ {
				s := newTimed(t, withPassword(mode, "chosen"), controllersim.Chosen("first"))
				s.Passes(12)
				s.CrashAt = s.Writes + k
				s.Choose("second")
				for range 4 {
					s.Pass()
					if s.CrashAt == 0 {
						s.Choose("third")
					}
				}
				s.Choose("third")
				s.Passes(8)
				if got := s.Password(); got != "third" || !s.Ready() {
					t.Errorf("crash at write %d: the password is %q: %s", k, got, s.Cluster().Status.Activity)
				}
			}
		})
	}
}

// A learner lets nobody log in with a password.
func TestAClusterGrowsWhoseOperatorHasOnlyThePassword(t *testing.T) {
	o := withPassword(v1alpha1.TLSDisabled, "")
	o.Spec.Size = 1
	s := newTimed(t, o)
	s.Passes(12)
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
	s.Passes(30)
	if members := s.Cluster().Status.Members; len(members) != 3 || !s.Ready() {
		t.Errorf("%+v: %s", members, s.Cluster().Status.Activity)
	}
}

func TestAWrongPasswordIsToldWhileALearnerAnswers(t *testing.T) {
	wrong, learner := model.Pod{Unreachable: model.ErrPassword}, model.Pod{Status: &model.Status{Learner: true}}
	if !wrongPassword([]model.Pod{wrong, learner}) {
		t.Error("a learner, which takes a token, speaks for the password")
	}
	if wrongPassword([]model.Pod{wrong, {Status: &model.Status{}}}) {
		t.Error("a voter answers, and the password is said to be wrong")
	}
}

func TestAGeneratedPasswordIsReplacedWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	for _, mode := range passwordModes {
		for name, remove := range map[string]func(*controllersim.TimedEtcd){
			"the key": func(s *controllersim.TimedEtcd) {
				live := s.Secret("orders-auth")
				delete(live.Data, owned.PasswordKey)
				if err := s.API.Update(s.T.Context(), live); err != nil {
					s.T.Fatal(err)
				}
			},
			"the Secret": func(s *controllersim.TimedEtcd) {
				if err := s.API.Delete(s.T.Context(), s.Secret("orders-auth")); err != nil {
					s.T.Fatal(err)
				}
			},
		} {
			t.Run(fmt.Sprint(mode, ", ", name), func(t *testing.T) {
				s := newTimed(t, withPassword(mode, ""))
				s.Passes(12)
				first := s.Password()
				remove(s)
				s.Passes(20)
				if second := s.Password(); second == first || len(second) < 24 || !s.Ready() {
					t.Errorf("%q became %q: %s", first, second, s.Cluster().Status.Activity)
				}
			})
		}
	}
}

func TestALostPasswordIsAskedFor(t *testing.T) {
	s := newTimed(t, withPassword(v1alpha1.TLSDisabled, ""))
	s.Passes(12)
	for _, name := range []string{"orders-auth", "orders-connection"} {
		if err := s.API.Delete(t.Context(), s.Secret(name)); err != nil {
			t.Fatal(err)
		}
	}
	kind, ok := s.Op.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Op.Kind)
	}
	kind.ForgetSecrets()
	s.Passes(1)
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, cluster.AuthSecret("orders")) {
		t.Errorf("%+v", c)
	}
}

func TestAPasswordThatEtcdDoesNotTakeIsRefused(t *testing.T) {
	for says, password := range map[string]string{
		"at most 72":           strings.Repeat("x", maxPassword+1),
		"is not text in UTF-8": "p\xff",
	} {
		t.Run(says, func(t *testing.T) {
			s := newTimed(t, withPassword(v1alpha1.TLSManaged, "chosen"), controllersim.Chosen("first"))
			s.Passes(12)
			s.Choose(password)
			s.Passes(2)
			c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
			if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, says) || s.Password() != "first" {
				t.Errorf("%+v", c)
			}
			s.Choose(strings.Repeat("x", maxPassword))
			s.Passes(5)
			if !s.Ready() || len(s.Password()) != maxPassword {
				t.Error(s.Cluster().Status.Activity)
			}
		})
	}
}

func TestAPasswordThatEtcdDoesNotTakeIsNotBegunWith(t *testing.T) {
	s := newTimed(t, withPassword(v1alpha1.TLSManaged, "chosen"), controllersim.Chosen("p\xff"))
	s.Passes(3)
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "is not text in UTF-8") {
		t.Errorf("%+v", c)
	}
	s.Choose("first")
	s.Passes(12)
	if !s.Ready() || s.Password() != "first" {
		t.Error(s.Cluster().Status.Activity)
	}
}

// One that was taken up before it was refused is given up.
func TestAPasswordThatEtcdDoesNotTakeIsGivenUp(t *testing.T) {
	for _, mode := range passwordModes {
		for _, then := range []string{"first", "second"} {
			t.Run(fmt.Sprint(mode, ", ", then), func(t *testing.T) {
				s := newTimed(t, withPassword(mode, "chosen"), controllersim.Chosen("first"))
				s.Passes(12)
				live := s.Secret("orders-auth")
				live.Data[owned.NextPasswordKey] = []byte("p\xff")
				if err := s.API.Update(t.Context(), live); err != nil {
					t.Fatal(err)
				}
				s.Choose(then)
				s.Passes(6)
				if got := s.Password(); got != then || !s.Ready() || s.Secret("orders-auth").Data[owned.NextPasswordKey] != nil {
					t.Errorf("the password is %q: %s", got, s.Cluster().Status.Activity)
				}
			})
		}
	}
}
