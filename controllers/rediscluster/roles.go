package rediscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// entries are the Services that clients connect to.
func entries(o *v1alpha1.RedisCluster) []string {
	if o.Spec.IsReplicated() {
		return []string{cluster.PrimaryService(o.Name), cluster.ReplicasService(o.Name)}
	}
	return []string{cluster.ClientService(o.Name)}
}

// ensureRoles applies the Services of the roles. Where that of the primary leads to is for the planner to change.
func (k *Reconciler) ensureRoles(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder) error {
	r, err := k.primaryRecord(ctx, o)
	if err != nil {
		return err
	}
	if err := k.ensureRole(ctx, o, b.Primary(r.appointed, r.candidate)); err != nil {
		return err
	}
	return k.ensureRole(ctx, o, b.Replicas())
}

// ensureRole applies the Service of a role. Where it leads to does not depend on how clients outside are to reach it: when that is
// refused, the Service is exposed as before, and observeOutside tells why.
func (k *Reconciler) ensureRole(ctx context.Context, o *v1alpha1.RedisCluster, s *corev1ac.ServiceApplyConfiguration) error {
	refused := k.ensureService(ctx, o, s)
	if refused == nil || o.Spec.ExternalAccess == nil {
		return refused
	}
	var live corev1.Service
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: *s.Name}, &live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Service %s: %w", *s.Name, err)
	}
	manifests.ExposeAsBefore(s, o.Spec.ExternalAccess, &live)
	if err := k.ensureService(ctx, o, s); err != nil {
		return err
	}
	why := refused.Error()
	k.memory(o).unexposed.CompareAndSwap(nil, &why)
	return nil
}

// primaryRecord is what the Service of the primary says.
type primaryRecord struct {
	appointed model.Appointment
	candidate model.FailoverCandidate
}

// primaryRecord returns who was made primary last, and who is about to be. The cached Service may be older than the last write to it,
// so that it is read from the API server.
func (k *Reconciler) primaryRecord(ctx context.Context, o *v1alpha1.RedisCluster) (primaryRecord, error) {
	if !o.Spec.IsReplicated() {
		return primaryRecord{}, nil
	}
	if last := k.memory(o).primary.Load(); last != nil {
		return *last, nil
	}
	var live corev1.Service
	err := k.Direct.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.PrimaryService(o.Name)}, &live)
	if err := client.IgnoreNotFound(err); err != nil {
		return primaryRecord{}, fmt.Errorf("read Service of the primary: %w", err)
	}
	if own, err := k.Owns(ctx, o, &live); !own || err != nil {
		return primaryRecord{}, err // There is none, or it is that of an earlier cluster of this name.
	}
	r := primaryRecord{manifests.AppointmentOf(&live), manifests.CandidateOf(&live)}
	if r.appointed.Pod != "" || r.candidate.Pod != "" {
		k.memory(o).primary.Store(&r)
	}
	return r, nil
}

// changeRoles carries out the steps that change the primary, or write down who it is.
func (k *Reconciler) changeRoles(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch s := step.(type) {
	case steps.Failover:
		return k.withServers(ctx, o, []server{{pod: s.From}, {pod: s.To}}, func(c []steps.Client) error { return s.Run(ctx, c[0], c[1]) })
	case steps.HandOver:
		return k.handOver(ctx, o, s)
	case steps.Appoint:
		return k.appoint(ctx, o, s)
	case steps.AssignRoles:
		return k.assignRoles(ctx, o, s)
	}
	return fmt.Errorf("%T changes no roles", step)
}

// handOverTimeout is for how long a hand-over may go on in all: the server itself gives up sooner.
const handOverTimeout = 20 * time.Second

// handOver has the primary hand over. What is begun is brought to its end also by an operator that is to end itself.
func (k *Reconciler) handOver(ctx context.Context, o *v1alpha1.RedisCluster, s steps.HandOver) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverTimeout)
	defer cancel()
	err := k.Command(ctx, o, s.Calls())
	history.Note(&k.memory(o).failed, s, err, k.Now())
	return err
}

// appoint changes the Service of the primary.
func (k *Reconciler) appoint(ctx context.Context, o *v1alpha1.RedisCluster, s steps.Appoint) error {
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	k.memory(o).primary.Store(nil) // A write that fails may have been done all the same.
	if err := k.ensureRole(ctx, o, b.Primary(s.Appointment, s.Candidate)); err != nil {
		return err
	}
	k.memory(o).primary.Store(&primaryRecord{s.Appointment, s.Candidate})
	return nil
}

// assignRoles changes the labels of pods, that of the primary last. It tries all of them, so that a label that cannot be
// written does not keep clients from the new primary.
func (k *Reconciler) assignRoles(ctx context.Context, o *v1alpha1.RedisCluster, step steps.AssignRoles) error {
	var err error
	for _, primary := range []bool{false, true} {
		for _, p := range step.Pods {
			if (p.Role == model.RolePrimary) != primary {
				continue
			}
			err = errors.Join(err, k.labelRole(ctx, o, p))
		}
	}
	return err
}

// labelRole sets or removes the label of a pod, unless it is another pod by now: that one starts without.
func (k *Reconciler) labelRole(ctx context.Context, o *v1alpha1.RedisCluster, p steps.PodRole) error {
	labels := map[string]any{v1alpha1.LabelRole: nil}
	if p.Role != "" {
		labels[v1alpha1.LabelRole] = p.Role
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.Pod.UID, "labels": labels}})
	if err != nil {
		return fmt.Errorf("encode label of pod %s: %w", p.Pod.Name, err)
	}
	pod := &corev1.Pod{ObjectMeta: owned.ObjectMeta(o, p.Pod.Name)}
	err = k.Patch(ctx, pod, client.RawPatch(types.MergePatchType, body), client.FieldOwner(cluster.ManagedBy))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("label pod %s: %w", p.Pod.Name, err)
	}
	return nil
}
