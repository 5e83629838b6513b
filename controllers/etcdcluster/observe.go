package etcdcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Observe reads the state of a cluster: its objects from the cache, and from the members what they say themselves.
func (k *Reconciler) Observe(ctx context.Context, o *v1alpha1.EtcdCluster) (model.State, error) {
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return model.State{}, err
	}
	set, err := k.StatefulSet(ctx, o)
	if err != nil {
		return model.State{}, err
	}
	report, err := k.observeCertificates(ctx, o, &b, set)
	if err != nil {
		return model.State{}, err
	}
	want, err := k.want(o, b)
	if err != nil {
		return model.State{}, err
	}
	s := model.State{Want: want, Certificates: report, Now: k.Now(), Monitoring: k.MonitoringCondition(o, o.Spec.Monitoring != nil, nil)}
	if s.BackupHealth, err = k.BackupHealth(ctx, o, v1alpha1.KindEtcdCluster); err != nil {
		return model.State{}, err
	}
	if len(b.Record.Members) > 0 {
		s.Record = &b.Record
		s.Want.RestoreInPlace, err = k.anew(ctx, o, b.Record)
	} else {
		s.Want.Restore, err = restore.Request(ctx, k.Client, o, etcdBootstrap(o))
	}
	if err != nil {
		return model.State{}, err
	}
	pods, err := k.observeObjects(ctx, o, set, &s)
	if err != nil {
		return model.State{}, err
	}
	if len(pods) == 0 || s.Record == nil || s.Record.Hibernated {
		return s, nil
	}
	if err := k.observeBackups(ctx, o, &s); err != nil {
		return model.State{}, err
	}
	return s, k.askMembers(ctx, o, &s, pods)
}

// observeObjects fills in what Kubernetes knows, and returns the pods.
func (k *Reconciler) observeObjects(
	ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet, s *model.State,
) (pods []corev1.Pod, err error) {
	now := k.Now()
	if set != nil {
		made, _ := model.ParseVersion(set.Spec.Template.Annotations[v1alpha1.AnnotationVersion]) // Or it does not say.
		s.Set = &model.Set{
			UID: string(set.UID), Age: now.Sub(set.CreationTimestamp.Time), Overdue: owned.Overdue(set, now), Storage: storageState(storage(o.Spec.Storage, set)),
			Replicas: int(ptr.Deref(set.Spec.Replicas, 1)), Version: made, KeepsClaims: keepsClaims(set),
		}
	}
	if s.Open, err = k.ServesClients(ctx, o); err != nil {
		return nil, err
	}
	if s.Claims, err = k.observeClaims(ctx, o, set, s.Record, now); err != nil {
		return nil, err
	}
	if err := k.judgeStorage(ctx, o, s); err != nil {
		return nil, err
	}
	if pods, err = k.Pods(ctx, o, set); err != nil {
		return nil, err
	}
	for i := range pods {
		p := podState(&pods[i])
		p.OldRevision, p.Age = oldRevision(&pods[i], set), now.Sub(pods[i].CreationTimestamp.Time)
		if p.Cordoned, err = k.CordonOf(ctx, &pods[i]); err != nil {
			return nil, err
		}
		s.Pods = append(s.Pods, p)
	}
	return pods, k.findLosses(ctx, o, s, pods)
}

func (k *Reconciler) want(o *v1alpha1.EtcdCluster, b manifests.Builder) (model.Want, error) {
	hash, err := b.TemplateHash()
	if err != nil {
		return model.Want{}, err
	}
	policy, err := b.Policy()
	if err != nil {
		return model.Want{}, err
	}
	settings := model.SettingsOf(b.Cluster.Spec)
	settings.Version = b.Version.String()
	made, err := settings.Encode()
	if err != nil {
		return model.Want{}, err
	}
	secret := o.Spec.Auth.Secret()
	if secret == "" {
		secret = cluster.AuthSecret(o.Name)
	}
	return model.Want{
		Name:            o.Name,
		Namespace:       o.Namespace,
		Size:            int(o.Spec.Size),
		Peers:           b.Peers(),
		TLS:             b.Reach().WantsTLS(o.Spec.TLS),
		Hold:            b.Cluster.Spec.TLS.RotationHold(),
		TemplateHash:    hash,
		Maintenance:     policy,
		Version:         b.Target,
		Settings:        made,
		Asked:           b.Asked,
		Snapshot:        o.Spec.Upgrade.NeedsSnapshot(),
		SnapshotPlace:   b.Storage != nil || o.Spec.Upgrade.BackupDestination() != nil,
		ImageOverridden: b.Cluster.Spec.Image != nil,
		Auth:            o.Spec.Auth.AuthMode() == v1alpha1.AuthPassword,
		PasswordSecret:  secret,
		Persistent:      b.Storage != nil,
		Approved:        o.Annotations[v1alpha1.AnnotationRecover],
		RecoverAfter:    o.Spec.Recovery.After(),
		StorageChanged:  (o.Spec.Storage == nil) != (b.Storage == nil),
		Storage:         storageState(o.Spec.Storage),
		StorageQuota:    b.QuotaOn(storageState(o.Spec.Storage).Size),
		Hibernated:      o.IsHibernated(),
	}, nil
}

// oldRevision reports whether the StatefulSet controller would make the pod from another template by now.
func oldRevision(p *corev1.Pod, set *appsv1.StatefulSet) bool {
	return set != nil && set.Status.ObservedGeneration == set.Generation && set.Status.UpdateRevision != "" &&
		p.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision
}

// Pods returns the pods of the StatefulSet of o, all that carry its labels if set is nil.
func (k *Reconciler) Pods(ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(manifests.Selector(o.Name))); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var sets []appsv1.StatefulSet
	if set != nil {
		sets = append(sets, *set)
	}
	pods, err := k.PodsOfSets(ctx, o, list.Items, sets, func(pod *corev1.Pod) string {
		ref := metav1.GetControllerOf(pod)
		if _, ok := ordinal(pod.Name, o.Name); !ok || (ref != nil && set != nil && ref.UID != set.UID) {
			return "" // The pods of an earlier StatefulSet run members of an earlier cluster.
		}
		return o.Name
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return podState(&a).Ordinal - podState(&b).Ordinal })
	return pods, err
}

// ordinal parses the number behind the prefix and a dash.
func ordinal(name, prefix string) (int, bool) {
	rest, found := strings.CutPrefix(name, prefix+"-")
	n, ok := cluster.Number(rest)
	return n, ok && found
}
