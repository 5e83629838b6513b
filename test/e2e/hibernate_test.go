package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// asleepFor is how long a cluster that hibernates is watched for writes of the operator.
const asleepFor = 20 * time.Second

// TestAClusterHibernates puts a cluster with acknowledged data to sleep and wakes it, at rest and on its way to another size, and
// deletes it in its sleep.
func TestAClusterHibernates(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("hibernation").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
		})).
		Assess("a night", step(func(ctx context.Context, t *testing.T, s *scope) { night(ctx, t, s, c) })).
		Assess("it is deleted in its sleep", step(func(ctx context.Context, t *testing.T, s *scope) {
			hibernate(ctx, t, s, c, true)
			must(t, s.Delete(ctx, c))
			must(t, s.WaitGone(ctx, c, time.Minute))
			must(t, harness.Eventually(ctx, "everything to go", time.Minute, func(ctx context.Context) (bool, string, error) {
				left, err := s.remains(ctx, c.Name, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{})
				return len(left) == 0, fmt.Sprint(left), err
			}))
		}))
	suite.Test(t, feature.Feature())
}

func TestAClusterHibernatesInTheMiddleOfAScale(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("hibernation").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
		})).
		Assess("in the middle of a scale", step(func(ctx context.Context, t *testing.T, s *scope) {
			load := startLoad(ctx, t, s, c)
			scale(ctx, t, s, c, 5)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a fourth member", Within: time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
				return len(c.Status.Members) > 3, c.Status.Activity
			}))
			must(t, load.Pause(ctx))
			asleep := hibernate(ctx, t, s, c, true)
			awake := hibernate(ctx, t, s, c, false)
			nothingLost(t, stopLoad(ctx, t, load, "hibernated on the way from 3 to 5: asleep after %.1f s, Ready with 5 after %.1f s; ",
				asleep.Seconds(), awake.Seconds()))
			wantSize(ctx, t, s, c, 5)
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// night is a sleep with nothing else going on.
func night(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	load := startLoad(ctx, t, s, c)
	_, err := load.WaitAcked(ctx, 200, time.Minute)
	must(t, err)
	must(t, load.Pause(ctx))
	id, claims, kept := c.Status.ClusterID, s.claims(ctx, t, c), s.kept(ctx, t, c)
	asleep := hibernate(ctx, t, s, c, true)
	wantAsleep(ctx, t, s, c)
	if now := s.claims(ctx, t, c); !slices.Equal(now, claims) {
		t.Errorf("the claims were %v and are %v", claims, now)
	}
	if now := s.kept(ctx, t, c); !slices.Equal(now, kept) {
		t.Errorf("there were %v and are %v", kept, now)
	}
	s.silent(ctx, t)
	awake := hibernate(ctx, t, s, c, false)
	summary := stopLoad(ctx, t, load, "asleep after %.1f s, Ready again %.1f s after waking; ", asleep.Seconds(), awake.Seconds())
	nothingLost(t, summary)
	if refresh(ctx, t, s, c).Status.ClusterID != id || len(summary.ClusterIDs) != 1 {
		t.Errorf("cluster %s is now %s, and writes went to %v", id, c.Status.ClusterID, summary.ClusterIDs)
	}
	checkMarks(ctx, t, s, c)
	for reason, want := range map[string]int{"Hibernating": 1, "WakingUp": 1} {
		if n := s.events(ctx, t, reason); n != want {
			t.Errorf("there are %d events %s", n, reason)
		}
	}
}

// hibernate puts a cluster to sleep or wakes it, and returns how long that took.
func hibernate(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, yes bool) time.Duration {
	t.Helper()
	before := refresh(ctx, t, s, c).DeepCopy()
	c.Spec.Hibernated = ptr.To(yes)
	began := time.Now()
	must(t, s.Patch(ctx, c, client.MergeFrom(before)))
	if !yes {
		waitReady(ctx, t, s, c)
		return time.Since(began)
	}
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the cluster to hibernate", Within: 2 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
		ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == v1alpha1.ReasonHibernated, c.Status.Activity
	}))
	return time.Since(began)
}

// wantAsleep checks what there is to be seen of a cluster that hibernates.
func wantAsleep(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	if pods := s.pods(ctx, t, c); len(pods) > 0 {
		t.Errorf("%d pods are left", len(pods))
	}
	for _, typ := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAvailable, v1alpha1.ConditionQuorumHealthy, v1alpha1.ConditionReconciling,
		v1alpha1.ConditionStalled,
	} {
		t.Log(conditionText(c, typ))
		if !meta.IsStatusConditionFalse(c.Status.Conditions, typ) {
			t.Errorf("%s", conditionText(c, typ))
		}
	}
	if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionTLSReady) {
		t.Errorf("%s", conditionText(c, v1alpha1.ConditionTLSReady))
	}
	out, err := s.Run(ctx, "get", "etcdcluster", "-n", s.ns, c.Name, "-o", "wide")
	must(t, err)
	fmt.Print(out)
	if !strings.Contains(out, "0/3") || !strings.Contains(out, "spec.hibernated is true") {
		t.Errorf("kubectl get does not say so:\n%s", out)
	}
}

// claims are the UIDs of a cluster's claims.
func (s *scope) claims(ctx context.Context, t *testing.T, c *v1alpha1.EtcdCluster) []string {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	must(t, s.List(ctx, &list, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: c.Name}))
	var out []string
	for _, claim := range list.Items {
		out = append(out, claim.Name+" "+string(claim.UID))
	}
	return out
}

// kept are the objects of a cluster that stay while it hibernates.
func (s *scope) kept(ctx context.Context, t *testing.T, c *v1alpha1.EtcdCluster) []string {
	t.Helper()
	found, err := s.remains(ctx, c.Name, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{})
	must(t, err)
	return found
}

// silent fails when the operator writes anything in the namespace for a while.
func (s *scope) silent(ctx context.Context, t *testing.T) {
	t.Helper()
	from := time.Now()
	rest(ctx, asleepFor)
	requests, err := s.requests(ctx, from, time.Now())
	must(t, err)
	writes, renewals, _ := sortRequests(requests, s.ns)
	writes = slices.DeleteFunc(writes, func(w string) bool { return !strings.Contains(w, s.ns) })
	if renewals == 0 || len(writes) > 0 {
		t.Errorf("%d renewals of the lease, and asleep the operator wrote:\n%s", renewals, strings.Join(writes, "\n"))
	}
	figure(t, "%d writes in %s of sleep", len(writes), asleepFor)
}

// events counts the events of a reason.
func (s *scope) events(ctx context.Context, t *testing.T, reason string) int {
	t.Helper()
	var list corev1.EventList
	must(t, s.List(ctx, &list, client.InNamespace(s.ns)))
	n := 0
	for _, e := range list.Items {
		if e.Reason == reason {
			n++
			t.Logf("%s %s: %s", e.Type, e.Reason, e.Message)
		}
	}
	return n
}
