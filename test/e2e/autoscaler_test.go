package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

func (s *scope) scalerOf(c client.Object, kind v1alpha1.ClusterKind, change func(*v1alpha1.AutoscalerSpec)) *v1alpha1.Autoscaler {
	a := &v1alpha1.Autoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: c.GetName()},
		Spec:       v1alpha1.AutoscalerSpec{Cluster: v1alpha1.ClusterReference{Kind: kind, Name: c.GetName()}},
	}
	change(&a.Spec)
	return a
}

// TestRedisIsAutoscaledUnderLoad fills a cluster: a dry run says what would be done, and then it gets a fourth shard while a writer runs.
func TestRedisIsAutoscaledUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	var a *v1alpha1.Autoscaler
	feature := features.New("autoscaler").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(spec *v1alpha1.RedisClusterSpec) { spec.Resources = withResources("20m", "48Mi", "500m", "96Mi") })
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
			a = s.scalerOf(c, v1alpha1.KindRedisCluster, func(spec *v1alpha1.AutoscalerSpec) {
				spec.Mode = ptr.To(v1alpha1.AutoscalerDryRun)
				spec.Shards = &v1alpha1.AutoscalerShards{Min: 3, Max: 4, MemoryPercent: ptr.To(int32(30)), ScaleOutAfter: &metav1.Duration{Duration: 30 * time.Second}}
			})
			s.create(ctx, t, a)
			must(t, harness.WaitReady(ctx, s.Cluster, a, time.Minute))
			t.Log(a.Status.Activity)
		})).
		Assess("a dry run says what would be done, and does nothing", step(func(ctx context.Context, t *testing.T, s *scope) {
			for shard := range 3 {
				fillTo(ctx, t, s, c, shard, 27)
			}
			began := time.Now()
			must(t, harness.Until(ctx, s.Cluster, a, harness.Deadline{What: "the outcome of the dry run", Within: 3 * time.Minute}, func(a *v1alpha1.Autoscaler) (bool, string) {
				return strings.Contains(a.Status.Activity, "it would change spec.shards from 3 to 4"), a.Status.Activity
			}))
			figure(t, "a dry run told of a fourth shard after %.0f s: %s", time.Since(began).Seconds(), a.Status.Activity)
			if n := refresh(ctx, t, s, c).Spec.Shards; n != 3 || a.Status.LastChange != nil {
				t.Errorf("a dry run has made %d shards: %+v", n, a.Status.LastChange)
			}
		})).
		Assess("a fourth shard under load", step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, "a fourth shard by an Autoscaler", func() {
				before := refresh(ctx, t, s, a).DeepCopy()
				a.Spec.Mode = nil
				must(t, s.Patch(ctx, a, client.MergeFrom(before)))
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a fourth shard", Within: 3 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
					return c.Spec.Shards == 4, c.Status.Activity
				}))
			})
			nothingLost(t, summary)
			noErrors(t, summary)
			wantResharded(ctx, t, s, c, 4)
			checkMarks(ctx, t, s, c)
			wantNotes(ctx, t, s, "ChangingShards")
		})).
		Assess("and comes to rest there", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, harness.WaitReady(ctx, s.Cluster, a, 2*time.Minute))
			last := refresh(ctx, t, s, a).Status.LastChange
			if last == nil || last.Change != "change spec.shards from 3 to 4" {
				t.Fatalf("%+v", a.Status)
			}
			figure(t, "%s: %s; now they use %d %%", last.Change, last.Reason, ptr.Deref(a.Status.Shards.MemoryPercent, 0))
			wantOwner(t, refresh(ctx, t, s, c), "f:shards")
		}))
	suite.Test(t, feature.Feature())
}

// wantOwner checks that an Autoscaler owns a field of its cluster.
func wantOwner(t *testing.T, c client.Object, field string) {
	t.Helper()
	if !slices.ContainsFunc(c.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "quorate-autoscaler" && strings.Contains(m.FieldsV1.String(), field)
	}) {
		t.Errorf("quorate-autoscaler does not own %s: %v", field, c.GetManagedFields())
	}
}

// TestMemoryIsAutoscaled fills one server, whose limit grows without a restart.
func TestMemoryIsAutoscaled(t *testing.T) {
	var c *v1alpha1.RedisCluster
	var a *v1alpha1.Autoscaler
	feature := features.New("autoscaled memory").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 0, func(spec *v1alpha1.RedisClusterSpec) { spec.Resources = withResources("20m", "48Mi", "500m", "96Mi") })
			createReady(ctx, t, s, c)
			a = s.scalerOf(c, v1alpha1.KindRedisCluster, func(spec *v1alpha1.AutoscalerSpec) {
				spec.Memory = &v1alpha1.AutoscalerMemory{
					Min: resource.MustParse("96Mi"), Max: resource.MustParse("192Mi"), GrowAfter: &metav1.Duration{Duration: 30 * time.Second}, Apply: ptr.To(true),
				}
			})
			s.create(ctx, t, a)
			must(t, harness.WaitReady(ctx, s.Cluster, a, time.Minute))
		})).
		Assess("more memory when a server fills", step(func(ctx context.Context, t *testing.T, s *scope) {
			processes := processesOf(ctx, t, s, c)
			fillTo(ctx, t, s, c, 1, 60)
			began := time.Now()
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a larger limit", Within: 3 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
				limit := c.Spec.Resources.Limits.Memory().Value()
				return limit > 96<<20 && limit <= 192<<20 && inForce(ctx, t, s, c, c.Spec.Resources) == "", c.Status.Activity
			}))
			figure(t, "a limit of %s, a request of %s, in force %.0f s after it was filled: %s", c.Spec.Resources.Limits.Memory(), c.Spec.Resources.Requests.Memory(),
				time.Since(began).Seconds(), refresh(ctx, t, s, a).Status.Activity)
			if diff := cmp.Diff(processes, processesOf(ctx, t, s, c)); diff != "" {
				t.Errorf("servers were restarted:\n%s", diff)
			}
			wantOwner(t, refresh(ctx, t, s, c), "f:memory")
		}))
	suite.Test(t, feature.Feature())
}

// TestEtcdVolumesAreAutoscaled fills a database: its volume grows before its quota is reached.
func TestEtcdVolumesAreAutoscaled(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	var a *v1alpha1.Autoscaler
	feature := features.New("autoscaled volumes").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			class := s.storageClass(ctx, t, "growing", true)
			c = s.etcdOf(t, "orders", 3, func(spec *v1alpha1.EtcdClusterSpec) { spec.Storage.ClassName = &class })
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
			a = s.scalerOf(c, v1alpha1.KindEtcdCluster, func(spec *v1alpha1.AutoscalerSpec) {
				spec.Storage = &v1alpha1.AutoscalerStorage{Max: resource.MustParse("2Gi"), FullPercent: ptr.To(int32(10))}
			})
			s.create(ctx, t, a)
			must(t, harness.WaitReady(ctx, s.Cluster, a, time.Minute))
		})).
		Assess("they grow", step(func(ctx context.Context, t *testing.T, s *scope) {
			resizing, stop := context.WithCancel(ctx)
			resized := make(chan error, 1)
			summary := underLoad(ctx, t, s, c, "a larger volume by an Autoscaler", func() {
				go func() { resized <- s.resize(resizing, c.Name) }()
				conn, _, err := s.Connection(ctx, s.ns, c.Name)
				must(t, err)
				bulk, err := s.Etcd(ctx, s.ns, c.Name+"-0", conn)
				must(t, err)
				defer func() { _ = bulk.Close() }()
				for i := range 36 {
					_, err := bulk.Put(ctx, fmt.Sprintf("bulk-%d", i), strings.Repeat("x", 1<<20))
					must(t, err)
				}
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a larger volume", Within: 3 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
					return c.Spec.Storage.Size.String() == "1280Mi", c.Spec.Storage.Size.String()
				}))
			})
			stop()
			must(t, <-resized)
			nothingLost(t, summary)
			wantVolumes(ctx, t, s, c, "1280Mi", *c.Spec.Storage.ClassName)
			checkMarks(ctx, t, s, c)
			last := refresh(ctx, t, s, a).Status.LastChange
			if last == nil {
				t.Fatalf("%+v", a.Status)
			}
			figure(t, "%s: %s", last.Change, last.Reason)
			wantOwner(t, refresh(ctx, t, s, c), "f:size")
		}))
	suite.Test(t, feature.Feature())
}

// TestAHorizontalPodAutoscalerScalesBothKinds by their scale subresource. It has no metrics here, and enforces its bounds.
func TestAHorizontalPodAutoscalerScalesBothKinds(t *testing.T) {
	t.Parallel()
	var orders *v1alpha1.EtcdCluster
	var carts *v1alpha1.RedisCluster
	feature := features.New("HorizontalPodAutoscaler").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			orders, carts = s.etcdOf(t, "orders", 1), s.redisOf(t, "carts", 0)
			s.create(ctx, t, orders)
			createReady(ctx, t, s, carts)
			waitReady(ctx, t, s, orders)
		})).
		Assess("it has the members and shards that it asks for", step(func(ctx context.Context, t *testing.T, s *scope) {
			s.create(ctx, t, s.podAutoscaler("EtcdCluster", "orders", 3))
			s.create(ctx, t, s.podAutoscaler("RedisCluster", "carts", 4))
			must(t, harness.Until(ctx, s.Cluster, orders, harness.Deadline{What: "three members", Within: 3 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
				return c.Spec.Size == 3 && c.Status.Size == 3, c.Status.Activity
			}))
			must(t, harness.Until(ctx, s.Cluster, carts, harness.Deadline{What: "four shards", Within: 3 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
				return c.Spec.Shards == 4 && c.Status.ShardCount == 4, c.Status.Activity
			}))
			waitReady(ctx, t, s, orders)
			waitReady(ctx, t, s, carts)
		})).
		Assess("it sees as many as there are", step(func(ctx context.Context, t *testing.T, s *scope) {
			for name, want := range map[string]int32{"orders": 3, "carts": 4} {
				h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
				must(t, harness.Until(ctx, s.Cluster, h, harness.Deadline{What: "its look at the scale", Within: 2 * time.Minute}, func(h *autoscalingv2.HorizontalPodAutoscaler) (bool, string) {
					able := slices.ContainsFunc(h.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
						return c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionTrue
					})
					return able && h.Status.CurrentReplicas == want, fmt.Sprintf("%+v", h.Status)
				}))
				figure(t, "the HorizontalPodAutoscaler of %s: %d of %d, %+v", name, h.Status.CurrentReplicas, h.Status.DesiredReplicas, h.Status.Conditions[0].Message)
			}
		}))
	suite.Test(t, feature.Feature())
}

// podAutoscaler asks for at least so many replicas.
func (s *scope) podAutoscaler(kind, name string, least int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: name},
			MinReplicas:    &least, MaxReplicas: least + 2,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(int32(60))},
			}}},
		},
	}
}
