package controllers

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;patch

// observeSnapshot looks for the Job of a snapshot while another version is wanted.
func (k *EtcdKind) observeSnapshot(ctx context.Context, o *v1alpha1.EtcdCluster, s *etcd.State) error {
	if s.Record.Version == s.Want.Version {
		return nil
	}
	job := &batchv1.Job{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.Snapshot(o.Name)}, job)
	if apierrors.IsNotFound(err) || (err == nil && !metav1.IsControlledBy(job, o)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Job of the snapshot: %w", err)
	}
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(o.Namespace), client.MatchingLabels(etcd.SnapshotSelector(o.Name))); err != nil {
		return fmt.Errorf("list the pods of the snapshot: %w", err)
	}
	s.SnapshotJob = k.snapshotJob(job, pods.Items)
	return nil
}

// snapshotJob is what the API server says of a Job and its pods.
func (k *EtcdKind) snapshotJob(job *batchv1.Job, pods []corev1.Pod) *etcd.SnapshotJob {
	out := &etcd.SnapshotJob{
		Name: job.Name, UID: string(job.UID), Leaving: job.DeletionTimestamp != nil, Age: k.Now().Sub(job.CreationTimestamp.Time),
	}
	out.From, _ = etcd.ParseVersion(job.Annotations[v1alpha1.AnnotationVersion])      // Zero for one that was made by hand:
	out.For, _ = etcd.ParseVersion(job.Annotations[v1alpha1.AnnotationTargetVersion]) // it is for another change.
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, job) })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range pods {
		out.Report, out.Problem = lastAttempt(&pods[i])
	}
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type { // The others are on the way to these two.
		case batchv1.JobComplete:
			out.Ended = c.LastTransitionTime.Time
		case batchv1.JobFailed:
			out.Ended, out.Failed = c.LastTransitionTime.Time, c.Message
			if out.Problem != "" {
				out.Failed = out.Problem
			}
		}
	}
	return out
}

// lastAttempt is what a pod of the Job says at its end, or what keeps it from running.
func lastAttempt(p *corev1.Pod) (*etcd.SnapshotReport, string) {
	c := containerStatus(p.Status.ContainerStatuses, etcd.ContainerSnapshot)
	t := c.State.Terminated
	if t == nil {
		return nil, stuck(p)
	}
	if r, ok := etcd.ParseSnapshotReport(t.Message); ok && t.ExitCode == 0 {
		return &r, ""
	}
	return nil, lastWords(c)
}

// takeSnapshot makes the claim that snapshots are kept on, and the Job that takes one.
func (k *EtcdKind) takeSnapshot(ctx context.Context, o *v1alpha1.EtcdCluster, step etcd.TakeSnapshot) error {
	if _, _, err := k.unmoved(ctx, o); err != nil {
		return err
	}
	b, err := k.blueprint(ctx, o)
	if err != nil {
		return err
	}
	if b.Storage == nil {
		return nil // It was decided on another cluster.
	}
	secret := ""
	if b.Reach().Secure {
		secret = TLSSecret(b.Cluster.Spec.TLS, cluster.OperatorTLSSecret(o.Name))
	}
	job, err := b.SnapshotJob(step, secret)
	if err != nil {
		return err
	}
	if err := k.makeSnapshotClaim(ctx, o, b); err != nil {
		return noSnapshot(err)
	}
	return noSnapshot(k.Apply(ctx, o, &batchv1.Job{ObjectMeta: objectMeta(o, cluster.Snapshot(o.Name))}, job))
}

// noSnapshot refuses what only a human can allow, such as more than a quota of the namespace.
func noSnapshot(err error) error {
	if apierrors.IsForbidden(err) {
		return cluster.Refusal{Reason: etcd.ReasonSnapshotFailed, Message: etcd.SnapshotRefused(err)}
	}
	return err
}

// makeSnapshotClaim makes the claim where there is none. One that was retained has its snapshots, and stays as it is.
func (k *EtcdKind) makeSnapshotClaim(ctx context.Context, o *v1alpha1.EtcdCluster, b etcd.Blueprint) error {
	claim := &corev1.PersistentVolumeClaim{}
	name := cluster.Snapshot(o.Name)
	err := k.Direct.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		err = k.Client.Apply(ctx, b.SnapshotClaim(), client.FieldOwner(cluster.ManagedBy), client.ForceOwnership)
		if err != nil {
			return applyError("PersistentVolumeClaim "+o.Namespace+"/"+name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	if !snapshotClaimOf(o, claim) {
		return ownedBy(o, claim, "PersistentVolumeClaim "+o.Namespace+"/"+name)
	}
	return nil
}

// snapshotClaimOf reports whether a claim holds the snapshots of a cluster of this name, and stays.
func snapshotClaimOf(o *v1alpha1.EtcdCluster, claim *corev1.PersistentVolumeClaim) bool {
	ours := claim.Labels[cluster.LabelPartOf] == o.Name && claim.Labels[cluster.LabelManagedBy] == cluster.ManagedBy &&
		claim.Labels[cluster.LabelComponent] == v1alpha1.ComponentEtcdSnapshot
	return ours && claim.DeletionTimestamp == nil && (metav1.GetControllerOf(claim) == nil || metav1.IsControlledBy(claim, o))
}

// keepSnapshots makes the claim of the snapshots, if there is one, go with the cluster or stay, as spec.storage.deletionPolicy says
// by now.
func (k *EtcdKind) keepSnapshots(ctx context.Context, o *v1alpha1.EtcdCluster, b etcd.Blueprint) error {
	if b.Record.Snapshot.File == "" || b.Storage == nil {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.Snapshot(o.Name)}, claim)
	if apierrors.IsNotFound(err) {
		return nil // Somebody needed the room.
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", cluster.Snapshot(o.Name), err)
	}
	if !snapshotClaimOf(o, claim) || metav1.IsControlledBy(claim, o) != b.KeepsSnapshots() {
		return nil
	}
	next := claim.DeepCopy()
	next.OwnerReferences = nil
	if !b.KeepsSnapshots() {
		if next.OwnerReferences, err = ownerReferences(o, k.Scheme()); err != nil {
			return err
		}
	}
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	if err := k.Patch(ctx, next, patch, client.FieldOwner(cluster.ManagedBy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the owner of claim %s: %w", claim.Name, err)
	}
	return nil
}

func ownerReferences(o *v1alpha1.EtcdCluster, scheme *runtime.Scheme) ([]metav1.OwnerReference, error) {
	owned := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace}}
	if err := controllerutil.SetControllerReference(o, owned, scheme); err != nil {
		return nil, fmt.Errorf("own the claim of the snapshots: %w", err)
	}
	return owned.OwnerReferences, nil
}

// dropSnapshotJob deletes the Job of a snapshot: no two may write to the same claim.
func (k *EtcdKind) dropSnapshotJob(ctx context.Context, o *v1alpha1.EtcdCluster, step etcd.DropSnapshotJob) error {
	return k.dropJob(ctx, o, step.Name, step.UID)
}
