package rediscluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
)

// The exporter of Redis metrics runs in a Deployment, which goes when spec.monitoring does.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// It connects as a user of its own, which goes with it; that of somebody else is looked for past the cache before it is made.
// +kubebuilder:rbac:groups=quorate.dev,resources=redisusers,verbs=get;create;delete

// ensureMonitoring brings the exporter, the user that it connects as and its PodMonitor into place, or takes them away.
func (k *Reconciler) ensureMonitoring(ctx context.Context, o *v1alpha1.RedisCluster) error {
	owner, err := k.OwnerReference(o)
	if err != nil {
		return err
	}
	b := manifests.Builder{Cluster: o, Owner: owner, AgentImage: k.AgentImage}
	wanted := o.Spec.Monitoring != nil
	if err = k.ensureExporterUser(ctx, o, b); err == nil || !wanted {
		err = errors.Join(err, k.ensureExporter(ctx, o, b, wanted))
	}
	return errors.Join(err, k.EnsurePodMonitor(ctx, o, b.PodMonitor(), wanted && o.Spec.Monitoring.PodMonitor.Wanted()))
}

func (k *Reconciler) ensureExporterUser(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder) error {
	live := &v1alpha1.RedisUser{ObjectMeta: owned.ObjectMeta(o, cluster.Exporter(o.Name))}
	if !manifests.HasExporterUser(o) {
		return k.DeleteOwned(ctx, o, live)
	}
	return k.Apply(ctx, o, live, b.ExporterUser())
}

// ensureExporter applies the exporter, the first time when there is the Secret that it mounts: the kubelet would look for that more and more
// seldom.
func (k *Reconciler) ensureExporter(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder, wanted bool) error {
	live := &appsv1.Deployment{ObjectMeta: owned.ObjectMeta(o, cluster.Exporter(o.Name))}
	if !wanted {
		return k.DeleteOwned(ctx, o, live)
	}
	err := k.Get(ctx, client.ObjectKeyFromObject(live), &appsv1.Deployment{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Deployment %s: %w", live.Name, err)
	}
	if apierrors.IsNotFound(err) {
		if err := k.exporterUserProblem(ctx, o); err != nil {
			return err
		}
	}
	want, err := b.Exporter()
	if err != nil {
		return err
	}
	return k.Apply(ctx, o, live, want)
}

// exporterUserProblem is why the exporter cannot connect as its user, as a Hold or a Refusal; nil when it can.
func (k *Reconciler) exporterUserProblem(ctx context.Context, o *v1alpha1.RedisCluster) error {
	if !manifests.HasExporterUser(o) {
		return nil
	}
	user := &v1alpha1.RedisUser{}
	name := client.ObjectKey{Namespace: o.Namespace, Name: cluster.Exporter(o.Name)}
	if err := client.IgnoreNotFound(k.Get(ctx, name, user)); err != nil {
		return fmt.Errorf("read RedisUser %s: %w", name.Name, err)
	}
	if user.Status.SecretName != "" {
		return nil
	}
	words := cmp.Or(user.Status.Activity, "it has not been looked at yet")
	message := fmt.Sprintf("RedisUser %s, which the exporter connects as, is not in place: %s", name.Name, words)
	if meta.IsStatusConditionTrue(user.Status.Conditions, v1alpha1.ConditionStalled) {
		return cluster.Refusal{Reason: v1alpha1.ReasonExporterNotReady, Message: message}
	}
	return cluster.Hold{Reason: v1alpha1.ReasonMonitoringPending, Message: message}
}

// observeMonitoring says how far everything is in place, and whether the exporter serves.
func (k *Reconciler) observeMonitoring(ctx context.Context, o *v1alpha1.RedisCluster) (*metav1.Condition, error) {
	wanted := o.Spec.Monitoring != nil
	if !wanted {
		return k.MonitoringCondition(o, wanted, nil), nil
	}
	found := k.exporterProblem(ctx, o)
	if found != nil && !owned.WaitsForIssuer(found) {
		return nil, found
	}
	return k.MonitoringCondition(o, wanted, found), nil
}

// exporterProblem is why the exporter does not serve, as a Hold or a Refusal; nil when it does.
func (k *Reconciler) exporterProblem(ctx context.Context, o *v1alpha1.RedisCluster) error {
	exporter := &appsv1.Deployment{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.Exporter(o.Name)}, exporter)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Deployment %s: %w", cluster.Exporter(o.Name), err)
	}
	if exporter.Status.AvailableReplicas > 0 {
		return k.exporterUserProblem(ctx, o)
	}
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(o.Namespace), client.MatchingLabels(manifests.ExporterSelector(o))); err != nil {
		return fmt.Errorf("list pods of the exporter: %w", err)
	}
	for i := range pods.Items {
		if why := owned.StuckReason(&pods.Items[i]); why != "" {
			return cluster.Refusal{Reason: v1alpha1.ReasonExporterNotReady, Message: fmt.Sprintf("pod %s of the exporter: %s", pods.Items[i].Name, why)}
		}
	}
	return cluster.Hold{Reason: v1alpha1.ReasonMonitoringPending, Message: "no pod of Deployment " + cluster.Exporter(o.Name) + " is ready"}
}
