package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/users"
	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/harness"
)

// A kubelet takes up to a minute and a half to bring a Secret into a pod.
const passwordHold = 2 * time.Minute

func TestRedisPasswordIsChangedUnderLoad(t *testing.T) {
	t.Parallel()
	const changed = "another horse, another staple"
	var c *v1alpha1.RedisCluster
	var old connection.Connection
	var pods []corev1.Pod
	feature := features.New("password of redis").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			s.create(ctx, t, secret(s.ns, "my-password", map[string][]byte{"password": []byte(myPassword)}))
			c = s.redisOf(t, "carts", 1, func(e *v1alpha1.RedisClusterSpec) {
				e.Auth = &v1alpha1.AuthSpec{
					SecretName: ptr.To("my-password"), Rotation: &v1alpha1.PasswordRotationSpec{Hold: &metav1.Duration{Duration: passwordHold}},
				}
			})
			createReady(ctx, t, s, c)
			pods = s.pods(ctx, t, c)
			var err error
			old, _, err = s.Connection(ctx, s.ns, c.Name)
			must(t, err)
		})).
		Assess("a client that follows its Secret does not notice", step(func(ctx context.Context, t *testing.T, s *scope) {
			l := startLoad(ctx, t, s, c)
			began := time.Now()
			live := secret(s.ns, "my-password", nil)
			must(t, s.Get(ctx, client.ObjectKeyFromObject(live), live))
			live.Data = map[string][]byte{"password": []byte(changed)}
			must(t, s.Update(ctx, live))
			must(t, harness.Eventually(ctx, "clients to be handed the new password", time.Minute, func(ctx context.Context) (bool, string, error) {
				conn, _, err := s.Connection(ctx, s.ns, c.Name)
				return err == nil && conn.Password == changed, refresh(ctx, t, s, c).Status.Activity, err
			}))
			figure(t, "a new password is handed out after %.1f s", time.Since(began).Seconds())
			roundTrip(ctx, t, s, c, old)
			must(t, harness.Eventually(ctx, "the former passwords to be retired", passwordHold+2*time.Minute, func(ctx context.Context) (bool, string, error) {
				return len(s.secretOf(ctx, t, cluster.AuthSecret(c.Name))) == len(acl.PasswordKeys), refresh(ctx, t, s, c).Status.Activity, nil
			}))
			figure(t, "the former passwords are retired after %.0f s", time.Since(began).Seconds())
			must(t, harness.Eventually(ctx, "every server to refuse the former password", time.Minute, func(ctx context.Context) (bool, string, error) {
				for _, p := range pods {
					if err := s.ping(ctx, t, p.Name, old); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
						return false, p.Name + " takes it", nil
					}
				}
				return true, "", nil
			}))
			_, err := l.WaitAcked(ctx, 500, time.Minute)
			must(t, err)
			summary := stopLoad(ctx, t, l, "password changed: ")
			nothingLost(t, summary)
			if summary.Failed > 0 {
				t.Errorf("%d writes failed, because of: %s", summary.Failed, summary.Misses)
			}
		})).
		Assess("no server was restarted", step(func(ctx context.Context, t *testing.T, s *scope) {
			waitReady(ctx, t, s, c)
			conn, _, err := s.Connection(ctx, s.ns, c.Name)
			must(t, err)
			roundTrip(ctx, t, s, c, conn)
			for i, p := range s.pods(ctx, t, c) {
				if p.UID != pods[i].UID || p.Status.ContainerStatuses[0].RestartCount > 0 {
					t.Errorf("pod %s was restarted", p.Name)
				}
			}
		}))
	suite.Test(t, feature.Feature())
}

// ping asks one server whether it takes a user and a password.
func (s *scope) ping(ctx context.Context, t *testing.T, pod string, conn connection.Connection) error {
	t.Helper()
	c, err := s.Redis(s.ns, pod, conn)
	must(t, err)
	defer func() { _ = c.Close() }()
	return c.Ping(ctx).Err()
}

func TestRedisUsers(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.RedisCluster
	var app *v1alpha1.RedisUser
	feature := features.New("users of a redis cluster").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1)
			app = &v1alpha1.RedisUser{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "carts-app"},
				Spec: v1alpha1.RedisUserSpec{
					ClusterName: "carts", Username: ptr.To("app"), Keys: []v1alpha1.RedisKeys{{Pattern: "app:*", Access: v1alpha1.RedisReadWrite}},
					Categories: []v1alpha1.RedisCategory{"read", "write"},
				},
			}
			s.create(ctx, t, app)
			must(t, harness.WaitCondition(ctx, s.Cluster, app, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}, time.Minute))
			createReady(ctx, t, s, c)
		})).
		Assess("it is Ready soon after its cluster, and its Secret opens what it asks for and nothing else", step(func(ctx context.Context, t *testing.T, s *scope) {
			began := time.Now()
			must(t, harness.WaitReady(ctx, s.Cluster, app, time.Minute))
			figure(t, "a user is Ready %.1f s after its cluster", time.Since(began).Seconds())
			wantRow(ctx, t, s, "redisusers", map[string]string{"NAME": "carts-app", "CLUSTER": "carts", "USERNAME": "app", "READY": "True"})
			s.wantAccount(ctx, t, c, app)
		})).
		Assess("drift is reverted", step(func(ctx context.Context, t *testing.T, s *scope) {
			conn, _, err := s.Connection(ctx, s.ns, c.Name)
			must(t, err)
			admin, err := s.Redis(s.ns, "carts-1-0", conn)
			must(t, err)
			defer func() { _ = admin.Close() }()
			must(t, admin.Do(ctx, "ACL", "SETUSER", "app", "off", "allkeys", "+@all").Err())
			must(t, harness.Eventually(ctx, "the user to be as specified", users.Poll+30*time.Second, func(ctx context.Context) (bool, string, error) {
				return s.ping(ctx, t, "carts-1-0", s.redisUserConnection(ctx, t, app)) == nil, "it is not", nil
			}))
			s.wantAccount(ctx, t, c, app)
		})).
		Assess("a pod that is made anew has it", step(func(ctx context.Context, t *testing.T, s *scope) {
			const pod = "carts-2-1"
			before := s.pod(ctx, t, pod).UID
			must(t, s.Delete(ctx, s.pod(ctx, t, pod)))
			must(t, harness.Eventually(ctx, "the new pod to be ready", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
				var p corev1.Pod
				err := client.IgnoreNotFound(s.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: pod}, &p))
				return p.UID != before && isReady(&p), "it is not", err
			}))
			began := time.Now()
			must(t, harness.Eventually(ctx, "the user on the new server", 30*time.Second, func(ctx context.Context) (bool, string, error) {
				err := s.ping(ctx, t, pod, s.redisUserConnection(ctx, t, app))
				return err == nil, "it is not there", nil
			}))
			figure(t, "a new server had the user %.1f s after it was ready", time.Since(began).Seconds())
			waitReady(ctx, t, s, c)
		})).
		Assess("it goes from the servers when it is deleted", step(func(ctx context.Context, t *testing.T, s *scope) {
			own := s.redisUserConnection(ctx, t, app)
			must(t, s.Delete(ctx, app))
			must(t, s.WaitGone(ctx, app, time.Minute))
			for _, p := range s.pods(ctx, t, c) {
				if err := s.ping(ctx, t, p.Name, own); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
					t.Errorf("%s: %v, want the user to be gone", p.Name, err)
				}
			}
		}))
	suite.Test(t, feature.Feature())
}

// redisUserConnection reads the Secret that a user's status names.
func (s *scope) redisUserConnection(ctx context.Context, t *testing.T, u *v1alpha1.RedisUser) connection.Connection {
	t.Helper()
	conn, err := connection.FromData(s.secretOf(ctx, t, refresh(ctx, t, s, u).Status.SecretName))
	must(t, err)
	return conn
}

// wantAccount connects to every server with nothing but the Secret.
func (s *scope) wantAccount(ctx context.Context, t *testing.T, c *v1alpha1.RedisCluster, u *v1alpha1.RedisUser) {
	t.Helper()
	conn := s.redisUserConnection(ctx, t, u)
	for _, p := range s.pods(ctx, t, c) {
		r, err := s.Redis(s.ns, p.Name, conn)
		must(t, err)
		must(t, r.Ping(ctx).Err())
		for _, args := range [][]any{{"GET", "other:1"}, {"FLUSHALL"}, {"ACL", "LIST"}, {"CONFIG", "GET", "*"}} {
			if err := r.Do(ctx, args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("%s: %v: %v, want it denied", p.Name, args, err)
			}
		}
		if err := r.Do(ctx, "GET", "app:1").Err(); err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", p.Name, err)
		}
		_ = r.Close()
	}
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
