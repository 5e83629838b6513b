package rediscluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
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
	redisplanner "github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// loadLimit is how long it may take to load a backup.
const loadLimit = 24 * time.Hour

// keyRestore is the key of the record of a restore in its ConfigMap.
const keyRestore = "restore"

// readRestore reads the record of a restore, nil when there is none.
func (k *Reconciler) readRestore(ctx context.Context, o *v1alpha1.RedisCluster) (*model.RestoreRecord, error) {
	return k.readRestoreBy(ctx, k, o)
}

func (k *Reconciler) readRestoreBy(ctx context.Context, r client.Reader, o *v1alpha1.RedisCluster) (*model.RestoreRecord, error) {
	cm := &corev1.ConfigMap{}
	name := cluster.RestoreConfig(o.Name)
	err := r.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	if own, err := k.Owns(ctx, o, cm); !own || err != nil {
		return nil, err
	}
	out := &model.RestoreRecord{}
	if err := json.Unmarshal([]byte(cm.Data[keyRestore]), out); err != nil {
		return nil, owned.InvalidSpec("ConfigMap %s is damaged (%v): delete the cluster, and create it again", name, err)
	}
	return out, nil
}

func (k *Reconciler) writeRestore(ctx context.Context, o *v1alpha1.RedisCluster, r model.RestoreRecord) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of a restore: %w", err)
	}
	owner, err := k.OwnerReference(o)
	if err != nil {
		return err
	}
	name := cluster.RestoreConfig(o.Name)
	return k.Apply(ctx, o, &corev1.ConfigMap{ObjectMeta: owned.ObjectMeta(o, name)},
		corev1ac.ConfigMap(name, o.Namespace).WithLabels(manifests.Labels(o)).WithOwnerReferences(owner).WithData(map[string]string{keyRestore: string(raw)}))
}

// observeRestore reads what there is to know of the backup that is being put into a cluster; nil for none.
func (k *Reconciler) observeRestore(ctx context.Context, o *v1alpha1.RedisCluster) (*model.Restore, error) {
	record, err := k.readRestore(ctx, o)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return k.observeWish(ctx, o)
	}
	if record.Restored != nil {
		return nil, nil
	}
	name := cluster.LoadJob(o.Name)
	loading := &planner.Loading{Noun: "backup " + record.Directory}
	if loading.Job, err = k.Job(ctx, o, name, job.Selector(name)); err != nil {
		return nil, err
	}
	return &model.Restore{RestoreRecord: *record, Loading: loading}, nil
}

// observeWish reads what a cluster that has not begun is to begin with.
func (k *Reconciler) observeWish(ctx context.Context, o *v1alpha1.RedisCluster) (*model.Restore, error) {
	if o.Spec.Bootstrap.RestoreSource() == nil {
		return nil, nil
	}
	started, err := k.started(ctx, o)
	if err != nil || started {
		return nil, err // It began without.
	}
	w, err := restore.Request(ctx, k.Client, o, redisBootstrap(o))
	if w == nil || err != nil {
		return nil, err
	}
	return &model.Restore{Wish: w}, nil
}

// observeConfirmed reads which Restore the cluster is to carry out, nil for none. None is begun while the one that was begun last has yet to be
// complete and say so: it would be taken for another one. Whoever wants another backup instead deletes that.
func (k *Reconciler) observeConfirmed(ctx context.Context, o *v1alpha1.RedisCluster) (*model.Confirmed, error) {
	r, err := restore.Approved(ctx, k.Client, o, v1alpha1.KindRedisCluster)
	if r == nil || err != nil {
		return nil, err
	}
	record, err := k.readRestore(ctx, o)
	if err != nil {
		return nil, err
	}
	if record != nil {
		open, err := restore.Unfinished(ctx, k, o.Namespace, v1alpha1.KindRedisCluster, o.Name)
		if err != nil || slices.ContainsFunc(open, func(r v1alpha1.Restore) bool { return string(r.UID) == record.Token }) {
			return nil, err
		}
	}
	_, loss, _ := strings.Cut(r.Status.Scope, " ")
	c := &model.Confirmed{Noun: "Restore " + r.Name, Lost: r.OnlyLost(), Loss: loss, Saves: r.SavesCurrent(), RestoreRecord: model.RestoreRecord{
		Destination: r.Destination, Directory: r.Status.Found.Directory, Token: string(r.UID),
	}}
	c.Saved, c.SaveAs, err = restore.Saved(ctx, k.Client, r.Restore, string(o.UID))
	return c, err
}

// saveConfirmed takes a backup of what the cluster has, for the Restore that replaces it.
func (k *Reconciler) saveConfirmed(ctx context.Context, o *v1alpha1.RedisCluster, name string) error {
	r, err := restore.Approved(ctx, k.Client, o, v1alpha1.KindRedisCluster)
	if err != nil {
		return err
	}
	if r == nil {
		return cluster.Hold{Reason: planner.ReasonSaving, Message: "what was confirmed has changed meanwhile, and is looked at again"}
	}
	return restore.SaveCurrent(ctx, k.Client, r, string(o.UID), name)
}

// redisBootstrap is what a new cluster begins with.
func redisBootstrap(o *v1alpha1.RedisCluster) restore.Lookup {
	return restore.Bootstrap(o, v1alpha1.KindRedisCluster, o.Spec.Bootstrap, o.Spec.Template, engineArgs(o)...)
}

// engineArgs tell the agent which servers a backup is to be for.
func engineArgs(o *v1alpha1.RedisCluster) []string {
	return []string{"--engine=" + string(o.Spec.ServerEngine()), "--version=" + o.Spec.Version}
}

// actRestore carries out a step of a restore.
func (k *Reconciler) actRestore(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch s := step.(type) {
	case planner.FindBackup:
		return restore.FindBackup(ctx, k.Client, o, redisBootstrap(o))
	case planner.DropRestoreJob:
		return k.DeleteJob(ctx, o, s.Name, s.UID)
	case steps.RecordBackup:
		return k.recordBackup(ctx, o, s.Record)
	case steps.LoadBackup:
		if _, err := k.openRestore(ctx, o, s.Token); err != nil {
			return err
		}
		if err := k.awaitBackups(ctx, o, s); err != nil {
			return err
		}
		return k.loadBackup(ctx, o, s)
	case planner.SaveCurrent:
		return k.saveConfirmed(ctx, o, s.Name)
	case planner.NoteLoaded:
		return k.noteLoaded(ctx, o, s.Restored)
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// openRestore reads past the cache what is being restored, and holds where that has changed meanwhile. An empty token takes any.
func (k *Reconciler) openRestore(ctx context.Context, o *v1alpha1.RedisCluster, token string) (*model.RestoreRecord, error) {
	record, err := k.readRestoreBy(ctx, k.Direct, o)
	if err != nil {
		return nil, err
	}
	if record == nil || record.Restored != nil || (token != "" && record.Token != token) {
		return nil, cluster.Hold{Reason: planner.ReasonRestoring, Message: "what is restored has changed meanwhile, and is looked at again"}
	}
	return record, nil
}

// recordBackup writes down what is restored. Where nothing has begun yet, what was confirmed is looked at once more, past the cache.
func (k *Reconciler) recordBackup(ctx context.Context, o *v1alpha1.RedisCluster, r model.RestoreRecord) error {
	live, err := k.readRestoreBy(ctx, k.Direct, o)
	if err != nil {
		return err
	}
	if begun := live != nil && live.Token == r.Token && live.Restored == nil; !begun && r.Token != "" {
		is := func(o *v1alpha1.Restore) bool { return string(o.UID) == r.Token }
		if err := restore.CheckApproved(ctx, k.Client, o, v1alpha1.KindRedisCluster, is); err != nil {
			return err
		}
	}
	return k.writeRestore(ctx, o, r)
}

// noteLoaded writes down what came of a load. Its Job goes after that, not before.
func (k *Reconciler) noteLoaded(ctx context.Context, o *v1alpha1.RedisCluster, restored job.Restored) error {
	record, err := k.openRestore(ctx, o, "")
	if err != nil {
		return err
	}
	record.Restored = &restored
	if err := k.writeRestore(ctx, o, *record); err != nil {
		return err
	}
	name := cluster.LoadJob(o.Name)
	job, err := k.Job(ctx, o, name, job.Selector(name))
	if job == nil || err != nil {
		return err
	}
	return k.DeleteJob(ctx, o, name, job.UID)
}

// loadBackup starts the Job that loads a backup.
func (k *Reconciler) loadBackup(ctx context.Context, o *v1alpha1.RedisCluster, s steps.LoadBackup) error {
	field := "spec.bootstrap.restore.destination"
	if s.Token != "" {
		field = "spec.from.destination"
	}
	access, err := k.access(ctx, o)
	if err != nil {
		return err
	}
	args := append([]string{"restore", "redis", "--directory=" + s.Directory}, access.Stream...)
	switch {
	case s.Replaces():
		args = append(args, "--replace")
	case len(s.Into) == 0 && len(s.Slots) > 0:
		args = append(args, "--slots="+s.Slots.String())
	}
	if s.Emptied && len(s.Into) > 0 {
		args = append(args, "--empty")
	}
	for _, to := range s.Into {
		args = append(args, "--into="+to.Pod+"="+to.Slots.String())
	}
	return k.StartJob(ctx, o, job.Work{
		Name: cluster.LoadJob(o.Name), Args: args, Destination: s.Destination, Limit: loadLimit, Access: access, Resources: loadResources(), Stays: true,
		Labels: restore.JobLabels(o, cluster.LoadJob(o.Name)), For: s.Sum(),
	}, field)
}

// loadResources are what it takes to load: beside what is on its way to the servers, twice the largest value.
func loadResources() *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

var _ backup.SourceKind = (*Reconciler)(nil)

var _ restore.Target = (*Reconciler)(nil)

// Target says of a cluster whether a backup can be put into it.
func (k *Reconciler) Target(ctx context.Context, r *v1alpha1.Restore, found *planner.Found) (*planner.Target, restore.Lookup, error) {
	o := &v1alpha1.RedisCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.Cluster.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, restore.Lookup{}, nil
	}
	if err != nil {
		return nil, restore.Lookup{}, fmt.Errorf("read RedisCluster %s: %w", r.Spec.Cluster.Name, err)
	}
	how := restore.Lookup{Template: o.Spec.Template, Args: engineArgs(o)}
	record, err := k.readRestore(ctx, o)
	if err != nil {
		return nil, how, err
	}
	t := &planner.Target{Noun: "RedisCluster " + o.Name, Scope: string(o.UID), Leaving: o.DeletionTimestamp != nil, Doing: o.Status.Activity}
	if record != nil && record.Token == string(r.UID) {
		t.Begun, t.Restored = true, record.Restored
		return t, how, nil
	}
	if t.Missing, err = k.notRestorable(ctx, o, record); t.Missing != "" || err != nil || found == nil {
		return t, how, err
	}
	if r.OnlyLost() {
		var loss string
		loss, t.Replaces, t.Missing, err = k.refilling(ctx, o)
		t.Scope += " " + loss
		return t, how, err
	}
	return t, how, k.replacing(ctx, o, r, record, t)
}

// replacing says what a restore of everything does, or why it cannot be.
func (k *Reconciler) replacing(ctx context.Context, o *v1alpha1.RedisCluster, r *v1alpha1.Restore, record *model.RestoreRecord, t *planner.Target) (err error) {
	t.Replaces = redisplanner.Replacing()
	goesOn := record != nil && record.Restored == nil
	if goesOn {
		t.Unsaved = "it is being restored from backup " + record.Directory
	}
	if t.Missing, err = k.beingBackedUp(ctx, r); t.Missing != "" || err != nil {
		return err
	}
	if !goesOn && !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionAvailable) {
		t.Missing = "not all of its slots are served: wait until they are, or bring back those of a lost shard with another Restore (spec.slots: Lost)"
	}
	return nil
}

// notRestorable says what keeps any backup from being put into a cluster, empty when nothing does.
func (k *Reconciler) notRestorable(ctx context.Context, o *v1alpha1.RedisCluster, record *model.RestoreRecord) (string, error) {
	started, err := k.started(ctx, o)
	switch {
	case err != nil:
		return "", err
	case !started:
		return "its servers have not been started; name the backup in spec.bootstrap.restore of a new cluster instead", nil
	case record != nil && record.Token == "" && record.Restored == nil:
		return "the backup that it begins with has not been loaded: wait until it is", nil
	case o.IsPaused():
		return "it is paused: set spec.paused to false first", nil
	}
	return "", nil
}

// refilling asks the servers which slots are lost.
func (k *Reconciler) refilling(ctx context.Context, o *v1alpha1.RedisCluster) (loss, replaces, missing string, err error) {
	s := model.State{Now: k.Now(), Spec: baseSpec(o)}
	if err := k.observeObjects(ctx, o, &s); err != nil {
		return "", "", "", err
	}
	connect, err := k.credentials(ctx, o)
	if err != nil {
		return "", "", "", err
	}
	k.readServers(ctx, connect, &s)
	loss, replaces, missing = redisplanner.Refilling(s)
	return loss, replaces, missing, nil
}
