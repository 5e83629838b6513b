package controllers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

// withPassword is a cluster whose password is in Secret chosen, and empty the name of none.
func withPassword(mode v1alpha1.TLSMode, secret string) *v1alpha1.EtcdCluster {
	o := persistent()
	o.Spec.TLS = &v1alpha1.TLSSpec{Mode: &mode}
	o.Spec.Auth = &v1alpha1.AuthSpec{}
	if secret != "" {
		o.Spec.Auth.SecretName = &secret
	}
	return o
}

func chosen(password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chosen"}, Data: map[string][]byte{PasswordKey: []byte(password)},
	}
}

// choose changes the password as a user would.
func (s *timed) choose(password string) {
	s.t.Helper()
	live := s.secret("chosen")
	live.Data[PasswordKey] = []byte(password)
	if err := s.api.Update(s.t.Context(), live); err != nil {
		s.t.Fatal(err)
	}
}

// password is the one that clients are given, if root has it too.
func (s *timed) password() string {
	s.t.Helper()
	given := string(s.secret("orders-connection").Data[PasswordKey])
	for name, p := range s.procs {
		c := &etcdfake.Client{Network: s.net, Process: p, TLS: s.cluster().Spec.TLS.TLSMode() != v1alpha1.TLSDisabled, Password: given}
		if a, err := c.Auth(s.t.Context(), given); err != nil || !a.PasswordWorks {
			s.t.Fatalf("%s does not take the password that clients are given: %+v, %v", name, a, err)
		}
	}
	return given
}

var passwordModes = []v1alpha1.TLSMode{v1alpha1.TLSManaged, v1alpha1.TLSDisabled}

func TestThePasswordOfTheUserBecomesThatOfRoot(t *testing.T) {
	for _, mode := range passwordModes {
		t.Run(string(mode), func(t *testing.T) {
			s := newTimed(t, withPassword(mode, "chosen"), chosen("first"))
			s.passes(12)
			if got := s.password(); got != "first" {
				t.Fatalf("the password is %q", got)
			}
			pods := s.pods()
			s.choose("second")
			s.passes(4)
			if got := s.password(); got != "second" || !s.ready() || !cmp.Equal(pods, s.pods()) {
				t.Errorf("the password is %q, ready %t", got, s.ready())
			}
			if auth := s.secret("orders-auth").Data; string(auth[PasswordKey]) != "second" || auth[NextPasswordKey] != nil {
				t.Errorf("the Secret still holds another one: %d keys", len(auth))
			}
			writes := s.writes
			s.passes(3)
			if s.writes != writes {
				t.Errorf("%d writes after the change", s.writes-writes)
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
				s := newTimed(t, withPassword(mode, "chosen"), chosen("first"))
				s.passes(12)
				s.crashAt = s.writes + k
				s.choose("second")
				for range 4 {
					s.pass()
					if s.crashAt == 0 {
						s.choose("third")
					}
				}
				s.choose("third")
				s.passes(8)
				if got := s.password(); got != "third" || !s.ready() {
					t.Errorf("crash at write %d: the password is %q: %s", k, got, s.cluster().Status.Activity)
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
	s.passes(12)
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
	s.passes(30)
	if members := s.cluster().Status.Members; len(members) != 3 || !s.ready() {
		t.Errorf("%+v: %s", members, s.cluster().Status.Activity)
	}
}

func TestAWrongPasswordIsToldWhileALearnerAnswers(t *testing.T) {
	wrong, learner := etcd.Pod{Unreachable: etcd.ErrPassword}, etcd.Pod{View: &etcd.View{Learner: true}}
	if !wrongPassword([]etcd.Pod{wrong, learner}) {
		t.Error("a learner, which takes a token, speaks for the password")
	}
	if wrongPassword([]etcd.Pod{wrong, {View: &etcd.View{}}}) {
		t.Error("a voter answers, and the password is said to be wrong")
	}
}

func TestAGeneratedPasswordIsReplacedWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	for _, mode := range passwordModes {
		for name, remove := range map[string]func(*timed){
			"the key": func(s *timed) {
				live := s.secret("orders-auth")
				delete(live.Data, PasswordKey)
				if err := s.api.Update(s.t.Context(), live); err != nil {
					s.t.Fatal(err)
				}
			},
			"the Secret": func(s *timed) {
				if err := s.api.Delete(s.t.Context(), s.secret("orders-auth")); err != nil {
					s.t.Fatal(err)
				}
			},
		} {
			t.Run(fmt.Sprint(mode, ", ", name), func(t *testing.T) {
				s := newTimed(t, withPassword(mode, ""))
				s.passes(12)
				first := s.password()
				remove(s)
				s.passes(20)
				if second := s.password(); second == first || len(second) < 24 || !s.ready() {
					t.Errorf("%q became %q: %s", first, second, s.cluster().Status.Activity)
				}
			})
		}
	}
}

func TestALostPasswordIsAskedFor(t *testing.T) {
	s := newTimed(t, withPassword(v1alpha1.TLSDisabled, ""))
	s.passes(12)
	for _, name := range []string{"orders-auth", "orders-connection"} {
		if err := s.api.Delete(t.Context(), s.secret(name)); err != nil {
			t.Fatal(err)
		}
	}
	kind, ok := s.op.Kind.(*EtcdKind)
	if !ok {
		t.Fatalf("%T", s.op.Kind)
	}
	kind.Children.ForgetSecrets()
	s.passes(1)
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
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
			s := newTimed(t, withPassword(v1alpha1.TLSManaged, "chosen"), chosen("first"))
			s.passes(12)
			s.choose(password)
			s.passes(2)
			c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
			if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, says) || s.password() != "first" {
				t.Errorf("%+v", c)
			}
			s.choose(strings.Repeat("x", maxPassword))
			s.passes(5)
			if !s.ready() || len(s.password()) != maxPassword {
				t.Error(s.cluster().Status.Activity)
			}
		})
	}
}

func TestAPasswordThatEtcdDoesNotTakeIsNotBegunWith(t *testing.T) {
	s := newTimed(t, withPassword(v1alpha1.TLSManaged, "chosen"), chosen("p\xff"))
	s.passes(3)
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "is not text in UTF-8") {
		t.Errorf("%+v", c)
	}
	s.choose("first")
	s.passes(12)
	if !s.ready() || s.password() != "first" {
		t.Error(s.cluster().Status.Activity)
	}
}

// One that was taken up before it was refused is given up.
func TestAPasswordThatEtcdDoesNotTakeIsGivenUp(t *testing.T) {
	for _, mode := range passwordModes {
		for _, then := range []string{"first", "second"} {
			t.Run(fmt.Sprint(mode, ", ", then), func(t *testing.T) {
				s := newTimed(t, withPassword(mode, "chosen"), chosen("first"))
				s.passes(12)
				live := s.secret("orders-auth")
				live.Data[NextPasswordKey] = []byte("p\xff")
				if err := s.api.Update(t.Context(), live); err != nil {
					t.Fatal(err)
				}
				s.choose(then)
				s.passes(6)
				if got := s.password(); got != then || !s.ready() || s.secret("orders-auth").Data[NextPasswordKey] != nil {
					t.Errorf("the password is %q: %s", got, s.cluster().Status.Activity)
				}
			})
		}
	}
}
