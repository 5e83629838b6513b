package dbuser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// userStage is a Kubernetes with one open cluster, an etcd that knows users and roles, and the loop in between. It survives
// its operators: NewOperator starts another one.
type userStage struct {
	t    *testing.T
	api  client.WithWatch
	etcd *etcdfake.Users
	loop *reconcile.Loop[*v1alpha1.EtcdUser, users.State]
	told *events.FakeRecorder
	// writes counts all writes, those to etcd included; CrashAt is the one after which the operator crashes.
	writes, crashAt int
	log             []string
}

func etcdUser(change func(*v1alpha1.EtcdUser)) *v1alpha1.EtcdUser {
	u := &v1alpha1.EtcdUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-app", UID: "user-1", Generation: 1},
		Spec: v1alpha1.EtcdUserSpec{
			ClusterName: "orders", Username: ptr.To("app"),
			Permissions: []v1alpha1.EtcdPermission{
				{Prefix: ptr.To("/app/"), Access: v1alpha1.EtcdReadWrite}, {Key: ptr.To("/flag"), Access: v1alpha1.EtcdRead},
			},
		},
	}
	if change != nil {
		change(u)
	}
	return u
}

func newUserStage(t *testing.T, objects ...client.Object) *userStage {
	t.Helper()
	c := fakeapi.EtcdCluster()
	s := &userStage{t: t, etcd: etcdfake.NewUsers(7, "root's")}
	w := fakeapi.New(t, append(objects, c)...)
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	s.api = interceptor.NewClient(inner, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return s.wrote("apply "+fakeapi.NameOf(ac), c.Apply(ctx, ac, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return s.wrote("finalizers", c.Patch(ctx, o, p, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.wrote("status", c.SubResource(sub).Patch(ctx, o, p, opts...))
		},
	})
	s.openCluster(c)
	s.writes, s.log = 0, nil
	s.etcd.Written = func(what string) error { return s.wrote(what, nil) }
	s.newOperator()
	return s
}

// openCluster makes what a cluster has that is open to clients.
func (s *userStage) openCluster(c *v1alpha1.EtcdCluster) {
	s.t.Helper()
	ctx := s.t.Context()
	children := ownedtest.New(&fakeapi.API{Client: s.api})
	if _, err := children.EnsurePasswords(ctx, c, nil, owned.PasswordSecret{Keys: []string{owned.PasswordKey}}); err != nil {
		s.t.Fatal(err)
	}
	if err := children.EnsureCertificates(ctx, c, owned.Certificates{Leafs: manifests.Leafs(c.Name, c.Namespace, "cluster.local")}); err != nil {
		s.t.Fatal(err)
	}
	set := &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(c, c.Name)}
	set.UID = "set-1"
	svc := &corev1.Service{ObjectMeta: owned.ObjectMeta(c, cluster.ClientService(c.Name))}
	for _, o := range []client.Object{set, svc} {
		s.own(c, o)
	}
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: owned.ObjectMeta(c, cluster.Pod(c.Name, i)), Status: corev1.PodStatus{
			PodIP:             fmt.Sprintf("10.0.0.%d", i+1),
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: manifests.ContainerEtcd, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		}}
		pod.Labels = manifests.Selector(c.Name)
		s.own(set, pod)
	}
}

func (s *userStage) own(owner, o client.Object) {
	s.t.Helper()
	if err := controllerutil.SetControllerReference(owner, o, s.api.Scheme()); err != nil {
		s.t.Fatal(err)
	}
	if err := s.api.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// wrote counts a write that reached its goal. At the chosen one the operator never hears of it.
func (s *userStage) wrote(what string, err error) error {
	if err != nil {
		return err
	}
	s.writes++
	s.log = append(s.log, what)
	if s.writes == s.crashAt {
		return fakeapi.ErrCrash
	}
	return nil
}

func (s *userStage) newOperator() {
	children := ownedtest.New(&fakeapi.API{Client: s.api})
	children.Direct = owned.PastCache(s.api, ownedtest.ClockOf(children))
	k := etcdcluster.New(children)
	k.Connect = func(etcdclient.Config) etcdcluster.MemberClient {
		return &struct {
			etcdfake.Client
			*etcdfake.Users
		}{Users: s.etcd}
	}
	s.told = events.NewFakeRecorder(1000)
	s.loop = &reconcile.Loop[*v1alpha1.EtcdUser, users.State]{Kind: NewEtcd(children, k), Client: s.api, Direct: s.api, Events: s.told}
}

func (s *userStage) minuteLater() {
	s.t.Helper()
	kind, ok := s.loop.Kind.(*EtcdReconciler)
	if !ok {
		s.t.Fatalf("%T", s.loop.Kind)
	}
	kind.ForgetSecrets()
}

// user reads a resource, nil when it is gone.
func (s *userStage) user(name string) *v1alpha1.EtcdUser {
	s.t.Helper()
	u := &v1alpha1.EtcdUser{}
	err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

// pass makes one pass over a resource. The operator is started anew after a crash.
func (s *userStage) pass(name string) (again time.Duration) {
	s.t.Helper()
	u := s.user(name)
	if u == nil {
		return 0
	}
	res, err := s.loop.Reconcile(s.t.Context(), u)
	switch {
	case errors.Is(err, fakeapi.ErrCrash):
		s.newOperator()
	case err != nil:
		s.t.Fatal(err)
	}
	return res.RequeueAfter
}

// rest makes passes until one writes nothing.
func (s *userStage) rest(name string) time.Duration {
	s.t.Helper()
	for range 40 {
		before := s.writes
		again := s.pass(name)
		if s.writes == before {
			return again
		}
	}
	s.t.Fatalf("it does not come to rest: %v", s.log)
	return 0
}

func (s *userStage) secret(name string) *corev1.Secret {
	s.t.Helper()
	out := &corev1.Secret{}
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *userStage) update(o client.Object, change func()) {
	s.t.Helper()
	change()
	if err := s.api.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// condition returns status, reason and message of a condition.
func (s *userStage) condition(name, typ string) string {
	s.t.Helper()
	c := meta.FindStatusCondition(s.user(name).Status.Conditions, typ)
	if c == nil {
		s.t.Fatalf("%s has no condition %s", name, typ)
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

// inPlace checks that the user is what its resource asks for, and that its Secret opens it.
func (s *userStage) inPlace() {
	s.t.Helper()
	if got := s.condition("orders-app", v1alpha1.ConditionReady); !strings.HasPrefix(got, "True") {
		s.t.Fatalf("Ready: %s", got)
	}
	const role = "quorate:orders-app:app"
	a := s.etcd.Accounts["app"]
	if a == nil || fmt.Sprint(a.Roles) != "["+role+"]" {
		s.t.Fatalf("user %+v", a)
	}
	u := s.user("orders-app")
	if diff := cmp.Diff(users.Permissions(u.Spec.Permissions), s.etcd.Roles[role]); diff != "" {
		s.t.Errorf("permissions (-want +got):\n%s", diff)
	}
	if u.Status.Username != "app" || u.Status.SecretName != "orders-app-etcd-user" || u.Status.ObservedGeneration != u.Generation {
		s.t.Errorf("status %+v", u.Status)
	}
	secret := s.secret(u.Status.SecretName)
	ca, tls := s.secret(cluster.CASecret("orders")), s.secret(cluster.ClientTLSSecret("orders"))
	want := map[string]string{
		"type": "etcd", "provider": "quorate", "host": "orders-client.default.svc.cluster.local", "port": "2379",
		"uri": "https://orders-client.default.svc.cluster.local:2379", "username": "app", "password": a.Password,
		"ca.crt": string(ca.Data["tls.crt"]), "tls.crt": string(tls.Data["tls.crt"]), "tls.key": string(tls.Data["tls.key"]),
	}
	got := map[string]string{}
	for k, v := range secret.Data {
		got[k] = string(v)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("connection Secret (-want +got):\n%s", diff)
	}
	if secret.Type != etcdcluster.BindingType || !metav1.IsControlledBy(secret, u) {
		s.t.Errorf("Secret of type %s, owners %v", secret.Type, secret.OwnerReferences)
	}
}

func TestAUserComesToLife(t *testing.T) {
	s := newUserStage(t, etcdUser(nil))
	if again := s.rest("orders-app"); again != users.Poll {
		t.Errorf("it is looked at again after %s", again)
	}
	s.inPlace()
	want := []string{
		"apply orders-app-etcd-user-password", "finalizers", "add role quorate:orders-app:app",
		`grant ReadWrite on prefix "/app/" to quorate:orders-app:app`, `grant Read on key "/flag" to quorate:orders-app:app`,
		"add user app", "grant quorate:orders-app:app to app", "apply orders-app-etcd-user",
	}
	got := slices.DeleteFunc(slices.Clone(s.log), func(w string) bool { return w == "status" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAUserInPlaceCostsOneQuestionALook(t *testing.T) {
	s := newUserStage(t, etcdUser(nil))
	s.rest("orders-app")
	writes, reads, hashes := s.writes, s.etcd.Reads, s.etcd.Hashes
	for range 10 {
		s.pass("orders-app")
	}
	if s.writes != writes || s.etcd.Reads != reads+10 || s.etcd.Hashes != hashes {
		t.Errorf("ten looks cost %d writes, %d questions, %d hashed passwords", s.writes-writes, s.etcd.Reads-reads, s.etcd.Hashes-hashes)
	}
	s.newOperator()
	s.pass("orders-app")
	if s.writes != writes {
		t.Errorf("a new operator wrote %v", s.log[writes:])
	}
}

func TestAUserComesToLifeWhateverWriteTheOperatorCrashesAfter(t *testing.T) {
	for _, given := range []bool{false, true} {
		crashes := 0
		for at := 1; ; at++ {
			s := newUserStage(t, etcdUser(func(u *v1alpha1.EtcdUser) {
				if given {
					u.Spec.PasswordSecret = &v1alpha1.SecretReference{Name: "mine"}
				}
			}), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{"password": []byte("given")}})
			s.crashAt = at
			s.rest("orders-app")
			s.rest("orders-app") // The pass that crashed may have been the last to write.
			s.inPlace()
			if s.writes < at {
				break
			}
			crashes++
		}
		if crashes < 8 {
			t.Errorf("the operator crashed after %d different writes only", crashes)
		}
	}
}

func TestDriftIsRevertedAndNamed(t *testing.T) {
	const role = "quorate:orders-app:app"
	ctx := t.Context()
	for name, tc := range map[string]struct {
		drift func(*etcdfake.Users) error
		says  string
	}{
		"a permission revoked": {
			func(e *etcdfake.Users) error { return e.Revoke(ctx, role, e.Roles[role][0]) }, `grant ReadWrite on prefix "/app/"`,
		},
		"a permission added": {
			func(e *etcdfake.Users) error {
				return e.Grant(ctx, role, users.Permission{Keys: users.Keys{From: "/all"}, Access: v1alpha1.EtcdRead})
			}, `revoke Read on key "/all"`,
		},
		"a permission widened": {
			func(e *etcdfake.Users) error {
				return e.Grant(ctx, role, users.Permission{Keys: users.Keys{From: "/flag"}, Access: v1alpha1.EtcdReadWrite})
			}, `grant Read on key "/flag"`,
		},
		"the user deleted":     {func(e *etcdfake.Users) error { return e.DeleteUser(ctx, "app") }, `AddingUser etcd has no user "app"`},
		"the role deleted":     {func(e *etcdfake.Users) error { return e.DeleteRole(ctx, role) }, "AddingRole etcd has no role " + role},
		"the role revoked":     {func(e *etcdfake.Users) error { return e.RevokeRole(ctx, "app", role) }, `lacks its role ` + role},
		"another role granted": {func(e *etcdfake.Users) error { return e.GrantRole(ctx, "app", "root") }, "further roles, which are revoked: root"},
		"the password changed": {func(e *etcdfake.Users) error { return e.SetPassword(ctx, "app", "x") }, "SettingPassword"},
		"the password removed": {func(e *etcdfake.Users) error {
			e.Accounts["app"].Password = ""
			e.State.Revision++
			return nil
		}, "made without a password"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUserStage(t, etcdUser(nil))
			s.rest("orders-app")
			before := s.secret("orders-app-etcd-user").Data["password"]
			s.newOperator() // Its memory is no help, and its events begin here.
			s.pass("orders-app")
			if err := tc.drift(s.etcd); err != nil {
				t.Fatal(err)
			}
			s.rest("orders-app")
			s.inPlace()
			if after := s.secret("orders-app-etcd-user").Data["password"]; string(after) != string(before) {
				t.Error("the password has changed")
			}
			wantEvent(t, s.told, tc.says)
		})
	}
}

func wantEvent(t *testing.T, r *events.FakeRecorder, says string) {
	t.Helper()
	close(r.Events)
	var all []string
	for e := range r.Events {
		if strings.Contains(e, says) {
			return
		}
		all = append(all, e)
	}
	t.Errorf("no event says %q: %q", says, all)
}

func TestAChangedSpecificationIsFollowed(t *testing.T) {
	s := newUserStage(t, etcdUser(nil))
	s.rest("orders-app")
	u := s.user("orders-app")
	s.update(u, func() {
		u.Generation = 2
		u.Spec.Permissions = []v1alpha1.EtcdPermission{{Range: &v1alpha1.EtcdKeyRange{From: "a"}, Access: v1alpha1.EtcdRead}}
	})
	s.rest("orders-app")
	s.inPlace()
}

func TestThePasswordFollowsItsSecret(t *testing.T) {
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{"password": []byte("one")}}
	s := newUserStage(t, mine, etcdUser(func(u *v1alpha1.EtcdUser) { u.Spec.PasswordSecret = &v1alpha1.SecretReference{Name: "mine"} }))
	s.rest("orders-app")
	s.inPlace()
	set := func(data map[string][]byte) {
		t.Helper()
		live := s.secret("mine")
		s.update(live, func() { live.Data = data })
		s.rest("orders-app")
	}
	set(map[string][]byte{"password": []byte("two")})
	s.inPlace()
	if s.etcd.Accounts["app"].Password != "two" {
		t.Errorf("the password is %q", s.etcd.Accounts["app"].Password)
	}
	for words, data := range map[string]map[string][]byte{
		`has no key "password": add it`:           {"other": []byte("x")},
		"has 73 bytes, and etcd takes at most 72": {"password": []byte(strings.Repeat("p", 73))},
		"is not text in UTF-8":                    {"password": []byte("p\xff")},
	} {
		set(data)
		if got := s.condition("orders-app", v1alpha1.ConditionStalled); !strings.HasPrefix(got, "True InvalidSpec spec.passwordSecret.name") || !strings.Contains(got, words) {
			t.Errorf("Stalled: %s, want %q", got, words)
		}
	}
	if s.etcd.Accounts["app"].Password != "two" {
		t.Error("a Secret that cannot be used changed the password")
	}
	set(map[string][]byte{"password": []byte("three")})
	s.inPlace()
}

func TestADeletedPasswordIsGeneratedAnew(t *testing.T) {
	s := newUserStage(t, etcdUser(nil))
	s.rest("orders-app")
	before := s.etcd.Accounts["app"].Password
	if err := s.api.Delete(t.Context(), s.secret("orders-app-etcd-user-password")); err != nil {
		t.Fatal(err)
	}
	s.minuteLater()
	s.rest("orders-app")
	s.inPlace()
	if s.etcd.Accounts["app"].Password == before {
		t.Error("the password is the old one")
	}
}

// reissue makes all certificates of the cluster anew.
func (s *userStage) reissue() {
	t := s.t
	t.Helper()
	for _, name := range []string{cluster.CASecret("orders"), cluster.ClientTLSSecret("orders")} {
		if err := s.api.Delete(t.Context(), s.secret(name)); err != nil {
			t.Fatal(err)
		}
	}
	for name := range manifests.Leafs("orders", "default", "cluster.local") {
		_ = s.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	err := ownedtest.New(&fakeapi.API{Client: s.api}).EnsureCertificates(t.Context(), fakeapi.EtcdCluster(), owned.Certificates{
		Leafs: manifests.Leafs("orders", "default", "cluster.local"),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheConnectionSecretFollowsTheCertificates(t *testing.T) {
	s := newUserStage(t, etcdUser(nil))
	s.rest("orders-app")
	s.reissue()
	s.rest("orders-app")
	s.inPlace()
}

// Whoever is connected by it goes on while nothing else can be done for the user.
func TestTheConnectionSecretFollowsTheCertificatesWhateverElseIsAmiss(t *testing.T) {
	for name, spoil := range map[string]func(*userStage){
		"the cluster is paused": func(s *userStage) {
			c := fakeapi.Fetch(s.t, s.api)
			s.update(c, func() { c.Spec.Paused = ptr.To(true) })
		},
		"the password is gone": func(s *userStage) {
			if err := s.api.Delete(s.t.Context(), s.secret("mine")); err != nil {
				s.t.Fatal(err)
			}
		},
		"etcd is silent": func(s *userStage) { s.etcd.Down = errors.New("timed out") },
	} {
		t.Run(name, func(t *testing.T) {
			mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{"password": []byte("one")}}
			s := newUserStage(t, mine, etcdUser(func(u *v1alpha1.EtcdUser) { u.Spec.PasswordSecret = &v1alpha1.SecretReference{Name: "mine"} }))
			s.rest("orders-app")
			spoil(s)
			s.reissue()
			before := s.secret("orders-app-etcd-user").Data
			s.rest("orders-app")
			now, issued := s.secret("orders-app-etcd-user").Data, s.secret(cluster.ClientTLSSecret("orders")).Data
			if string(now["tls.crt"]) != string(issued["tls.crt"]) || string(now["tls.key"]) != string(issued["tls.key"]) || string(now["ca.crt"]) == string(before["ca.crt"]) {
				t.Errorf("the Secret is as it was: %s", s.user("orders-app").Status.Activity)
			}
			if string(now["password"]) != "one" || string(now["uri"]) != string(before["uri"]) {
				t.Errorf("more than the certificates has changed: %q", now)
			}
		})
	}
}

func TestADeletedUserGoesFromEtcd(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*userStage)
		// WaitsForIssuer are the words with which it stays, empty: it goes.
		WaitsForIssuer string
		// stays says that etcd keeps the user.
		stays bool
	}{
		"and its role": {before: func(*userStage) {}},
		"even without its Secrets": {before: func(s *userStage) {
			for _, n := range []string{"orders-app-etcd-user", "orders-app-etcd-user-password"} {
				_ = s.api.Delete(s.t.Context(), s.secret(n))
			}
		}},
		"even if its Secrets are somebody else's by now": {before: func(s *userStage) {
			for _, n := range []string{"orders-app-etcd-user", "orders-app-etcd-user-password"} {
				live := s.secret(n)
				s.update(live, func() { live.OwnerReferences = nil })
			}
		}},
		"not while etcd is silent": {
			before: func(s *userStage) { s.etcd.Down = errors.New("timed out") }, WaitsForIssuer: "True ClusterUnreachable EtcdCluster orders does not answer", stays: true,
		},
		"not while the cluster is paused": {before: func(s *userStage) {
			c := fakeapi.Fetch(s.t, s.api)
			s.update(c, func() { c.Spec.Paused = ptr.To(true) })
		}, WaitsForIssuer: "False Paused spec.paused of EtcdCluster orders", stays: true},
		"unless the cluster is gone": {before: func(s *userStage) { _ = s.api.Delete(s.t.Context(), fakeapi.EtcdCluster()) }, stays: true},
		"unless the cluster is going": {before: func(s *userStage) {
			c := fakeapi.Fetch(s.t, s.api)
			s.update(c, func() { c.Finalizers = []string{"example.com/hold"} })
			_ = s.api.Delete(s.t.Context(), c)
		}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUserStage(t, etcdUser(nil))
			s.rest("orders-app")
			tc.before(s)
			if err := s.api.Delete(t.Context(), s.user("orders-app")); err != nil {
				t.Fatal(err)
			}
			s.rest("orders-app")
			if tc.WaitsForIssuer != "" {
				if got := s.condition("orders-app", v1alpha1.ConditionReconciling); !strings.HasPrefix(got, tc.WaitsForIssuer) {
					t.Errorf("it says %q, want %q", got, tc.WaitsForIssuer)
				}
			} else if s.user("orders-app") != nil {
				t.Errorf("the resource is still there: %s", s.user("orders-app").Status.Activity)
			}
			accounts, roles := s.etcd.Names()
			if left := len(accounts) + len(roles) - 2; (left > 0) != tc.stays {
				t.Errorf("etcd has users %v, roles %v", accounts, roles)
			}
		})
	}
}

func TestADeletionIsResumedWhateverWriteTheOperatorCrashesAfter(t *testing.T) {
	for at := 1; at <= 3; at++ {
		s := newUserStage(t, etcdUser(nil))
		s.rest("orders-app")
		if err := s.api.Delete(t.Context(), s.user("orders-app")); err != nil {
			t.Fatal(err)
		}
		s.crashAt = s.writes + at
		for range 12 {
			s.pass("orders-app")
		}
		if accounts, roles := s.etcd.Names(); s.user("orders-app") != nil || len(accounts) != 1 || len(roles) != 1 {
			t.Errorf("crash after write %d: etcd has users %v, roles %v", at, accounts, roles)
		}
	}
}

func TestAUserOfSomebodyElseIsLeftAlone(t *testing.T) {
	s := newUserStage(t, etcdUser(nil))
	s.etcd.Accounts["app"] = &etcdfake.Account{Password: "theirs", Roles: []string{"root"}}
	s.rest("orders-app")
	if got := s.condition("orders-app", v1alpha1.ConditionStalled); !strings.HasPrefix(got, "True ForeignUser") {
		t.Errorf("Stalled: %s", got)
	}
	if a := s.etcd.Accounts["app"]; a.Password != "theirs" || len(a.Roles) != 1 || s.etcd.State.Revision != 4 {
		t.Errorf("user %+v, revision %d", a, s.etcd.State.Revision)
	}
	hashes := s.etcd.Hashes
	s.pass("orders-app")
	if s.etcd.Hashes != hashes {
		t.Error("the password was tried again although nothing has changed")
	}
	if err := s.api.Delete(t.Context(), s.user("orders-app")); err != nil {
		t.Fatal(err)
	}
	if s.user("orders-app") != nil || s.etcd.Accounts["app"] == nil {
		t.Error("a resource that made nothing does not go at once, or takes somebody else's user along")
	}
}

func TestTheOlderOfTwoResourcesHasTheUser(t *testing.T) {
	at := metav1.Unix(1000, 0)
	s := newUserStage(t,
		etcdUser(func(u *v1alpha1.EtcdUser) { u.CreationTimestamp = at }),
		etcdUser(func(u *v1alpha1.EtcdUser) {
			u.Name, u.UID, u.CreationTimestamp = "app", "user-2", metav1.Unix(1001, 0)
			u.Spec.Username = nil // It is metadata.name then.
		}),
	)
	s.rest("app")
	if got := s.condition("app", v1alpha1.ConditionStalled); !strings.HasPrefix(got, "True UsernameTaken EtcdUser orders-app is older") {
		t.Errorf("Stalled: %s", got)
	}
	s.rest("orders-app")
	s.rest("app")
	s.inPlace()
	if err := s.api.Delete(t.Context(), s.user("orders-app")); err != nil {
		t.Fatal(err)
	}
	s.rest("app")
	if got := s.condition("app", v1alpha1.ConditionReconciling); !strings.HasPrefix(got, "True UsernameTaken") {
		t.Errorf("Reconciling: %s", got)
	}
	s.rest("orders-app")
	s.rest("app")
	if got := s.condition("app", v1alpha1.ConditionReady); !strings.HasPrefix(got, "True") {
		t.Errorf("Ready: %s", got)
	}
	if fmt.Sprint(s.etcd.Accounts["app"].Roles) != "[quorate:app:app]" {
		t.Errorf("user %+v", s.etcd.Accounts["app"])
	}
}

func TestAUserWaitsForItsClusterAndSaysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*userStage)
		want   string
	}{
		"there is none": {
			func(s *userStage) { _ = s.api.Delete(s.t.Context(), fakeapi.EtcdCluster()) },
			"False ClusterMissing there is no EtcdCluster orders in this namespace: create it",
		},
		"it is not open": {func(s *userStage) {
			_ = s.api.Delete(s.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-client"}})
		}, "False ClusterStarting EtcdCluster orders does not let clients in yet"},
		"no member is ready": {func(s *userStage) {
			for i := range 3 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: cluster.Pod("orders", i)}}
				_ = s.api.Delete(s.t.Context(), pod)
			}
		}, "False ClusterUnreachable EtcdCluster orders does not answer: no member is ready"},
		"it asks for no password": {func(s *userStage) {
			c := fakeapi.Fetch(s.t, s.api)
			s.update(c, func() { c.Spec.Auth = &v1alpha1.AuthSpec{Mode: ptr.To(v1alpha1.AuthDisabled)} })
		}, "False AuthDisabled EtcdCluster orders asks no client who it is"},
		"its Secret's name is taken": {func(s *userStage) {
			taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-app-etcd-user"}}
			if err := s.api.Create(s.t.Context(), taken); err != nil {
				s.t.Fatal(err)
			}
		}, "False ForeignObject Secret default/orders-app-etcd-user is needed by this user but belongs to somebody else"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUserStage(t, etcdUser(nil))
			tc.change(s)
			s.rest("orders-app")
			if got := s.condition("orders-app", v1alpha1.ConditionReady); !strings.HasPrefix(got, tc.want) {
				t.Errorf("Ready: %s, want %s", got, tc.want)
			}
			if s.etcd.State.Revision != 4 {
				t.Error("etcd was written to")
			}
		})
	}
}

func TestAClusterWakesItsUsers(t *testing.T) {
	s := newUserStage(t, etcdUser(nil), etcdUser(func(u *v1alpha1.EtcdUser) { u.Name, u.Spec.ClusterName = "other", "carts" }))
	k, ok := s.loop.Kind.(*EtcdReconciler)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	got := k.usersOf(t.Context(), fakeapi.EtcdCluster())
	if len(got) != 1 || got[0].Name != "orders-app" {
		t.Errorf("woken: %v", got)
	}
}
