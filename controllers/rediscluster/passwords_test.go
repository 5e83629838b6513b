package rediscluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

// passwordStage is a cluster whose password is in the Secret chosen, and a clock that moves.
type passwordStage struct {
	*controllersim.Redis
	now time.Time
}

func newPasswordStage(t *testing.T, given bool) *passwordStage {
	t.Helper()
	o := fakeapi.RedisCluster()
	if given {
		name := "chosen"
		o.Spec.Auth = &v1alpha1.AuthSpec{SecretName: &name}
	}
	s := &passwordStage{Redis: newRedisStage(t, o, controllersim.Chosen("before")), now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	kind.Now = func() time.Time { return s.now }
	s.Settle()
	return s
}

// passes fails when a server refuses the password that clients are given.
func (s *passwordStage) passes(n int, step time.Duration) {
	s.T.Helper()
	for range n {
		s.Pass()
		s.now = s.now.Add(step)
		s.API.Fail = nil
		given := acl.Hash(s.given())
		for pod := range s.Servers {
			if u := s.UserOf(pod, acl.UserDefault); u == nil || !slices.Contains(u.Passwords, given) {
				s.T.Fatalf("%s does not take the password that clients are given", pod)
			}
		}
	}
}

func (s *passwordStage) given() string {
	return string(s.Secret("carts-connection").Data[owned.PasswordKey])
}

func (s *passwordStage) choose(password string) {
	s.T.Helper()
	live := s.Secret("chosen")
	live.Data[owned.PasswordKey] = []byte(password)
	if err := s.API.Update(s.T.Context(), live); err != nil {
		s.T.Fatal(err)
	}
}

// works lists how many passwords each user of a server has.
func (s *passwordStage) works(pod string) map[string]int {
	out := map[string]int{}
	for _, u := range s.Servers[pod].Users {
		out[u.Name] = len(u.Passwords)
	}
	return out
}

func TestAPasswordOfARedisClusterIsReplacedBesideTheFormer(t *testing.T) {
	t.Parallel()
	s := newPasswordStage(t, true)
	pods, before := s.Uids(), s.Secret("carts-auth").Data
	s.choose("second")
	s.passes(12, 10*time.Second)
	if s.given() != "second" {
		t.Fatalf("clients are given %q: %s", s.given(), s.Cluster().Status.Activity)
	}
	if diff := cmp.Diff(map[string]int{"default": 2, "quorate": 2, "replication": 2, "migration": 2}, s.works("carts-2-1")); diff != "" {
		t.Errorf("passwords that work meanwhile (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("the cluster is not ready while clients have time to follow")
	}
	s.passes(30, 15*time.Second)
	if diff := cmp.Diff(map[string]int{"default": 1, "quorate": 1, "replication": 1, "migration": 1}, s.works("carts-2-1")); diff != "" {
		t.Errorf("passwords that work in the end (-want +got):\n%s", diff)
	}
	after := s.Secret("carts-auth").Data
	if len(after) != 4 || string(after[owned.PasswordKey]) != "second" {
		t.Errorf("the Secret holds %d keys", len(after))
	}
	for _, key := range acl.PasswordKeys {
		if string(after[key]) == string(before[key]) {
			t.Errorf("the password %s is still the same", key)
		}
	}
	if diff := cmp.Diff(pods, s.Uids()); diff != "" {
		t.Errorf("pods were restarted: %s", diff)
	}
	writes := s.API.Writes.Load()
	s.passes(10, time.Minute)
	if n := s.API.Writes.Load() - writes; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
}

// Whatever crashes when, and even if the user changes his mind meanwhile, nobody is locked out.
func TestNoClientOfRedisIsLockedOutByACrashWhileThePasswordChanges(t *testing.T) {
	t.Parallel()
	for k := int64(1); k <= 6; k++ {
		s := newPasswordStage(t, true)
		s.API.CrashAt = s.API.Writes.Load() + k
		s.choose("second")
		s.passes(8, 10*time.Second)
		s.choose("third")
		s.passes(80, 15*time.Second)
		if s.given() != "third" || s.works("carts-0-0")["default"] != 1 {
			t.Errorf("crash after write %d: clients are given %q: %s", k, s.given(), s.Cluster().Status.Activity)
		}
	}
}

func TestAGeneratedPasswordOfRedisIsReplacedWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*passwordStage, *corev1.Secret) error{
		"the key": func(s *passwordStage, live *corev1.Secret) error {
			delete(live.Data, owned.PasswordKey)
			return s.API.Update(s.T.Context(), live)
		},
		"the Secret": func(s *passwordStage, live *corev1.Secret) error { return s.API.Delete(s.T.Context(), live) },
		"the operator's": func(s *passwordStage, live *corev1.Secret) error {
			delete(live.Data, acl.PasswordOperator)
			delete(live.Data, owned.PasswordKey)
			return s.API.Update(s.T.Context(), live)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPasswordStage(t, false)
			first := s.given()
			if err := remove(s, s.Secret("carts-auth")); err != nil {
				t.Fatal(err)
			}
			s.passes(40, 15*time.Second)
			if second := s.given(); second == first || len(second) < 24 || len(s.Secret("carts-auth").Data) != 4 {
				t.Errorf("%q became %q: %s", first, second, s.Cluster().Status.Activity)
			}
		})
	}
}

// Somebody may do it again before what follows from the first time is over.
func TestAPasswordOfRedisThatIsDeletedAgainLocksNobodyOut(t *testing.T) {
	t.Parallel()
	for name, handedOn := range map[string]bool{"while the next one is introduced": false, "while the former one works": true} {
		t.Run(name, func(t *testing.T) {
			s := newPasswordStage(t, false)
			remove := func() {
				live := s.Secret("carts-auth")
				delete(live.Data, owned.PasswordKey)
				if err := s.API.Update(t.Context(), live); err != nil {
					t.Fatal(err)
				}
				s.MinuteLater()
			}
			first := s.given()
			remove()
			s.passes(1, time.Second)
			for range 40 {
				if (s.given() != first) == handedOn {
					break
				}
				s.passes(1, time.Second)
			}
			held := s.given()
			if (held != first) != handedOn || !(acl.Access{Passwords: owned.PasswordsIn(s.Secret("carts-auth"))}).Replacing() {
				t.Fatalf("it is too late: %s", s.Cluster().Status.Activity)
			}
			remove()
			for range 4 {
				s.passes(1, time.Second)
				for pod := range s.Servers {
					if u := s.UserOf(pod, acl.UserDefault); u == nil || !slices.Contains(u.Passwords, acl.Hash(held)) {
						t.Fatalf("%s does not take the password that clients have", pod)
					}
				}
			}
			s.passes(60, 15*time.Second)
			if now := s.given(); now == first || (acl.Access{Passwords: owned.PasswordsIn(s.Secret("carts-auth"))}).Replacing() {
				t.Errorf("it is not replaced in the end: %s", s.Cluster().Status.Activity)
			}
		})
	}
}

func TestALostPasswordOfRedisIsAskedFor(t *testing.T) {
	s := newPasswordStage(t, false)
	for _, name := range []string{"carts-auth", "carts-connection"} {
		if err := s.API.Delete(t.Context(), s.Secret(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.MinuteLater()
	s.Pass()
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "carts-auth") {
		t.Errorf("%+v", c)
	}
}
