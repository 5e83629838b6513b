package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster"
	redisplanner "github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/harness"
)

// maxServingGap is how long another shard may take for a write while one is lost and brought back: nothing happens to it.
const maxServingGap = 3 * time.Second

// TestARedisClusterIsRestoredInPlace replaces what a cluster has by what it had when a backup was taken.
func TestARedisClusterIsRestoredInPlace(t *testing.T) {
	t.Parallel()
	var (
		c      *v1alpha1.RedisCluster
		server *harness.S3
		before *harness.Load
		b      *v1alpha1.Backup
		want   redisdump.Digest
	)
	feature := features.New("restore").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server = startS3(ctx, t, s)
			c = s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, c)
			before = startLoad(ctx, t, s, c)
			_, err := before.WaitAcked(ctx, 1000, time.Minute)
			must(t, err)
			must(t, before.Pause(ctx))
			want = digestOf(ctx, t, s, c)
			b = backupOf(s, "first", v1alpha1.KindRedisCluster, c.Name, server.Destination("redis"))
			takeBackup(ctx, t, s, b)
		})).
		Assess("keys are deleted and others written", step(func(ctx context.Context, t *testing.T, s *scope) {
			conn, _, err := s.Connection(ctx, s.ns, c.Name)
			must(t, err)
			node, err := s.Redis(s.ns, primaryOf(ctx, t, s, c, 0).Name, conn)
			must(t, err)
			must(t, node.FlushAll(ctx).Err())
			must(t, node.Close())
			after := startLoad(ctx, t, s, c)
			nothingLost(t, stopLoad(ctx, t, after, "what is to be replaced; "))
			if got := digestOf(ctx, t, s, c); got == want {
				t.Error("nothing has changed")
			}
		})).
		Assess("the backup replaces them, and what there was is kept", step(func(ctx context.Context, t *testing.T, s *scope) {
			changed := digestOf(ctx, t, s, c)
			restoreInPlace(ctx, t, s, c, b, v1alpha1.RestoreAll)
			if got := digestOf(ctx, t, s, c); got != want {
				t.Errorf("the servers hold %s, and the backup was of %s", got, want)
			}
			nothingLost(t, stopLoad(ctx, t, before, "a restore in place; "))
			saved := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: planner.SavedName("back", 1)}}
			waitComplete(ctx, t, s, saved)
			if saved.Status.Keys != changed.Keys {
				t.Errorf("what there was is kept with %d keys of %d", saved.Status.Keys, changed.Keys)
			}
		}))
	suite.Test(t, feature.Feature())
}

// restoreInPlace restores a cluster that runs, and confirms the plan for that.
func restoreInPlace(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, b *v1alpha1.Backup, slots v1alpha1.RestoreSlots) {
	t.Helper()
	r := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "back"},
		Spec: v1alpha1.RestoreSpec{
			Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: c.Name}, From: v1alpha1.RestoreSource{Backup: &b.Name}, Slots: ptr.To(slots),
		},
	}
	s.create(ctx, t, r)
	must(t, harness.Until(ctx, s.Cluster, r, harness.Deadline{What: "the plan", Within: 3 * time.Minute}, func(r *v1alpha1.Restore) (bool, string) {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionConfirmed)
		return c != nil && c.Reason == planner.ReasonUnconfirmed, r.Status.Activity
	}))
	figure(t, "%s", r.Status.Activity)
	began := time.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationConfirm, r.Status.Plan)
	must(t, s.Patch(ctx, r, client.RawPatch("application/merge-patch+json", patch)))
	must(t, harness.Until(ctx, s.Cluster, r, harness.Deadline{What: "the restore to be complete", Within: 4 * time.Minute}, func(r *v1alpha1.Restore) (bool, string) {
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete), r.Status.Activity
	}))
	figure(t, "slots %s: restored %.1f s after it was confirmed: %s", slots, time.Since(began).Seconds(), meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionComplete).Message)
	waitReady(ctx, t, s, c)
	figure(t, "Ready again %.1f s after it was confirmed", time.Since(began).Seconds())
}

// TestALostShardComesBackWhileTheOthersServe loses a shard, none of whose servers can read its disk. Nobody finds its slots empty.
func TestALostShardComesBackWhileTheOthersServe(t *testing.T) {
	const lost = 1
	var (
		c              *v1alpha1.RedisCluster
		server         *harness.S3
		before, during *harness.Load
		b              *v1alpha1.Backup
		others         []*visitor
		marks          map[string]string
		emptyReads     func() (asked, empty int)
	)
	feature := features.New("restore").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server = startS3(ctx, t, s)
			c = s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, c)
			before = startLoad(ctx, t, s, c)
			_, err := before.WaitAcked(ctx, 1000, time.Minute)
			must(t, err)
			must(t, before.Pause(ctx))
		})).
		Assess("a backup is taken under load", step(func(ctx context.Context, t *testing.T, s *scope) {
			during = startLoad(ctx, t, s, c)
			marks = markShard(ctx, t, s, c, lost)
			b = backupOf(s, "first", v1alpha1.KindRedisCluster, c.Name, server.Destination("redis"))
			takeBackup(ctx, t, s, b)
		})).
		Assess("no server of a shard can read its data, and none is thrown away", step(func(ctx context.Context, t *testing.T, s *scope) {
			others = []*visitor{visit(ctx, t, s, c, 0), visit(ctx, t, s, c, 2)}
			primary := primaryOf(ctx, t, s, c, lost)
			replica := s.pod(ctx, t, cluster.Pod(cluster.ShardSet(c.Name, lost), 1-podOrdinal(*primary)))
			for _, p := range []*corev1.Pod{replica, primary} { // The replica would succeed its primary.
				must(t, s.Corrupt(ctx, p, redisContainer))
			}
			waitStalled(ctx, t, s, c, redisplanner.ReasonDamaged, "no server of shard 1 can start", "delete the claims and pods of carts-1-0, carts-1-1")
		})).
		Assess("it is lost when a human says so, and only its slots with it", step(func(ctx context.Context, t *testing.T, s *scope) {
			loseShard(ctx, t, s, c, lost)
			waitStalled(ctx, t, s, c, redisplanner.ReasonShardLost, "a Restore with spec.slots: Lost")
			emptyReads = readAll(ctx, t, s, c, lost, marks)
		})).
		Assess("it comes back from the backup", step(func(ctx context.Context, t *testing.T, s *scope) {
			restoreInPlace(ctx, t, s, c, b, v1alpha1.RestoreLost)
			asked, empty := emptyReads()
			figure(t, "%d reads of keys of the lost shard, %d of which found nothing", asked, empty)
			if empty > 0 || asked == 0 {
				t.Errorf("%d of %d reads of keys that the backup has were answered with nothing", empty, asked)
			}
			for _, v := range others {
				v.check(ctx, t)
			}
			nothingLost(t, stopLoad(ctx, t, before, "what was acknowledged before the backup; "))
			stopLoad(ctx, t, during, "a lost shard that comes back; ")
		}))
	suite.Test(t, feature.Feature())
}

// loseShard deletes the pods of a shard, whose servers have ended, and their claims.
func loseShard(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int) {
	t.Helper()
	var pods []corev1.Pod
	for ordinal := range 1 + c.Spec.Replicas() {
		name := cluster.Pod(cluster.ShardSet(c.Name, shard), ordinal)
		pods = append(pods, *s.pod(ctx, t, name))
		must(t, s.Delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.VolumeData + "-" + name}}))
	}
	deletePods(ctx, t, s, pods...)
}

// markShard writes keys of a shard.
func markShard(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int) map[string]string {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	node, err := s.Redis(s.ns, primaryOf(ctx, t, s, c, shard).Name, conn)
	must(t, err)
	out, slots := map[string]string{}, slots.Share(shard, int(c.Spec.Shards))
	for i := 0; len(out) < 20; i++ {
		key := "mark-" + strconv.Itoa(i)
		if slots.Has(redisdump.Slot([]byte(key))) {
			out[key] = strconv.Itoa(i)
			must(t, node.Set(ctx, key, i, 0).Err())
		}
	}
	must(t, node.Close())
	return out
}

// readAll asks all servers of a shard for keys all the time, until it is asked how often, and how often there was nothing.
func readAll(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int, keys map[string]string) func() (asked, empty int) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	var nodes []*redis.Client
	for ordinal := range 1 + c.Spec.Replicas() {
		node, err := s.Redis(s.ns, cluster.Pod(cluster.ShardSet(c.Name, shard), ordinal), conn)
		must(t, err)
		nodes = append(nodes, node)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	asked, empty := 0, 0
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for key := range keys {
				for _, node := range nodes {
					err := node.Get(ctx, key).Err()
					asked++
					if errors.Is(err, redis.Nil) {
						empty++
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() (int, int) {
		end()
		<-done
		return asked, empty
	}
}

// visitor writes to one server all the time.
type visitor struct {
	node    *redis.Client
	slots   slots.Set
	written []string
	// longest time without an answer, and errors.
	longest time.Duration
	failed  int
	why     error
	end     context.CancelFunc
	done    chan struct{}
}

// visit writes to the primary of a shard.
func visit(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int) *visitor {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	v := &visitor{slots: slots.Share(shard, int(c.Spec.Shards)), done: make(chan struct{})}
	v.node, err = s.Redis(s.ns, primaryOf(ctx, t, s, c, shard).Name, conn)
	must(t, err)
	ctx, v.end = context.WithCancel(context.WithoutCancel(ctx))
	go v.run(ctx)
	return v
}

func (v *visitor) run(ctx context.Context) {
	defer close(v.done)
	last := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		key := "visit-" + strconv.Itoa(i)
		if !v.slots.Has(redisdump.Slot([]byte(key))) {
			continue
		}
		err := v.node.Set(ctx, key, i, 0).Err()
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			v.failed, v.why = v.failed+1, err
		default:
			v.written = append(v.written, key)
			v.longest, last = max(v.longest, now.Sub(last)), now
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (v *visitor) leave() {
	v.end()
	<-v.done
}

// check ends the visit, and looks for all that was acknowledged.
func (v *visitor) check(ctx context.Context, t *testing.T) {
	t.Helper()
	v.leave()
	missing := 0
	for _, key := range v.written {
		if v.node.Get(ctx, key).Err() != nil {
			missing++
		}
	}
	figure(t, "slots %s: %d writes acknowledged, %d failed, %d missing, longest wait %.2f s", v.slots, len(v.written), v.failed, missing, v.longest.Seconds())
	if missing > 0 || v.failed > 0 || v.longest > maxServingGap || len(v.written) < 100 {
		t.Errorf("the shard of slots %s did not serve all the time: %d of %d missing, %d failed (%v), %s without an answer", v.slots, missing, len(v.written), v.failed, v.why, v.longest)
	}
	_ = v.node.Close()
}
