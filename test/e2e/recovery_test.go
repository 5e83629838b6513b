package e2e

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// TestALostQuorumIsRecovered destroys the volumes of a majority while a writer runs. Whichever ordinal survives, the cluster goes
// on from its data: when the plan is approved, and the last time by itself.
func TestALostQuorumIsRecovered(t *testing.T) {
	t.Parallel()
	losesQuorum(t, 0)
}

func TestALostQuorumIsRecoveredFromAnyMember(t *testing.T) { losesQuorum(t, 1, 2) }

// losesQuorum deletes the claims of all but one member, which survives, one survivor after the other. From ordinal 2 the operator goes on
// unasked.
func losesQuorum(t *testing.T, survivors ...int) {
	t.Helper()
	var c *v1alpha1.EtcdCluster
	feature := features.New("the claims of a majority are deleted along with their pods").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
		}))
	for _, i := range survivors {
		feature.Assess(fmt.Sprintf("of all but ordinal %d", i), step(func(ctx context.Context, t *testing.T, s *scope) {
			if i == 2 {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"recovery":{"automaticAfter":"10s"}}}`))
				must(t, s.Patch(ctx, c, patch))
			}
			loseQuorum(ctx, t, s, c, i)
		}))
	}
	suite.Test(t, feature.Feature())
}

var planned = regexp.MustCompile(`goes on as the only member.*` + v1alpha1.AnnotationRecover + `=([0-9a-f]{6})`)

func loseQuorum(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, survivor int) {
	t.Helper()
	id := refresh(ctx, t, s, c).Status.ClusterID
	load := startLoad(ctx, t, s, c)
	loseDisksBut(ctx, t, s, c, survivor)
	began := time.Now()
	incident, plan := "", ""
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a plan", Within: 2 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
		plan = conditionText(c, v1alpha1.ConditionStalled)
		if found := planned.FindStringSubmatch(plan); found != nil {
			incident = found[1]
		}
		return incident != "", c.Status.Activity
	}))
	reported := time.Since(began)
	t.Log(plan)
	approved := time.Now()
	if c.Spec.Recovery == nil {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRecover, incident)
		must(t, s.Patch(ctx, c, client.RawPatch(types.MergePatchType, patch)))
	}
	must(t, harness.WaitReady(ctx, s.Cluster, c, 3*time.Minute))
	whole := time.Since(approved)
	_, err := load.WaitAcked(ctx, 50, time.Minute)
	must(t, err)
	nothingLost(t, stopLoad(ctx, t, load, "quorum lost but for member %d: plan after %.1f s, whole again %.1f s later; ",
		survivor, reported.Seconds(), whole.Seconds()))
	checkMarks(ctx, t, s, c)
	if got := refresh(ctx, t, s, c).Status.ClusterID; got != id {
		t.Errorf("this is cluster %s, and it was %s", got, id)
	}
}

// loseDisksBut deletes the claims of all members but one along with their pods.
func loseDisksBut(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, survivor int) {
	t.Helper()
	old := map[string]types.UID{}
	for i := range int(c.Spec.Size) {
		if i == survivor {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.Claim(c.Name, i)}}
		refresh(ctx, t, s, claim)
		old[claim.Name] = claim.UID
		must(t, s.Delete(ctx, claim))
	}
	for i := range int(c.Spec.Size) {
		if i != survivor {
			must(t, s.Delete(ctx, s.pod(ctx, t, cluster.Pod(c.Name, i))))
		}
	}
	for name, uid := range old {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
		must(t, harness.Until(ctx, s.Cluster, claim, harness.Deadline{What: "another claim", Within: 2 * time.Minute}, func(p *corev1.PersistentVolumeClaim) (bool, string) {
			return p.UID != uid, "the old claim is still there"
		}))
	}
}
