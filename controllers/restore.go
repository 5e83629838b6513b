package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

const (
	// annotationSum tells what a Job was made for.
	annotationSum = "quorate.dev/sum"
	// findLimit is how long it may take to look a backup up.
	findLimit = 10 * time.Minute
)

// resolved completes a source with what the Backup that it names says of itself. missing says what there is not.
func (c *Children) resolved(ctx context.Context, namespace string, from v1alpha1.RestoreSource) (out v1alpha1.RestoreSource, noun, missing string, err error) {
	if from.Backup == nil {
		return from, "the backup in " + from.Destination.URL, "", nil
	}
	noun = "Backup " + *from.Backup
	b := &v1alpha1.Backup{}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: *from.Backup}, b)
	switch {
	case apierrors.IsNotFound(err):
		return from, noun, fmt.Sprintf("there is no %s in the namespace: correct the name, or name the destination and the directory instead", noun), nil
	case err != nil:
		return from, noun, "", fmt.Errorf("read %s: %w", noun, err)
	case !meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete):
		return from, noun, noun + " is not complete: wait until it is, or name another one", nil
	case b.DeletionTimestamp != nil && b.Deletes():
		return from, noun, noun + " is being deleted: name another one", nil
	}
	out = *from.DeepCopy()
	out.Backup, out.Destination, out.Directory = nil, b.Spec.Destination.DeepCopy(), &b.Status.Directory
	return out, noun, "", nil
}

// restoreWish is what the specification says of the backup that a cluster is to begin with which has not been founded; nil for none.
func (k *EtcdKind) restoreWish(ctx context.Context, o *v1alpha1.EtcdCluster) (*etcd.RestoreWish, error) {
	from := o.Spec.Bootstrap.RestoreSource()
	if from == nil || o.DeletionTimestamp != nil {
		return nil, nil
	}
	source, noun, missing, err := k.resolved(ctx, o.Namespace, *from)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(source)
	if err != nil {
		return nil, fmt.Errorf("encode the source of a restore: %w", err)
	}
	sum := sha256.Sum256(raw)
	w := &etcd.RestoreWish{Noun: noun, Source: source, Missing: missing, Sum: hex.EncodeToString(sum[:8]), Token: string(o.UID)}
	name := cluster.RestoreJob(o.Name)
	if w.Job, err = k.job(ctx, o, name, plan.Selector(name)); err != nil || w.Job == nil {
		return w, err
	}
	job := &batchv1.Job{}
	if err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, job); err != nil {
		return w, fmt.Errorf("read Job %s: %w", name, err)
	}
	w.For = job.Annotations[annotationSum]
	return w, nil
}

// findBackup starts the Job that looks a backup up.
func (k *EtcdKind) findBackup(ctx context.Context, o *v1alpha1.EtcdCluster) error {
	w, err := k.restoreWish(ctx, o)
	if err != nil {
		return err
	}
	if w == nil || w.Missing != "" {
		return cluster.Hold{Reason: etcd.ReasonRestoring, Message: "what the cluster begins with has changed meanwhile, and is looked at again"}
	}
	name := cluster.RestoreJob(o.Name)
	work := plan.Work{
		Name: name, Namespace: o.Namespace, Labels: plan.Labels(name, o.Name), Image: k.AgentImage, Limit: findLimit,
		Args:        append([]string{"backup", "find", "--kind=" + string(v1alpha1.KindEtcdCluster)}, targetArgs(w.Source)...),
		Destination: *w.Source.Destination, Access: &plan.Access{Template: o.Spec.Template},
	}
	if work.Owner, err = k.OwnerReference(o); err != nil {
		return err
	}
	job, err := work.Job()
	if err != nil {
		return err
	}
	job.WithAnnotations(map[string]string{annotationSum: w.Sum})
	return k.Apply(ctx, o, &batchv1.Job{ObjectMeta: objectMeta(o, name)}, job)
}

// targetArgs name to the agent the backup, and what of it is wanted.
func targetArgs(from v1alpha1.RestoreSource) []string {
	var args []string
	if from.Directory != nil {
		args = append(args, "--directory="+*from.Directory)
	}
	if from.Revision != nil {
		args = append(args, "--revision="+strconv.FormatInt(*from.Revision, 10))
	}
	if from.Time != nil {
		args = append(args, "--time="+from.Time.UTC().Format(time.RFC3339))
	}
	return args
}
