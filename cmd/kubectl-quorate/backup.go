package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

const backupHelp = `Take a backup of a cluster: make a Backup resource, and with --wait follow it to its end.

Without --destination it goes where the BackupSchedule of the cluster keeps its backups. The credentials and the keys are
those of that schedule then.`

const backupExamples = `  kubectl quorate backup etcdcluster/orders --wait
  kubectl quorate backup rediscluster/carts --destination 's3://backups/carts?region=eu-west-1' --credentials s3 --verify --wait`

// destinationFlags name where backups are.
type destinationFlags struct{ url, credentials, encryption, account string }

func (f *destinationFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "destination", "", "where backups are kept: s3://, gs://, azblob:// or pvc://claim/directory")
	flags.StringVar(&f.credentials, "credentials", "", "Secret with the credentials of the destination")
	flags.StringVar(&f.encryption, "encryption", "", "Secret with the age keys that backups are encrypted with")
	flags.StringVar(&f.account, "service-account", "", "service account of the pods that read and write there")
}

// destination is nil when none is named.
func (f *destinationFlags) destination() (*v1alpha1.BackupDestination, error) {
	if f.url == "" {
		if f.credentials+f.encryption+f.account != "" {
			return nil, errors.New("--credentials, --encryption and --service-account belong to --destination: name that too")
		}
		return nil, nil
	}
	d := &v1alpha1.BackupDestination{URL: f.url}
	if f.credentials != "" {
		d.Credentials = &v1alpha1.SecretReference{Name: f.credentials}
	}
	if f.encryption != "" {
		d.Encryption = &v1alpha1.SecretReference{Name: f.encryption}
	}
	if f.account != "" {
		d.ServiceAccountName = &f.account
	}
	return d, nil
}

// backupOptions are the flags of backup.
type backupOptions struct {
	destinationFlags
	name         string
	verify, wait bool
	limit        time.Duration
}

func newBackup(s *session) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use: "backup kind/name", Short: "Take a backup of a cluster", Long: backupHelp, Example: backupExamples,
		Args: oneCluster, ValidArgsFunction: s.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := limited(cmd.Context(), o.limit)
			defer cancel()
			return s.backup(ctx, args[0], o)
		},
	}
	o.bind(cmd)
	cmd.Flags().StringVar(&o.name, "name", "", "name of the Backup; default: the cluster's with the time")
	cmd.Flags().BoolVar(&o.verify, "verify", false, "read it back, restore it into a throw-away server and check it")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow it until it is complete, and with --verify checked")
	cmd.Flags().DurationVar(&o.limit, "timeout", 0, "how long to wait at most; 0: without end")
	return cmd
}

func (s *session) backup(ctx context.Context, arg string, o backupOptions) error {
	c, found, err := s.cluster(ctx, arg)
	if err != nil {
		return err
	}
	ns, ref := found.GetNamespace(), v1alpha1.ClusterReference{Kind: kindOf(found), Name: found.GetName()}
	b := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: cmp.Or(o.name, timedName(ref.Name, s.now()))},
		Spec:       v1alpha1.BackupSpec{Cluster: ref},
	}
	to, err := o.destination()
	if err != nil {
		return err
	}
	if to == nil {
		if to, err = scheduled(ctx, c, ns, ref); err != nil {
			return err
		}
	}
	b.Spec.Destination = *to
	if o.verify {
		b.Spec.Verify = ptr.To(true)
	}
	if err := c.Create(ctx, b); err != nil {
		return created(b, err)
	}
	s.say("Backup %s made: it goes to %s", b.Name, to.URL)
	if !o.wait {
		s.say("  kubectl -n %s get backup %s -o wide   shows how far it is", ns, b.Name)
		return nil
	}
	return s.followBackup(ctx, c, b)
}

// created explains why an object could not be made.
func created(o client.Object, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("there is a %T named %s already: choose another name with --name", o, o.GetName())
	}
	return fmt.Errorf("make %s: %w", o.GetName(), err)
}

// maxTimed is how long the name of what is made of a cluster may be: that of a Restore may have 48 letters, and that of a Backup more.
const maxTimed = 48

// timedName is a name with a time, short enough for whatever is made of a cluster.
func timedName(name string, at time.Time) string {
	suffix := stamp(at)
	return strings.TrimRight(name[:min(len(name), maxTimed-len(suffix))], "-") + suffix
}

func stamp(at time.Time) string { return at.UTC().Format("-20060102-150405") }

// scheduled is where the schedules of a cluster keep its backups, if that is one place.
func scheduled(ctx context.Context, c client.Reader, ns string, ref v1alpha1.ClusterReference) (*v1alpha1.BackupDestination, error) {
	var list v1alpha1.BackupScheduleList
	if err := c.List(ctx, &list, client.InNamespace(ns)); err != nil {
		return nil, fmt.Errorf("list BackupSchedules: %w", err)
	}
	var found []v1alpha1.BackupDestination
	var urls []string
	for _, schedule := range list.Items {
		if schedule.Spec.Cluster == ref && !slices.Contains(urls, schedule.Spec.Destination.URL) {
			found, urls = append(found, schedule.Spec.Destination), append(urls, schedule.Spec.Destination.URL)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no BackupSchedule of %s %s says where its backups go: name a place with --destination", ref.Kind, ref.Name)
	case 1:
		return &found[0], nil
	}
	return nil, fmt.Errorf("the BackupSchedules of %s %s keep backups in several places: choose one with --destination (%s)", ref.Kind, ref.Name, strings.Join(urls, ", "))
}

// followBackup waits until a backup is stored, and checked where that was asked for.
func (s *session) followBackup(ctx context.Context, c client.WithWatch, b *v1alpha1.Backup) error {
	err := s.follow(ctx, c, &v1alpha1.BackupList{}, client.ObjectKeyFromObject(b), func(seen client.Object) (string, bool, error) {
		now, ok := seen.(*v1alpha1.Backup)
		if !ok {
			return "", false, nil
		}
		*b = *now
		if err := stalled(now, now.Status.Conditions); err != nil {
			return "", false, err
		}
		done := holds(now, now.Status.Conditions, v1alpha1.ConditionComplete) &&
			(!now.Verifies() || holds(now, now.Status.Conditions, v1alpha1.ConditionVerified))
		return now.Status.Activity, done, nil
	})
	if err != nil {
		return fmt.Errorf("backup %s: %w", b.Name, err)
	}
	_, err = fmt.Fprintln(s.out, backupResult(b))
	return err
}

// backupResult is what came of a backup.
func backupResult(b *v1alpha1.Backup) string {
	st := b.Status
	text := fmt.Sprintf("Backup %s is complete: %s, %s stored as %s in %s", b.Name, st.Engine, sizeWords(st.Size), sizeWords(st.StoredSize), st.Directory)
	if st.StartTime != nil && st.CompletionTime != nil {
		text += fmt.Sprintf(", in %s", st.CompletionTime.Sub(st.StartTime.Time).Round(time.Second))
	}
	if v := st.Verification; v != nil {
		text += fmt.Sprintf("; checked: %d keys", v.Keys)
		if v.Server != "" {
			text += " on a server of " + v.Server
		}
	}
	return text
}
