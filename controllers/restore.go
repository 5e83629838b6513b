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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster"
)

// findLimit is how long it may take to look a backup up.
const findLimit = 10 * time.Minute

// resolved completes a source with what the Backup that it names says of itself. missing says what there is not.
func resolved(ctx context.Context, c *Children, namespace string, from v1alpha1.RestoreSource) (out v1alpha1.RestoreSource, noun, missing string, err error) {
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

// Lookup is where a backup is named that something is to begin with, and how it is looked up.
type Lookup struct {
	// field of the specification that names it, and what that says, nil for none.
	field string
	from  *v1alpha1.RestoreSource
	// job is the name of the Job that looks it up, which runs where the template says.
	job      string
	template *v1alpha1.PodTemplate
	// kind of cluster that is to begin with it, and what else the agent is to know of that.
	kind v1alpha1.ClusterKind
	args []string
}

// bootstrap is what a new cluster begins with.
func bootstrap(o Object, kind v1alpha1.ClusterKind, from *v1alpha1.BootstrapSpec, template *v1alpha1.PodTemplate, args ...string) Lookup {
	return Lookup{
		field: "spec.bootstrap.restore", from: from.RestoreSource(), job: cluster.RestoreJob(o.GetName()), template: template, kind: kind, args: args,
	}
}

// restoreRequest is what there is to know of the backup that something begins with; nil for none.
func restoreRequest(ctx context.Context, c *Children, o Object, r Lookup) (*plan.Wish, error) {
	if r.from == nil || o.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	source, noun, missing, err := resolved(ctx, c, o.GetNamespace(), *r.from)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(source)
	if err != nil {
		return nil, fmt.Errorf("encode the source of a restore: %w", err)
	}
	sum := sha256.Sum256(raw)
	w := &plan.Wish{Field: r.field, Noun: noun, Source: source, Missing: missing, Sum: hex.EncodeToString(sum[:8]), Token: string(o.GetUID())}
	w.Job, err = c.job(ctx, o, r.job, plan.Selector(r.job))
	return w, err
}

// findBackup starts the Job that looks a backup up.
func findBackup(ctx context.Context, c *Children, o Object, r Lookup) error {
	w, err := restoreRequest(ctx, c, o, r)
	if err != nil {
		return err
	}
	if w == nil || w.Missing != "" {
		return cluster.Hold{Reason: plan.ReasonRestoring, Message: "what the cluster begins with has changed meanwhile, and is looked at again"}
	}
	args := append([]string{"backup", "find", "--kind=" + string(r.kind)}, append(r.args, targetArgs(w.Source)...)...)
	return c.startJob(ctx, o, plan.Work{
		Name: r.job, Args: args, For: w.Sum, Destination: *w.Source.Destination, Limit: findLimit,
		Access: &plan.Access{Template: r.template}, Labels: restoreLabels(o, r.job),
	}, r.field+".destination")
}

// restoreLabels are those of a Job of a restore.
func restoreLabels(o Object, job string) map[string]string { return plan.Labels(job, o.GetName()) }

// startJob makes a Job of the agent that belongs to the owner. field is that of the specification which names its destination, empty where
// that is not checked first.
func (c *Children) startJob(ctx context.Context, o Object, w plan.Work, field string) error {
	if field != "" {
		if err := c.checkDestination(ctx, o, field, w.Destination); err != nil {
			return err
		}
	} else if err := c.checkAccount(ctx, o, "spec.destination", w.Destination); err != nil {
		return err
	}
	w.Namespace, w.Image = o.GetNamespace(), c.AgentImage
	var err error
	if w.Owner, err = c.OwnerReference(o); err != nil {
		return err
	}
	job, err := w.Job()
	if err != nil {
		return err
	}
	return c.Apply(ctx, o, &batchv1.Job{ObjectMeta: objectMeta(o, w.Name)}, job)
}

// checkDestination refuses what a pod would wait for without a word: Secrets and a claim that are not there.
func (c *Children) checkDestination(ctx context.Context, o Object, field string, d v1alpha1.BackupDestination) error {
	for sub, ref := range map[string]*v1alpha1.SecretReference{".credentials.name": d.Credentials, ".encryption.name": d.Encryption} {
		if ref == nil {
			continue
		}
		if _, err := c.userSecret(ctx, o, field+sub, ref.Name); err != nil {
			return err
		}
	}
	if err := c.checkAccount(ctx, o, field, d); err != nil {
		return err
	}
	claim, _ := plan.Claim(d.URL)
	if claim == "" {
		return nil
	}
	err := c.Direct.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: claim}, &corev1.PersistentVolumeClaim{})
	if apierrors.IsNotFound(err) {
		return invalid("%s.url: there is no PersistentVolumeClaim %q in namespace %s: create it, or correct the name", field, claim, o.GetNamespace())
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", claim, err)
	}
	return nil
}

// A service account is used only if its owner agreed, see checkAccount.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get

// checkAccount refuses a service account whose owner has not agreed that pods of backups run as it: otherwise whoever may write a resource
// of ours could run pods as every account of the namespace.
func (c *Children) checkAccount(ctx context.Context, o Object, field string, d v1alpha1.BackupDestination) error {
	if d.ServiceAccountName == nil {
		return nil
	}
	name, namespace := *d.ServiceAccountName, o.GetNamespace()
	var account corev1.ServiceAccount
	err := c.Direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &account)
	if apierrors.IsNotFound(err) {
		return invalid("%s.serviceAccountName: there is no ServiceAccount %q in namespace %s: create it, or correct the name", field, name, namespace)
	}
	if err != nil {
		return fmt.Errorf("read ServiceAccount %s: %w", name, err)
	}
	if account.Labels[v1alpha1.LabelBackupAccount] != "true" {
		return invalid("%s.serviceAccountName: ServiceAccount %q does not allow that pods of backups run as it: "+
			"kubectl label serviceaccount --namespace %s %s %s=true", field, name, namespace, name, v1alpha1.LabelBackupAccount)
	}
	return nil
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
