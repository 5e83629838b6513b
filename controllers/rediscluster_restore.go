package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// loadLimit is how long it may take to load a backup.
const loadLimit = 24 * time.Hour

// keyRestore is the key of the record of a restore in its ConfigMap.
const keyRestore = "restore"

// restoreRecord says which backup a cluster began with. It is written before the first server is started.
type restoreRecord struct {
	Destination v1alpha1.BackupDestination `json:"destination"`
	Directory   string                     `json:"directory"`
	// Restored is what came of it, nil while it has not been loaded.
	Restored *plan.Restored `json:"restored,omitempty"`
}

// readRestore reads the record, nil when there is none.
func (k *RedisKind) readRestore(ctx context.Context, o *v1alpha1.RedisCluster) (*restoreRecord, error) {
	cm := &corev1.ConfigMap{}
	name := cluster.RestoreConfig(o.Name)
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) || (err == nil && !metav1.IsControlledBy(cm, o)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	r := &restoreRecord{}
	if err := json.Unmarshal([]byte(cm.Data[keyRestore]), r); err != nil {
		return nil, invalid("ConfigMap %s is damaged (%v): delete the cluster, and create it again", name, err)
	}
	return r, nil
}

func (k *RedisKind) writeRestore(ctx context.Context, o *v1alpha1.RedisCluster, r restoreRecord) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of a restore: %w", err)
	}
	owner, err := k.OwnerReference(o)
	if err != nil {
		return err
	}
	name := cluster.RestoreConfig(o.Name)
	return k.Apply(ctx, o, &corev1.ConfigMap{ObjectMeta: objectMeta(o, name)},
		corev1ac.ConfigMap(name, o.Namespace).WithLabels(redis.Labels(o)).WithOwnerReferences(owner).WithData(map[string]string{keyRestore: string(raw)}))
}

// observeRestore reads what there is to know of the backup that a new cluster begins with; nil for one that begins empty, or has begun.
func (k *RedisKind) observeRestore(ctx context.Context, o *v1alpha1.RedisCluster) (*redis.Restore, error) {
	record, err := k.readRestore(ctx, o)
	if err != nil {
		return nil, err
	}
	if record == nil {
		if o.Spec.Bootstrap.RestoreSource() == nil {
			return nil, nil
		}
		started, err := k.started(ctx, o)
		if err != nil || started {
			return nil, err // It began without.
		}
		w, err := k.wish(ctx, o, redisBootstrap(o))
		if w == nil || err != nil {
			return nil, err
		}
		return &redis.Restore{Wish: w}, nil
	}
	if record.Restored != nil {
		return nil, nil
	}
	name := cluster.LoadJob(o.Name)
	job, err := k.job(ctx, o, name, plan.Selector(name))
	if err != nil {
		return nil, err
	}
	return &redis.Restore{Loading: &plan.Loading{Noun: "backup " + record.Directory, Job: job}}, nil
}

// redisBootstrap is what a new cluster begins with.
func redisBootstrap(o *v1alpha1.RedisCluster) restoring {
	return bootstrap(o, v1alpha1.KindRedisCluster, o.Spec.Bootstrap, o.Spec.Template, engineArgs(o)...)
}

// engineArgs tell the agent which servers a backup is to be for.
func engineArgs(o *v1alpha1.RedisCluster) []string {
	return []string{"--engine=" + string(o.Spec.ServerEngine()), "--version=" + o.Spec.Version}
}

// actRestore carries out a step of a restore.
func (k *RedisKind) actRestore(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch s := step.(type) {
	case plan.FindBackup:
		return k.findBackup(ctx, o, redisBootstrap(o))
	case plan.DropRestoreJob:
		return k.dropJob(ctx, o, s.Name, s.UID)
	case redis.RecordBackup:
		return k.writeRestore(ctx, o, restoreRecord{Destination: s.Destination, Directory: s.Directory})
	case plan.LoadBackup:
		return k.loadBackup(ctx, o)
	case plan.NoteLoaded:
		record, err := k.readRestore(ctx, o)
		if err != nil || record == nil {
			return err
		}
		record.Restored = &s.Restored
		return k.writeRestore(ctx, o, *record)
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// loadBackup starts the Job that loads a backup.
func (k *RedisKind) loadBackup(ctx context.Context, o *v1alpha1.RedisCluster) error {
	record, err := k.readRestore(ctx, o)
	if err != nil || record == nil {
		return err
	}
	access := k.access(o)
	return k.startJob(ctx, o, plan.Work{
		Name: cluster.LoadJob(o.Name), Args: append([]string{"restore", "redis", "--directory=" + record.Directory}, access.Stream...),
		Destination: record.Destination, Limit: loadLimit, Access: &access, Resources: loadResources(),
		Labels: restoreLabels(o, cluster.LoadJob(o.Name)),
	}, "spec.bootstrap.restore.destination", nil)
}

// loadResources are what it takes to load: beside what is on its way to the servers, twice the largest value.
func loadResources() *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

var _ BackupSource = (*RedisKind)(nil)

// Engine is the word of the agent for what it backs up.
func (k *RedisKind) Engine() string { return v1alpha1.ComponentRedis }

// ServerImage is what a check of a backup runs in.
func (k *RedisKind) ServerImage(ctx context.Context, namespace, name string, of plan.Stored) (string, error) {
	o, engine := &v1alpha1.RedisCluster{}, v1alpha1.RedisEngine(of.Engine)
	err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return redis.CheckImage(nil, engine, of.Version), nil
	}
	if err != nil {
		return "", fmt.Errorf("read RedisCluster %s: %w", name, err)
	}
	return redis.CheckImage(&o.Spec, engine, of.Version), nil
}

// access is how a Job gets at the servers. It needs to know the authority of their certificates, and the operator's passwords.
func (k *RedisKind) access(o *v1alpha1.RedisCluster) plan.Access {
	a := plan.Access{
		Template: o.Spec.Template, AuthSecret: cluster.AuthSecret(o.Name),
		TLSSecret: TLSSecret(o.Spec.TLS, cluster.ServerTLSSecret(o.Name)), TLSKeys: []string{caKey},
	}
	if o.Spec.IsReplicated() {
		a.Stream = append(a.Stream, "--replicated")
	}
	for shard := range o.Spec.ShardCount() {
		for ordinal := range 1 + o.Spec.Replicas() {
			host := cluster.PodHost(cluster.Pod(cluster.ShardSet(o.Name, shard), ordinal), o.Name, o.Namespace, k.Domain)
			a.Stream = append(a.Stream, "--server="+strconv.Itoa(shard)+"/"+host+":"+strconv.Itoa(redis.ClientPort))
		}
	}
	a.Args = append([]string{"--engine=" + string(o.Spec.ServerEngine()), "--version=" + o.Spec.Version}, a.Stream...)
	return a
}

// Source says of a cluster whether it can be backed up, and how a Job gets at it; nil when there is none of that name.
func (k *RedisKind) Source(ctx context.Context, namespace, name string) (*plan.Source, *plan.Access, error) {
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
	access := k.access(o)
	return source, &access, nil
}

var _ RestoreTarget = (*RedisKind)(nil)

// Target says of a cluster whether a backup can be put into it.
func (k *RedisKind) Target(ctx context.Context, r *v1alpha1.Restore, _ *plan.Found) (*plan.Target, restoring, error) {
	o := &v1alpha1.RedisCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.Cluster.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, restoring{}, nil
	}
	if err != nil {
		return nil, restoring{}, fmt.Errorf("read RedisCluster %s: %w", r.Spec.Cluster.Name, err)
	}
	return &plan.Target{
		Noun: "RedisCluster " + o.Name, Leaving: o.DeletionTimestamp != nil, Missing: "name the backup in spec.bootstrap.restore of a new cluster instead",
	}, restoring{template: o.Spec.Template, args: engineArgs(o)}, nil
}
