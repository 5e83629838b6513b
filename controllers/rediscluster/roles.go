package rediscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// entries are the Services that clients connect to.
func entries(o *v1alpha1.RedisCluster) []string {
	if o.Spec.IsReplicated() {
		return []string{cluster.PrimaryService(o.Name), cluster.ReplicasService(o.Name)}
	}
	return []string{cluster.ClientService(o.Name)}
}

// ensureRoles applies the Services of the roles. Where that of the primary leads to is for the planner to change.
func (k *Reconciler) ensureRoles(ctx context.Context, o *v1alpha1.RedisCluster, b redis.Builder) error {
	a, err := k.appointment(ctx, o)
	if err != nil {
		return err
	}
	if err := k.ensureRole(ctx, o, b.Primary(a, "")); err != nil {
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
	redis.ExposeAsBefore(s, o.Spec.ExternalAccess, &live)
	if err := k.ensureService(ctx, o, s); err != nil {
		return err
	}
	why := refused.Error()
	k.memory(o).unexposed.CompareAndSwap(nil, &why)
	return nil
}

// appointment is who was made primary last. The cache may not have heard of it yet, so that it is not asked.
func (k *Reconciler) appointment(ctx context.Context, o *v1alpha1.RedisCluster) (redis.Appointment, error) {
	if !o.Spec.IsReplicated() {
		return redis.Appointment{}, nil
	}
	if last := k.memory(o).appointment.Load(); last != nil {
		return *last, nil
	}
	var live corev1.Service
	err := k.Direct.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.PrimaryService(o.Name)}, &live)
	if err := client.IgnoreNotFound(err); err != nil {
		return redis.Appointment{}, fmt.Errorf("read Service of the primary: %w", err)
	}
	if own, err := k.Owns(ctx, o, &live); !own || err != nil {
		return redis.Appointment{}, err // There is none, or it is that of an earlier cluster of this name.
	}
	a := redis.AppointmentOf(&live)
	if a.Pod != "" {
		k.memory(o).appointment.Store(&a)
	}
	return a, nil
}

// changeRoles carries out the steps that write down who is the primary. The others do more than that.
func (k *Reconciler) changeRoles(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch s := step.(type) {
	case redis.Promote:
		if err := k.assignRoles(ctx, o, s.Record); err != nil {
			return err
		}
		return k.Command(ctx, o, s.Calls())
	case redis.Unguarded:
		for _, part := range []cluster.Step{s.Record, s.Guard, s.Then} {
			if err := k.Act(ctx, o, part); err != nil {
				return err
			}
		}
		return nil
	case redis.Lifted:
		if err := k.Command(ctx, o, s.Guards.Calls()); err != nil {
			return err
		}
		return k.Act(ctx, o, s.Then)
	case redis.Failover:
		return k.withServers(ctx, o, []server{{pod: s.From}, {pod: s.To}}, func(c []redis.Client) error { return s.Run(ctx, c[0], c[1]) })
	case redis.HandOver:
		return k.handOver(ctx, o, s)
	case redis.AssignRoles:
		return k.assignRoles(ctx, o, s)
	}
	return fmt.Errorf("%T changes no roles", step)
}

// handOverTimeout is for how long a hand-over may go on in all: the server itself gives up sooner.
const handOverTimeout = 20 * time.Second

// revertTimeout is for how long the Service of the primary may take to be set back.
const revertTimeout = 10 * time.Second

// rerouted is how long it takes until a changed Service leads elsewhere on all nodes: kube-proxy does it once a second at most.
const rerouted = time.Second

// handOver has the Service of the primary lead to the heir before that takes over. Clients that are connected notice nothing until the
// primary stops taking writes, and then find the new one at once. Should something fail midway, the Service is set back. What is begun
// is brought to its end also by an operator that is to end itself.
func (k *Reconciler) handOver(ctx context.Context, o *v1alpha1.RedisCluster, s redis.HandOver) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverTimeout)
	defer cancel()
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	was, err := k.appointment(ctx, o)
	if err != nil {
		return err
	}
	if err := k.Command(ctx, o, s.Guard().Calls()); err != nil {
		return err
	}
	if err := k.ensureRole(ctx, o, b.Primary(was, s.To)); err != nil {
		return err
	}
	time.Sleep(rerouted) // Also while the operator ends: what is begun is brought to its end.
	if err := k.Command(ctx, o, s.Calls()); err != nil {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), revertTimeout) // ctx may be what ended.
		defer cancel()
		return errors.Join(err, k.ensureRole(back, o, b.Primary(was, "")))
	}
	return k.assignRoles(ctx, o, s.Record)
}

// assignRoles takes labels away, makes the Service of the primary lead to another pod, and then gives that one its label: clients
// never find two.
func (k *Reconciler) assignRoles(ctx context.Context, o *v1alpha1.RedisCluster, step redis.AssignRoles) error {
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	ends := k.deletePods(ctx, o, step.Ends, atOnce)
	for _, p := range step.Pods {
		if p.Role == redis.RolePrimary || (ends != nil && slices.Contains(step.Ends, p.Pod)) {
			continue
		}
		if err := k.labelRole(ctx, o, p); err != nil {
			return err
		}
	}
	k.memory(o).appointment.Store(nil) // A write that fails may have been done all the same.
	if err := k.ensureRole(ctx, o, b.Primary(step.Appointment, "")); err != nil {
		return err
	}
	k.memory(o).appointment.Store(&step.Appointment)
	for _, p := range step.Pods {
		if p.Role != redis.RolePrimary {
			continue
		}
		if err := k.labelRole(ctx, o, p); err != nil {
			return err
		}
	}
	return ends
}

// labelRole sets or removes the label of a pod, unless it is another pod by now: that one starts without.
func (k *Reconciler) labelRole(ctx context.Context, o *v1alpha1.RedisCluster, p redis.PodRole) error {
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
