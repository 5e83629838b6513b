package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	etcdmanifests "github.com/quorate/quorate/internal/cluster/etcd/manifests"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	redismanifests "github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/test/harness"
)

// movedKeys is how many keys the servers of somebody else have.
const movedKeys = 1000

// TestDataMovesHereFromServersOfSomebodyElse does what docs/migration.md says: a Backup of servers that Quorate does not run, and clusters
// of Quorate that begin with it.
func TestDataMovesHereFromServersOfSomebodyElse(t *testing.T) {
	t.Parallel()
	to := v1alpha1.BackupDestination{URL: "pvc://moved"}
	feature := features.New("migration").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			s.create(ctx, t, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "moved"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			})
			s.create(ctx, t, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "theirs"}, StringData: map[string]string{"username": "root", "password": "their own"},
			})
			s.create(ctx, t, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "their-redis"}, StringData: map[string]string{"password": "their own"},
			})
		})).
		Assess("of etcd with users of its own", step(func(ctx context.Context, t *testing.T, s *scope) {
			version, err := etcdmodel.ParseVersion(s.version(t, "ETCD_3_5"))
			must(t, err)
			ip := s.theirPod(ctx, t, "their-etcd", etcdmanifests.Image(v1alpha1.EtcdClusterSpec{}, version, ""), "etcd", "--data-dir=/data",
				"--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://127.0.0.1:2379")
			s.fillTheirEtcd(ctx, t)
			b := backupOf(s, "of-etcd", v1alpha1.KindEtcdCluster, "legacy", to)
			b.Spec.External = &v1alpha1.ExternalCluster{Endpoints: []string{"http://" + ip + ":2379"}, Credentials: &v1alpha1.SecretReference{Name: "theirs"}}
			b.Spec.Verify = ptr.To(true)
			takeBackup(ctx, t, s, b)
			waitVerified(ctx, t, s, b)
			c := s.etcdOf(t, "orders", 3, func(spec *v1alpha1.EtcdClusterSpec) {
				spec.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To("of-etcd")}}
			})
			createReady(ctx, t, s, c)
			found, err := s.rootOf(ctx, t, c).Get(ctx, "moved/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			must(t, err)
			if found.Count != movedKeys {
				t.Errorf("%d of %d keys have come", found.Count, movedKeys)
			}
		})).
		Assess("of a Redis that is no cluster, to shards of Valkey", step(func(ctx context.Context, t *testing.T, s *scope) {
			version := s.version(t, "REDIS_7_0")
			ip := s.theirPod(ctx, t, "their-redis", redismanifests.Image(&v1alpha1.RedisClusterSpec{Version: version}, ""), "redis-server", "--dir", "/data",
				"--requirepass", "their own")
			s.fillTheirRedis(ctx, t)
			b := backupOf(s, "of-redis", v1alpha1.KindRedisCluster, "legacy", to)
			b.Spec.External = &v1alpha1.ExternalCluster{Endpoints: []string{"redis://" + ip + ":6379"}, Credentials: &v1alpha1.SecretReference{Name: "their-redis"}}
			b.Spec.Verify = ptr.To(true)
			takeBackup(ctx, t, s, b)
			waitVerified(ctx, t, s, b)
			c := s.redisOf(t, "carts", 0, func(spec *v1alpha1.RedisClusterSpec) {
				spec.Engine, spec.Version = ptr.To(v1alpha1.EngineValkey), s.version(t, "VALKEY_9_1")
				spec.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To("of-redis")}}
			})
			createReady(ctx, t, s, c)
			if got := digestOf(ctx, t, s, c); got.Keys != movedKeys {
				t.Errorf("%d of %d keys have come", got.Keys, movedKeys)
			}
		})).
		Assess("nobody answers", step(func(ctx context.Context, t *testing.T, s *scope) {
			b := backupOf(s, "of-nobody", v1alpha1.KindEtcdCluster, "legacy", to)
			b.Spec.External = &v1alpha1.ExternalCluster{Endpoints: []string{"http://127.0.0.1:1"}, Credentials: &v1alpha1.SecretReference{Name: "missing"}}
			s.create(ctx, t, b)
			must(t, harness.Until(ctx, s.Cluster, b, harness.Deadline{What: "a word about the Secret", Within: time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
				text := conditionText(b, v1alpha1.ConditionStalled)
				return strings.Contains(text, "spec.external.credentials.name") && strings.Contains(text, `"missing"`), text
			}))
		}))
	suite.Test(t, feature.Feature())
}

// theirPod runs a server that Quorate knows nothing of, and returns its address.
func (s *scope) theirPod(ctx context.Context, t *testing.T, name, image string, command ...string) string {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "server", Image: image, Command: command, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(1000)), FSGroup: ptr.To(int64(1000)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	s.create(ctx, t, pod)
	must(t, harness.Eventually(ctx, name+" to run", time.Minute, func(ctx context.Context) (bool, string, error) {
		refresh(ctx, t, s, pod)
		return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "", string(pod.Status.Phase), nil
	}))
	return pod.Status.PodIP
}

// fillTheirEtcd writes keys, and has etcd ask for a password then.
func (s *scope) fillTheirEtcd(ctx context.Context, t *testing.T) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + s.forward(ctx, t, types.NamespacedName{Namespace: s.ns, Name: "their-etcd"}, 2379)}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, harness.Eventually(ctx, "etcd to answer", time.Minute, func(ctx context.Context) (bool, string, error) {
		_, err := c.Put(ctx, "first", "x")
		return err == nil, fmt.Sprint(err), nil
	}))
	for i := range movedKeys {
		_, err := c.Put(ctx, fmt.Sprintf("moved/%04d", i), "x")
		must(t, err)
	}
	_, roleErr := c.RoleAdd(ctx, "root")
	_, userErr := c.UserAdd(ctx, "root", "their own")
	_, grantErr := c.UserGrantRole(ctx, "root", "root")
	_, enableErr := c.AuthEnable(ctx)
	must(t, errors.Join(roleErr, userErr, grantErr, enableErr))
}

func (s *scope) fillTheirRedis(ctx context.Context, t *testing.T) {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{
		Addr: s.forward(ctx, t, types.NamespacedName{Namespace: s.ns, Name: "their-redis"}, 6379), Password: "their own", DisableIdentity: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	must(t, harness.Eventually(ctx, "Redis to answer", time.Minute, func(ctx context.Context) (bool, string, error) {
		err := c.Ping(ctx).Err()
		return err == nil, fmt.Sprint(err), nil
	}))
	for i := range movedKeys {
		must(t, c.Set(ctx, fmt.Sprintf("moved/%04d", i), i, 0).Err())
	}
}
