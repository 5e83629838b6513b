package dbuser

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/users"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/controllersim/kinds"
	"github.com/quorate/quorate/test/fakeapi"
)

// accountStage is a settled cluster with a RedisUser.
type accountStage struct {
	*controllersim.Redis
	users *reconcile.Loop[*v1alpha1.RedisUser, users.State]
}

func newAccountStage(t *testing.T) *accountStage {
	t.Helper()
	name := "app"
	s := &accountStage{Redis: kinds.NewRedis(t, fakeapi.RedisCluster(), &v1alpha1.RedisUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-app", UID: "ru-1", Generation: 1},
		Spec:       v1alpha1.RedisUserSpec{ClusterName: "carts", Username: &name, Categories: []v1alpha1.RedisCategory{"read"}},
	})}
	kind, ok := s.Loop.Kind.(*rediscluster.Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	s.users = &reconcile.Loop[*v1alpha1.RedisUser, users.State]{Kind: NewRedis(kind.Client, kind), Client: s.API, Direct: s.API, Events: events.NewFakeRecorder(1000)}
	s.Settle()
	return s
}

func (s *accountStage) user() *v1alpha1.RedisUser {
	s.T.Helper()
	out := &v1alpha1.RedisUser{}
	err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: "carts-app"}, out)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.T.Fatal(err)
	}
	return out
}

// rest makes passes over the user until it is looked at slowly, or gone.
func (s *accountStage) rest() {
	s.T.Helper()
	for range 20 {
		u := s.user()
		if u == nil {
			return
		}
		res, err := s.users.Reconcile(s.T.Context(), u)
		if err != nil {
			s.T.Fatal(err)
		}
		if res.RequeueAfter == users.Poll {
			return
		}
	}
	s.T.Fatalf("it does not come to rest: %s", s.user().Status.Activity)
}

// with lists the servers that have the user.
func (s *accountStage) with() []string {
	var out []string
	for pod := range s.Servers {
		if s.UserOf(pod, "app") != nil {
			out = append(out, pod)
		}
	}
	slices.Sort(out)
	return out
}

func TestARedisUserIsOnAllServersAndGoesFromThem(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	if got := s.with(); len(got) != 6 {
		t.Fatalf("only %v have it: %s", got, s.user().Status.Activity)
	}
	data := s.Secret(s.user().Status.SecretName).Data
	if string(data["username"]) != "app" || s.UserOf("carts-0-0", "app").Passwords[0] != acl.Hash(string(data["password"])) || !strings.Contains(string(data["uri"]), "app:") {
		t.Errorf("the Secret says %q", data["uri"])
	}
	if !meta.IsStatusConditionTrue(s.user().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%+v", s.user().Status)
	}

	s.UserOf("carts-1-0", "app").Keys = []string{"~*"}
	s.rest()
	if keys := s.UserOf("carts-1-0", "app").Keys; len(keys) > 0 {
		t.Errorf("it may use %v", keys)
	}

	if err := s.API.Delete(t.Context(), s.user()); err != nil {
		t.Fatal(err)
	}
	s.Servers["carts-2-1"].Cut = true
	for range 3 {
		if _, err := s.users.Reconcile(t.Context(), s.user()); err != nil {
			t.Fatal(err)
		}
	}
	if u := s.user(); u == nil || !strings.Contains(u.Status.Activity, "carts-2-1") {
		t.Fatalf("it does not wait for the server that still has the user: %+v", u)
	}
	s.Pass() // The cluster does not bring it back.
	s.Servers["carts-2-1"].Cut = false
	s.rest()
	if got := s.with(); s.user() != nil || len(got) > 0 {
		t.Errorf("%v still have it", got)
	}
}

func TestANewServerGetsTheUsersOfTheOthersFromItsCluster(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	if err := s.API.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-1-1"}}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Pass()
	}
	if got := s.with(); len(got) != 6 {
		t.Errorf("only %v have it", got)
	}
	before := s.API.Writes.Load()
	for range 10 {
		s.Pass()
	}
	if n := s.API.Writes.Load() - before; n > 1 {
		t.Errorf("%d writes while nothing changed", n)
	}
}

func TestAPasswordOfARedisUserFollowsItsSecret(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	first := s.Secret("carts-app-redis-user").Data[owned.PasswordKey]
	if err := s.API.Delete(t.Context(), s.Secret("carts-app-redis-user-password")); err != nil {
		t.Fatal(err)
	}
	s.MinuteLater()
	s.rest()
	second := s.Secret("carts-app-redis-user").Data[owned.PasswordKey]
	if string(first) == string(second) || s.UserOf("carts-2-0", "app").Passwords[0] != acl.Hash(string(second)) {
		t.Errorf("%q became %q", first, second)
	}
}

// Whoever is connected by it goes on while nothing else can be done for the user.
func TestTheSecretOfARedisUserFollowsTheCertificates(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	before := s.Secret("carts-app-redis-user").Data
	for _, server := range s.Servers {
		server.Cut = true
	}
	renewed := s.Secret("carts-server-tls")
	renewed.Data[owned.CAKey] = []byte("renewed")
	if err := s.API.Update(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	s.MinuteLater()
	for range 2 {
		if _, err := s.users.Reconcile(t.Context(), s.user()); err != nil {
			t.Fatal(err)
		}
	}
	now := s.Secret("carts-app-redis-user").Data
	if string(now[owned.CAKey]) != "renewed" {
		t.Errorf("the Secret is as it was: %s", s.user().Status.Activity)
	}
	if string(now[owned.PasswordKey]) != string(before[owned.PasswordKey]) || len(now) != len(before) {
		t.Errorf("more than the authorities has changed: %d keys, and %d before", len(now), len(before))
	}
}
