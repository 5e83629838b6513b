package controllers

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
	"github.com/quorate/quorate/internal/cluster/redis"
)

// passwordStage is a cluster whose password is in the Secret chosen, and a clock that moves.
type passwordStage struct {
	*redisStage
	now time.Time
}

func newPasswordStage(t *testing.T, given bool) *passwordStage {
	t.Helper()
	o := redisCluster()
	if given {
		name := "chosen"
		o.Spec.Auth = &v1alpha1.AuthSpec{SecretName: &name}
	}
	s := &passwordStage{redisStage: newRedisStage(t, o, chosen("before")), now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	kind.Now = func() time.Time { return s.now }
	s.settle()
	return s
}

// passes fails when a server refuses the password that clients are given.
func (s *passwordStage) passes(n int, step time.Duration) {
	s.t.Helper()
	for range n {
		s.pass()
		s.now = s.now.Add(step)
		s.api.fail = nil
		given := redis.Hash(s.given())
		for pod := range s.servers {
			if u := s.userOf(pod, redis.UserDefault); u == nil || !slices.Contains(u.Passwords, given) {
				s.t.Fatalf("%s does not take the password that clients are given", pod)
			}
		}
	}
}

func (s *passwordStage) given() string { return string(s.secret("carts-connection").Data[PasswordKey]) }

func (s *passwordStage) choose(password string) {
	s.t.Helper()
	live := s.secret("chosen")
	live.Data[PasswordKey] = []byte(password)
	if err := s.api.Update(s.t.Context(), live); err != nil {
		s.t.Fatal(err)
	}
}

// works lists how many passwords each user of a server has.
func (s *passwordStage) works(pod string) map[string]int {
	out := map[string]int{}
	for _, u := range s.servers[pod].Users {
		out[u.Name] = len(u.Passwords)
	}
	return out
}

func TestAPasswordOfARedisClusterIsReplacedBesideTheFormer(t *testing.T) {
	t.Parallel()
	s := newPasswordStage(t, true)
	pods, before := s.uids(), s.secret("carts-auth").Data
	s.choose("second")
	s.passes(12, 10*time.Second)
	if s.given() != "second" {
		t.Fatalf("clients are given %q: %s", s.given(), s.cluster().Status.Activity)
	}
	if diff := cmp.Diff(map[string]int{"default": 2, "quorate": 2, "replication": 2, "migration": 2}, s.works("carts-2-1")); diff != "" {
		t.Errorf("passwords that work meanwhile (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("the cluster is not ready while clients have time to follow")
	}
	s.passes(30, 15*time.Second)
	if diff := cmp.Diff(map[string]int{"default": 1, "quorate": 1, "replication": 1, "migration": 1}, s.works("carts-2-1")); diff != "" {
		t.Errorf("passwords that work in the end (-want +got):\n%s", diff)
	}
	after := s.secret("carts-auth").Data
	if len(after) != 4 || string(after[PasswordKey]) != "second" {
		t.Errorf("the Secret holds %d keys", len(after))
	}
	for _, key := range redis.PasswordKeys {
		if string(after[key]) == string(before[key]) {
			t.Errorf("the password %s is still the same", key)
		}
	}
	if diff := cmp.Diff(pods, s.uids()); diff != "" {
		t.Errorf("pods were restarted: %s", diff)
	}
	writes := s.api.writes.Load()
	s.passes(10, time.Minute)
	if n := s.api.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
}

// Whatever crashes when, and even if the user changes his mind meanwhile, nobody is locked out.
func TestNoClientOfRedisIsLockedOutByACrashWhileThePasswordChanges(t *testing.T) {
	t.Parallel()
	for k := int64(1); k <= 6; k++ {
		s := newPasswordStage(t, true)
		s.api.crashAt = s.api.writes.Load() + k
		s.choose("second")
		s.passes(8, 10*time.Second)
		s.choose("third")
		s.passes(80, 15*time.Second)
		if s.given() != "third" || s.works("carts-0-0")["default"] != 1 {
			t.Errorf("crash after write %d: clients are given %q: %s", k, s.given(), s.cluster().Status.Activity)
		}
	}
}

func TestAGeneratedPasswordOfRedisIsReplacedWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*passwordStage, *corev1.Secret) error{
		"the key": func(s *passwordStage, live *corev1.Secret) error {
			delete(live.Data, PasswordKey)
			return s.api.Update(s.t.Context(), live)
		},
		"the Secret": func(s *passwordStage, live *corev1.Secret) error { return s.api.Delete(s.t.Context(), live) },
		"the operator's": func(s *passwordStage, live *corev1.Secret) error {
			delete(live.Data, redis.PasswordOperator)
			delete(live.Data, PasswordKey)
			return s.api.Update(s.t.Context(), live)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPasswordStage(t, false)
			first := s.given()
			if err := remove(s, s.secret("carts-auth")); err != nil {
				t.Fatal(err)
			}
			s.passes(40, 15*time.Second)
			if second := s.given(); second == first || len(second) < 24 || len(s.secret("carts-auth").Data) != 4 {
				t.Errorf("%q became %q: %s", first, second, s.cluster().Status.Activity)
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
				live := s.secret("carts-auth")
				delete(live.Data, PasswordKey)
				if err := s.api.Update(t.Context(), live); err != nil {
					t.Fatal(err)
				}
				s.minuteLater()
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
			if (held != first) != handedOn || !(redis.Access{Passwords: passwordsIn(s.secret("carts-auth"))}).Replacing() {
				t.Fatalf("it is too late: %s", s.cluster().Status.Activity)
			}
			remove()
			for range 4 {
				s.passes(1, time.Second)
				for pod := range s.servers {
					if u := s.userOf(pod, redis.UserDefault); u == nil || !slices.Contains(u.Passwords, redis.Hash(held)) {
						t.Fatalf("%s does not take the password that clients have", pod)
					}
				}
			}
			s.passes(60, 15*time.Second)
			if now := s.given(); now == first || (redis.Access{Passwords: passwordsIn(s.secret("carts-auth"))}).Replacing() {
				t.Errorf("it is not replaced in the end: %s", s.cluster().Status.Activity)
			}
		})
	}
}

func TestALostPasswordOfRedisIsAskedFor(t *testing.T) {
	s := newPasswordStage(t, false)
	for _, name := range []string{"carts-auth", "carts-connection"} {
		if err := s.api.Delete(t.Context(), s.secret(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.minuteLater()
	s.pass()
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "carts-auth") {
		t.Errorf("%+v", c)
	}
}
