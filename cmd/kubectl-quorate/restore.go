package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/goroutine"
)

const restoreHelp = `Put a backup into a cluster that exists: make a Restore resource, show its plan, and ask for confirmation.

Nothing is changed before the plan is confirmed: type its name when you are asked for it. In a script run the command
twice: the first run looks the backup up and prints the plan, the second one, with the same --name, confirms it with
--confirm. A plan is of one Restore, one backup and one cluster: what is confirmed is what was read.`

const restoreExamples = `  kubectl quorate restore etcdcluster/orders --backup orders-20260501-100000
  kubectl quorate restore rediscluster/carts --destination 's3://backups/carts?region=eu-west-1' --credentials s3 --directory carts-20260501T030000Z-1b9d6bcd
  kubectl quorate restore rediscluster/carts --backup nightly --slots Lost
  kubectl quorate restore etcdcluster/orders --backup nightly --name back && kubectl quorate restore etcdcluster/orders --name back --confirm 1a2b3c`

// restoreOptions are the flags of restore.
type restoreOptions struct {
	destinationFlags
	name, backup, directory, at, slots, confirm string
	revision                                    int64
	unsaved                                     bool
	limit                                       time.Duration
}

func newRestore(s *session) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use: "restore kind/name", Short: "Put a backup into a cluster that exists, after its plan was confirmed", Long: restoreHelp, Example: restoreExamples,
		Args: oneCluster, ValidArgsFunction: s.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := limited(cmd.Context(), o.limit)
			defer cancel()
			return s.restore(ctx, args[0], o)
		},
	}
	o.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "name of the Restore; one that exists is gone on with. Default: the cluster's with the time")
	flags.StringVar(&o.backup, "backup", "", "Backup of the namespace to restore")
	flags.StringVar(&o.directory, "directory", "", "directory of the backup below the destination; default: the newest that fits")
	flags.StringVar(&o.at, "time", "", "moment to restore, as 2026-05-01T10:00:00Z, of an EtcdCluster: exactly, with the changes that were recorded")
	flags.Int64Var(&o.revision, "revision", 0, "revision of etcd to restore")
	flags.StringVar(&o.slots, "slots", "", "All or Lost: of a RedisCluster only the slots of shards that are lost")
	flags.BoolVar(&o.unsaved, "no-save-current", false, "take no Backup of what a RedisCluster has before that is replaced")
	flags.StringVar(&o.confirm, "confirm", "", "the plan to confirm, as an earlier run has shown it")
	flags.DurationVar(&o.limit, "timeout", 0, "how long to wait at most; 0: without end")
	var backups v1alpha1.BackupList
	must(cmd.RegisterFlagCompletionFunc("backup", s.completeList(&backups, func() (out []string) {
		for _, b := range backups.Items {
			out = append(out, b.Name)
		}
		return out
	})))
	must(cmd.RegisterFlagCompletionFunc("slots", cobra.FixedCompletions([]string{"All", "Lost"}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func (s *session) restore(ctx context.Context, arg string, o restoreOptions) error {
	ref, err := parseName(arg)
	if err != nil {
		return err
	}
	if o.confirm != "" && o.name == "" {
		return errors.New("--confirm is of a Restore that exists: name it with --name, as the run that showed the plan has said")
	}
	c, ns, err := s.client()
	if err != nil {
		return err
	}
	r, err := s.restoreOf(ctx, c, ns, ref, o)
	if err != nil {
		return err
	}
	if err := s.followRestore(ctx, c, r, func() bool { return asks(r) || under(r) }); err != nil {
		return err
	}
	if holds(r, r.Status.Conditions, v1alpha1.ConditionComplete) {
		_, err := fmt.Fprintln(s.out, restoreResult(r))
		return err
	}
	if asks(r) {
		confirmed, err := s.confirm(ctx, r, o)
		if err != nil || !confirmed {
			return err
		}
		before := r.DeepCopy()
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationConfirm, r.Status.Plan)
		if err := c.Patch(ctx, r, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("confirm Restore %s: %w", r.Name, err)
		}
	}
	err = s.followRestore(ctx, c, r, func() bool { return holds(r, r.Status.Conditions, v1alpha1.ConditionComplete) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, restoreResult(r))
	return err
}

// restoreOf is the Restore that exists, or a new one.
func (s *session) restoreOf(ctx context.Context, c client.Client, ns string, ref v1alpha1.ClusterReference, o restoreOptions) (*v1alpha1.Restore, error) {
	r := &v1alpha1.Restore{}
	if o.name != "" {
		err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: o.name}, r)
		switch {
		case err == nil && r.Spec.Cluster != ref:
			return nil, fmt.Errorf("the Restore %s is of %s %s: name that cluster, or choose another --name", o.name, r.Spec.Cluster.Kind, r.Spec.Cluster.Name)
		case err == nil:
			return r, nil
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read Restore %s: %w", o.name, err)
		case o.confirm != "":
			return nil, fmt.Errorf("there is no Restore %s in namespace %s: run the command without --confirm first, which makes it and shows its plan", o.name, ns)
		}
	}
	if _, err := getCluster(ctx, c, ns, ref); err != nil {
		return nil, err
	}
	spec, err := o.spec(ref)
	if err != nil {
		return nil, err
	}
	r = &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: cmp.Or(o.name, timedName(ref.Name, s.now()))}, Spec: spec}
	if err := c.Create(ctx, r); err != nil {
		return nil, created(r, err)
	}
	s.say("Restore %s made: the backup is looked up, nothing is changed yet", r.Name)
	return r, nil
}

func (o *restoreOptions) spec(ref v1alpha1.ClusterReference) (v1alpha1.RestoreSpec, error) {
	spec := v1alpha1.RestoreSpec{Cluster: ref}
	var err error
	if spec.From.Destination, err = o.destination(); err != nil {
		return spec, err
	}
	if (o.backup == "") == (spec.From.Destination == nil) {
		return spec, errors.New("name the backup with --backup, or the place with --destination, and not both")
	}
	if o.backup != "" {
		spec.From.Backup = &o.backup
	}
	if o.directory != "" {
		spec.From.Directory = &o.directory
	}
	if o.revision != 0 {
		spec.From.Revision = &o.revision
	}
	if o.at != "" {
		at, err := time.Parse(time.RFC3339, o.at)
		if err != nil {
			return spec, fmt.Errorf("--time %s: write it as 2026-05-01T10:00:00Z", o.at)
		}
		spec.From.Time = &metav1.Time{Time: at}
	}
	if o.slots != "" {
		spec.Slots = ptr.To(v1alpha1.RestoreSlots(o.slots))
	}
	if o.unsaved {
		spec.SaveCurrent = ptr.To(false)
	}
	return spec, nil
}

// followRestore waits until done, which is asked whenever r has changed.
func (s *session) followRestore(ctx context.Context, c client.WithWatch, r *v1alpha1.Restore, done func() bool) error {
	err := s.follow(ctx, c, &v1alpha1.RestoreList{}, client.ObjectKeyFromObject(r), func(seen client.Object) (string, bool, error) {
		now, ok := seen.(*v1alpha1.Restore)
		if !ok {
			return "", false, nil
		}
		*r = *now
		if done() {
			return "", true, nil
		}
		if reasonOf(now) == planner.ReasonUnconfirmed {
			return "", false, nil // It has not seen the confirmation yet.
		}
		return now.Status.Activity, false, stalled(now, now.Status.Conditions)
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", r.Name, err)
	}
	return nil
}

// reasonOf is why a Restore does not go on, or what it does.
func reasonOf(r *v1alpha1.Restore) string {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReconciling)
	if c == nil {
		return ""
	}
	return c.Reason
}

// asks reports whether a Restore waits for a confirmation that it has not been given.
func asks(r *v1alpha1.Restore) bool {
	return reasonOf(r) == planner.ReasonUnconfirmed && r.Status.Plan != "" && r.Annotations[v1alpha1.AnnotationConfirm] != r.Status.Plan
}

// under reports whether a Restore is confirmed, or done.
func under(r *v1alpha1.Restore) bool {
	return holds(r, r.Status.Conditions, v1alpha1.ConditionConfirmed) || holds(r, r.Status.Conditions, v1alpha1.ConditionComplete) ||
		(r.Status.Plan != "" && r.Annotations[v1alpha1.AnnotationConfirm] == r.Status.Plan)
}

// confirm shows the plan and reports whether it is confirmed.
func (s *session) confirm(ctx context.Context, r *v1alpha1.Restore, o restoreOptions) (bool, error) {
	if _, err := fmt.Fprint(s.out, restorePlan(r)); err != nil {
		return false, err
	}
	if o.confirm != "" {
		if o.confirm != r.Status.Plan {
			return false, fmt.Errorf("--confirm %s: the plan is %s now: read it, and confirm that", o.confirm, r.Status.Plan)
		}
		return true, nil
	}
	again := fmt.Sprintf("kubectl quorate restore %s/%s -n %s --name %s --confirm %s",
		strings.ToLower(string(r.Spec.Cluster.Kind)), r.Spec.Cluster.Name, r.Namespace, r.Name, r.Status.Plan)
	if !s.typed {
		s.say("nothing is changed. To carry it out:\n  %s", again)
		return false, nil
	}
	_, _ = fmt.Fprintf(s.err, "Type %s to carry it out: ", r.Status.Plan)
	line, err := s.readLine(ctx)
	if err != nil {
		return false, fmt.Errorf("nothing is changed: read the confirmation: %w", err)
	}
	if line != r.Status.Plan {
		s.say("nothing is changed. To carry it out later:\n  %s", again)
		return false, nil
	}
	return true, nil
}

// readLine is what the person types next, without space around it. It is waited for no longer than ctx lasts; what is typed later is lost.
func (s *session) readLine(ctx context.Context) (string, error) {
	line, typed := "", make(chan error, 1)
	goroutine.Go(func() (err error) { // Nothing ends a read from a terminal but the person, or the end of the plugin.
		line, err = bufio.NewReader(s.in).ReadString('\n')
		return err
	}, func(err error) { typed <- err })
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case err := <-typed:
		if line == "" {
			return "", err
		}
		return strings.TrimSpace(line), nil
	}
}

// restorePlan is what is to be confirmed.
func restorePlan(r *v1alpha1.Restore) string {
	b := &strings.Builder{}
	_, _ = fmt.Fprintf(b, "Plan %s of Restore %s for %s %s\n", r.Status.Plan, r.Name, r.Spec.Cluster.Kind, r.Spec.Cluster.Name)
	if f := r.Status.Found; f != nil {
		_, _ = fmt.Fprintf(b, "  backup  %s of %s, %s, %s\n", f.Directory, f.Time.UTC().Format(time.RFC3339), f.Engine, sizeWords(f.Size))
		if f.Revision > 0 {
			_, _ = fmt.Fprintf(b, "  data    revision %d\n", max(f.Revision, f.Target))
		}
		if f.Keys > 0 {
			_, _ = fmt.Fprintf(b, "  data    %d keys of %d shards\n", f.Keys, f.Shards)
		}
	}
	_, _ = fmt.Fprintf(b, "  says    %s\n", r.Status.Activity)
	return b.String()
}

// restoreResult is what came of a restore.
func restoreResult(r *v1alpha1.Restore) string {
	text := fmt.Sprintf("%s %s is restored", r.Spec.Cluster.Kind, r.Spec.Cluster.Name)
	if r.Status.Revision > 0 {
		text += fmt.Sprintf(": revision %d", r.Status.Revision)
	}
	if r.Status.Keys > 0 {
		text += fmt.Sprintf(": %d keys", r.Status.Keys)
	}
	if r.Status.SavedAs != "" {
		text += "; what it had before is Backup " + r.Status.SavedAs
	}
	return text
}
