package rediscluster

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// baseSpec is what a specification says by itself.
func baseSpec(o *v1alpha1.RedisCluster) model.Spec {
	return model.Spec{
		Name: o.Name, Namespace: o.Namespace, Shards: o.Spec.ShardCount(), Replicated: o.Spec.IsReplicated(), Replicas: o.Spec.Replicas(), Version: o.Spec.Version,
		NodeTimeout: config.NodeTimeout(o.Spec.Config), Persistent: o.Spec.Storage != nil, MemoryLimit: config.MemoryLimit(o.Spec.Resources),
		MinReplicas:   config.MinReplicas(&o.Spec),
		DiscardClaims: manifests.DiscardsClaims(o.Spec.Storage),
		AssignEmpty:   o.Spec.Recovery.AssignsEmpty(), Approved: o.Annotations[v1alpha1.AnnotationRecover],
		ReplaceDead: o.Spec.Recovery.ReplacesDead(),
		Rebalance:   rebalanceOf(o),
	}
}

// Observe reads the state of a cluster, and adds what is remembered of the states before. Only the loop of the cluster may call it,
// which looks at a cluster once at a time: what is remembered and found belongs to that one alone.
func (k *Reconciler) Observe(ctx context.Context, o *v1alpha1.RedisCluster) (model.State, error) {
	s, connect, err := k.read(ctx, o, k.memory(o).silence.expected())
	if err != nil || connect == nil {
		return s, err
	}
	s.FailedHandOvers = k.memory(o).failed
	k.memory(o).watchUnused(&s)
	k.memory(o).watchHosts(&s)
	k.memory(o).idle.Watch(&s)
	k.memory(o).processes.Watch(&s)
	k.memory(o).silence.watch(s.Pods)
	m := &k.memory(o).meter
	m.watch(s.Pods, s.Now)
	s.Progress = m.read()
	k.weigh(ctx, o, connect, &s)
	s.Anomalies = k.memory(o).vigil.Next(s)
	return s, nil
}

// Read reads the state of a cluster as it is now, without what is remembered of it. Other kinds may call it at any time.
func (k *Reconciler) Read(ctx context.Context, o *v1alpha1.RedisCluster) (model.State, error) {
	s, _, err := k.read(ctx, o, nil)
	return s, err
}

// read reads the StatefulSets and pods, and asks every server for its own account. Without what it takes to connect, none is asked.
func (k *Reconciler) read(ctx context.Context, o *v1alpha1.RedisCluster, silent map[string]bool) (model.State, connectFunc, error) {
	s, err := k.readObjects(ctx, o)
	if err != nil {
		return model.State{}, nil, err
	}
	passwords, err := k.Passwords(ctx, o)
	if err != nil {
		return model.State{}, nil, err
	}
	connect, err := k.connector(ctx, o, passwords)
	if err != nil {
		return model.State{}, nil, err
	}
	if connect == nil {
		return s, nil, nil
	}
	s.Spec.Access = &acl.Access{
		Passwords: passwords, Open: o.Spec.Auth.AuthMode() == v1alpha1.AuthDisabled, Replicated: o.Spec.IsReplicated(),
	}
	s.Spec.Hold = o.Spec.Auth.RotationHold()
	if s.Spec.HandedOut, err = k.handedOut(ctx, o, s.Spec.Access); err != nil {
		return model.State{}, nil, err
	}
	k.readServersExcept(ctx, connect, &s, silent)
	if s.Neighbours, err = k.neighbours(ctx, o); err != nil {
		return model.State{}, nil, err
	}
	if err := errors.Join(k.findRetained(ctx, o, &s), k.findLostNodes(ctx, o, &s)); err != nil {
		return model.State{}, nil, err
	}
	return s, connect, nil
}

// neighbours returns the servers of all other clusters by node id, as their status has them.
func (k *Reconciler) neighbours(ctx context.Context, o *v1alpha1.RedisCluster) (map[string]string, error) {
	var list v1alpha1.RedisClusterList
	if err := k.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list Redis clusters: %w", err)
	}
	out := map[string]string{}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == o.Name && other.Namespace == o.Namespace {
			continue
		}
		for _, shard := range other.Status.Shards {
			for _, n := range shard.Nodes {
				if n.ID != "" {
					out[n.ID] = model.ClusterOf(other.Name, other.Namespace)
				}
			}
		}
	}
	return out, nil
}

// readObjects reads all that is known without asking a server.
func (k *Reconciler) readObjects(ctx context.Context, o *v1alpha1.RedisCluster) (model.State, error) {
	s := model.State{Now: k.Now(), Spec: baseSpec(o)}
	live, err := config.LiveConfig(&o.Spec)
	if err != nil {
		return model.State{}, err
	}
	s.Spec.Live, s.Spec.LiveNames = live, config.LiveNames(o.Spec.Config)
	if err := k.observeObjects(ctx, o, &s); err != nil {
		return model.State{}, err
	}
	if err := k.observeBackups(ctx, o, &s); err != nil {
		return model.State{}, err
	}
	if s.Monitoring, err = k.observeMonitoring(ctx, o); err != nil {
		return model.State{}, err
	}
	if err := k.observeCertificates(ctx, o, &s); err != nil {
		return model.State{}, err
	}
	if s.Accounts, err = k.accounts(ctx, o); err != nil {
		return model.State{}, err
	}
	return s, nil
}

// observeBackups reads what is put into the cluster, and what is to be, and how its backups are.
func (k *Reconciler) observeBackups(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) (err error) {
	if s.Restore, err = k.observeRestore(ctx, o); err != nil {
		return err
	}
	if s.Confirmed, err = k.observeConfirmed(ctx, o); err != nil {
		return err
	}
	s.BackupHealth, err = k.BackupHealth(ctx, o, v1alpha1.KindRedisCluster)
	return err
}

// observeCertificates reads where servers are reached from outside, and what proves that it is they.
func (k *Reconciler) observeCertificates(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	missing, err := k.observeOutside(ctx, o, s)
	if err != nil {
		return err
	}
	vouched, err := k.withFormer(ctx, o, s.Doors)
	if err != nil {
		return err
	}
	if s.Certificates, err = k.CertificateReport(ctx, o, o.Spec.TLS, k.leafs(o, vouched)); err != nil {
		return owned.CertificateError{Err: err}
	}
	s.Certificates.Missing = missing
	if s.Certificates.Exposed, err = k.exposed(ctx, o); err != nil {
		return err
	}
	s.Spec.Certificate, err = k.certificate(ctx, o)
	return err
}

// observeObjects reads what Kubernetes knows.
func (k *Reconciler) observeObjects(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	if err := errors.Join(k.observeSets(ctx, o, s), k.observeClaims(ctx, o, s), k.observePods(ctx, o, s)); err != nil {
		return err // Half a state would look like lost servers.
	}
	if err := k.findLostDisks(ctx, o, s); err != nil {
		return err
	}
	var err error
	r, err := k.primaryRecord(ctx, o)
	s.Appointed, s.Candidate = r.appointed, r.candidate
	return err
}

// sets returns the StatefulSets of the shards: those that the cluster owns, of which no number is
// larger than the API allows.
func (k *Reconciler) sets(ctx context.Context, o *v1alpha1.RedisCluster) ([]appsv1.StatefulSet, error) {
	var list appsv1.StatefulSetList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(manifests.Selector(o))); err != nil {
		return nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	var out []appsv1.StatefulSet
	for i := range list.Items {
		if _, ok := cluster.ShardOf(o.Name, list.Items[i].Name); !ok {
			continue
		}
		own, err := k.Owns(ctx, o, &list.Items[i])
		if err != nil {
			return nil, err
		}
		if own {
			out = append(out, list.Items[i])
		}
	}
	return out, nil
}

func (k *Reconciler) observeSets(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	sets, err := k.sets(ctx, o)
	if err != nil {
		return err
	}
	for i := range sets {
		set := &sets[i]
		if err := k.Refresh(ctx, set); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read StatefulSet %s: %w", set.Name, err)
		} else if err != nil || set.DeletionTimestamp != nil {
			continue
		}
		shard, _ := cluster.ShardOf(o.Name, set.Name)
		guarded, err := k.guarded(ctx, o, shard)
		if err != nil {
			return err
		}
		s.Sets = append(s.Sets, model.Set{
			Shard: shard, Replicas: min(int(ptr.Deref(set.Spec.Replicas, 1)), cluster.MaxServers), UID: string(set.UID), ResourceVersion: set.ResourceVersion, Guarded: guarded,
			Overdue: owned.Overdue(set, k.Now()), Made: set.CreationTimestamp.Time,
		})
		s.Spec.StorageChanged = s.Spec.StorageChanged || manifests.StorageChanged(o.Spec.Storage, set)
	}
	return nil
}
