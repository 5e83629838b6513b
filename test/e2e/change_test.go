package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// noImage is a well-formed name that no registry serves.
const noImage = "registry.invalid/no/such:1"

func TestEtcdIsChangedUnderLoad(t *testing.T) {
	changedUnderLoad(t, func(t *testing.T, s *scope) *v1alpha1.EtcdCluster {
		t.Helper()
		return s.etcdOf(t, "orders", 3)
	}, func(c *v1alpha1.EtcdCluster) {
		c.Spec.Config = &v1alpha1.EtcdConfig{QuotaBackendBytes: ptr.To(resource.MustParse("512Mi"))}
	}, func(c *v1alpha1.EtcdCluster, image *string) { c.Spec.Image = image })
}

func TestRedisIsChangedUnderLoad(t *testing.T) {
	changedUnderLoad(t, func(t *testing.T, s *scope) *v1alpha1.RedisCluster {
		t.Helper()
		return s.redisOf(t, "carts", 1)
	}, func(c *v1alpha1.RedisCluster) {
		c.Spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "500"}}
	}, func(c *v1alpha1.RedisCluster, image *string) { c.Spec.Image = image })
}

// changedUnderLoad changes a setting of a cluster while a writer runs, and then its image to a bad one and back. What is
// planned loses nothing, of either kind.
func changedUnderLoad[O target](
	t *testing.T, fresh func(*testing.T, *scope) O, setting func(O), image func(O, *string),
) {
	t.Helper()
	var c O
	feature := features.New("changes").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = fresh(t, s)
			createReady(ctx, t, s, c)
		})).
		Assess("everything restarts with another setting", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "rolling restart", func() {
				change(ctx, t, s, c, func() { setting(c) })
			}))
			wantCurrent(ctx, t, s, c)
		})).
		Assess("an image that cannot be had is set back", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "bad image set back", func() {
				setBack(ctx, t, s, c, func(name *string) { image(c, name) })
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
	must(t, harness.WaitCondition(ctx, s.Cluster, o, metav1.Condition{Type: v1alpha1.ConditionReady, Status: "False"}, time.Minute))
}

// setBack asks for an image that cannot be had, waits until the status says so, and takes it back.
func setBack[O target](ctx context.Context, t *testing.T, s *scope, o O, set func(*string)) {
	t.Helper()
	change(ctx, t, s, o, func() { set(ptr.To(noImage)) })
	must(t, harness.Until(ctx, s.Cluster, o, harness.Deadline{What: "the image to be missed", Within: 2 * time.Minute}, func(o O) (bool, string) {
		text := conditionText(o, v1alpha1.ConditionReady)
		return strings.Contains(text, "ImagePull"), text
	}))
	figure(t, "with a bad image: %s", conditionText(o, v1alpha1.ConditionReady))
	before := refresh(ctx, t, s, o).DeepCopyObject().(O)
	set(nil)
	must(t, s.Patch(ctx, o, client.MergeFrom(before)))
}

// wantCurrent checks that the pods of each set were made from one template, and none is left over from another.
func wantCurrent[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	hashes := map[string]string{}
	for _, p := range s.pods(ctx, t, o) {
		set := p.Name[:strings.LastIndexByte(p.Name, '-')]
		hash := p.Annotations[v1alpha1.AnnotationTemplateHash]
		if known, ok := hashes[set]; ok && known != hash {
			t.Errorf("pods of %s have the templates %s and %s", set, known, hash)
		}
		hashes[set] = hash
	}
	if len(hashes) == 0 {
		t.Error("there are no pods")
	}
}
