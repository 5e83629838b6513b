package e2e

import (
	"bytes"
	"context"
	"errors"
	"path"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/test/harness"
)

// freshName is the kind cluster that TestAnotherKubernetesRestoresFromTheURLAlone makes.
const freshName = "quorate-fresh"

// TestAnotherKubernetesRestoresFromTheURLAlone loses a whole Kubernetes: what is left is a bucket, its credentials and the key of age.
func TestAnotherKubernetesRestoresFromTheURLAlone(t *testing.T) {
	var (
		server   *harness.S3
		etcd     *v1alpha1.EtcdCluster
		redis    *v1alpha1.RedisCluster
		identity *age.X25519Identity
		at       []int64
		want     redisdump.Digest
		other    *harness.Cluster
		fresh    *scope // in other
		schedule *v1alpha1.BackupSchedule
	)
	t.Cleanup(func() { endFresh(t, other, fresh) })
	place := func(prefix string) v1alpha1.BackupDestination {
		to := server.Destination(prefix)
		to.Encryption = &v1alpha1.SecretReference{Name: "age"}
		return to
	}
	feature := features.New("fresh").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			var err error
			server, err = s.StartS3Outside(ctx)
			must(t, err)
			identity, err = age.GenerateX25519Identity()
			must(t, err)
			giveSecrets(ctx, t, s, identity)
			etcd, redis = s.etcdOf(t, "orders", 3), s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, etcd)
			createReady(ctx, t, s, redis)
		})).
		Assess("both are backed up, and of etcd every change", step(func(ctx context.Context, t *testing.T, s *scope) {
			schedule = record(ctx, t, s, etcd, place("etcd"))
			at = writeNumbered(ctx, t, s, etcd, 20, func(int) {})
			rest(ctx, recordingPromise)
			l := startLoad(ctx, t, s, redis)
			_, err := l.WaitAcked(ctx, 1000, time.Minute)
			must(t, err)
			must(t, l.Pause(ctx))
			want = digestOf(ctx, t, s, redis)
			takeBackup(ctx, t, s, backupOf(s, "first", v1alpha1.KindRedisCluster, redis.Name, place("redis")))
			nothingLost(t, stopLoad(ctx, t, l, "a backup to outside; "))
			onlyForItsReaders(ctx, t, server)
		})).
		Assess("another Kubernetes has nothing but the operator and two Secrets", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, s.Delete(ctx, schedule))
			destroy(ctx, t, s, etcd)
			destroy(ctx, t, s, redis)
			began := time.Now()
			var err error
			other, err = s.Fresh(ctx, freshName)
			must(t, err)
			fresh = installIn(ctx, t, s, other)
			giveSecrets(ctx, t, fresh, identity)
			figure(t, "another Kubernetes with the operator after %.0f s", time.Since(began).Seconds())
		})).
		Assess("both begin with what is there", step(func(ctx context.Context, t *testing.T, _ *scope) {
			began := time.Now()
			etcd = fresh.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) {
				e.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Destination: ptr.To(place("etcd"))}}
			})
			redis = fresh.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) {
				r.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Destination: ptr.To(place("redis"))}}
			})
			fresh.create(ctx, t, etcd)
			fresh.create(ctx, t, redis)
			waitReady(ctx, t, fresh, etcd)
			waitReady(ctx, t, fresh, redis)
			figure(t, "both restored and Ready after %.1f s", time.Since(began).Seconds())
			wantNumbered(ctx, t, fresh, etcd, 20, at)
			if got := digestOf(ctx, t, fresh, redis); got != want {
				t.Errorf("it holds %s, and the backup was of %s", got, want)
			}
		}))
	suite.Test(t, feature.Feature())
}

// installIn installs the operator that is under test in another cluster, and makes a namespace there.
func installIn(ctx context.Context, t *testing.T, s *scope, other *harness.Cluster) *scope {
	t.Helper()
	image, err := s.OperatorImage(ctx)
	must(t, err)
	_, err = other.Kind(ctx, "load", image)
	must(t, err)
	must(t, other.InstallOperator(ctx, image))
	ns, err := other.NewNamespace(ctx, t.Name())
	must(t, err)
	return &scope{other, ns}
}

// endFresh removes the S3 server and the other cluster, and shows what was there if the test failed.
func endFresh(t *testing.T, other *harness.Cluster, fresh *scope) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if t.Failed() && fresh != nil {
		t.Logf("what was in the other Kubernetes:\n%s", fresh.Dump(ctx, fresh.ns))
	}
	err := kind.StopS3Outside(ctx)
	if other != nil {
		err = errors.Join(err, other.Remove(ctx))
	}
	if err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// giveSecrets creates what whoever restores must still have: the credentials of the bucket, and the key of age.
func giveSecrets(ctx context.Context, t *testing.T, s *scope, identity *age.X25519Identity) {
	t.Helper()
	s.create(ctx, t, harness.S3Secret(s.ns))
	s.create(ctx, t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "age"},
		StringData: map[string]string{"identity": identity.String(), "recipients": identity.Recipient().String()},
	})
}

// onlyForItsReaders fails unless all that is stored is encrypted, apart from what describes it (docs/backup-format.md).
func onlyForItsReaders(ctx context.Context, t *testing.T, server *harness.S3) {
	t.Helper()
	stored, err := server.Objects(ctx, "")
	must(t, err)
	encrypted := 0
	for name := range stored {
		if path.Ext(name) == ".json" {
			continue
		}
		content, err := server.Get(ctx, name)
		must(t, err)
		if !bytes.HasPrefix(content, []byte("age-encryption.org/")) {
			t.Errorf("%s can be read by everybody: %.40q", name, content)
		}
		encrypted++
	}
	if encrypted < 3 { // A snapshot, changes, and a part of Redis at least.
		t.Errorf("%d parts are encrypted, of what is stored: %v", encrypted, stored)
	}
}
