package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// claimsMove bounds the time until all pods of a cluster run on other claims.
const claimsMove = 5 * time.Minute

// TestClaimsAreDeletedUnderRunningPods deletes every claim of clusters that clients write to, as a prune does.
func TestClaimsAreDeletedUnderRunningPods(t *testing.T) {
	var orders, one *v1alpha1.EtcdCluster
	var carts *v1alpha1.RedisCluster
	feature := features.New("deleted claims").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			orders, one, carts = s.etcdOf(t, "orders", 3), s.etcdOf(t, "one", 1), s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, orders)
			createReady(ctx, t, s, one)
			createReady(ctx, t, s, carts)
			writeMarks(ctx, t, s, orders)
			writeMarks(ctx, t, s, one)
			writeMarks(ctx, t, s, carts)
		})).
		Assess("members of etcd move to other claims", step(func(ctx context.Context, t *testing.T, s *scope) {
			moveClaims(ctx, t, s, orders)
		})).
		Assess("servers of Redis move to other claims", step(func(ctx context.Context, t *testing.T, s *scope) {
			moveClaims(ctx, t, s, carts)
		})).
		Assess("the only member does not hibernate, and grows", step(func(ctx context.Context, t *testing.T, s *scope) {
			before := s.deleteClaims(ctx, t, one)
			base := refresh(ctx, t, s, one).DeepCopy()
			one.Spec.Hibernated = ptr.To(true)
			must(t, s.Patch(ctx, one, client.MergeFrom(base)))
			waitStalled(ctx, t, s, one, "ClaimsTerminating", "data-one-0")
			base = refresh(ctx, t, s, one).DeepCopy()
			one.Spec.Hibernated, one.Spec.Size = nil, 3
			must(t, s.Patch(ctx, one, client.MergeFrom(base)))
			waitForOtherClaims(ctx, t, s, one, before)
			waitReady(ctx, t, s, one)
			checkMarks(ctx, t, s, one)
		}))
	suite.Test(t, feature.Feature())
}

// moveClaims deletes all claims of a cluster under load and waits until its pods run on other ones.
func moveClaims[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	load := startLoad(ctx, t, s, o)
	_, err := load.WaitAcked(ctx, 100, time.Minute)
	must(t, err)
	began := time.Now()
	waitForOtherClaims(ctx, t, s, o, s.deleteClaims(ctx, t, o))
	waitReady(ctx, t, s, o)
	nothingLost(t, stopLoad(ctx, t, load, "all claims replaced after %.0f s: ", time.Since(began).Seconds()))
	checkMarks(ctx, t, s, o)
}

// claimsOf returns the claims of a cluster.
func (s *scope) claimsOf(ctx context.Context, o client.Object) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	err := s.List(ctx, &list, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: o.GetName()})
	return list.Items, err
}

// deleteClaims deletes all claims of a cluster without waiting, and returns their UIDs.
func (s *scope) deleteClaims(ctx context.Context, t *testing.T, o client.Object) map[types.UID]bool {
	t.Helper()
	claims, err := s.claimsOf(ctx, o)
	must(t, err)
	out := map[types.UID]bool{}
	for i := range claims {
		out[claims[i].UID] = true
		must(t, s.Delete(ctx, &claims[i]))
	}
	return out
}

// waitForOtherClaims waits until none of some claims is left.
func waitForOtherClaims[O target](ctx context.Context, t *testing.T, s *scope, o O, before map[types.UID]bool) {
	t.Helper()
	must(t, harness.Eventually(ctx, "pods to run on other claims", claimsMove, func(ctx context.Context) (bool, string, error) {
		claims, err := s.claimsOf(ctx, o)
		var left []string
		for _, c := range claims {
			if before[c.UID] || c.DeletionTimestamp != nil {
				left = append(left, c.Name)
			}
		}
		return len(left) == 0 && len(claims) > 0, fmt.Sprintf("%s: %s", strings.Join(left, ", "), conditionText(refresh(ctx, t, s, o), v1alpha1.ConditionReconciling)), err
	}))
}
