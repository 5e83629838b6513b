package rediscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/backup"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// awaitBackups holds until no backup of the cluster is being taken, before everything is replaced: it would have a part of both. From now on
// none is begun: see plan.Resume. One that has not begun is waited for as well, until its Backup has dropped its Job.
func (k *Reconciler) awaitBackups(ctx context.Context, o *v1alpha1.RedisCluster, s steps.LoadBackup) error {
	if !s.Replaces() {
		return nil
	}
	takes, err := k.takes(ctx, k.Direct, o.Namespace, o.Name)
	if err != nil || len(takes) == 0 {
		return err
	}
	return cluster.Hold{Reason: planner.ReasonRestoring, Message: "Backup " + takes[0].backup.Name + " is being taken, and would find a part of the data: wait until it is complete, or delete it"}
}

// take is a Job that takes a backup and has not ended. Of a Backup that is gone there is the name.
type take struct {
	backup    *v1alpha1.Backup
	suspended bool
}

// What is being taken of a cluster whose data is about to be replaced is looked for past the cache.
// +kubebuilder:rbac:groups=quorate.dev,resources=backups,verbs=get

// takes are the Jobs that take backups of a cluster. A Backup that was deleted may be gone before its Job is, which runs all the same.
func (k *Reconciler) takes(ctx context.Context, r client.Reader, namespace, name string) (out []take, err error) {
	labels := client.MatchingLabels{cluster.LabelPartOf: name, cluster.LabelComponent: v1alpha1.ComponentBackup, cluster.LabelManagedBy: cluster.ManagedBy}
	var jobs batchv1.JobList
	if err := r.List(ctx, &jobs, client.InNamespace(namespace), labels); err != nil {
		return nil, fmt.Errorf("list Jobs: %w", err)
	}
	of := v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: name}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		backup, takes := strings.CutSuffix(job.Name, backup.TakeSuffix)
		state := owned.JobState(job, nil, k.Now())
		if !takes || state.Ended {
			continue
		}
		b := &v1alpha1.Backup{}
		err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: backup}, b)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read Backup %s: %w", backup, err)
		}
		if err != nil || !metav1.IsControlledBy(job, b) {
			b = &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: backup}, Spec: v1alpha1.BackupSpec{Cluster: of}} // Of which cluster of the name nobody knows.
		}
		if b.Spec.External == nil && b.Spec.Cluster == of {
			out = append(out, take{b, state.Suspended})
		}
	}
	return out, nil
}

// Engine is the word of the agent for what it backs up.
func (k *Reconciler) Engine() string { return v1alpha1.ComponentRedis }

// ServerImage is what a check of a backup runs in.
func (k *Reconciler) ServerImage(ctx context.Context, namespace, name string, of job.Stored) (string, error) {
	o, engine := &v1alpha1.RedisCluster{}, v1alpha1.RedisEngine(of.Engine)
	err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return manifests.CheckImage(nil, engine, of.Version, k.Registry), nil
	}
	if err != nil {
		return "", fmt.Errorf("read RedisCluster %s: %w", name, err)
	}
	return manifests.CheckImage(o, engine, of.Version, k.Registry), nil
}

// access is how a Job gets at the servers, those that are to leave included: they may have slots. It needs to know the authority of their
// certificates, and the operator's passwords.
func (k *Reconciler) access(ctx context.Context, o *v1alpha1.RedisCluster) (*job.Access, error) {
	sizes, err := k.shardSizes(ctx, o)
	if err != nil {
		return nil, err
	}
	a := &job.Access{
		Template: o.Spec.Template, AuthSecret: cluster.AuthSecret(o.Name),
		TLSSecret: owned.TLSSecret(o.Spec.TLS, cluster.ServerTLSSecret(o.Name)), TLSKeys: []string{owned.CAKey},
		Streams: len(sizes),
	}
	if o.Spec.IsReplicated() {
		a.Stream = append(a.Stream, "--replicated")
	}
	for _, shard := range slices.Sorted(maps.Keys(sizes)) {
		for ordinal := range sizes[shard] {
			host := cluster.PodHost(cluster.Pod(cluster.ShardSet(o.Name, shard), ordinal), o.Name, o.Namespace, k.Domain)
			a.Stream = append(a.Stream, "--server="+strconv.Itoa(shard)+"/"+host+":"+strconv.Itoa(model.ClientPort))
		}
	}
	a.Args = append([]string{"--engine=" + string(o.Spec.ServerEngine()), "--version=" + o.Spec.Version}, a.Stream...)
	return a, nil
}

// Replaced says that a backup is being put into the cluster, or will be as soon as what there is was saved. What is saved for that is not held up,
// and nobody else may be in its way: a copy that is begun meanwhile would hold up the restore until what was saved is too old.
func (k *Reconciler) Replaced(ctx context.Context, b *v1alpha1.Backup) (string, error) {
	o, name := &v1alpha1.RedisCluster{}, b.Spec.Cluster.Name
	if err := k.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, o); err != nil {
		return "", fmt.Errorf("read RedisCluster %s: %w", name, err)
	}
	record, err := k.readRestoreBy(ctx, k.Direct, o)
	if err != nil {
		return "", err
	}
	if record != nil && record.Restored == nil {
		return "it is being restored itself", nil
	}
	r, err := restore.Approved(ctx, k.Client, o, v1alpha1.KindRedisCluster)
	if r == nil || err != nil || !r.SavesCurrent() || restore.SavedFor(b, r.Restore) {
		return "", err
	}
	last, _, err := restore.Saved(ctx, k.Client, r.Restore, string(o.UID))
	if err != nil || last.Hopeless() {
		return "", err
	}
	return "Restore " + r.Name + " is confirmed, which saves what there is and replaces it: this one begins afterwards, or when that Restore is deleted", nil
}

// Source says of a cluster whether it can be backed up, and how a Job gets at it; nil when there is none of that name.
func (k *Reconciler) Source(ctx context.Context, namespace, name string) (*planner.Source, *job.Access, error) {
	o := &v1alpha1.RedisCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read RedisCluster %s: %w", name, err)
	}
	source := &planner.Source{Noun: "RedisCluster " + name, Leaving: o.DeletionTimestamp != nil}
	started, err := k.started(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	restore, err := k.observeRestore(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case !started:
		source.Missing = "its servers have not been started yet"
	case restore != nil:
		source.Missing = "it is being restored itself"
	}
	access, err := k.access(ctx, o)
	return source, access, err
}

// beingBackedUp says that a backup of the cluster is being taken, which would find a part of the data; empty when there is none. The one of what
// there is before is waited for elsewhere, and one that has not begun waits itself, see Replaced.
func (k *Reconciler) beingBackedUp(ctx context.Context, r *v1alpha1.Restore) (string, error) {
	takes, err := k.takes(ctx, k, r.Namespace, r.Spec.Cluster.Name)
	for _, t := range takes {
		if !t.suspended && !restore.SavedFor(t.backup, r) {
			return "Backup " + t.backup.Name + " of it is being taken: wait until it is complete, or delete it", nil
		}
	}
	return "", err
}

// Readers returns the clusters of a namespace that have yet to be restored, and from what.
func (k *Reconciler) Readers(ctx context.Context, namespace string) (out []backup.Reader, err error) {
	var list v1alpha1.RedisClusterList
	if err := k.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Redis clusters: %w", err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		from, err := k.readRestore(ctx, o)
		if err != nil {
			return nil, err
		}
		if from != nil && from.Restored == nil {
			out = append(out, backup.Reader{Name: "RedisCluster " + o.Name, From: &v1alpha1.RestoreSource{Destination: &from.Destination, Directory: &from.Directory}})
		}
	}
	return out, nil
}
