package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// noImage is a well-formed name that no registry serves.
const noImage = "registry.invalid/no/such:1"

func TestEtcdIsChangedUnderLoad(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("etcd").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
		})).
		Assess("every member restarts with other settings", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "rolling restart", func() {
				change(ctx, t, s, c, func() {
					c.Spec.Config = &v1alpha1.EtcdConfig{QuotaBackendBytes: ptr.To(resource.MustParse("512Mi"))}
				})
			}))
			wantCurrent(ctx, t, s, c)
		})).
		Assess("an image that cannot be had is set back", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "bad image set back", func() {
				setBack(ctx, t, s, c, func(image *string) { c.Spec.Image = image })
			}))
			wantCurrent(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

func TestRedisIsChangedUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("redis").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, c)
		})).
		Assess("every server restarts with other settings", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "rolling restart", func() {
				change(ctx, t, s, c, func() {
					c.Spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"hz": "20"}}
				})
			}))
			wantCurrent(ctx, t, s, c)
		})).
		Assess("an image that cannot be had is set back", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "bad image set back", func() {
				setBack(ctx, t, s, c, func(image *string) { c.Spec.Image = image })
			}))
			wantCurrent(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// change edits the specification and waits until the operator is at work on it.
func change[O target](ctx context.Context, t *testing.T, s *scope, o O, edit func()) {
	t.Helper()
	before := refresh(ctx, t, s, o).DeepCopyObject().(O)
	edit()
	must(t, s.Patch(ctx, o, client.MergeFrom(before)))
	must(t, harness.WaitCondition(ctx, s.Cluster, o, v1alpha1.ConditionReady, "False", time.Minute))
}

// setBack asks for an image that cannot be had, waits until the status says so, and takes it back.
func setBack[O target](ctx context.Context, t *testing.T, s *scope, o O, set func(*string)) {
	t.Helper()
	change(ctx, t, s, o, func() { set(ptr.To(noImage)) })
	must(t, harness.Until(ctx, s.Cluster, o, "the image to be missed", 2*time.Minute, func(o O) (bool, string) {
		text := conditionText(o, v1alpha1.ConditionReady)
		return strings.Contains(text, "ImagePull"), text
	}))
	figure(t, "with a bad image: %s", conditionText(o, v1alpha1.ConditionReady))
	before := refresh(ctx, t, s, o).DeepCopyObject().(O)
	set(nil)
	must(t, s.Patch(ctx, o, client.MergeFrom(before)))
}

// wantCurrent checks that all pods were made from one template and none is left over from another.
func wantCurrent[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	hashes := map[string][]string{}
	for _, p := range s.pods(ctx, t, o) {
		set := p.Name[:strings.LastIndexByte(p.Name, '-')]
		hash := p.Annotations[v1alpha1.AnnotationTemplateHash]
		if known := hashes[set]; len(known) > 0 && known[0] != hash {
			t.Errorf("pods of %s have the templates %s and %s", set, known[0], hash)
		}
		hashes[set] = append(hashes[set], hash)
	}
	if _, ok := any(o).(*v1alpha1.EtcdCluster); ok && len(hashes[o.GetName()]) != 3 {
		t.Errorf("pods %v", hashes)
	}
	if _, ok := any(o).(*v1alpha1.RedisCluster); ok && len(hashes[cluster.ShardSet(o.GetName(), 2)]) != 2 {
		t.Errorf("pods %v", hashes)
	}
}
