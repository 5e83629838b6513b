package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/clusterbus"
	"github.com/quorate/quorate/test/harness"
)

// TestACopyThatTakesItselfForAPrimaryBeginsAnew tells a replica by the cluster bus that it is a primary: it cannot be told otherwise by
// anybody, since it has keys. A client writes meanwhile, and loses nothing.
func TestACopyThatTakesItselfForAPrimaryBeginsAnew(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("A replica that takes itself for a primary").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) {
				r.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
			})
			createReady(ctx, t, s, c)
		})).
		Assess("it begins anew as a replica", step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, "a replica misled", func() {
				shard := refresh(ctx, t, s, c).Status.Shards[1]
				var replica, primary v1alpha1.RedisNodeStatus
				for _, n := range shard.Nodes {
					if n.Name == shard.Primary {
						primary = n
					} else {
						replica = n
					}
				}
				message, err := clusterbus.Update(primary.ID, replica.ID)
				must(t, err)
				pod := s.pod(ctx, t, replica.Name)
				_, err = s.OnNode(ctx, pod.Spec.NodeName, "bash", "-c", fmt.Sprintf("echo %s | base64 -d >/dev/tcp/%s/%d",
					base64.StdEncoding.EncodeToString(message), pod.Status.PodIP, model.BusPort))
				must(t, err)
				must(t, harness.Eventually(ctx, replica.Name+" to begin anew", time.Minute, func(ctx context.Context) (bool, string, error) {
					notes, err := s.notes(ctx, steps.ReasonReplaceDisk)
					return len(notes) > 0 && strings.Contains(notes[0], replica.Name), strings.Join(notes, "; "), err
				}))
			})
			if summary.Lost > 0 {
				t.Errorf("%d acknowledged writes are lost", summary.Lost)
			}
		}))
	suite.Test(t, feature.Feature())
}
