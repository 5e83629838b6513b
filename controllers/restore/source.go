package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// findLimit is how long it may take to look a backup up.
const findLimit = 10 * time.Minute

// Resolve completes a source with what the Backup that it names says of itself. missing says what there is not.
func Resolve(ctx context.Context, c *owned.Client, namespace string, from v1alpha1.RestoreSource) (out v1alpha1.RestoreSource, noun, missing string, err error) {
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
	Template *v1alpha1.PodTemplate
	// kind of cluster that is to begin with it, and what else the agent is to know of that.
	kind v1alpha1.ClusterKind
	Args []string
}

// Bootstrap is what a new cluster begins with.
func Bootstrap(o owned.Owner, kind v1alpha1.ClusterKind, from *v1alpha1.BootstrapSpec, template *v1alpha1.PodTemplate, args ...string) Lookup {
	return Lookup{
		field: "spec.bootstrap.restore", from: from.RestoreSource(), job: cluster.RestoreJob(o.GetName()), Template: template, kind: kind, Args: args,
	}
}

// Request is what there is to know of the backup that something begins with; nil for none.
func Request(ctx context.Context, c *owned.Client, o owned.Owner, r Lookup) (*planner.RestoreRequest, error) {
	if r.from == nil || o.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	source, noun, missing, err := Resolve(ctx, c, o.GetNamespace(), *r.from)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(source)
	if err != nil {
		return nil, fmt.Errorf("encode the source of a restore: %w", err)
	}
	sum := sha256.Sum256(raw)
	w := &planner.RestoreRequest{Field: r.field, Noun: noun, Source: source, Missing: missing, Sum: hex.EncodeToString(sum[:8]), Token: string(o.GetUID())}
	w.Job, err = c.Job(ctx, o, r.job, job.Selector(r.job))
	return w, err
}

// FindBackup starts the Job that looks a backup up.
func FindBackup(ctx context.Context, c *owned.Client, o owned.Owner, r Lookup) error {
	w, err := Request(ctx, c, o, r)
	if err != nil {
		return err
	}
	if w == nil || w.Missing != "" {
		return cluster.Hold{Reason: planner.ReasonRestoring, Message: "what the cluster begins with has changed meanwhile, and is looked at again"}
	}
	args := append([]string{"backup", "find", "--kind=" + string(r.kind)}, append(r.Args, targetArgs(w.Source)...)...)
	return c.StartJob(ctx, o, job.Work{
		Name: r.job, Args: args, For: w.Sum, Destination: *w.Source.Destination, Limit: findLimit,
		Access: &job.Access{Template: r.Template}, Labels: JobLabels(o, r.job),
	}, r.field+".destination")
}

// JobLabels are those of a Job of a restore.
func JobLabels(o owned.Owner, name string) map[string]string { return job.Labels(name, o.GetName()) }

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
