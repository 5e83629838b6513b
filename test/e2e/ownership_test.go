package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

func TestAForeignObjectIsNotAdopted(t *testing.T) {
	t.Parallel()
	feature := features.New("an object of somebody else has a needed name").
		Assess("etcd", step(func(ctx context.Context, t *testing.T, s *scope) {
			foreign(ctx, t, s, s.etcdOf(t, "orders", 1), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.PeersService("orders")},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			})
		})).
		Assess("redis", step(func(ctx context.Context, t *testing.T, s *scope) {
			foreign(ctx, t, s, s.redisOf(t, "carts", 0), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.ConfigName("carts")},
				Data:       map[string]string{"mine": "yes"},
			})
		})).
		Assess("a Secret with our label", step(func(ctx context.Context, t *testing.T, s *scope) {
			foreign(ctx, t, s, s.etcdOf(t, "third", 1), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: s.ns, Name: cluster.AuthSecret("third"), Labels: cluster.Labels("third", "etcd", "etcd"),
				},
				Data: map[string][]byte{"password": []byte("mine")},
			})
		}))
	suite.Test(t, feature.Feature())
}

// foreign checks that a cluster stalls over an object of somebody else without touching it, and goes on once it is gone.
func foreign[O target](ctx context.Context, t *testing.T, s *scope, o O, obstacle client.Object) {
	t.Helper()
	s.create(ctx, t, obstacle)
	version := obstacle.GetResourceVersion()
	s.create(ctx, t, o)
	must(t, harness.WaitCondition(ctx, s.Cluster, o, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}, time.Minute))
	text := conditionText(o, v1alpha1.ConditionStalled)
	if !strings.Contains(text, obstacle.GetName()) || !strings.Contains(text, v1alpha1.ReasonForeignObject) {
		t.Errorf("the condition does not name the obstacle: %s", text)
	}
	if got := refresh(ctx, t, s, obstacle).GetResourceVersion(); got != version {
		t.Errorf("%s was changed: version %s, before %s", obstacle.GetName(), got, version)
	}
	must(t, s.Delete(ctx, obstacle))
	waitReady(ctx, t, s, o)
	must(t, s.Delete(ctx, o))
}

func TestAClusterThatWasDeletedWithoutItsObjectsAdoptsThem(t *testing.T) {
	t.Parallel()
	feature := features.New("kubectl delete --cascade=orphan, and apply").
		Assess("etcd", step(func(ctx context.Context, t *testing.T, s *scope) {
			orphanAndRecreate(ctx, t, s, func() *v1alpha1.EtcdCluster {
				return s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.Storage = volume(v1alpha1.DeletionDelete) })
			})
		})).
		Assess("redis", step(func(ctx context.Context, t *testing.T, s *scope) {
			orphanAndRecreate(ctx, t, s, func() *v1alpha1.RedisCluster { return s.redisOf(t, "carts", 1) })
		}))
	suite.Test(t, feature.Feature())
}

// orphanAndRecreate checks that a cluster which is created again goes on with the pods, the data
// and the Secrets of the one that was deleted without them, and that they belong to it.
func orphanAndRecreate[O target](ctx context.Context, t *testing.T, s *scope, fresh func() O) {
	t.Helper()
	first := fresh()
	createReady(ctx, t, s, first)
	writeMarks(ctx, t, s, first)
	before := podUIDs(s.pods(ctx, t, first))
	auth := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.AuthSecret(first.GetName())}}
	passwords := refresh(ctx, t, s, auth).Data
	must(t, s.Delete(ctx, first, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	must(t, harness.Eventually(ctx, first.GetName()+" to be gone", time.Minute, func(ctx context.Context) (bool, string, error) {
		err := s.Get(ctx, client.ObjectKeyFromObject(first), first)
		return apierrors.IsNotFound(err), "it is there", client.IgnoreNotFound(err)
	}))
	second := fresh()
	createReady(ctx, t, s, second)
	checkMarks(ctx, t, s, second)
	if after := podUIDs(s.pods(ctx, t, second)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods were replaced: %v, before %v", after, before)
	}
	if after := refresh(ctx, t, s, auth); fmt.Sprint(after.Data) != fmt.Sprint(passwords) || !metav1.IsControlledBy(after, second) {
		t.Errorf("the passwords are others, or Secret %s was not adopted: owners %v", auth.Name, after.OwnerReferences)
	}
	must(t, s.Delete(ctx, second))
	waitRemains(ctx, t, s, second.GetName(), 0)
}

func TestAPausedClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.EtcdCluster
	feature := features.New("paused").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 1, func(e *v1alpha1.EtcdClusterSpec) { e.Paused = ptr.To(true) })
			s.create(ctx, t, c)
		})).
		Assess("nothing is made", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, harness.WaitCondition(ctx, s.Cluster, c, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}, time.Minute))
			must(t, harness.Throughout(ctx, 5*time.Second, func(ctx context.Context) error {
				found, err := s.remains(ctx, c.Name, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &appsv1.StatefulSetList{})
				if err == nil && len(found) > 0 {
					err = fmt.Errorf("there are %v", found)
				}
				return err
			}))
			if !strings.Contains(c.Status.Activity, "paused") {
				t.Errorf("activity %q does not say so", c.Status.Activity)
			}
		})).
		Assess("it goes on when it is resumed", step(func(ctx context.Context, t *testing.T, s *scope) {
			pause(ctx, t, s, c, false)
			waitReady(ctx, t, s, c)
		})).
		Assess("a deleted child of a paused cluster stays away", step(func(ctx context.Context, t *testing.T, s *scope) {
			pause(ctx, t, s, c, true)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the pause to be seen", Within: time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
				return c.Status.ObservedGeneration == c.Generation, c.Status.Activity
			}))
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: c.Name}}
			must(t, s.Delete(ctx, budget))
			must(t, harness.Throughout(ctx, 5*time.Second, func(ctx context.Context) error {
				err := s.Get(ctx, client.ObjectKeyFromObject(budget), budget)
				if err == nil {
					return errors.New("the PodDisruptionBudget is back although the cluster is paused")
				}
				return client.IgnoreNotFound(err)
			}))
		}))
	suite.Test(t, feature.Feature())
}

func pause(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, on bool) {
	t.Helper()
	before := c.DeepCopy()
	c.Spec.Paused = ptr.To(on)
	must(t, s.Patch(ctx, c, client.MergeFrom(before)))
}

// Somebody who writes to a resource more often than the operator looks at it keeps its status from nobody.
func TestOthersMayAnnotateAllTheTime(t *testing.T) {
	t.Parallel()
	feature := features.New("somebody annotates all the time").
		Assess("etcd", step(func(ctx context.Context, t *testing.T, s *scope) {
			c := s.etcdOf(t, "orders", 1)
			s.create(ctx, t, c)
			unlimited := *s.Config
			unlimited.QPS = -1
			writer, err := client.New(&unlimited, client.Options{Scheme: s.Scheme()})
			must(t, err)
			beating, stop := context.WithCancel(ctx)
			beats := make(chan int)
			go func() { beats <- annotate(beating, writer, c.DeepCopy()) }()
			began := time.Now()
			must(t, harness.WaitReady(ctx, s.Cluster, c, 45*time.Second)) // It took longer when conflicts were left to the next look.
			took := time.Since(began)
			stop()
			t.Logf("it was Ready after %s, with %d annotations", took.Round(100*time.Millisecond), <-beats)
		}))
	suite.Test(t, feature.Feature())
}

// annotate annotates a cluster time and again until it may not any more, and tells how often it did.
func annotate(ctx context.Context, c client.Client, o client.Object) (n int) {
	for ctx.Err() == nil {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"heart/beat":"%d"}}}`, n)
		if c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)) == nil {
			n++
		}
	}
	return n
}

func TestADeletedChildIsPutBack(t *testing.T) {
	t.Parallel()
	feature := features.New("deleted children").
		Assess("etcd", step(func(ctx context.Context, t *testing.T, s *scope) {
			c := s.etcdOf(t, "orders", 1)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
			putBack(ctx, t, s, c, c.Name, c.Name)
			checkMarks(ctx, t, s, c)
		})).
		Assess("redis", step(func(ctx context.Context, t *testing.T, s *scope) {
			c := s.redisOf(t, "carts", 0)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
			putBack(ctx, t, s, c, cluster.ShardSet(c.Name, 1), cluster.ShardSet(c.Name, 1))
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// putBack deletes one child of each kind, the StatefulSet without its pods, and waits until all are there again and the
// cluster is Ready with the pods it had.
func putBack[O target](ctx context.Context, t *testing.T, s *scope, o O, set, budget string) {
	t.Helper()
	before := podUIDs(s.pods(ctx, t, o))
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.ns, Name: name} }
	for _, child := range []client.Object{
		&corev1.Service{ObjectMeta: named(cluster.ClientService(o.GetName()))},
		&corev1.Service{ObjectMeta: named(cluster.PeersService(o.GetName()))},
		&corev1.ConfigMap{ObjectMeta: named(cluster.ConfigName(o.GetName()))},
		&policyv1.PodDisruptionBudget{ObjectMeta: named(budget)},
		&appsv1.StatefulSet{ObjectMeta: named(set)},
	} {
		old := refresh(ctx, t, s, child).GetUID()
		must(t, s.Delete(ctx, child, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		what := fmt.Sprintf("%T %s to be put back", child, child.GetName())
		must(t, harness.Eventually(ctx, what, time.Minute, func(ctx context.Context) (bool, string, error) {
			err := s.Get(ctx, client.ObjectKeyFromObject(child), child)
			return err == nil && child.GetUID() != old, "it is not there", err
		}))
	}
	waitReady(ctx, t, s, o)
	if after := podUIDs(s.pods(ctx, t, o)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods were replaced: %v, before %v", after, before)
	}
}

func podUIDs(pods []corev1.Pod) []types.UID {
	var out []types.UID
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}
