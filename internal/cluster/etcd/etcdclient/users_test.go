package etcdclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

var appPermissions = users.Permissions([]v1alpha1.EtcdPermission{
	{Prefix: ptr.To("/app/"), Access: v1alpha1.EtcdReadWrite},
	{Key: ptr.To("/shared/flag"), Access: v1alpha1.EtcdRead},
	{Range: &v1alpha1.EtcdKeyRange{From: "x1", To: ptr.To("x5")}, Access: v1alpha1.EtcdWrite},
	{Range: &v1alpha1.EtcdKeyRange{From: "zz"}, Access: v1alpha1.EtcdRead},
})

func TestUsersOfRealServers(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSManaged, v1alpha1.TLSDisabled} {
			t.Run(version+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				c := newTestCluster(t, version, binary, 1, mode)
				c.start(asNew, c.members...)
				lead := leader(t, c, "operator", "secret", c.members...)
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				root := c.as("operator", "secret", lead)
				if s, err := root.Store(ctx); err != nil || s.Enabled || s.ClusterID == 0 {
					t.Fatalf("before authentication: %+v, %v", s, err)
				}
				// This client connects before authentication is on, and must become root all the same.
				if err := c.as("operator", "secret", lead).EnableAuth(ctx, "secret"); err != nil {
					t.Fatal(err)
				}
				if s, err := root.Store(ctx); err != nil || !s.Enabled {
					t.Fatalf("after that: %+v, %v", s, err)
				}
				userLifecycle(ctx, t, root)
				userRights(ctx, t, c, root, lead)
				sameKeys(ctx, t, root)
				noPasswordUser(ctx, t, c, root, lead)
				strangersManageNoUsers(ctx, t, c, lead)
			})
		}
	}
}

// each runs calls twice: what is already so is no error.
func each(t *testing.T, calls ...func() error) {
	t.Helper()
	for i, call := range calls {
		for range 2 {
			if err := call(); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
	}
}

func userLifecycle(ctx context.Context, t *testing.T, root users.Client) {
	t.Helper()
	const role = "quorate:orders-app:app"
	if _, found, err := root.User(ctx, "app"); err != nil || found {
		t.Fatalf("before: found %v, %v", found, err)
	}
	if _, found, err := root.Role(ctx, role); err != nil || found {
		t.Fatalf("before: found %v, %v", found, err)
	}
	before := revision(ctx, t, root)
	each(t, func() error { return root.AddRole(ctx, role) })
	if after := revision(ctx, t, root); after != before+1 {
		t.Errorf("revision %d after adding a role twice, before %d", after, before)
	}
	for _, p := range appPermissions {
		each(t, func() error { return root.Grant(ctx, role, p) })
	}
	each(t, func() error { return root.AddUser(ctx, "app", "first") }, func() error { return root.GrantRole(ctx, "app", role) })
	got, found, err := root.Role(ctx, role)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	if diff := cmp.Diff(appPermissions, got); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
	roles, found, err := root.User(ctx, "app")
	if err != nil || !found || fmt.Sprint(roles) != "["+role+"]" {
		t.Errorf("roles %v, found %v, %v", roles, found, err)
	}

	settled := revision(ctx, t, root)
	wantPassword(ctx, t, root, "first", users.PasswordRight)
	wantPassword(ctx, t, root, "other", users.PasswordWrong)
	if after := revision(ctx, t, root); after != settled {
		t.Errorf("looking changed the revision from %d to %d", settled, after)
	}
	if err := root.SetPassword(ctx, "app", "second"); err != nil {
		t.Fatal(err)
	}
	wantPassword(ctx, t, root, "first", users.PasswordWrong)
	wantPassword(ctx, t, root, "second", users.PasswordRight)
	if after := revision(ctx, t, root); after == settled {
		t.Error("a new password left the revision as it was: nobody would look at it again")
	}

	each(t, func() error { return root.RevokeRole(ctx, "app", role) }, func() error { return root.Revoke(ctx, role, appPermissions[0]) })
	if err := root.GrantRole(ctx, "app", "no-such-role"); err == nil {
		t.Error("a role that does not exist was granted")
	}
	if err := root.GrantRole(ctx, "nobody", role); err == nil {
		t.Error("a role was granted to nobody")
	}
	if err := root.SetPassword(ctx, "nobody", "x"); err == nil {
		t.Error("the password of nobody was changed")
	}
	each(t, func() error { return root.GrantRole(ctx, "app", role) }, func() error { return root.DeleteRole(ctx, role) })
	if roles, _, err := root.User(ctx, "app"); err != nil || len(roles) != 0 {
		t.Errorf("roles %v after the role was deleted, %v", roles, err)
	}
	each(t, func() error { return root.DeleteUser(ctx, "app") })
}

func revision(ctx context.Context, t *testing.T, root users.Client) uint64 {
	t.Helper()
	s, err := root.Store(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s.Revision
}

func wantPassword(ctx context.Context, t *testing.T, root users.Client, password string, want users.Password) {
	t.Helper()
	if got, err := root.CheckPassword(ctx, "app", password); err != nil || got != want {
		t.Errorf("password %q: %v, %v; want %v", password, got, err, want)
	}
}

// login opens a client of a user.
func login(t *testing.T, c *testCluster, m *testMember, user, password string) (*clientv3.Client, error) {
	t.Helper()
	scheme := "https"
	if c.tlsMode == v1alpha1.TLSDisabled {
		scheme = "http"
	}
	conn, err := clientv3.New(clientv3.Config{
		Endpoints: []string{fmt.Sprintf("%s://127.0.0.1:%d", scheme, m.client)}, TLS: c.tls("client"), DialTimeout: 5 * time.Second,
		Username: user, Password: password, Logger: zap.NewNop(),
	})
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// userRights shows what a user may, and that a client whose token got outdated by a change goes on by itself.
func userRights(ctx context.Context, t *testing.T, c *testCluster, root users.Client, m *testMember) {
	t.Helper()
	each(t, func() error { return root.AddRole(ctx, "quorate:a:app") })
	for _, p := range appPermissions {
		each(t, func() error { return root.Grant(ctx, "quorate:a:app", p) })
	}
	each(t, func() error { return root.AddUser(ctx, "app", "pw") }, func() error { return root.GrantRole(ctx, "app", "quorate:a:app") })
	user, err := login(t, c, m, "app", "pw")
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) error {
		_, err := user.Put(ctx, key, "v")
		return err
	}
	get := func(key string, opts ...clientv3.OpOption) error {
		_, err := user.Get(ctx, key, opts...)
		return err
	}
	allowed := map[string]error{
		"put below the prefix": put("/app/a"), "get the prefix": get("/app/", clientv3.WithPrefix()), "get the key": get("/shared/flag"),
		"put into the range": put("x4"), "get from where it has no end": get("zz", clientv3.WithFromKey()),
	}
	for what, err := range allowed {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused := map[string]error{
		"put beside the prefix": put("/apple"), "put the key": put("/shared/flag"), "get beside the key": get("/shared/flag2"),
		"put behind the range": put("x5"), "get from the range": get("x4"), "get everything": get("", clientv3.WithPrefix()),
		"get a longer prefix": get("/app", clientv3.WithPrefix()),
	}
	for what, err := range refused {
		if !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("%s: %v, want it denied", what, err)
		}
	}
	if err := root.AddRole(ctx, "another"); err != nil {
		t.Fatal(err)
	}
	if err := put("/app/a"); err != nil {
		t.Errorf("a client did not get over an outdated token: %v", err)
	}
	if err := root.Revoke(ctx, "quorate:a:app", appPermissions[0]); err != nil {
		t.Fatal(err)
	}
	if err := put("/app/a"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a revoked permission still works: %v", err)
	}
}

// sameKeys shows what the fake takes for granted: etcd replaces a permission only where its search by the first key alone
// finds it, and revoking takes all for the same keys.
func sameKeys(ctx context.Context, t *testing.T, root users.Client) {
	t.Helper()
	const role = "same"
	key := users.Permission{Keys: users.Keys{From: "/k"}, Access: v1alpha1.EtcdRead}
	prefix := users.Permission{Keys: users.Keys{From: "/k", End: "/l"}, Access: v1alpha1.EtcdReadWrite}
	less := users.Permission{Keys: prefix.Keys, Access: v1alpha1.EtcdRead}
	each(t, func() error { return root.AddRole(ctx, role) })
	for _, p := range []users.Permission{key, prefix, less} {
		if err := root.Grant(ctx, role, p); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := root.Role(ctx, role)
	if diff := cmp.Diff([]users.Permission{key, prefix, less}, got); err != nil || diff != "" {
		t.Errorf("after granting less (-want +got), %v:\n%s", err, diff)
	}
	if err := root.Revoke(ctx, role, less); err != nil {
		t.Fatal(err)
	}
	got, _, err = root.Role(ctx, role)
	if diff := cmp.Diff([]users.Permission{key}, got); err != nil || diff != "" {
		t.Errorf("after revoking (-want +got), %v:\n%s", err, diff)
	}
	backwards := users.Permission{Keys: users.Keys{From: "b", End: "a"}, Access: v1alpha1.EtcdRead}
	if err := root.Grant(ctx, role, backwards); err == nil {
		t.Error("a range that ends before it begins was granted")
	}
}

// noPasswordUser is opened by no password, and never can be.
func noPasswordUser(ctx context.Context, t *testing.T, c *testCluster, root users.Client, m *testMember) {
	t.Helper()
	if err := root.DeleteUser(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	admin, err := login(t, c, m, "root", "secret")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.UserAddWithOptions(ctx, "app", "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	wantPassword(ctx, t, root, "pw", users.PasswordNone)
	if err := root.SetPassword(ctx, "app", "pw"); err != nil {
		t.Fatal(err)
	}
	wantPassword(ctx, t, root, "pw", users.PasswordNone)
}

// strangersManageNoUsers shows that being denied is an error and never "there is none".
func strangersManageNoUsers(ctx context.Context, t *testing.T, c *testCluster, m *testMember) {
	t.Helper()
	stranger := c.as("client", "", m)
	_, _, err := stranger.User(ctx, "app")
	if err == nil || !strings.Contains(err.Error(), "user app") {
		t.Errorf("a stranger was told about a user: %v", err)
	}
	if _, _, err := stranger.Role(ctx, "another"); err == nil {
		t.Error("a stranger was told about a role")
	}
	if err := stranger.AddUser(ctx, "mine", "x"); err == nil {
		t.Error("a stranger added a user")
	}
}
