package rediscluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/backup"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// loadLimit is how long it may take to load a backup.
const loadLimit = 24 * time.Hour

// keyRestore is the key of the record of a restore in its ConfigMap.
const keyRestore = "restore"

// readRestore reads the record of a restore, nil when there is none.
func (k *Reconciler) readRestore(ctx context.Context, o *v1alpha1.RedisCluster) (*redis.RestoreRecord, error) {
	return k.readRestoreBy(ctx, k, o)
}

func (k *Reconciler) readRestoreBy(ctx context.Context, r client.Reader, o *v1alpha1.RedisCluster) (*redis.RestoreRecord, error) {
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
	out := &redis.RestoreRecord{}
	if err := json.Unmarshal([]byte(cm.Data[keyRestore]), out); err != nil {
		return nil, owned.InvalidSpec("ConfigMap %s is damaged (%v): delete the cluster, and create it again", name, err)
	}
	return out, nil
}

func (k *Reconciler) writeRestore(ctx context.Context, o *v1alpha1.RedisCluster, r redis.RestoreRecord) error {
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
		corev1ac.ConfigMap(name, o.Namespace).WithLabels(redis.Labels(o)).WithOwnerReferences(owner).WithData(map[string]string{keyRestore: string(raw)}))
}

// observeRestore reads what there is to know of the backup that is being put into a cluster; nil for none.
func (k *Reconciler) observeRestore(ctx context.Context, o *v1alpha1.RedisCluster) (*redis.Restore, error) {
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
	loading := &plan.Loading{Noun: "backup " + record.Directory}
	if loading.Job, err = k.Job(ctx, o, name, plan.Selector(name)); err != nil {
		return nil, err
	}
	return &redis.Restore{RestoreRecord: *record, Loading: loading}, nil
}

// observeWish reads what a cluster that has not begun is to begin with.
func (k *Reconciler) observeWish(ctx context.Context, o *v1alpha1.RedisCluster) (*redis.Restore, error) {
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
	return &redis.Restore{Wish: w}, nil
}

// observeConfirmed reads which Restore the cluster is to carry out, nil for none. None is begun while the one that was begun last has yet to be
// complete and say so: it would be taken for another one. Whoever wants another backup instead deletes that.
func (k *Reconciler) observeConfirmed(ctx context.Context, o *v1alpha1.RedisCluster) (*redis.Confirmed, error) {
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
	c := &redis.Confirmed{Noun: "Restore " + r.Name, Lost: r.OnlyLost(), Loss: loss, Saves: r.SavesCurrent(), RestoreRecord: redis.RestoreRecord{
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
		return cluster.Hold{Reason: plan.ReasonSaving, Message: "what was confirmed has changed meanwhile, and is looked at again"}
	}
	return restore.SaveCurrent(ctx, k.Client, r, string(o.UID), name)
}

// awaitBackups holds until no backup of the cluster is being taken, before everything is replaced: it would have a part of both. From now on
// none is begun: see plan.Resume. One that has not begun is waited for as well, until its Backup has dropped its Job.
func (k *Reconciler) awaitBackups(ctx context.Context, o *v1alpha1.RedisCluster, s redis.LoadBackup) error {
	if !s.Replaces() {
		return nil
	}
	takes, err := k.takes(ctx, k.Direct, o.Namespace, o.Name)
	if err != nil || len(takes) == 0 {
		return err
	}
	return cluster.Hold{Reason: plan.ReasonRestoring, Message: "Backup " + takes[0].backup.Name + " is being taken, and would find a part of the data: wait until it is complete, or delete it"}
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
	case plan.FindBackup:
		return restore.FindBackup(ctx, k.Client, o, redisBootstrap(o))
	case plan.DropRestoreJob:
		return k.DeleteJob(ctx, o, s.Name, s.UID)
	case redis.RecordBackup:
		return k.recordBackup(ctx, o, s.Record)
	case redis.LoadBackup:
		if _, err := k.openRestore(ctx, o, s.Token); err != nil {
			return err
		}
		if err := k.awaitBackups(ctx, o, s); err != nil {
			return err
		}
		return k.loadBackup(ctx, o, s)
	case plan.SaveCurrent:
		return k.saveConfirmed(ctx, o, s.Name)
	case plan.NoteLoaded:
		return k.noteLoaded(ctx, o, s.Restored)
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// openRestore reads past the cache what is being restored, and holds where that has changed meanwhile. An empty token takes any.
func (k *Reconciler) openRestore(ctx context.Context, o *v1alpha1.RedisCluster, token string) (*redis.RestoreRecord, error) {
	record, err := k.readRestoreBy(ctx, k.Direct, o)
	if err != nil {
		return nil, err
	}
	if record == nil || record.Restored != nil || (token != "" && record.Token != token) {
		return nil, cluster.Hold{Reason: plan.ReasonRestoring, Message: "what is restored has changed meanwhile, and is looked at again"}
	}
	return record, nil
}

// recordBackup writes down what is restored. Where nothing has begun yet, what was confirmed is looked at once more, past the cache.
func (k *Reconciler) recordBackup(ctx context.Context, o *v1alpha1.RedisCluster, r redis.RestoreRecord) error {
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
func (k *Reconciler) noteLoaded(ctx context.Context, o *v1alpha1.RedisCluster, restored plan.Restored) error {
	record, err := k.openRestore(ctx, o, "")
	if err != nil {
		return err
	}
	record.Restored = &restored
	if err := k.writeRestore(ctx, o, *record); err != nil {
		return err
	}
	name := cluster.LoadJob(o.Name)
	job, err := k.Job(ctx, o, name, plan.Selector(name))
	if job == nil || err != nil {
		return err
	}
	return k.DeleteJob(ctx, o, name, job.UID)
}

// loadBackup starts the Job that loads a backup.
func (k *Reconciler) loadBackup(ctx context.Context, o *v1alpha1.RedisCluster, s redis.LoadBackup) error {
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
	return k.StartJob(ctx, o, plan.Work{
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

// Engine is the word of the agent for what it backs up.
func (k *Reconciler) Engine() string { return v1alpha1.ComponentRedis }

// ServerImage is what a check of a backup runs in.
func (k *Reconciler) ServerImage(ctx context.Context, namespace, name string, of plan.Stored) (string, error) {
	o, engine := &v1alpha1.RedisCluster{}, v1alpha1.RedisEngine(of.Engine)
	err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return redis.CheckImage(nil, engine, of.Version, k.Registry), nil
	}
	if err != nil {
		return "", fmt.Errorf("read RedisCluster %s: %w", name, err)
	}
	return redis.CheckImage(o, engine, of.Version, k.Registry), nil
}

// access is how a Job gets at the servers, those that are to leave included: they may have slots. It needs to know the authority of their
// certificates, and the operator's passwords.
func (k *Reconciler) access(ctx context.Context, o *v1alpha1.RedisCluster) (*plan.Access, error) {
	sizes, err := k.shardSizes(ctx, o)
	if err != nil {
		return nil, err
	}
	a := &plan.Access{
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
			a.Stream = append(a.Stream, "--server="+strconv.Itoa(shard)+"/"+host+":"+strconv.Itoa(redis.ClientPort))
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
func (k *Reconciler) Source(ctx context.Context, namespace, name string) (*plan.Source, *plan.Access, error) {
	o := &v1alpha1.RedisCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read RedisCluster %s: %w", name, err)
	}
	source := &plan.Source{Noun: "RedisCluster " + name, Leaving: o.DeletionTimestamp != nil}
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

var _ restore.Target = (*Reconciler)(nil)

// Target says of a cluster whether a backup can be put into it.
func (k *Reconciler) Target(ctx context.Context, r *v1alpha1.Restore, found *plan.Found) (*plan.Target, restore.Lookup, error) {
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
	t := &plan.Target{Noun: "RedisCluster " + o.Name, Scope: string(o.UID), Leaving: o.DeletionTimestamp != nil, Doing: o.Status.Activity}
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
func (k *Reconciler) replacing(ctx context.Context, o *v1alpha1.RedisCluster, r *v1alpha1.Restore, record *redis.RestoreRecord, t *plan.Target) (err error) {
	t.Replaces = redis.Replacing()
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
func (k *Reconciler) notRestorable(ctx context.Context, o *v1alpha1.RedisCluster, record *redis.RestoreRecord) (string, error) {
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

// refilling asks the servers which slots are lost.
func (k *Reconciler) refilling(ctx context.Context, o *v1alpha1.RedisCluster) (loss, replaces, missing string, err error) {
	s := redis.State{Now: k.Now(), Spec: baseSpec(o)}
	if err := k.observeObjects(ctx, o, &s); err != nil {
		return "", "", "", err
	}
	connect, err := k.credentials(ctx, o)
	if err != nil {
		return "", "", "", err
	}
	k.readServers(ctx, connect, &s)
	loss, replaces, missing = redis.Refilling(s)
	return loss, replaces, missing, nil
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
