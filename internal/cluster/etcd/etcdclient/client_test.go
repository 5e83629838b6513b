package etcdclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

var asNew = gate.Decision{Start: true, State: "new"}

// leader waits for a leader that all of the given members follow, and returns it.
func leader(t *testing.T, c *testCluster, who, password string, members ...*testMember) *testMember {
	t.Helper()
	var found *testMember
	eventually(t, "one leader", func(ctx context.Context) error {
		var id uint64
		for _, m := range members {
			v, err := c.as(who, password, m).Status(ctx)
			if err != nil {
				return err
			}
			if v.Leader == 0 || (id != 0 && v.Leader != id) {
				return fmt.Errorf("leader %x, then %x", id, v.Leader)
			}
			id = v.Leader
			if v.MemberID == id {
				found = m
			}
		}
		return nil
	})
	return found
}

func TestAManagedClusterWithRealServers(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			c.start(asNew, c.members...)
			lead := leader(t, c, "operator", "", c.members...)
			root := c.as("operator", "unused", lead)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()

			v, err := root.Status(ctx)
			if err != nil || v.Version != version || v.ClusterID == 0 || v.DBSize == 0 || len(v.Alarms) != 0 {
				t.Fatalf("status %+v, %v", v, err)
			}
			eventually(t, "three published members", func(ctx context.Context) error {
				members, err := root.Members(ctx)
				if err != nil {
					return err
				}
				for i, m := range members {
					if !m.Published || m.Learner || !strings.HasPrefix(m.PeerURL, "https://127.0.0.1:") {
						return fmt.Errorf("member %d: %+v", i, m)
					}
				}
				if len(members) != 3 {
					return fmt.Errorf("%d members", len(members))
				}
				return nil
			})
			authLifecycle(ctx, t, root)
			probesWork(ctx, t, lead)
			clientsNeedThePassword(ctx, t, c, lead)
			clientsAreNoPeers(ctx, t, c, lead)
			leadershipMoves(ctx, t, c, lead)
			rootNeedsNoQuorum(t, c)
		})
	}
}

// authLifecycle switches authentication on from every state that a crash may leave, and changes the password.
func authLifecycle(ctx context.Context, t *testing.T, root model.Client) {
	t.Helper()
	if a, err := root.Auth(ctx, "first"); err != nil || a.Enabled {
		t.Fatalf("before: %+v, %v", a, err)
	}
	for range 2 {
		if err := root.EnableAuth(ctx, "first"); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := root.Auth(ctx, "first"); err != nil || !a.Enabled || !a.PasswordWorks {
		t.Fatalf("enabled: %+v, %v", a, err)
	}
	if a, err := root.Auth(ctx, "second"); err != nil || !a.Enabled || a.PasswordWorks {
		t.Fatalf("wrong password: %+v, %v", a, err)
	}
	if err := root.SetRootPassword(ctx, "second"); err != nil {
		t.Fatal(err)
	}
	if a, err := root.Auth(ctx, "second"); err != nil || !a.PasswordWorks {
		t.Fatalf("new password: %+v, %v", a, err)
	}
}

func probesWork(ctx context.Context, t *testing.T, m *testMember) {
	t.Helper()
	for _, path := range []string{"/livez", "/readyz"} {
		code := get(ctx, t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d%s", m.metrics, path))
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func get(ctx context.Context, t *testing.T, c *http.Client, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// clientsNeedThePassword shows that the certificate handed out to users opens nothing without the password.
func clientsNeedThePassword(ctx context.Context, t *testing.T, c *testCluster, m *testMember) {
	t.Helper()
	put := func(password string) error {
		cfg := clientv3.Config{
			Endpoints: []string{fmt.Sprintf("https://127.0.0.1:%d", m.client)}, TLS: c.tls("client"), DialTimeout: 5 * time.Second,
		}
		if password != "" {
			cfg.Username, cfg.Password = "root", password
		}
		user, err := clientv3.New(cfg)
		if err != nil {
			return err
		}
		defer func() { _ = user.Close() }()
		_, err = user.Put(ctx, "key", "value")
		return err
	}
	if err := put(""); err == nil {
		t.Error("a client without a password may write")
	}
	if err := put("wrong"); err == nil {
		t.Error("a client with a wrong password may write")
	}
	if err := put("second"); err != nil {
		t.Errorf("a client with the password may not write: %v", err)
	}
}

// clientsAreNoPeers shows that a client's certificate does not open the peer port.
func clientsAreNoPeers(ctx context.Context, t *testing.T, c *testCluster, m *testMember) {
	t.Helper()
	as := func(who string) int {
		transport := &http.Transport{TLSClientConfig: c.tls(who), DisableKeepAlives: true}
		return get(ctx, t, &http.Client{Transport: transport}, m.URL+"/members")
	}
	if code := as("peer"); code != http.StatusOK {
		t.Errorf("a peer gets %d", code)
	}
	if code := as("client"); code != 0 {
		t.Errorf("a client gets %d from the peer port", code)
	}
}

func leadershipMoves(ctx context.Context, t *testing.T, c *testCluster, lead *testMember) {
	t.Helper()
	var to *testMember
	for _, m := range c.members {
		if m != lead {
			to = m
		}
	}
	v, err := c.as("operator", "", to).Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.as("operator", "", lead).MoveLeader(ctx, v.MemberID); err != nil {
		t.Fatal(err)
	}
	if now := leader(t, c, "operator", "", c.members...); now != to { //nolint:contextcheck // Each of its calls has a limit of its own.
		t.Errorf("%s leads instead of %s", now.Name, to.Name)
	}
}

// rootNeedsNoQuorum shows that the operator can still ask the last member when the others are gone.
func rootNeedsNoQuorum(t *testing.T, c *testCluster) {
	t.Helper()
	c.kill(c.members[0])
	c.kill(c.members[1])
	last := c.as("operator", "", c.members[2])
	eventually(t, "a last member without a leader", func(ctx context.Context) error {
		v, err := last.Status(ctx)
		if err == nil && v.Leader != 0 {
			return errors.New("it still follows a leader")
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if members, err := last.Members(ctx); err == nil {
		t.Errorf("a member without a quorum lists %v", members)
	}
	if code := get(t.Context(), t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/livez", c.members[2].metrics)); code != http.StatusOK {
		t.Errorf("liveness depends on the quorum: %d", code)
	}
	if code := get(t.Context(), t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", c.members[2].metrics)); code == http.StatusOK {
		t.Error("a member without a quorum is ready")
	}
}

// inPlainText runs a test with a cluster of one member without TLS, for each version.
func inPlainText(
	t *testing.T, config *v1alpha1.EtcdConfig, run func(ctx context.Context, t *testing.T, c *testCluster, only *testMember),
) {
	t.Helper()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 1, v1alpha1.TLSDisabled, config)
			c.start(asNew, c.members...)
			only := leader(t, c, "", "", c.members...)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			run(ctx, t, c, only)
		})
	}
}

func TestAClusterInPlainTextWithRealServers(t *testing.T) {
	t.Parallel()
	inPlainText(t, nil, func(ctx context.Context, t *testing.T, c *testCluster, only *testMember) {
		t.Helper()
		before := c.as("", "first", only)
		if a, err := before.Auth(ctx, "first"); err != nil || a.Enabled {
			t.Fatalf("before: %+v, %v", a, err)
		}
		if err := before.EnableAuth(ctx, "p\xff"); err == nil {
			t.Error("a password is taken that is no text")
		}
		if err := before.EnableAuth(ctx, "first"); err != nil {
			t.Fatal(err)
		}
		after := c.as("", "first", only)
		if _, err := after.Status(ctx); err != nil {
			t.Errorf("with the password: %v", err)
		}
		if a, err := after.Auth(ctx, "first"); err != nil || !a.PasswordWorks {
			t.Errorf("with the password: %+v, %v", a, err)
		}
		if _, err := before.Status(ctx); err != nil {
			t.Errorf("a client from before authentication was on: %v", err)
		}
		wrong := c.as("", "wrong", only)
		if _, err := wrong.Status(ctx); !errors.Is(err, model.ErrPassword) {
			t.Errorf("with a wrong password: %v", err)
		}
		giveRoot(ctx, t, only, "first", "wrong")
		if _, err := wrong.Status(ctx); !errors.Is(err, model.ErrPassword) {
			t.Errorf("with a password that is held back: %v", err)
		}
		c.later = time.Minute
		if _, err := wrong.Status(ctx); err != nil {
			t.Errorf("with a password that has become right: %v", err)
		}
	})
}

// user is a client of somebody, as root with a password or as nobody without.
func user(t *testing.T, m *testMember, password string) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: []string{fmt.Sprintf("http://127.0.0.1:%d", m.client)}, DialTimeout: 5 * time.Second}
	if password != "" {
		cfg.Username, cfg.Password = model.RootUser, password
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// giveRoot changes the password of root as a person would.
func giveRoot(ctx context.Context, t *testing.T, m *testMember, from, to string) {
	t.Helper()
	if _, err := user(t, m, from).UserChangePassword(ctx, model.RootUser, to); err != nil {
		t.Fatal(err)
	}
}

// With tokens that a restart makes invalid, every client would authenticate anew at once.
func TestATokenOutlivesTheMemberThatGaveIt(t *testing.T) {
	t.Parallel()
	inPlainText(t, nil, func(ctx context.Context, t *testing.T, c *testCluster, only *testMember) {
		t.Helper()
		if err := c.as("", "first", only).EnableAuth(ctx, "first"); err != nil {
			t.Fatal(err)
		}
		nobody := user(t, only, "")
		answer, err := nobody.Authenticate(ctx, model.RootUser, "first")
		if err != nil {
			t.Fatal(err)
		}
		c.kill(only)
		c.start(gate.Decision{Start: true, State: "existing"}, only)
		leader(t, c, "", "first", only) //nolint:contextcheck // Each of its calls has a limit of its own.
		put := func(token string) error {
			_, err := nobody.Put(metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token), "key", "value")
			return err
		}
		if err := put(answer.Token); err != nil {
			t.Errorf("a token from before the restart: %v", err)
		}
		if err := put(answer.Token + "x"); err == nil {
			t.Error("a forged token was taken")
		}
	})
}

func TestAFullDatabaseIsTold(t *testing.T) {
	t.Parallel()
	quota := resource.MustParse("1Mi")
	inPlainText(t, &v1alpha1.EtcdConfig{QuotaBackendBytes: &quota}, func(ctx context.Context, t *testing.T, c *testCluster, only *testMember) {
		t.Helper()
		writer := user(t, only, "")
		var err error
		for i := 0; err == nil; i++ {
			_, err = writer.Put(ctx, fmt.Sprint(i), strings.Repeat("x", 100_000))
		}
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatal(err)
		}
		v, err := c.as("", "", only).Status(ctx)
		want := []model.Alarm{{MemberID: v.MemberID, Type: model.AlarmNoSpace}}
		if diff := cmp.Diff(want, v.Alarms); err != nil || diff != "" {
			t.Errorf("alarms (-want +got):\n%s\n%v", diff, err)
		}
		if code := get(ctx, t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", only.metrics)); code != http.StatusOK {
			t.Errorf("readiness is %d: clients could not delete anything", code)
		}
	})
}

// Each kind of value is decoded by each version: a wrong type would end etcd at its start.
func TestEveryKindOfParameterIsUnderstood(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			prefix := ""
			if strings.HasPrefix(version, "3.5.") {
				prefix = "experimental-"
			}
			config := &v1alpha1.EtcdConfig{
				QuotaBackendBytes:       ptr.To(resource.MustParse("4Gi")),
				AutoCompactionMode:      ptr.To("Revision"),
				AutoCompactionRetention: ptr.To("5000"),
				SnapshotCount:           ptr.To(int64(20000)),
				HeartbeatInterval:       &metav1.Duration{Duration: 50 * time.Millisecond},
				ElectionTimeout:         &metav1.Duration{Duration: 500 * time.Millisecond},
				MaxRequestBytes:         ptr.To(resource.MustParse("2Mi")),
				LogLevel:                ptr.To("warn"),
				Extra: map[string]v1alpha1.ConfigValue{
					"max-txn-ops": "256", "grpc-keepalive-interval": "2h", "pre-vote": "true", "tls-min-version": "TLS1.3",
					prefix + "watch-progress-notify-interval": "30s",
					prefix + "compaction-batch-limit":         "500",
				},
			}
			c := newTestCluster(t, version, binary, 1, v1alpha1.TLSManaged, config)
			c.start(asNew, c.members...)
			leader(t, c, "operator", "", c.members...)
		})
	}
}

// A certificate of the user's making carries any name: the password makes the operator root.
func TestACertificateOfSomebodyNeedsThePassword(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 1, v1alpha1.TLSManaged)
			c.start(asNew, c.members...)
			lead := leader(t, c, "client", "first", c.members...)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()

			other := c.as("client", "first", lead)
			if _, err := other.Status(ctx); err != nil {
				t.Fatal(err)
			}
			somebody := c.as("client", "first", lead)
			for range 2 {
				if err := somebody.EnableAuth(ctx, "first"); err != nil {
					t.Fatal(err)
				}
			}
			for name, client := range map[string]model.Client{"the same client": somebody, "one from before": other} {
				if a, err := client.Auth(ctx, "first"); err != nil || !a.Enabled || !a.PasswordWorks {
					t.Errorf("%s: %+v, %v", name, a, err)
				}
				if _, err := client.Status(ctx); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if a, err := c.as("client", "wrong", lead).Auth(ctx, "wrong"); err != nil || !a.Enabled || a.PasswordWorks {
				t.Errorf("a wrong password: %+v, %v", a, err)
			}
		})
	}
}

// A member that was late for the bootstrap joins with the members that its peers tell, and one that lost its disk is
// known to them as started.
func TestALateMemberJoinsItsPeers(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			early, late := c.members[:2], c.members[2]
			c.start(asNew, early...)
			leader(t, c, "operator", "", early...)
			var peers []model.Peer
			for _, m := range c.members {
				peers = append(peers, m.Peer)
			}
			c.start(gate.Decision{Start: true, State: "existing", Members: peers}, late)
			leader(t, c, "operator", "", c.members...)
		})
	}
}
