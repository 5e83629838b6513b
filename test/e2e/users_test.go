package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/harness"
)

// userTimeout is how long a user may take to be in place again after a change that nobody tells the operator of.
const userTimeout = users.Poll + 30*time.Second

func TestEtcdUsers(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.EtcdCluster
	var app *v1alpha1.EtcdUser
	feature := features.New("users of an etcd cluster").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 1)
			app = s.userOf("orders-app", ptr.To("app"), v1alpha1.EtcdPermission{Prefix: ptr.To("/app/"), Access: v1alpha1.EtcdReadWrite},
				v1alpha1.EtcdPermission{Key: ptr.To("/shared/flag"), Access: v1alpha1.EtcdRead})
			s.create(ctx, t, app)
			must(t, harness.WaitCondition(ctx, s.Cluster, app, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}, time.Minute))
			if text := conditionText(app, v1alpha1.ConditionReady); !strings.Contains(text, "there is no EtcdCluster orders") {
				t.Errorf("before there is a cluster, it says: %s", text)
			}
			createReady(ctx, t, s, c)
		})).
		Assess("it becomes Ready after its cluster", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, harness.WaitReady(ctx, s.Cluster, app, time.Minute))
			wantRow(ctx, t, s, "etcdusers", map[string]string{"NAME": "orders-app", "CLUSTER": "orders", "USERNAME": "app", "READY": "True"})
			wantExplained(ctx, t, s, "etcduser.spec", "etcduser.spec.permissions", "etcduser.status")
		})).
		Assess("its Secret opens what it asks for, and nothing else", step(func(ctx context.Context, t *testing.T, s *scope) {
			wantUserRights(ctx, t, s, app)
		})).
		Assess("drift is reverted and told", step(func(ctx context.Context, t *testing.T, s *scope) { userDrift(ctx, t, s, c, app) })).
		Assess("the password follows a Secret", step(func(ctx context.Context, t *testing.T, s *scope) { userRotation(ctx, t, s, app) })).
		Assess("a second resource for it is refused", step(func(ctx context.Context, t *testing.T, s *scope) {
			second := s.userOf("second", ptr.To("app"))
			s.create(ctx, t, second)
			wantStalled(ctx, t, s, second, users.ReasonRival, "EtcdUser orders-app is older")
			must(t, s.Delete(ctx, second))
			must(t, s.WaitGone(ctx, second, time.Minute))
			wantUserRights(ctx, t, s, app)
		})).
		Assess("a user made by hand is left alone", step(func(ctx context.Context, t *testing.T, s *scope) {
			root := s.rootOf(ctx, t, c)
			_, err := root.UserAdd(ctx, "theirs", "secret")
			must(t, err)
			u := s.userOf("theirs", nil)
			s.create(ctx, t, u)
			wantStalled(ctx, t, s, u, users.ReasonForeign, "etcdctl user delete theirs")
			must(t, s.Delete(ctx, u))
			must(t, s.WaitGone(ctx, u, time.Minute))
			_, err = root.Authenticate(ctx, "theirs", "secret")
			must(t, err)
		})).
		Assess("it goes from etcd when it is deleted", step(func(ctx context.Context, t *testing.T, s *scope) {
			root := s.rootOf(ctx, t, c)
			must(t, s.Delete(ctx, app))
			must(t, s.WaitGone(ctx, app, time.Minute))
			list, err := root.UserList(ctx)
			must(t, err)
			roles, err := root.RoleList(ctx)
			must(t, err)
			if slices.Contains(list.Users, "app") || fmt.Sprint(roles.Roles) != "[root]" {
				t.Errorf("etcd has users %v, roles %v", list.Users, roles.Roles)
			}
		})).
		// The namespace goes with a user in it, after the cluster: see leaveScope.
		Assess("another one is left behind", step(func(ctx context.Context, t *testing.T, s *scope) {
			u := s.userOf("left", nil)
			s.create(ctx, t, u)
			must(t, harness.WaitReady(ctx, s.Cluster, u, time.Minute))
			if !slices.Contains(u.Finalizers, v1alpha1.Finalizer) {
				t.Errorf("finalizers %v", u.Finalizers)
			}
		}))
	suite.Test(t, feature.Feature())
}

// userOf is a user of the cluster orders.
func (s *scope) userOf(name string, username *string, permissions ...v1alpha1.EtcdPermission) *v1alpha1.EtcdUser {
	return &v1alpha1.EtcdUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec:       v1alpha1.EtcdUserSpec{ClusterName: "orders", Username: username, Permissions: permissions},
	}
}

// rootOf opens a client of the cluster's administrator.
func (s *scope) rootOf(ctx context.Context, t *testing.T, c *v1alpha1.EtcdCluster) *clientv3.Client {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	return s.login(ctx, t, conn)
}

func (s *scope) login(ctx context.Context, t *testing.T, conn connection.Connection) *clientv3.Client {
	t.Helper()
	root, err := s.Etcd(ctx, s.ns, "orders-0", conn)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// userConnection reads the Secret that a user's status names.
func (s *scope) userConnection(ctx context.Context, t *testing.T, u *v1alpha1.EtcdUser) connection.Connection {
	t.Helper()
	var secret corev1.Secret
	must(t, s.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: refresh(ctx, t, s, u).Status.SecretName}, &secret))
	conn, err := connection.FromData(secret.Data)
	must(t, err)
	return conn
}

// wantUserRights connects with nothing but the Secret.
func wantUserRights(ctx context.Context, t *testing.T, s *scope, u *v1alpha1.EtcdUser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c := s.login(ctx, t, s.userConnection(ctx, t, u))
	_, put := c.Put(ctx, "/app/a", "1")
	_, get := c.Get(ctx, "/app/", clientv3.WithPrefix())
	_, flag := c.Get(ctx, "/shared/flag")
	must(t, errors.Join(put, get, flag))
	_, beside := c.Put(ctx, "/apple", "1")
	_, write := c.Put(ctx, "/shared/flag", "1")
	_, all := c.Get(ctx, "", clientv3.WithPrefix())
	_, manage := c.UserAdd(ctx, "mine", "x")
	for what, err := range map[string]error{"put beside the prefix": beside, "put the key": write, "get all": all, "add a user": manage} {
		if !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("%s: %v, want it denied", what, err)
		}
	}
}

// userDrift changes by hand what the operator made.
func userDrift(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, u *v1alpha1.EtcdUser) {
	t.Helper()
	root := s.rootOf(ctx, t, c)
	before := s.userConnection(ctx, t, u).Password
	const role = "quorate:orders-app:app"
	_, err := root.RoleRevokePermission(ctx, role, "/app/", clientv3.GetPrefixRangeEnd("/app/"))
	must(t, err)
	_, err = root.RoleGrantPermission(ctx, role, "/other", "", clientv3.PermissionType(clientv3.PermReadWrite))
	must(t, err)
	began := time.Now()
	must(t, harness.Eventually(ctx, "the permissions to be as specified", userTimeout, func(ctx context.Context) (bool, string, error) {
		r, err := root.RoleGet(ctx, role)
		if err != nil {
			return false, "", err
		}
		ok := len(r.Perm) == 2 && string(r.Perm[0].Key) == "/app/" && string(r.Perm[1].Key) == "/shared/flag"
		return ok, fmt.Sprint(r.Perm), nil
	}))
	figure(t, "permissions changed by hand were as specified after %.1f s", time.Since(began).Seconds())
	wantNote(ctx, t, s, u, `grant ReadWrite on prefix "/app/", revoke ReadWrite on key "/other"`)

	_, err = root.UserDelete(ctx, "app")
	must(t, err)
	must(t, harness.Eventually(ctx, "the user to be back", userTimeout, func(ctx context.Context) (bool, string, error) {
		r, err := root.UserGet(ctx, "app")
		return err == nil && len(r.Roles) == 1, "it is not", nil
	}))
	if after := s.userConnection(ctx, t, u).Password; after != before {
		t.Error("the password is another one")
	}
	wantUserRights(ctx, t, s, u)
}

// wantNote waits for an event that says the words.
func wantNote(ctx context.Context, t *testing.T, s *scope, u *v1alpha1.EtcdUser, words string) {
	t.Helper()
	must(t, harness.Eventually(ctx, "an event that says "+words, time.Minute, func(ctx context.Context) (bool, string, error) {
		var list eventsv1.EventList
		err := s.List(ctx, &list, client.InNamespace(s.ns))
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.UID == u.UID {
				notes = append(notes, e.Note)
			}
		}
		return strings.Contains(strings.Join(notes, "\n"), words), strings.Join(notes, "\n"), err
	}))
}

// userRotation gives the user a password of its own, and then another one.
func userRotation(ctx context.Context, t *testing.T, s *scope, u *v1alpha1.EtcdUser) {
	t.Helper()
	mine := secret(s.ns, "my-secret", map[string][]byte{"password": []byte("first of mine")})
	s.create(ctx, t, mine)
	before := refresh(ctx, t, s, u).DeepCopy()
	u.Spec.PasswordSecret = &v1alpha1.SecretReference{Name: mine.Name}
	must(t, s.Patch(ctx, u, client.MergeFrom(before)))
	wantNewPassword(ctx, t, s, u, "first of mine")

	old := s.userConnection(ctx, t, u)
	refresh(ctx, t, s, mine).Data["password"] = []byte("second of mine")
	must(t, s.Update(ctx, mine))
	wantNewPassword(ctx, t, s, u, "second of mine")
	if _, err := s.Etcd(ctx, s.ns, "orders-0", old); err == nil {
		t.Error("the old password still opens the user")
	}
	wantUserRights(ctx, t, s, u)
}

func wantNewPassword(ctx context.Context, t *testing.T, s *scope, u *v1alpha1.EtcdUser, password string) {
	t.Helper()
	began := time.Now()
	must(t, harness.Eventually(ctx, "the connection Secret to say "+password, userTimeout, func(ctx context.Context) (bool, string, error) {
		return s.userConnection(ctx, t, u).Password == password, "it does not", nil
	}))
	figure(t, "a new password was in place after %.1f s", time.Since(began).Seconds())
	wantUserRights(ctx, t, s, u)
}

func wantStalled(ctx context.Context, t *testing.T, s *scope, u *v1alpha1.EtcdUser, reason, words string) {
	t.Helper()
	must(t, harness.WaitCondition(ctx, s.Cluster, u, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}, time.Minute))
	if text := conditionText(u, v1alpha1.ConditionStalled); !strings.Contains(text, reason) || !strings.Contains(text, words) {
		t.Errorf("it says %q, want %s and %q", text, reason, words)
	}
}
