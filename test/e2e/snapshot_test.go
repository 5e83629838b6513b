package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// savedFirst expects a verified Backup from before the first pod of an upgrade, which it returns.
func savedFirst(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, from string, began time.Time) *v1alpha1.Backup {
	t.Helper()
	have := refresh(ctx, t, s, c).Status.Snapshot
	if have == nil {
		t.Fatal("there is no snapshot")
	}
	figure(t, "Backup %s of %d bytes at revision %d in %s/%s, verified %.1f s after the edit", have.Backup, have.Size, have.Revision,
		have.URL, have.Directory, have.Time.Sub(began).Seconds())
	if have.Version != from || have.Revision <= 1 || have.Size <= 0 || have.Time.Time.Before(began.Add(-time.Second)) {
		t.Errorf("it is not from before the upgrade: %+v", have)
	}
	var templates appsv1.ControllerRevisionList
	must(t, s.List(ctx, &templates, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: c.Name}))
	made := 0
	for _, r := range templates.Items {
		if r.CreationTimestamp.Time.Before(began.Truncate(time.Second)) {
			continue
		}
		made++
		if r.CreationTimestamp.Time.Before(have.Time.Time) {
			t.Errorf("pods could have a template from %s on, before the snapshot at %s", r.CreationTimestamp, have.Time)
		}
	}
	if made == 0 {
		t.Error("no template was made for the upgrade")
	}
	b := refresh(ctx, t, s, &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: have.Backup}})
	if b.Status.Directory != have.Directory || !meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionVerified) {
		t.Errorf("the Backup is another one than %+v: %+v", have, b.Status)
	}
	claim := refresh(ctx, t, s, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.Snapshot(c.Name)}})
	if !metav1.IsControlledBy(claim, c) || !metav1.IsControlledBy(b, c) {
		t.Errorf("claim %s or Backup %s does not go with a cluster whose volumes are deleted", claim.Name, b.Name)
	}
	return b
}

// leavesNothing deletes a cluster whose volumes go with it, and expects its claims, its Backups and their Jobs to go as well.
func leavesNothing(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	began := time.Now()
	must(t, s.Delete(ctx, c))
	must(t, s.WaitGone(ctx, c, time.Minute))
	must(t, harness.Eventually(ctx, "what belongs to "+c.Name+" to be gone", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		var left []string
		for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &v1alpha1.BackupList{}, &batchv1.JobList{}, &corev1.PodList{}} {
			if err := s.List(ctx, list, client.InNamespace(s.ns)); err != nil {
				return false, "", err
			}
			must(t, meta.EachListItem(list, func(o runtime.Object) error {
				it, err := meta.Accessor(o)
				if err == nil && (it.GetLabels()[cluster.LabelPartOf] == c.Name || it.GetLabels()[cluster.LabelInstance] == c.Name) {
					left = append(left, fmt.Sprintf("%T %s", o, it.GetName()))
				}
				return err
			}))
		}
		return len(left) == 0, strings.Join(left, ", "), nil
	}))
	figure(t, "cluster, claims and Backups gone after %.1f s", time.Since(began).Seconds())
}

// TestAnUpgradeWaitsForItsSnapshot does not allow the claim that the snapshot is to be kept on.
func TestAnUpgradeWaitsForItsSnapshot(t *testing.T) {
	var (
		c *v1alpha1.EtcdCluster
		b *v1alpha1.Backup
	)
	quota := &corev1.ResourceQuota{}
	feature := features.New("snapshot").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
			quota.ObjectMeta = metav1.ObjectMeta{Namespace: s.ns, Name: "no-more-claims"}
			quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("3")}
			s.create(ctx, t, quota)
			must(t, harness.Until(ctx, s.Cluster, quota, harness.Deadline{What: "the quota to be in force", Within: time.Minute}, func(q *corev1.ResourceQuota) (bool, string) {
				used := q.Status.Used[corev1.ResourcePersistentVolumeClaims]
				return used.Value() == 3, used.String()
			}))
		})).
		Assess("it says why, and no pod is touched", step(func(ctx context.Context, t *testing.T, s *scope) {
			before := uids(s.pods(ctx, t, c))
			l := startLoad(ctx, t, s, c)
			change(ctx, t, s, c, func() { c.Spec.Version = s.version(t, "ETCD_3_7") })
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the upgrade to be held", Within: time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
				text := conditionText(c, v1alpha1.ConditionStalled)
				return strings.Contains(text, "SnapshotFailed") && strings.Contains(text, "exceeded quota") &&
					strings.Contains(text, "spec.upgrade.snapshot to Skip"), text
			}))
			rest(ctx, 15*time.Second)
			summary := stopLoad(ctx, t, l, "an upgrade that waits for its snapshot; ")
			nothingLost(t, summary)
			noErrors(t, summary)
			figure(t, "%s", conditionText(refresh(ctx, t, s, c), v1alpha1.ConditionStalled))
			if after := uids(s.pods(ctx, t, c)); strings.Join(after, " ") != strings.Join(before, " ") {
				t.Errorf("the pods %v became %v", before, after)
			}
		})).
		Assess("with room it is taken, and the upgrade goes on", step(func(ctx context.Context, t *testing.T, s *scope) {
			from, began := s.version(t, "ETCD_3_6"), time.Now()
			must(t, s.Delete(ctx, quota))
			waitReady(ctx, t, s, c)
			b = savedFirst(ctx, t, s, c, from, began)
		})).
		Assess("a new cluster begins with it", step(func(ctx context.Context, t *testing.T, s *scope) {
			restored := s.etcdOf(t, "copy", 1, func(e *v1alpha1.EtcdClusterSpec) {
				e.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To(b.Name)}}
			})
			createReady(ctx, t, s, restored)
			checkMarks(ctx, t, s, restored)
			leavesNothing(ctx, t, s, restored)
		})).
		Assess("it goes with the cluster, as its claim does", step(func(ctx context.Context, t *testing.T, s *scope) {
			leavesNothing(ctx, t, s, c)
		})).
		Assess("without one it goes on when it is told to", step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "carts", 1, func(e *v1alpha1.EtcdClusterSpec) {
				e.Upgrade = &v1alpha1.EtcdUpgradeSpec{Snapshot: ptr.To(v1alpha1.SnapshotSkip)}
			})
			createReady(ctx, t, s, c)
			change(ctx, t, s, c, func() { c.Spec.Version = s.version(t, "ETCD_3_7") })
			waitReady(ctx, t, s, c)
			if c.Status.CurrentVersion != s.version(t, "ETCD_3_7") || c.Status.Snapshot != nil {
				t.Errorf("it runs %s with snapshot %+v", c.Status.CurrentVersion, c.Status.Snapshot)
			}
			claim := &corev1.PersistentVolumeClaim{}
			if err := s.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: cluster.Snapshot(c.Name)}, claim); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("there is a claim for snapshots (%v)", err)
			}
		}))
	suite.Test(t, feature.Feature())
}

func uids(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, string(p.UID))
	}
	return out
}
