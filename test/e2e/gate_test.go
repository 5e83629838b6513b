package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/harness"
)

// gateWindow is how long member 0 is watched after it lost its disk.
const gateWindow = 45 * time.Second

// TestAnEmptyDiskFormsNoSecondCluster takes the volume of member 0 away while a writer runs.
func TestAnEmptyDiskFormsNoSecondCluster(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	var load *harness.Load
	var conn connection.Connection
	feature := features.New("the claim of ordinal 0 is deleted along with its pod").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
			var err error
			conn, _, err = s.Connection(ctx, s.ns, c.Name)
			must(t, err)
			load = startLoad(ctx, t, s, c)
			loseDisk(ctx, t, s, cluster.Pod(c.Name, 0))
		})).
		Assess("no second cluster forms", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, harness.Throughout(ctx, gateWindow, func(ctx context.Context) error {
				return oneCluster(ctx, s, c, conn)
			}))
		})).
		Assess("the status says what it waits for", step(func(ctx context.Context, t *testing.T, s *scope) { saysWhy(ctx, t, s, c) })).
		Assess("writes go on", step(func(ctx context.Context, t *testing.T, s *scope) {
			_, err := load.WaitAcked(ctx, 50, time.Minute)
			must(t, err)
			nothingLost(t, stopLoad(ctx, t, load, "member 0 without its disk for %s; ", gateWindow))
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// loseDisk deletes a member's claim along with its pod and waits until another claim has taken its place.
func loseDisk(ctx context.Context, t *testing.T, s *scope, pod string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.VolumeData + "-" + pod}}
	refresh(ctx, t, s, claim)
	old := claim.UID
	must(t, s.Delete(ctx, claim))
	must(t, s.Delete(ctx, s.pod(ctx, t, pod)))
	must(t, harness.Until(ctx, s.Cluster, claim, "another claim", time.Minute, func(p *corev1.PersistentVolumeClaim) (bool, string) {
		return p.UID != old, "the old claim is still there"
	}))
}

// oneCluster fails when a member reports another cluster id than the recorded one, or when member 0 serves without the data.
func oneCluster(ctx context.Context, s *scope, c *v1alpha1.EtcdCluster, conn connection.Connection) error {
	want, err := strconv.ParseUint(c.Status.ClusterID, 16, 64)
	if err != nil {
		return fmt.Errorf("cluster id of the status: %w", err)
	}
	for i := range 3 {
		id, keys, err := lookAt(ctx, s, cluster.Pod(c.Name, i), conn)
		switch {
		case err != nil && i > 0 && ctx.Err() == nil:
			return fmt.Errorf("member %d, which was left alone, does not answer: %w", i, err)
		case err != nil:
			continue // Member 0 may well not answer.
		case id != want:
			return fmt.Errorf("member %d reports cluster %x instead of %x", i, id, want)
		case keys != marks:
			return fmt.Errorf("member %d serves %d of %d keys", i, keys, marks)
		}
	}
	return nil
}

// lookAt asks one member for its cluster id and, without consulting the others, how many of the marks it has.
func lookAt(ctx context.Context, s *scope, pod string, conn connection.Connection) (id uint64, keys int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := s.Etcd(ctx, s.ns, pod, conn)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = client.Close() }()
	r, err := client.Get(ctx, "mark-", serializableCount()...)
	if err != nil {
		return 0, 0, err
	}
	return r.Header.ClusterId, r.Count, nil
}

func saysWhy(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	must(t, harness.WaitCondition(ctx, s.Cluster, c, v1alpha1.ConditionReady, metav1.ConditionFalse, time.Minute))
	figure(t, "status: %s; activity: %s", conditionText(c, v1alpha1.ConditionReady), c.Status.Activity)
	lost := cluster.Pod(c.Name, 0)
	words := c.Status.Activity
	for _, m := range c.Status.Members {
		if m.Name == lost {
			words += " " + m.Message
		}
	}
	if !strings.Contains(words, lost) || !strings.Contains(words, "disk") {
		t.Errorf("neither activity nor the member says that %s lost its disk: %q", lost, words)
	}
	if cond := conditionText(c, v1alpha1.ConditionQuorumHealthy); !strings.Contains(cond, "=True") {
		t.Errorf("two of three members are a quorum: %s", cond)
	}
}
