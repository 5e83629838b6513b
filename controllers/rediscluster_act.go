package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// Act carries out one step: commands to servers, the deletion of pods, a change of budgets or of passwords.
func (k *RedisKind) Act(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch s := step.(type) {
	case redis.Restart:
		return k.deletePods(ctx, o, s.Pods)
	case redis.RotatePasswords:
		return k.rotatePasswords(ctx, o, s)
	case redis.Guard:
		return k.guard(ctx, o, s)
	case redis.ServerStep:
		return k.command(ctx, o, s.Calls())
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete

// deletePods deletes just these pods, not others that took their names meanwhile.
func (k *RedisKind) deletePods(ctx context.Context, o *v1alpha1.RedisCluster, pods []redis.PodRef) error {
	var errs []error
	for _, p := range pods {
		uid := types.UID(p.UID)
		pod := &corev1.Pod{ObjectMeta: objectMeta(o, p.Name)}
		err := k.Delete(ctx, pod, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete pod %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// guard changes the budgets of shards.
func (k *RedisKind) guard(ctx context.Context, o *v1alpha1.RedisCluster, s redis.Guard) error {
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	var errs []error
	change := func(shards []int, guarded bool) {
		for _, shard := range shards {
			if err := k.ensureBudget(ctx, o, b, shard, guarded); err != nil {
				errs = append(errs, err)
				continue
			}
			k.budgets.Store(budgetKey{o.UID, shard}, guarded)
		}
	}
	change(s.Protect, true)
	change(s.Release, false)
	return errors.Join(errs...)
}

// command sends commands to servers: those to one server in order over one connection, different servers at once.
func (k *RedisKind) command(ctx context.Context, o *v1alpha1.RedisCluster, calls []redis.Call) error {
	passwords, err := k.Passwords(ctx, o)
	if err != nil {
		return err
	}
	connect, err := k.connector(ctx, o, passwords)
	if err != nil {
		return err
	}
	if connect == nil {
		return errors.New("there are no credentials to connect with yet")
	}
	byPod := map[string][]redis.Call{}
	for _, c := range calls {
		byPod[c.Pod] = append(byPod[c.Pod], c)
	}
	// In the order of the pods: the errors go into the status, which should not change with every attempt.
	pods := slices.Sorted(maps.Keys(byPod))
	errs := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, pod := range pods {
		wg.Go(func() { errs[i] = k.commandPod(ctx, o, connect, pod, byPod[pod]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (k *RedisKind) commandPod(
	ctx context.Context, o *v1alpha1.RedisCluster, connect connectFunc, name string, calls []redis.Call,
) error {
	var pod corev1.Pod
	if err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, &pod); err != nil {
		return fmt.Errorf("read pod %s: %w", name, err)
	}
	c := connect(name, redis.Address{IP: pod.Status.PodIP, Port: redis.ClientPort})
	defer func() { _ = c.Close() }() // The commands have been answered by then.
	// A command to the wrong server could make it give up its data, so its identity is asked for once more.
	node, err := c.Read(ctx)
	if err != nil {
		return fmt.Errorf("pod %s: %s", name, briefly(err))
	}
	if !node.RunsIn(name) {
		return fmt.Errorf("pod %s: another server answers at its address", name)
	}
	for _, call := range calls {
		if err := call.Do(ctx, c); err != nil {
			return fmt.Errorf("pod %s: %s", name, briefly(err))
		}
	}
	return nil
}
