package etcdclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// A member's life from learner to voter to none. Every step may be repeated, and may go through any member.
func TestAMemberJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			first, second, third := c.members[0], c.members[1], c.members[2]
			c.start(gate.Decision{Start: true, State: "new", Members: peersOf(first)}, first)
			leader(t, c, "operator", "", first)
			root := c.as("operator", "", first)

			id := added(t, root, second)
			if err := within(t, func(ctx context.Context) error { return root.Promote(ctx, id) }); !errors.Is(err, model.ErrNotInSync) {
				t.Errorf("promotion of a learner that never ran: %v", err)
			}
			c.start(gate.Decision{Start: true, State: "existing", Members: peersOf(first, second)}, second)
			learnerIsNotReady(t, c, second)
			becomesVoter(t, root, id)
			leader(t, c, "operator", "", first, second)
			becomesReady(t, second)

			follower := c.as("operator", "", second)
			id = added(t, follower, third)
			secondLearnerMustWait(t, follower)
			c.start(gate.Decision{Start: true, State: "existing", Members: peersOf(first, second, third)}, third)
			becomesVoter(t, follower, id)
			leader(t, c, "operator", "", first, second, third)

			for range 2 {
				eventually(t, "removal", func(ctx context.Context) error { return follower.RemoveMember(ctx, id) })
			}
			if got := listed(t, root); len(got) != 2 {
				t.Errorf("members after the removal: %+v", got)
			}
		})
	}
}

// A learner lets nobody log in: who has only the password is let in by a token that a voter gave out.
func TestALearnerAnswersWhoHasOnlyThePassword(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version+" without TLS", func(t *testing.T) {
			t.Parallel()
			joinsByPassword(t, newTestCluster(t, version, binary, 2, v1alpha1.TLSDisabled), "")
		})
		t.Run(version+" with a certificate of somebody else", func(t *testing.T) {
			t.Parallel()
			joinsByPassword(t, newTestCluster(t, version, binary, 2, v1alpha1.TLSManaged), "client")
		})
	}
}

// joinsByPassword has a second member join by the hand of an operator that has the password of root and the named certificate.
func joinsByPassword(t *testing.T, c *testCluster, who string) {
	t.Helper()
	first, second := c.members[0], c.members[1]
	c.start(gate.Decision{Start: true, State: "new", Members: peersOf(first)}, first)
	leader(t, c, who, "", first)
	root := c.as(who, "first", first)
	eventually(t, "authentication to be switched on", func(ctx context.Context) error { return root.EnableAuth(ctx, "first") })

	id := added(t, root, second)
	c.start(gate.Decision{Start: true, State: "existing", Members: peersOf(first, second)}, second)
	learner := c.as(who, "first", second)
	eventually(t, "a learner that answers", func(ctx context.Context) error {
		v, err := learner.Status(ctx)
		if err == nil && (!v.Learner || v.Leader == 0) {
			return fmt.Errorf("it says %+v", v)
		}
		return err
	})
	if err := within(t, func(ctx context.Context) error { _, err := learner.HashKV(ctx, 1); return err }); err == nil {
		t.Error("a learner tells a hash of its data")
	}
	becomesVoter(t, root, id)
	eventually(t, "a voter that lets log in", func(ctx context.Context) error {
		v, err := learner.Status(ctx)
		if err == nil && v.Learner {
			return fmt.Errorf("it says %+v", v)
		}
		if err != nil {
			return err
		}
		auth, err := learner.Auth(ctx, "first")
		if err == nil && !auth.PasswordWorks {
			return fmt.Errorf("it says %+v", auth)
		}
		return err
	})
}

func TestAnUnhealthyClusterAllowsNoChangeForNow(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			c.start(asNew, c.members...)
			lead := leader(t, c, "operator", "", c.members...)
			root := c.as("operator", "", lead)
			if err := within(t, func(ctx context.Context) error { return root.AddLearner(ctx, "https://127.0.0.1:1") }); !errors.Is(err, model.ErrNotNow) {
				t.Errorf("a learner for members that have been connected for a moment only: %v", err)
			}
			var dead, alive *testMember
			for _, m := range c.members {
				if m != lead {
					dead, alive = alive, m
				}
			}
			aliveID, deadID := idOf(t, root, alive), idOf(t, root, dead)
			c.kill(dead)
			eventually(t, "a dead member to be missed", func(ctx context.Context) error {
				if err := root.AddLearner(ctx, "https://127.0.0.1:1"); !errors.Is(err, model.ErrNotNow) {
					return fmt.Errorf("add a learner: %w", err)
				}
				if err := root.RemoveMember(ctx, aliveID); !errors.Is(err, model.ErrNotNow) {
					return fmt.Errorf("remove one of the two that live: %w", err)
				}
				return nil
			})
			eventually(t, "the dead member to be removed", func(ctx context.Context) error { return root.RemoveMember(ctx, deadID) })
		})
	}
}

func TestTheVersionOfTheClusterIsTold(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSManaged, v1alpha1.TLSDisabled} {
			t.Run(version+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				c := newTestCluster(t, version, binary, 1, mode)
				c.start(asNew, c.members...)
				root := c.as("operator", "", c.members[0])
				want := version[:strings.LastIndex(version, ".")] + ".0"
				eventually(t, "the version of the cluster", func(ctx context.Context) error {
					got, err := root.ClusterVersion(ctx)
					if err == nil && got.String() != want {
						return fmt.Errorf("%s instead of %s", got, want)
					}
					return err
				})
			})
		}
	}
}

func TestTheSpaceInUseIsTold(t *testing.T) {
	t.Parallel()
	inPlainText(t, nil, func(ctx context.Context, t *testing.T, c *testCluster, only *testMember) {
		t.Helper()
		writer, root := user(t, only, ""), c.as("", "", only)
		var last int64
		for range 40 {
			r, err := writer.Put(ctx, "key", strings.Repeat("x", 100_000))
			if err != nil {
				t.Fatal(err)
			}
			last = r.Header.Revision
		}
		if _, err := writer.Compact(ctx, last); err != nil {
			t.Fatal(err)
		}
		eventually(t, "space to be freed", func(ctx context.Context) error { //nolint:contextcheck // Each of its calls has a limit of its own.
			// What a compaction frees counts only after another write: pages are kept for the readers of the one before.
			if _, err := writer.Put(ctx, "other", ""); err != nil {
				return err
			}
			v, err := root.Status(ctx)
			if err == nil && (v.DBSize < 4_000_000 || v.DBInUse == 0 || v.DBInUse > v.DBSize/2) {
				return fmt.Errorf("%d of %d bytes are in use", v.DBInUse, v.DBSize)
			}
			return err
		})
	})
}

func peersOf(members ...*testMember) []model.Peer {
	var out []model.Peer
	for _, m := range members {
		out = append(out, m.Peer)
	}
	return out
}

// within makes one call with a limit of its own.
func within(t *testing.T, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return call(ctx)
}

// added adds a member as learner, twice, and returns its id.
func added(t *testing.T, root model.Client, m *testMember) uint64 {
	t.Helper()
	for range 2 {
		eventually(t, "a learner to be added", func(ctx context.Context) error { return root.AddLearner(ctx, m.URL) })
	}
	return idOf(t, root, m)
}

func idOf(t *testing.T, root model.Client, m *testMember) uint64 {
	t.Helper()
	var id uint64
	for _, other := range listed(t, root) {
		if other.PeerURL == m.URL {
			if id != 0 {
				t.Errorf("%s is listed twice", m.Name)
			}
			id = other.ID
		}
	}
	if id == 0 {
		t.Fatalf("%s is not listed", m.Name)
	}
	return id
}

func listed(t *testing.T, root model.Client) (members []model.Member) {
	t.Helper()
	err := within(t, func(ctx context.Context) (err error) {
		members, err = root.Members(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// learnerIsNotReady shows that a learner that has caught up lives and says what it is, but gets no clients.
func learnerIsNotReady(t *testing.T, c *testCluster, m *testMember) {
	t.Helper()
	self := c.as("operator", "", m)
	eventually(t, "a learner that has a leader", func(ctx context.Context) error {
		v, err := self.Status(ctx)
		if err == nil && (!v.Learner || v.Leader == 0) {
			return fmt.Errorf("it says %+v", v)
		}
		return err
	})
	eventually(t, "a learner that lives", func(ctx context.Context) error {
		if code := get(ctx, t, http.DefaultClient, probeURL(m, "/livez")); code != http.StatusOK {
			return fmt.Errorf("liveness is %d", code)
		}
		return nil
	})
	if code := get(t.Context(), t, http.DefaultClient, probeURL(m, "/readyz")); code != http.StatusServiceUnavailable {
		t.Errorf("readiness of a learner is %d", code)
	}
}

func becomesReady(t *testing.T, m *testMember) {
	t.Helper()
	eventually(t, "a voter that is ready", func(ctx context.Context) error {
		if code := get(ctx, t, http.DefaultClient, probeURL(m, "/readyz")); code != http.StatusOK {
			return fmt.Errorf("readiness is %d", code)
		}
		return nil
	})
}

func probeURL(m *testMember, path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", m.metrics, path)
}

// becomesVoter promotes a learner, twice.
func becomesVoter(t *testing.T, root model.Client, id uint64) {
	t.Helper()
	for range 2 {
		eventually(t, "promotion", func(ctx context.Context) error { return root.Promote(ctx, id) })
	}
	for _, m := range listed(t, root) {
		if m.ID == id && m.Learner {
			t.Errorf("%x is still a learner", id)
		}
	}
}

func secondLearnerMustWait(t *testing.T, root model.Client) {
	t.Helper()
	err := within(t, func(ctx context.Context) error { return root.AddLearner(ctx, "https://127.0.0.1:1") })
	if !errors.Is(err, model.ErrNotNow) {
		t.Errorf("a second learner: %v", err)
	}
}
