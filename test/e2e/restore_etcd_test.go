package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/harness"
)

// restoreOf puts a Backup into an EtcdCluster of the namespace.
func restoreOf(s *scope, name, clusterName, backup string) *v1alpha1.Restore {
	return &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec: v1alpha1.RestoreSpec{
			Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: clusterName}, From: v1alpha1.RestoreSource{Backup: ptr.To(backup)},
		},
	}
}

// confirmRestore creates a Restore, waits for its plan, and confirms that. It returns what the plan says.
func confirmRestore(ctx context.Context, t *testing.T, s *scope, r *v1alpha1.Restore) (says string) {
	t.Helper()
	says = planRestore(ctx, t, s, r)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationConfirm, r.Status.Plan)
	must(t, s.Patch(ctx, r, client.RawPatch(types.MergePatchType, patch)))
	return says
}

// planRestore makes a Restore, and returns what it would do.
func planRestore(ctx context.Context, t *testing.T, s *scope, r *v1alpha1.Restore) (says string) {
	t.Helper()
	s.create(ctx, t, r)
	must(t, harness.Until(ctx, s.Cluster, r, harness.Deadline{What: "the plan of a restore", Within: time.Minute}, func(r *v1alpha1.Restore) (bool, string) {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionStalled)
		return c != nil && c.Reason == planner.ReasonUnconfirmed, r.Status.Activity
	}))
	t.Log(r.Status.Activity)
	return r.Status.Activity
}

func waitRestored(ctx context.Context, t *testing.T, s *scope, r *v1alpha1.Restore) {
	t.Helper()
	must(t, harness.Until(ctx, s.Cluster, r, harness.Deadline{What: "the restore to be complete", Within: 3 * time.Minute}, func(r *v1alpha1.Restore) (bool, string) {
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete), r.Status.Activity
	}))
}

// TestAnEtcdClusterIsRestoredInPlace takes a cluster back to a backup twice: while it lives, and when all of its disks are lost.
func TestAnEtcdClusterIsRestoredInPlace(t *testing.T) {
	var (
		c  *v1alpha1.EtcdCluster
		b  *v1alpha1.Backup
		at []int64
		id string
	)
	restored := func(ctx context.Context, t *testing.T, s *scope, name string) {
		t.Helper()
		r := restoreOf(s, name, c.Name, b.Name)
		says := confirmRestore(ctx, t, s, r)
		if !strings.Contains(says, model.CopyName(r.Status.Plan)) || !strings.Contains(says, b.Status.Directory) {
			t.Errorf("the plan is: %s", says)
		}
		began := time.Now()
		waitRestored(ctx, t, s, r)
		back := time.Since(began)
		must(t, harness.WaitReady(ctx, s.Cluster, c, 3*time.Minute))
		figure(t, "%s: clients are back %.1f s after the confirmation, all members are well after %.1f s", name, back.Seconds(), time.Since(began).Seconds())
		wantNumbered(ctx, t, s, c, 10, at)
		if refresh(ctx, t, s, c); c.Status.ClusterID == id {
			t.Error("it is the same cluster: members of before could join it")
		}
		id = c.Status.ClusterID
	}
	feature := features.New("restore in place").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server := startS3(ctx, t, s)
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
			id = refresh(ctx, t, s, c).Status.ClusterID
			at = writeNumbered(ctx, t, s, c, 10, func(int) {})
			b = backupOf(s, "good", v1alpha1.KindEtcdCluster, c.Name, server.Destination("etcd"))
			takeBackup(ctx, t, s, b)
		})).
		Assess("a mistake is undone", step(func(ctx context.Context, t *testing.T, s *scope) {
			store := etcdClient(ctx, t, s, c)
			_, err := store.Put(ctx, markKey(3), "a mistake")
			must(t, err)
			r, err := store.Put(ctx, markKey(77), "another one")
			must(t, err)
			must(t, store.Close())
			restored(ctx, t, s, "undo")
			for i := range 3 {
				if name := cluster.Pod(c.Name, i); !strings.Contains(onVolume(ctx, t, s, name), model.CopyName("")) {
					t.Errorf("%s has not set aside what it had: there is %s", name, onVolume(ctx, t, s, name))
				}
			}
			store = etcdClient(ctx, t, s, c)
			now, err := store.Get(ctx, markKey(3))
			must(t, err)
			must(t, store.Close())
			if now.Header.Revision < r.Header.Revision+model.RestoreBump {
				t.Errorf("the cluster is at revision %d, and watchers have seen %d", now.Header.Revision, r.Header.Revision)
			}
		})).
		Assess("a cluster without any data comes back", step(func(ctx context.Context, t *testing.T, s *scope) {
			loseDisksBut(ctx, t, s, c, -1)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the loss to be noticed", Within: 2 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
				stalled := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionStalled)
				return stalled != nil && stalled.Reason == steps.ReasonQuorumLost && strings.Contains(stalled.Message, "create a Restore"), c.Status.Activity
			}))
			restored(ctx, t, s, "from-nothing")
			writeMarks(ctx, t, s, c)
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// TestAnEtcdClusterGoesBackToWhatItSetAside does what docs/recovery.md says, after a restore that was the wrong one.
func TestAnEtcdClusterGoesBackToWhatItSetAside(t *testing.T) {
	var (
		c         *v1alpha1.EtcdCluster
		r         *v1alpha1.Restore
		id, image string
	)
	fresh := func(t *testing.T, s *scope) *v1alpha1.EtcdCluster {
		t.Helper()
		return s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.Storage = volume(v1alpha1.DeletionRetain) })
	}
	feature := features.New("the way back").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server := startS3(ctx, t, s)
			c = fresh(t, s)
			createReady(ctx, t, s, c)
			b := backupOf(s, "empty", v1alpha1.KindEtcdCluster, c.Name, server.Destination("etcd"))
			takeBackup(ctx, t, s, b)
			writeMarks(ctx, t, s, c)
			id = refresh(ctx, t, s, c).Status.ClusterID
			r = restoreOf(s, "wrong", c.Name, b.Name)
			confirmRestore(ctx, t, s, r)
			waitRestored(ctx, t, s, r)
			must(t, harness.WaitReady(ctx, s.Cluster, c, 3*time.Minute))
			image = s.pod(ctx, t, cluster.Pod(c.Name, 0)).Spec.InitContainers[0].Image
		})).
		Assess("without its claims the cluster is deleted", step(func(ctx context.Context, t *testing.T, s *scope) {
			must(t, s.Delete(ctx, c))
			waitRemains(ctx, t, s, c.Name, 3)
		})).
		Assess("each volume gets back what it had", step(func(ctx context.Context, t *testing.T, s *scope) {
			for i := range 3 {
				s.create(ctx, t, backPod(s, cluster.Claim(c.Name, i), image, r.Status.Plan))
			}
			for i := range 3 {
				pod := backPod(s, cluster.Claim(c.Name, i), image, r.Status.Plan)
				must(t, harness.Until(ctx, s.Cluster, pod, harness.Deadline{What: "the volume to have it", Within: 2 * time.Minute}, func(p *corev1.Pod) (bool, string) {
					return p.Status.Phase == corev1.PodSucceeded, string(p.Status.Phase)
				}))
				must(t, s.Delete(ctx, pod))
			}
		})).
		Assess("the cluster has its data again", step(func(ctx context.Context, t *testing.T, s *scope) {
			c = fresh(t, s)
			createReady(ctx, t, s, c)
			checkMarks(ctx, t, s, c)
			if got := refresh(ctx, t, s, c).Status.ClusterID; got != id {
				t.Errorf("it is cluster %s, and was %s", got, id)
			}
		}))
	suite.Test(t, feature.Feature())
}

// backPod is the pod of docs/recovery.md.
func backPod(s *scope, claim, image, plan string) *corev1.Pod {
	const user = 65532
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "back-" + claim},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(user)), RunAsGroup: ptr.To(int64(user)), FSGroup: ptr.To(int64(user)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "back", Image: image, Command: []string{"/agent", "back", "etcd", "--plan=" + plan},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				VolumeMounts:    []corev1.VolumeMount{{Name: "data", MountPath: config.DataMount}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// onVolume lists what is on the volume of a member.
func onVolume(ctx context.Context, t *testing.T, s *scope, pod string) string {
	t.Helper()
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	must(t, s.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "data-" + pod}, claim))
	must(t, s.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume))
	names, err := s.OnNode(ctx, s.pod(ctx, t, pod).Spec.NodeName, "ls", volume.Spec.HostPath.Path)
	must(t, err)
	return names
}
