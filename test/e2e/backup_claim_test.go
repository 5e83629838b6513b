package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/test/harness"
)

// TestAReplicatedRedisComesBackFromAClaim keeps encrypted backups on a claim: the Backup is deleted, and what it had stored stays or goes.
func TestAReplicatedRedisComesBackFromAClaim(t *testing.T) {
	var (
		c    *v1alpha1.RedisCluster
		want redisdump.Digest
		b    *v1alpha1.Backup
	)
	to := v1alpha1.BackupDestination{URL: "pvc://kept/redis", Encryption: &v1alpha1.SecretReference{Name: "age"}}
	replicated := func(t *testing.T, s *scope, change func(*v1alpha1.RedisClusterSpec)) *v1alpha1.RedisCluster {
		t.Helper()
		return s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) {
			r.Engine, r.Version, r.Mode, r.Shards = ptr.To(v1alpha1.EngineValkey), s.version(t, "VALKEY_8_1"), ptr.To(v1alpha1.RedisReplicated), 1
			r.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
			if change != nil {
				change(r)
			}
		})
	}
	feature := features.New("claim").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			identity, err := age.GenerateX25519Identity()
			must(t, err)
			s.create(ctx, t, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "age"},
				StringData: map[string]string{"identity": identity.String(), "recipients": identity.Recipient().String()},
			})
			s.create(ctx, t, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "kept"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			})
			c = replicated(t, s, nil)
			createReady(ctx, t, s, c)
		})).
		Assess("a backup is taken, checked, and outlives its resource", step(func(ctx context.Context, t *testing.T, s *scope) {
			l := startLoad(ctx, t, s, c)
			_, err := l.WaitAcked(ctx, 500, time.Minute)
			must(t, err)
			must(t, l.Pause(ctx))
			want = digestOf(ctx, t, s, c)
			b = backupOf(s, "first", v1alpha1.KindRedisCluster, c.Name, to)
			b.Spec.Verify = ptr.To(true)
			takeBackup(ctx, t, s, b)
			must(t, harness.Until(ctx, s.Cluster, b, harness.Deadline{What: "the backup to be verified", Within: 2 * time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
				return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionVerified), conditionText(b, v1alpha1.ConditionVerified)
			}))
			must(t, s.Delete(ctx, b))
			must(t, s.WaitGone(ctx, b, time.Minute))
			nothingLost(t, stopLoad(ctx, t, l, "a backup of the mode Replicated; "))
		})).
		Assess("a new cluster begins with what is on the claim", step(func(ctx context.Context, t *testing.T, s *scope) {
			destroy(ctx, t, s, c)
			c = replicated(t, s, func(r *v1alpha1.RedisClusterSpec) {
				r.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Destination: &to}}
			})
			createReady(ctx, t, s, c)
			if got := digestOf(ctx, t, s, c); got != want {
				t.Errorf("it holds %s, and the backup was of %s", got, want)
			}
		})).
		Assess("what is to go with its resource goes", step(func(ctx context.Context, t *testing.T, s *scope) {
			second := backupOf(s, "second", v1alpha1.KindRedisCluster, c.Name, to)
			second.Spec.DeletionPolicy = ptr.To(v1alpha1.DeletionDelete)
			takeBackup(ctx, t, s, second)
			gone := second.Status.Directory
			must(t, s.Delete(ctx, second))
			must(t, s.WaitGone(ctx, second, time.Minute))
			late := replicated(t, s, func(r *v1alpha1.RedisClusterSpec) {
				r.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Destination: &to, Directory: &gone}}
			})
			late.Name = "late"
			s.create(ctx, t, late)
			must(t, harness.Until(ctx, s.Cluster, late, harness.Deadline{What: "it to be told that there is none", Within: 2 * time.Minute}, func(r *v1alpha1.RedisCluster) (bool, string) {
				text := conditionText(r, v1alpha1.ConditionStalled)
				return strings.Contains(text, "BackupMissing"), text
			}))
		}))
	suite.Test(t, feature.Feature())
}
