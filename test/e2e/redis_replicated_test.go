package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/test/harness"
)

// maxReplicatedLoss is how many acknowledged writes may be gone after the only primary died without a word: a second of them.
const maxReplicatedLoss = 500

// TestReplicatedRedisUnderLoad takes a cluster with one primary through faults, an upgrade and a change of its replicas, while a
// client that knows no cluster protocol writes to the Service of the primary.
func TestReplicatedRedisUnderLoad(t *testing.T) {
	for engine, versions := range map[v1alpha1.RedisEngine][2]string{
		v1alpha1.EngineRedis:  {"REDIS_7_0", "REDIS_8_0"},
		v1alpha1.EngineValkey: {"VALKEY_8_1", "VALKEY_9_1"},
	} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			suite.Test(t, replicated(engine, versions[0], versions[1]))
		})
	}
}

// replicated takes a cluster of that engine from one version to another, among the rest.
func replicated(engine v1alpha1.RedisEngine, from, to string) features.Feature { //nolint:ireturn // as the framework has it
	var c *v1alpha1.RedisCluster
	feature := features.New("replicated").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) {
				r.Engine, r.Mode, r.Shards, r.Version = &engine, ptr.To(v1alpha1.RedisReplicated), 0, s.version(t, from)
				r.Auth = &v1alpha1.AuthSpec{Rotation: &v1alpha1.PasswordRotationSpec{Hold: &metav1.Duration{Duration: shortHold}}}
			})
			createReady(ctx, t, s, c)
			wantRoles(ctx, t, s, c)
		})).
		Assess("the process of the primary is killed", step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, "process of the primary is killed", func() {
				killProcess(ctx, t, s, primaryPod(ctx, t, s, c), redisContainer)
			})
			if summary.Lost > maxReplicatedLoss {
				t.Errorf("%d acknowledged writes are lost", summary.Lost)
			}
			wantRoles(ctx, t, s, c)
		})).
		Assess("the passwords are replaced", step(func(ctx context.Context, t *testing.T, s *scope) {
			renewPasswords(ctx, t, s, c)
		})).
		Assess("the pod of the primary is deleted", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "pod of the primary is deleted", func() { handsOver(ctx, t, s, c) }))
			wantRoles(ctx, t, s, c)
		})).
		Assess("all pods are deleted at once", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "all pods are deleted at once", func() {
				deletePods(ctx, t, s, s.pods(ctx, t, c)...)
			}))
			wantRoles(ctx, t, s, c)
		})).
		Assess("upgrade", step(func(ctx context.Context, t *testing.T, s *scope) {
			upgrade(ctx, t, s, c, s.version(t, to))
			wantRoles(ctx, t, s, c)
		}))
	for _, n := range [][2]int32{{1, 2}, {2, 1}} {
		feature.Assess(fmt.Sprintf("%d to %d", n[0], n[1]), step(func(ctx context.Context, t *testing.T, s *scope) {
			what := fmt.Sprintf("replicas %d to %d", n[0], n[1])
			nothingLost(t, underLoad(ctx, t, s, c, what, func() { replicate(ctx, t, s, c, n[1]) }))
			wantRoles(ctx, t, s, c)
		}))
		if n[1] < 2 {
			continue
		}
		feature.Assess("the primary hangs", step(func(ctx context.Context, t *testing.T, s *scope) {
			was := primaryPod(ctx, t, s, c)
			summary := underLoad(ctx, t, s, c, "primary hangs", func() { hangs(ctx, t, s, c, was, "patient") })
			if is := primaryPod(ctx, t, s, c); is.Name == was.Name {
				t.Errorf("%s leads again", is.Name)
			}
			if summary.Lost > maxReplicatedLoss {
				t.Errorf("%d acknowledged writes are lost", summary.Lost)
			}
			wantRoles(ctx, t, s, c)
		}))
	}
	return feature.Feature()
}

// shortHold is the shortest time that former passwords may work: it is how long a kubelet may take to bring a Secret to its pods.
const shortHold = 90 * time.Second

// renewPasswords deletes the generated password, and waits until others have taken the place of all.
func renewPasswords(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	before := s.secretOf(ctx, t, cluster.AuthSecret(c.Name))
	live := secret(s.ns, cluster.AuthSecret(c.Name), nil)
	must(t, s.Get(ctx, client.ObjectKeyFromObject(live), live))
	delete(live.Data, acl.PasswordDefault)
	must(t, s.Update(ctx, live))
	must(t, harness.Eventually(ctx, "the former passwords to be retired", shortHold+2*time.Minute, func(ctx context.Context) (bool, string, error) {
		now := s.secretOf(ctx, t, cluster.AuthSecret(c.Name))
		renewed := !slices.ContainsFunc(acl.PasswordKeys, func(key string) bool {
			return len(now[key]) == 0 || string(now[key]) == string(before[key])
		})
		return renewed && len(now) == len(acl.PasswordKeys), refresh(ctx, t, s, c).Status.Activity, nil
	}))
}

// handsOver deletes the pod of the primary, which is to stay until another one is the primary, and waits until it is back.
func handsOver(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	was := primaryPod(ctx, t, s, c)
	must(t, s.Delete(ctx, was))
	must(t, harness.Eventually(ctx, "a hand-over", time.Minute, func(ctx context.Context) (bool, string, error) {
		pods, stays := s.pods(ctx, t, c), false
		for i := range pods {
			stays = stays || pods[i].UID == was.UID
		}
		if !stays {
			t.Fatalf("pod %s has ended without a hand-over", was.Name)
		}
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID != was.UID && p.Labels[v1alpha1.LabelRole] == "primary" }), "", nil
	}))
	_, err := s.WaitReborn(ctx, was, readyTimeout)
	must(t, err)
}

// hangs stops the process of a primary for good, and waits until its pod is back. A client that has all the time in the world must not be told that
// what it has sent to it since is written.
func hangs(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, was *corev1.Pod, key string) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	patient, err := s.Redis(s.ns, was.Name, conn)
	must(t, err)
	defer func() { _ = patient.Close() }() // The pod it led to is gone.
	patient = patient.WithTimeout(5 * time.Minute)
	must(t, patient.Ping(ctx).Err())
	must(t, s.Signal(ctx, was, redisContainer, "SIGSTOP"))
	answer := make(chan error, 1)
	go func() { answer <- patient.Set(ctx, key, "written", 0).Err() }()
	_, err = s.WaitReborn(ctx, was, readyTimeout)
	must(t, err)
	if err := <-answer; err == nil {
		t.Errorf("%s told a client that its write is done, after another one had taken its place", was.Name)
	}
}

// primaryPod is the pod that the Service of the primary leads to.
func primaryPod(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) *corev1.Pod {
	t.Helper()
	for _, p := range s.pods(ctx, t, c) {
		if p.Labels[v1alpha1.LabelRole] == "primary" {
			return &p
		}
	}
	t.Fatal("no pod has the label of the primary")
	return nil
}

// wantRoles checks that the Services of the roles lead to the primary and to all replicas, and to nobody else.
func wantRoles(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	waitReady(ctx, t, s, c)
	var primary string
	var replicas []string
	for _, n := range c.Status.Shards[0].Nodes {
		switch n.Role {
		case v1alpha1.RedisPrimary:
			primary = n.Name
		case v1alpha1.RedisReplica:
			replicas = append(replicas, n.Name)
		}
	}
	if len(replicas) != c.Spec.Replicas() {
		t.Errorf("there are %d replicas instead of %d", len(replicas), c.Spec.Replicas())
	}
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the Services to lead there", Within: 10 * time.Second}, func(*v1alpha1.RedisCluster) (bool, string) {
		to, from := s.endpointsOf(ctx, t, cluster.PrimaryService(c.Name)), s.endpointsOf(ctx, t, cluster.ReplicasService(c.Name))
		return slices.Equal(to, []string{primary}) && slices.Equal(from, replicas), fmt.Sprintf("they lead to %v and %v", to, from)
	}))
}

// endpointsOf are the pods that a Service leads to, by name.
func (s *scope) endpointsOf(ctx context.Context, t *testing.T, service string) []string {
	t.Helper()
	var list discoveryv1.EndpointSliceList
	must(t, s.List(ctx, &list, client.InNamespace(s.ns), client.MatchingLabels{discoveryv1.LabelServiceName: service}))
	var out []string
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Conditions.Ready, false) {
				out = append(out, e.TargetRef.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}
