package etcdclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	etcdsteps "github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// inThree runs a test with a cluster of three members that the operator's certificate opens, for each version.
func inThree(
	t *testing.T, config *v1alpha1.EtcdConfig, run func(ctx context.Context, t *testing.T, c *testCluster, lead *testMember),
) {
	t.Helper()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged, config)
			c.start(asNew, c.members...)
			lead := leader(t, c, "operator", "", c.members...)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			run(ctx, t, c, lead)
		})
	}
}

// writer is a client of an application that talks to one member.
func (c *testCluster) writer(m *testMember) *clientv3.Client {
	c.t.Helper()
	w, err := clientv3.New(clientv3.Config{
		Endpoints: []string{fmt.Sprintf("https://127.0.0.1:%d", m.client)}, TLS: c.tls("client"), DialTimeout: 5 * time.Second,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = w.Close() })
	return w
}

// fill writes values of 100 kB to one key until the quota is reached.
func fill(ctx context.Context, t *testing.T, w *clientv3.Client, key func(i int) string) {
	t.Helper()
	for i := range 1000 {
		_, err := w.Put(ctx, key(i), strings.Repeat("x", 100_000))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the quota is never reached")
}

// The planner decides with nothing but the sizes and alarms that real members tell, as it does in the operator.
func TestAFullDatabaseIsCured(t *testing.T) {
	t.Parallel()
	quota := resource.MustParse("8Mi")
	inThree(t, &v1alpha1.EtcdConfig{QuotaBackendBytes: &quota}, func(ctx context.Context, t *testing.T, c *testCluster, lead *testMember) {
		t.Helper()
		w := c.writer(lead)
		// What bbolt has free by chance may be enough for once; then the history has to go.
		steps := map[string]int{}
		for range 5 {
			fill(ctx, t, w, func(int) string { return "the-same-key" })
			steps = c.cure(ctx, t, quota.Value())
			// A member whose compaction is not over yet has little to gain the first time.
			if steps["DefragmentingMember"] < 3 || steps["DefragmentingMember"] > 9 || steps["DisarmingAlarm"] == 0 || steps["refused"] > 0 {
				t.Fatalf("steps %v", steps)
			}
			if steps["Compacting"] > 0 {
				break
			}
		}
		if steps["Compacting"] == 0 {
			t.Error("the history is never thrown away")
		}
		if _, err := w.Put(ctx, "the-same-key", "small"); err != nil {
			t.Errorf("write after the cure: %v", err)
		}
		// Data has no history that could go: what a defragmentation still gains is soon used up.
		for round := range 10 {
			fill(ctx, t, w, func(i int) string { return fmt.Sprintf("/data/%d/%d/x%d", i%2, round, i) })
			if c.cure(ctx, t, quota.Value())["refused"] > 0 {
				return
			}
		}
		t.Error("a database full of data is cured again and again")
	})
}

// cure does what the planner says until it has nothing to say, and counts the steps.
func (c *testCluster) cure(ctx context.Context, t *testing.T, quota int64) map[string]int {
	t.Helper()
	steps := map[string]int{}
	var compacted time.Time
	done := map[string]*model.Defragmentation{}
	for {
		s := c.observe(ctx, t, quota)
		s.Maintenance.LastCompaction = compacted
		for i, p := range s.Pods {
			s.Pods[i].Defragmentation = done[p.Name]
		}
		p := planner.Next(s)
		t.Logf("%v: %s", p.Step, p.Message)
		switch step := p.Step.(type) {
		case etcdsteps.DrainMember:
			c.drained = step.Pod
		case etcdsteps.ServeAgain:
			c.drained = ""
		case etcdsteps.Defragment:
			check(t, c.asOperator(step.Pod).Defragment(ctx))
			done[step.Pod] = &model.Defragmentation{Begin: s.Now, End: time.Now()}
		case etcdsteps.MoveLeader:
			check(t, c.asOperator(step.From).MoveLeader(ctx, step.To))
		case etcdsteps.Compact:
			check(t, c.asOperator(step.Pod).Compact(ctx, step.Revision))
			compacted = s.Now
		case etcdsteps.Disarm:
			check(t, c.asOperator(step.Pod).Disarm(ctx, step.Alarm))
		case nil:
			if p.Settled() {
				return steps
			}
			if p.Stalled {
				steps["refused"]++
				return steps
			}
			// It waits for etcd. What takes longer than this does not happen.
			if time.Since(compacted) > 3*time.Second {
				compacted = compacted.Add(-time.Minute)
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		steps[p.Step.Meta().Reason]++
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *testCluster) asOperator(pod string) model.Client {
	for _, m := range c.members {
		if m.Name == pod {
			return c.as("operator", "", m)
		}
	}
	c.t.Fatalf("there is no %s", pod)
	return nil
}

// observe makes a state of what the members say; everything else is as it should be.
func (c *testCluster) observe(ctx context.Context, t *testing.T, quota int64) model.State {
	t.Helper()
	// Members of a cluster are told apart by their hosts, and those of a test have one host.
	peers := model.Peers(testName, testNamespace, testDomain, len(c.members), true)
	s := model.State{
		Want: model.Want{
			Name: testName, Size: len(peers), Peers: peers, TLS: true, Version: model.Version{Major: 3, Minor: 6}, Persistent: true,
			Maintenance: model.Policy{Defragment: true, MinFree: 200 << 20, Quota: quota},
		},
		Set: &model.Set{Replicas: len(peers)}, Open: true, Auth: &model.Auth{}, Now: time.Now(),
	}
	for i, m := range c.members {
		v, err := c.as("operator", "", m).Status(ctx)
		check(t, err)
		if s.Want.Version, err = model.ParseVersion(v.Version); err != nil {
			t.Fatal(err)
		}
		s.Record = &model.Record{
			Bootstrap: model.BootstrapNew, ClusterID: v.ClusterID, Members: peers, Version: s.Want.Version, MinAvailable: model.Quorum(len(peers)),
		}
		s.Pods = append(s.Pods, model.Pod{
			Name: m.Name, UID: m.Name, Ordinal: i, Ready: true, TLS: true, Status: &v, Drained: m.Name == c.drained,
		})
		if v.Leader == v.MemberID {
			compacted, err := c.as("operator", "", m).Compacted(ctx)
			check(t, err)
			s.Maintenance.Compacted = &compacted
		}
	}
	members, err := c.as("operator", "", c.members[0]).Members(ctx)
	check(t, err)
	for i, p := range c.members {
		for _, m := range members {
			if m.PeerURL == p.URL {
				m.PeerURL = peers[i].URL
				s.Members = append(s.Members, m)
			}
		}
	}
	return s
}

func TestTheDataOfMembersIsCompared(t *testing.T) {
	t.Parallel()
	inThree(t, nil, func(ctx context.Context, t *testing.T, c *testCluster, lead *testMember) {
		t.Helper()
		w := c.writer(lead)
		var revision int64
		for i := range 50 {
			r, err := w.Put(ctx, fmt.Sprint("key-", i), "value")
			check(t, err)
			revision = r.Header.Revision
		}
		eventually(t, "three hashes that are the same", func(ctx context.Context) error { //nolint:contextcheck // It has a limit of its own.
			first, err := c.as("operator", "", lead).HashKV(ctx, revision)
			if err != nil || first.Sum == 0 || first.Revision != revision {
				return fmt.Errorf("hash %+v: %w", first, err)
			}
			for _, m := range c.members {
				h, err := c.as("operator", "", m).HashKV(ctx, revision)
				if err != nil || h != first {
					return fmt.Errorf("%s has %+v instead of %+v: %w", m.Name, h, first, err)
				}
			}
			return nil
		})
		other, err := c.as("operator", "", lead).HashKV(ctx, revision-1)
		check(t, err)
		same, err := c.as("operator", "", lead).HashKV(ctx, revision)
		check(t, err)
		if other.Sum == same.Sum {
			t.Error("the hash does not depend on the data")
		}
	})
}

// An alarm of the whole cluster carries no member id.
func TestAlarmsAreToldAndDisarmed(t *testing.T) {
	t.Parallel()
	inThree(t, nil, func(ctx context.Context, t *testing.T, c *testCluster, lead *testMember) {
		t.Helper()
		root, w := c.as("operator", "", lead), c.writer(lead)
		for _, want := range []model.Alarm{{MemberID: idOf(t, root, lead), Type: "CORRUPT"}, {Type: "CORRUPT"}} { //nolint:contextcheck // It has a limit of its own.
			_, err := pb.NewMaintenanceClient(w.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
				Action: pb.AlarmRequest_ACTIVATE, MemberID: want.MemberID, Alarm: pb.AlarmType_CORRUPT,
			})
			check(t, err)
			v, err := root.Status(ctx)
			check(t, err)
			if diff := cmp.Diff([]model.Alarm{want}, v.Alarms); diff != "" {
				t.Errorf("alarms (-want +got):\n%s", diff)
			}
			if _, err := root.HashKV(ctx, v.Revision); err != nil {
				t.Errorf("hash while the alarm is raised: %v", err)
			}
			for range 2 {
				check(t, root.Disarm(ctx, want))
			}
			if v, err = root.Status(ctx); err != nil || len(v.Alarms) != 0 {
				t.Errorf("alarms %v after they were disarmed, %v", v.Alarms, err)
			}
		}
		if _, err := w.Put(ctx, "key", "value"); err != nil {
			t.Errorf("write after the alarms: %v", err)
		}
	})
}

func TestTheLargestKeysAreFound(t *testing.T) {
	t.Parallel()
	inThree(t, nil, func(ctx context.Context, t *testing.T, c *testCluster, lead *testMember) {
		t.Helper()
		w := c.writer(lead)
		for i := range 40 {
			for key, size := range map[string]int{"/registry/pods/a/": 2000, "/registry/leases/": 100, "mark-": 10, "load/run/": 500, "\xff\xff": 1} {
				_, err := w.Put(ctx, fmt.Sprint(key, i), strings.Repeat("x", size))
				check(t, err)
			}
		}
		groups, err := c.as("operator", "", lead).Largest(ctx)
		check(t, err)
		var got []string
		for _, g := range groups {
			if g.Keys == 40 {
				got = append(got, g.Prefix)
			}
		}
		want := []string{"/registry/pods/", "load/run/", "/registry/leases/", "mark-", "\xff"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s\n%+v", diff, groups)
		}
		if groups[0].Bytes < 40*2000 || groups[0].Bytes > 40*2100 {
			t.Errorf("%+v", groups[0])
		}
	})
}
