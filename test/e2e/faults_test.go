package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/harness"
)

// containers of the data stores, by kind.
const (
	etcdContainer  = "etcd"
	redisContainer = "redis"
)

// beginsAnew damages what a server has on its disk, and waits until it gets another one for these words.
func beginsAnew(ctx context.Context, t *testing.T, s *scope, pod *corev1.Pod, words string, damage func()) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.VolumeData + "-" + pod.Name}}
	old := refresh(ctx, t, s, claim).UID
	damage()
	must(t, harness.Until(ctx, s.Cluster, claim, harness.Deadline{What: "another claim", Within: readyTimeout}, func(p *corev1.PersistentVolumeClaim) (bool, string) {
		return p.UID != old, "the old claim is still there"
	}))
	notes, err := s.notes(ctx, steps.ReasonReplaceDisk)
	must(t, err)
	if text := strings.Join(notes, "; "); !strings.Contains(text, pod.Name+" cannot start from its data ("+words) {
		t.Errorf("its disk was replaced for %q", text)
	}
}

// deletePods deletes pods at once and waits until all of them are back.
func deletePods(ctx context.Context, t *testing.T, s *scope, pods ...corev1.Pod) (back []corev1.Pod) {
	t.Helper()
	for i := range pods {
		must(t, client.IgnoreNotFound(s.Delete(ctx, &pods[i])))
	}
	for i := range pods {
		p, err := s.WaitReborn(ctx, &pods[i], readyTimeout)
		must(t, err)
		back = append(back, *p)
	}
	return back
}

// killProcess kills the data store in a pod with SIGKILL and waits until it is back.
func killProcess(ctx context.Context, t *testing.T, s *scope, pod *corev1.Pod, container string) {
	t.Helper()
	must(t, s.KillProcess(ctx, pod, container))
	_, err := s.WaitReborn(ctx, pod, readyTimeout)
	must(t, err)
}

func TestEtcdSurvivesFaultsUnderLoad(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	faults := map[string]func(ctx context.Context, t *testing.T, s *scope){
		"the pod of the leader is deleted": func(ctx context.Context, t *testing.T, s *scope) {
			deletePods(ctx, t, s, *leaderOf(ctx, t, s, c))
		},
		"the process of the leader is killed": func(ctx context.Context, t *testing.T, s *scope) {
			killProcess(ctx, t, s, leaderOf(ctx, t, s, c), etcdContainer)
		},
		"all pods are deleted at once": func(ctx context.Context, t *testing.T, s *scope) {
			deletePods(ctx, t, s, s.pods(ctx, t, c)...)
		},
	}
	feature := features.New("etcd").Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
		c = s.etcdOf(t, "orders", 3)
		createReady(ctx, t, s, c)
	}))
	for _, name := range []string{
		"the pod of the leader is deleted", "the process of the leader is killed", "all pods are deleted at once",
	} {
		feature.Assess(name, step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, name, func() { faults[name](ctx, t, s) }))
		}))
	}
	suite.Test(t, feature.Feature())
}

// maxRedisLoss is how many acknowledged writes may be gone after a primary died without a word: replication is
// asynchronous, so a second of the writes of one shard (500/s over three) is generous.
const maxRedisLoss = 170

func TestRedisSurvivesFaultsUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("redis").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, c)
		})).
		Assess("the pod of a primary is deleted", step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, "pod of a primary deleted", func() {
				deletePods(ctx, t, s, *primaryOf(ctx, t, s, c, 0))
			})
			boundedLoss(t, summary.Lost)
		})).
		Assess("the process of a primary is killed", step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, "process of a primary killed", func() {
				killProcess(ctx, t, s, primaryOf(ctx, t, s, c, 1), redisContainer)
			})
			boundedLoss(t, summary.Lost)
		})).
		Assess("a primary hangs", step(func(ctx context.Context, t *testing.T, s *scope) {
			was := primaryOf(ctx, t, s, c, 0)
			summary := underLoad(ctx, t, s, c, "a primary hangs", func() { hangs(ctx, t, s, c, was, keyOfFirst(c)) })
			boundedLoss(t, summary.Lost)
			if is := primaryOf(ctx, t, s, c, 0); is.Name == was.Name {
				t.Errorf("%s leads again", is.Name)
			}
			wantEnded(ctx, t, s, was.Name+" hangs, and others own its slots by now")
		})).
		Assess("a replica hangs", step(func(ctx context.Context, t *testing.T, s *scope) {
			primary := primaryOf(ctx, t, s, c, 2)
			replica := s.pod(ctx, t, cluster.Pod(cluster.ShardSet(c.Name, 2), 1-podOrdinal(*primary)))
			nothingLost(t, underLoad(ctx, t, s, c, "a replica hangs", func() {
				must(t, s.Signal(ctx, replica, redisContainer, "SIGSTOP"))
				_, err := s.WaitReborn(ctx, replica, readyTimeout)
				must(t, err)
			}))
			wantEnded(ctx, t, s, replica.Name+" takes connections and has answered none for")
		})).
		Assess("a primary cannot read what is on its disk", step(func(ctx context.Context, t *testing.T, s *scope) {
			was := primaryOf(ctx, t, s, c, 2)
			boundedLoss(t, underLoad(ctx, t, s, c, "a primary cannot read what is on its disk", func() {
				beginsAnew(ctx, t, s, was, "Bad file format reading the append only file", func() { must(t, s.Corrupt(ctx, was, redisContainer)) })
			}).Lost)
		})).
		Assess("a replica cannot read who it is", step(func(ctx context.Context, t *testing.T, s *scope) {
			replica := s.pod(ctx, t, cluster.Pod(cluster.ShardSet(c.Name, 0), 1-podOrdinal(*primaryOf(ctx, t, s, c, 0))))
			nothingLost(t, underLoad(ctx, t, s, c, "a replica cannot read who it is", func() {
				beginsAnew(ctx, t, s, replica, model.NodesFile+" cannot be read", func() {
					must(t, s.CorruptNodes(ctx, replica))
					must(t, s.Delete(ctx, replica)) // The start gate finds it before a server of Redis does, or of Valkey, which says less of it.
				})
			}))
		})).
		Assess("a clock is put forward and back", step(func(ctx context.Context, t *testing.T, s *scope) {
			primary := primaryOf(ctx, t, s, c, 1)
			nothingLost(t, underLoad(ctx, t, s, c, "a clock is put forward and back", func() {
				end, err := s.Skew(ctx, primary, redisContainer, time.Hour)
				must(t, err)
				rest(ctx, 35*time.Second) // The operator looks every 15 s.
				must(t, end(ctx))
				must(t, harness.Eventually(ctx, "the operator to see to the log of "+primary.Name, readyTimeout, func(ctx context.Context) (bool, string, error) {
					notes, err := s.notes(ctx, steps.ReasonKeepLogs)
					text := strings.Join(notes, "; ")
					return strings.Contains(text, "the clock of "+primary.Name+" was put back"), text, err
				}))
			}))
			waitReady(ctx, t, s, c)
		})).
		Assess("a server that slots move to hangs", step(func(ctx context.Context, t *testing.T, s *scope) {
			more, sources := c.Spec.Shards+1, []string{}
			for shard := range c.Spec.ShardCount() {
				sources = append(sources, primaryOf(ctx, t, s, c, shard).Name)
			}
			summary := underLoad(ctx, t, s, c, "a server that slots move to hangs", func() {
				reshard(ctx, t, s, c, more)
				target := primaryOf(ctx, t, s, c, len(sources))
				must(t, s.Get(ctx, client.ObjectKeyFromObject(c), c))
				if c.Status.Resharding == nil {
					t.Error("the slots had moved before the server could hang")
				}
				must(t, s.Signal(ctx, target, redisContainer, "SIGSTOP"))
				_, err := s.WaitReborn(ctx, target, readyTimeout)
				must(t, err)
			})
			boundedLoss(t, summary.Lost)
			wantResharded(ctx, t, s, c, int(more))
			for shard, name := range sources {
				if is := primaryOf(ctx, t, s, c, shard); is.Name != name {
					t.Errorf("%s leads in the place of %s, which did not hang", is.Name, name)
				}
			}
		})).
		Assess("all pods are deleted at once and come back with all data", step(func(ctx context.Context, t *testing.T, s *scope) {
			allRedisPods(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// wantEnded checks that it was the operator that ended a server that hung: the kubelet does so as well, when the queue of the server is full.
func wantEnded(ctx context.Context, t *testing.T, s *scope, why string) {
	t.Helper()
	notes, err := s.notes(ctx, steps.ReasonEnd)
	must(t, err)
	if text := strings.Join(notes, "; "); !strings.Contains(text, why) {
		t.Errorf("%q, want %q", text, why)
	}
}

// keyOfFirst is a key of the first shard.
func keyOfFirst(c *v1alpha1.RedisCluster) string {
	own := slots.Share(0, c.Spec.ShardCount())
	for n := 0; ; n++ {
		if key := fmt.Sprintf("patient-%d", n); own.Has(redisdump.Slot([]byte(key))) {
			return key
		}
	}
}

func boundedLoss(t *testing.T, lost int) {
	t.Helper()
	if lost > maxRedisLoss {
		t.Errorf("%d acknowledged writes are lost, more than the %d of one second", lost, maxRedisLoss)
	}
}

// allRedisPods deletes all pods while nothing is written: then nothing may be lost at all.
func allRedisPods(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	l := startLoad(ctx, t, s, c)
	must(t, l.Pause(ctx))
	before := s.pods(ctx, t, c)
	after := deletePods(ctx, t, s, before...)
	waitReady(ctx, t, s, c)
	old := map[string]bool{}
	for _, p := range before {
		old[p.Status.PodIP] = true
	}
	fresh := 0
	for _, p := range after {
		if !old[p.Status.PodIP] {
			fresh++
		}
	}
	// This is about nodes that find each other at new addresses. Both pod networks give out addresses with host-local, which goes
	// on from the last one it gave (https://www.cni.dev/plugins/current/ipam/host-local/): none comes back before a node has made
	// 250 other pods.
	if fresh != len(after) || len(after) == 0 {
		t.Errorf("only %d of %d pods have an address that none had before", fresh, len(after))
	}
	nothingLost(t, stopLoad(ctx, t, l, "all pods deleted at once: %d of %d have an address that none had before; ", fresh, len(after)))
}
