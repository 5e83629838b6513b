package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/test/harness"
)

// TestRedisResourcesChangeUnderLoad raises and lowers cpu and memory while a writer runs, and restarts nothing.
func TestRedisResourcesChangeUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	var processes map[string]process
	small, large := withResources("50m", "64Mi", "500m", "256Mi"), withResources("100m", "96Mi", "750m", "384Mi")
	// A backlog of 1/32 and 3/4 of the rest; a backlog of 10 MiB and 3/4 of the rest.
	least := map[string]string{"repl-backlog-size": "8388608", "maxmemory": "195035136"}
	most := map[string]string{"repl-backlog-size": "10485760", "maxmemory": "294125568"}
	change := func(what string, to *corev1.ResourceRequirements, settings map[string]string) features.Func {
		return step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, what, func() {
				before := refresh(ctx, t, s, c).DeepCopy()
				c.Spec.Resources = to
				must(t, s.Patch(ctx, c, client.MergeFrom(before)))
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: what, Within: 3 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
					has := inForce(ctx, t, s, c, to)
					return has == "" && configured(ctx, t, s, c, settings), has + "; " + c.Status.Activity
				}))
			})
			nothingLost(t, summary)
			noErrors(t, summary)
			if diff := cmp.Diff(processes, processesOf(ctx, t, s, c)); diff != "" {
				t.Errorf("servers were restarted:\n%s", diff)
			}
		})
	}
	feature := features.New("resources").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(spec *v1alpha1.RedisClusterSpec) { spec.Resources = small })
			createReady(ctx, t, s, c)
			processes = processesOf(ctx, t, s, c)
			if !configured(ctx, t, s, c, least) {
				t.Error("maxmemory does not follow from the limit")
			}
		})).
		Assess("more memory and cpu", change("more memory and cpu without a restart", large, most)).
		Assess("less memory and cpu", change("less memory and cpu without a restart", small, least)).
		Assess("more than any node has changes nothing, and is set back", step(func(ctx context.Context, t *testing.T, s *scope) {
			set := func(to *corev1.ResourceRequirements) {
				before := refresh(ctx, t, s, c).DeepCopy()
				c.Spec.Resources = to
				must(t, s.Patch(ctx, c, client.MergeFrom(before)))
			}
			summary := underLoad(ctx, t, s, c, "more memory than any node has, and back", func() {
				set(withResources("50m", "900Gi", "500m", "900Gi"))
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a refusal", Within: time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
					return strings.HasPrefix(c.Status.Activity, "Kubernetes does not give"), c.Status.Activity
				}))
				t.Log(c.Status.Activity)
				set(small)
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the way back", Within: 3 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
					has := inForce(ctx, t, s, c, small)
					return has == "" && c.Status.Ready == "6/6" && configured(ctx, t, s, c, least), has + "; " + c.Status.Activity
				}))
			})
			nothingLost(t, summary)
			noErrors(t, summary)
			if diff := cmp.Diff(processes, processesOf(ctx, t, s, c)); diff != "" {
				t.Errorf("servers were restarted:\n%s", diff)
			}
		}))
	suite.Test(t, feature.Feature())
}

func withResources(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuRequest), corev1.ResourceMemory: resource.MustParse(memoryRequest)},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuLimit), corev1.ResourceMemory: resource.MustParse(memoryLimit)},
	}
}

// process tells the processes of a pod apart.
type process struct {
	UID      types.UID
	Restarts int32
}

func processesOf(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) map[string]process {
	t.Helper()
	out := map[string]process{}
	for _, p := range s.pods(ctx, t, c) {
		if len(p.Status.ContainerStatuses) > 0 {
			out[p.Name] = process{p.UID, p.Status.ContainerStatuses[0].RestartCount}
		}
	}
	return out
}

// inForce says which container does not have resources yet, in the words of its kubelet; empty: all have them.
func inForce(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, want *corev1.ResourceRequirements) string {
	t.Helper()
	for _, p := range s.pods(ctx, t, c) {
		for _, has := range p.Status.ContainerStatuses {
			if has.Name != manifests.ContainerServer || has.Resources == nil {
				continue
			}
			for name, limit := range want.Limits {
				if got := has.Resources.Limits[name]; got.Cmp(limit) != 0 {
					return fmt.Sprintf("%s has a limit of %s of %s", p.Name, got.String(), name)
				}
			}
		}
	}
	return ""
}

// TestRedisWritesAreGuardedThroughARestart restarts all servers while every write has to be acknowledged by a replica.
func TestRedisWritesAreGuardedThroughARestart(t *testing.T) {
	var c *v1alpha1.RedisCluster
	guarded := map[string]string{"min-replicas-to-write": "1", "min-replicas-max-lag": "5"}
	feature := features.New("guarded writes").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(spec *v1alpha1.RedisClusterSpec) {
				spec.Config = &v1alpha1.RedisConfig{MinReplicasToWrite: ptr.To(int32(1))}
			})
			createReady(ctx, t, s, c)
			if !configured(ctx, t, s, c, guarded) {
				t.Error("not every server asks for a replica")
			}
		})).
		Assess("no write fails for want of a replica", step(func(ctx context.Context, t *testing.T, s *scope) {
			before := uidsOf(ctx, t, s, c)
			summary := underLoad(ctx, t, s, c, "a restart of all servers, which ask for a replica each", func() {
				was := refresh(ctx, t, s, c).DeepCopy()
				c.Spec.Template = &v1alpha1.PodTemplate{Labels: map[string]v1alpha1.TemplateValue{"team": "a"}}
				must(t, s.Patch(ctx, c, client.MergeFrom(was)))
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the restart of all servers", Within: 5 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
					for pod, uid := range uidsOf(ctx, t, s, c) {
						if before[pod] == uid {
							return false, c.Status.Activity
						}
					}
					return c.Status.Ready == "6/6", c.Status.Activity
				}))
			})
			nothingLost(t, summary)
			noErrors(t, summary)
			if !configured(ctx, t, s, c, guarded) {
				t.Error("not every server asks for a replica again")
			}
		}))
	suite.Test(t, feature.Feature())
}
