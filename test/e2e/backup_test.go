package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
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
	must(t, harness.Until(ctx, s.Cluster, b, "the backup to be complete", 2*time.Minute, func(b *v1alpha1.Backup) (bool, string) {
		return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete), b.Status.Activity
	}))
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
			takeBackup(ctx, t, s, b)
			nothingLost(t, stopLoad(ctx, t, during, "a backup; "))
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
