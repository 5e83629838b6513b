package e2e

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// s3Image is built by the first test that needs it.
var s3Image = sync.OnceValues(func() (string, error) { return kind.BuildS3(context.Background()) })

func startS3(ctx context.Context, t *testing.T, s *scope) *harness.S3 {
	t.Helper()
	image, err := s3Image()
	must(t, err)
	server, err := s.StartS3(ctx, s.ns, image)
	must(t, err)
	return server
}

// backupOf is a Backup of a cluster.
func backupOf(s *scope, name string, of v1alpha1.ClusterKind, clusterName string, to v1alpha1.BackupDestination) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec:       v1alpha1.BackupSpec{Cluster: v1alpha1.ClusterReference{Kind: of, Name: clusterName}, Destination: to},
	}
}

// takeBackup creates a Backup and waits until it is complete.
func takeBackup(ctx context.Context, t *testing.T, s *scope, b *v1alpha1.Backup) {
	t.Helper()
	began := time.Now()
	s.create(ctx, t, b)
	waitComplete(ctx, t, s, b)
	figure(t, "backup %s: %s complete after %.1f s: %d bytes, %d stored", b.Name, b.Status.Engine, time.Since(began).Seconds(), b.Status.Size, b.Status.StoredSize)
}

func waitComplete(ctx context.Context, t *testing.T, s *scope, b *v1alpha1.Backup) {
	t.Helper()
	must(t, harness.Until(ctx, s.Cluster, b, harness.Deadline{What: "the backup to be complete", Within: 2 * time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
		return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete), b.Status.Activity
	}))
}

// waitVerified waits until a backup is verified, by a server of the version that wrote it.
func waitVerified(ctx context.Context, t *testing.T, s *scope, b *v1alpha1.Backup) {
	t.Helper()
	must(t, harness.Until(ctx, s.Cluster, b, harness.Deadline{What: "the backup to be verified", Within: 3 * time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
		return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionVerified), b.Status.Activity
	}))
	c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionVerified)
	if b.Status.Verification.Server != b.Status.Engine || !strings.Contains(c.Message, b.Status.Engine) {
		t.Errorf("the backup is of %s, and was checked by %q: %s", b.Status.Engine, b.Status.Verification.Server, c.Message)
	}
	figure(t, "backup %s verified: %s", b.Name, c.Message)
}

// destroy deletes a cluster and every claim of it.
func destroy[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	must(t, s.Delete(ctx, o))
	must(t, s.WaitGone(ctx, o, time.Minute))
	must(t, s.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: o.GetName()}))
	must(t, harness.Eventually(ctx, "the claims of "+o.GetName()+" to be gone", time.Minute, func(ctx context.Context) (bool, string, error) {
		var list corev1.PersistentVolumeClaimList
		err := s.List(ctx, &list, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: o.GetName()})
		return len(list.Items) == 0, "some are left", err
	}))
}

// TestAnEtcdClusterComesBackFromABackup destroys a cluster with all of its claims.
func TestAnEtcdClusterComesBackFromABackup(t *testing.T) {
	t.Parallel()
	var (
		c      *v1alpha1.EtcdCluster
		server *harness.S3
		before *harness.Load
		b      *v1alpha1.Backup
	)
	feature := features.New("backup").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server = startS3(ctx, t, s)
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
		})).
		Assess("a backup is taken while clients write", step(func(ctx context.Context, t *testing.T, s *scope) {
			before = startLoad(ctx, t, s, c)
			during := startLoad(ctx, t, s, c)
			_, err := before.WaitAcked(ctx, 200, time.Minute)
			must(t, err)
			must(t, before.Pause(ctx))
			b = backupOf(s, "first", v1alpha1.KindEtcdCluster, c.Name, server.Destination("etcd"))
			b.Spec.Verify = ptr.To(true)
			takeBackup(ctx, t, s, b)
			nothingLost(t, stopLoad(ctx, t, during, "a backup; "))
			waitVerified(ctx, t, s, b)
			stored, err := server.Objects(ctx, "etcd/"+b.Status.Directory)
			must(t, err)
			names := strings.Join(slices.Sorted(maps.Keys(stored)), " ")
			if !strings.Contains(names, "manifest.json") || !strings.Contains(names, "snapshot.db") {
				t.Errorf("what is stored is %s", names)
			}
		})).
		Assess("a new cluster of the name begins with it", step(func(ctx context.Context, t *testing.T, s *scope) {
			destroy(ctx, t, s, c)
			began := time.Now()
			c = s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) {
				e.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To(b.Name)}}
			})
			createReady(ctx, t, s, c)
			figure(t, "restored and Ready after %.1f s", time.Since(began).Seconds())
			nothingLost(t, stopLoad(ctx, t, before, "a restore; "))
			writeMarks(ctx, t, s, c)
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// recordingPromise is how long something acknowledged may take until no loss of the cluster can take it any more.
const recordingPromise = 15 * time.Second

// TestAnEtcdClusterIsRestoredToAnyMoment loses a cluster whose changes were recorded, and restores it by revision, by time, and from the
// URL alone.
func TestAnEtcdClusterIsRestoredToAnyMoment(t *testing.T) {
	var (
		c      *v1alpha1.EtcdCluster
		server *harness.S3
		writer *harness.Load
		at     []int64
		middle time.Time

		schedule *v1alpha1.BackupSchedule
	)
	restored := func(ctx context.Context, t *testing.T, s *scope, from v1alpha1.RestoreSource) {
		t.Helper()
		destroy(ctx, t, s, c)
		from.Destination = ptr.To(server.Destination("history"))
		c = s.etcdOf(t, "orders", 1, func(e *v1alpha1.EtcdClusterSpec) {
			e.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &from}
		})
		createReady(ctx, t, s, c)
	}
	feature := features.New("history").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server = startS3(ctx, t, s)
			c = s.etcdOf(t, "orders", 1)
			createReady(ctx, t, s, c)
		})).
		Assess("changes are recorded from a first backup on, which nobody asked for", step(func(ctx context.Context, t *testing.T, s *scope) {
			schedule = record(ctx, t, s, c, server.Destination("history"))
		})).
		Assess("what is acknowledged is safe soon", step(func(ctx context.Context, t *testing.T, s *scope) {
			at = writeNumbered(ctx, t, s, c, 20, func(i int) {
				if i == 10 {
					rest(ctx, 2*time.Second) // A time has whole seconds.
					middle = time.Now()
					rest(ctx, 2*time.Second)
				}
			})
			writer = startLoad(ctx, t, s, c)
			_, err := writer.WaitAcked(ctx, 500, time.Minute)
			must(t, err)
			must(t, writer.Pause(ctx))
			rest(ctx, recordingPromise)
		})).
		Assess("a plan to restore a time says from when the last change is", step(func(ctx context.Context, t *testing.T, s *scope) {
			r := restoreOf(s, "look", c.Name, "")
			r.Spec.From = v1alpha1.RestoreSource{Destination: ptr.To(server.Destination("history")), Time: ptr.To(metav1.NewTime(middle))}
			says := planRestore(ctx, t, s, r)
			changed := r.Status.Found.LastChange
			if changed == nil || changed.After(middle) || middle.Sub(changed.Time) > time.Minute || !strings.Contains(says, changed.UTC().Format(time.RFC3339)) {
				t.Errorf("the last change until %s is of %s: %s", middle.UTC(), changed, says)
			}
			must(t, s.Delete(ctx, r))
		})).
		Assess("a revision is restored in place, and recording goes on", step(func(ctx context.Context, t *testing.T, s *scope) {
			r := restoreOf(s, "undo", c.Name, "")
			r.Spec.From = v1alpha1.RestoreSource{Destination: ptr.To(server.Destination("history")), Revision: ptr.To(at[14])}
			confirmRestore(ctx, t, s, r)
			waitRestored(ctx, t, s, r)
			wantNumbered(ctx, t, s, c, 15, at)
			backups := refresh(ctx, t, s, schedule).Status.Backups
			must(t, harness.Until(ctx, s.Cluster, schedule, harness.Deadline{What: "the new history to be recorded", Within: 2 * time.Minute}, func(b *v1alpha1.BackupSchedule) (bool, string) {
				return b.Status.Recording == "Current" && b.Status.Backups > backups, b.Status.Recording + ": " + b.Status.Activity
			}))
		})).
		Assess("a revision is restored exactly", step(func(ctx context.Context, t *testing.T, s *scope) {
			restored(ctx, t, s, v1alpha1.RestoreSource{Revision: ptr.To(at[4])})
			wantNumbered(ctx, t, s, c, 5, at)
		})).
		Assess("a time is restored", step(func(ctx context.Context, t *testing.T, s *scope) {
			restored(ctx, t, s, v1alpha1.RestoreSource{Time: ptr.To(metav1.NewTime(middle))})
			wantNumbered(ctx, t, s, c, 10, at)
		})).
		Assess("and all that was acknowledged, without anything that Kubernetes knew of it", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, s.Delete(ctx, schedule))
			must(t, s.WaitGone(ctx, schedule, time.Minute))
			first := firstBackup(ctx, t, server, "history/", c.Name)
			restored(ctx, t, s, v1alpha1.RestoreSource{Directory: &first})
			wantNumbered(ctx, t, s, c, 20, at)
			nothingLost(t, stopLoad(ctx, t, writer, "a restore from the URL; "))
		}))
	suite.Test(t, feature.Feature())
}

// record begins to record the changes of a cluster, and waits until that is so.
func record(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, to v1alpha1.BackupDestination) *v1alpha1.BackupSchedule {
	t.Helper()
	schedule := &v1alpha1.BackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "yearly"},
		Spec: v1alpha1.BackupScheduleSpec{
			Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: c.Name}, Schedule: "@yearly",
			Destination: to, Incremental: &v1alpha1.BackupIncremental{},
		},
	}
	began := time.Now()
	s.create(ctx, t, schedule)
	must(t, harness.Until(ctx, s.Cluster, schedule, harness.Deadline{What: "changes to be recorded", Within: 2 * time.Minute}, func(b *v1alpha1.BackupSchedule) (bool, string) {
		return b.Status.Recording == "Current", b.Status.Recording + ": " + b.Status.Activity
	}))
	figure(t, "changes are recorded after %.1f s", time.Since(began).Seconds())
	return schedule
}

// writeNumbered writes keys one after the other and returns the revision of each.
func writeNumbered(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, n int, before func(int)) (at []int64) {
	t.Helper()
	store := etcdClient(ctx, t, s, c)
	defer func() { _ = store.Close() }()
	for i := range n {
		before(i)
		r, err := store.Put(ctx, markKey(i), markValue(i))
		must(t, err)
		at = append(at, r.Header.Revision)
	}
	return at
}

// wantNumbered expects the first n keys, each with the revision that it was written with, and no other.
func wantNumbered(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, n int, at []int64) {
	t.Helper()
	store := etcdClient(ctx, t, s, c)
	defer func() { _ = store.Close() }()
	r, err := store.Get(ctx, "mark-", clientv3.WithPrefix())
	must(t, err)
	if len(r.Kvs) != n {
		t.Errorf("%d keys are there instead of %d", len(r.Kvs), n)
	}
	for i, kv := range r.Kvs {
		if string(kv.Key) != markKey(i) || string(kv.Value) != markValue(i) || kv.ModRevision != at[i] {
			t.Errorf("%s holds %q since revision %d, not %d", kv.Key, kv.Value, kv.ModRevision, at[i])
		}
	}
	if r.Header.Revision < at[n-1]+1_000_000_000 {
		t.Errorf("the cluster is at revision %d: watchers of the former one, which was at %d, would hear nothing", r.Header.Revision, at[n-1])
	}
	figure(t, "%d keys at revision %d, and the cluster goes on at %d", n, at[n-1], r.Header.Revision)
}

func etcdClient(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) *clientv3.Client {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	store, err := s.Etcd(ctx, s.ns, cluster.Pod(c.Name, 0), conn)
	must(t, err)
	return store
}

// firstBackup is the first backup that was stored: the later ones are of clusters that were restored from it.
func firstBackup(ctx context.Context, t *testing.T, server *harness.S3, prefix, name string) string {
	t.Helper()
	stored, err := server.Objects(ctx, prefix+name)
	must(t, err)
	for _, path := range slices.Sorted(maps.Keys(stored)) {
		if dir, ok := strings.CutSuffix(strings.TrimPrefix(path, prefix), "/manifest.json"); ok {
			return dir
		}
	}
	t.Fatalf("there is no backup: %v", stored)
	return ""
}

// TestARedisClusterComesBackInAnyShape destroys a cluster of three shards, and has its backup loaded into five, and into one.
func TestARedisClusterComesBackInAnyShape(t *testing.T) {
	engines := map[string]v1alpha1.RedisEngine{"VALKEY_9_1": v1alpha1.EngineValkey}
	if os.Getenv("QUORATE_ALL_ENGINES") != "" {
		engines["REDIS_7_0"], engines["REDIS_8_0"], engines["VALKEY_8_1"] = v1alpha1.EngineRedis, v1alpha1.EngineRedis, v1alpha1.EngineValkey
	}
	for version, engine := range engines {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			comesBackInAnyShape(t, version, engine)
		})
	}
}

func comesBackInAnyShape(t *testing.T, key string, engine v1alpha1.RedisEngine) {
	t.Helper()
	var (
		c      *v1alpha1.RedisCluster
		server *harness.S3
		before *harness.Load
		b      *v1alpha1.Backup
		want   redisdump.Digest
	)
	restored := func(ctx context.Context, t *testing.T, s *scope, shards int32) {
		t.Helper()
		destroy(ctx, t, s, c)
		began := time.Now()
		c = s.redisOf(t, "carts", 0, func(r *v1alpha1.RedisClusterSpec) {
			r.Engine, r.Version, r.Shards = &engine, s.version(t, key), shards
			r.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To(b.Name)}}
		})
		createReady(ctx, t, s, c)
		figure(t, "%s restored into %d shards and Ready after %.1f s", key, shards, time.Since(began).Seconds())
		if got := digestOf(ctx, t, s, c); got != want {
			t.Errorf("%d shards hold %s, and the backup was of %s", shards, got, want)
		}
	}
	feature := features.New("backup").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server = startS3(ctx, t, s)
			c = s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) { r.Engine, r.Version = &engine, s.version(t, key) })
			createReady(ctx, t, s, c)
		})).
		Assess("a backup is taken from the replicas", step(func(ctx context.Context, t *testing.T, s *scope) {
			before = startLoad(ctx, t, s, c)
			_, err := before.WaitAcked(ctx, 1000, time.Minute)
			must(t, err)
			must(t, before.Pause(ctx))
			want = digestOf(ctx, t, s, c)
			b = backupOf(s, "first", v1alpha1.KindRedisCluster, c.Name, server.Destination("redis"))
			b.Spec.Verify = ptr.To(true)
			takeBackup(ctx, t, s, b)
			if b.Status.Keys != want.Keys {
				t.Errorf("the backup has %d keys, and the servers %d", b.Status.Keys, want.Keys)
			}
			waitVerified(ctx, t, s, b)
		})).
		Assess("five shards begin with it", step(func(ctx context.Context, t *testing.T, s *scope) { restored(ctx, t, s, 5) })).
		Assess("and one", step(func(ctx context.Context, t *testing.T, s *scope) {
			restored(ctx, t, s, 1)
			nothingLost(t, stopLoad(ctx, t, before, "a restore; "))
		}))
	suite.Test(t, feature.Feature())
}

// digestOf sums up all keys of a cluster, as its primaries have them.
func digestOf(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) (sum redisdump.Digest) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	for _, node := range redisNodes(t, s, s.pods(ctx, t, c), conn) {
		info, err := node.Info(ctx, "replication").Result()
		must(t, err)
		if strings.Contains(info, "role:master") {
			d, err := redisdump.DigestOf(ctx, node)
			must(t, err)
			sum.Add(d)
		}
		_ = node.Close()
	}
	return sum
}
