package etcdcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/backup"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
)

var _ backup.SourceKind = (*Reconciler)(nil)

// Engine is the word of the agent for what it backs up.
func (k *Reconciler) Engine() string { return v1alpha1.ComponentEtcd }

// ServerImage is what a check of a backup runs in.
func (k *Reconciler) ServerImage(ctx context.Context, namespace, name string, of job.Stored) (string, error) {
	o := &v1alpha1.EtcdCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return manifests.CheckImage(nil, of.Version, k.Registry), nil
	}
	if err != nil {
		return "", fmt.Errorf("read EtcdCluster %s: %w", name, err)
	}
	return manifests.CheckImage(o, of.Version, k.Registry), nil
}

// Replaced says nothing: a snapshot is of one moment of one member, whatever becomes of the others. A Job from before the quorum was recovered is
// dropped: see plan.Source.
func (k *Reconciler) Replaced(context.Context, *v1alpha1.Backup) (string, error) { return "", nil }

// Source says of a cluster whether it can be backed up, and how a Job gets at it; nil when there is none of that name.
func (k *Reconciler) Source(ctx context.Context, namespace, name string) (*planner.Source, *job.Access, error) {
	o := &v1alpha1.EtcdCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read EtcdCluster %s: %w", name, err)
	}
	source := &planner.Source{Noun: "EtcdCluster " + name, Leaving: o.DeletionTimestamp != nil}
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case b.Record.ClusterID == 0:
		source.Missing = "it has not been founded yet"
	case b.Record.Hibernated:
		source.Missing, source.Asleep = "it is hibernated", true
	}
	source.History = b.Record.Timeline()
	access := &job.Access{
		Stream:   append([]string{"--timeline=" + source.History}, b.MemberArgs()...),
		Template: o.Spec.Template,
	}
	access.Args = append([]string{"--version=" + b.Record.Version.String()}, access.Stream...)
	if b.Reach().Secure {
		access.TLSSecret = owned.TLSSecret(b.Cluster.Spec.TLS, cluster.OperatorTLSSecret(name))
	}
	if b.NeedsPassword() {
		access.AuthSecret, access.AuthKeys = cluster.AuthSecret(name), []string{owned.PasswordKey}
	}
	return source, access, nil
}

// Readers returns the clusters of a namespace that have yet to be restored, and from what.
func (k *Reconciler) Readers(ctx context.Context, namespace string) (out []backup.Reader, err error) {
	var list v1alpha1.EtcdClusterList
	if err := k.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list etcd clusters: %w", err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		record, err := k.Record(ctx, o)
		if err != nil {
			return nil, err
		}
		if from := record.InitialBackup(); from != nil {
			out = append(out, backup.Reader{Name: "EtcdCluster " + o.Name, From: &v1alpha1.RestoreSource{Destination: &from.Destination, Directory: &from.Directory}})
		}
	}
	return out, nil
}
