package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/internal/goroutine"
)

// Act carries out one step: commands to servers, the deletion of pods and claims, or a change of budgets, passwords or StatefulSets.
func (k *Reconciler) Act(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	if err := k.checkSpec(ctx, o, step); err != nil {
		return err
	}
	k.memory(o).silence.note(step)
	err := k.act(ctx, o, step)
	if err == nil || errors.Is(err, steps.ErrUndecided) || errors.Is(err, steps.ErrStood) { // A server that refuses does not stand for election.
		k.memory(o).processes.Stand(step, k.Now())
		return errors.Join(err, k.noteElection(ctx, o, step))
	}
	return err
}

// noteElection has the pod say when its server stood for election.
func (k *Reconciler) noteElection(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	name := steps.Candidate(step)
	if name == "" {
		return nil
	}
	return k.annotatePod(ctx, o, name, history.AnnotationElection, func(string) string { return k.Now().UTC().Format(time.RFC3339Nano) })
}

// annotatePod changes an annotation of a pod, if what it is to be differs from what it was.
func (k *Reconciler) annotatePod(ctx context.Context, o *v1alpha1.RedisCluster, name, key string, change func(was string) string) error {
	var pod corev1.Pod
	if err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, &pod); err != nil {
		return fmt.Errorf("read pod %s: %w", name, err)
	}
	was := pod.Annotations[key]
	is := change(was)
	if is == was {
		return nil
	}
	before := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, is)
	if err := k.Patch(ctx, &pod, client.MergeFrom(before), client.FieldOwner(cluster.ManagedBy)); err != nil {
		return fmt.Errorf("annotate pod %s: %w", name, err)
	}
	return nil
}

func (k *Reconciler) act(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch s := step.(type) {
	case steps.Restart, steps.End, steps.ReplaceDisk, steps.ResizePod:
		return k.changePods(ctx, o, s)
	case steps.RotatePasswords:
		return k.rotatePasswords(ctx, o, s)
	case steps.Guard:
		return k.guard(ctx, o, s)
	case steps.MoveSlots:
		return k.moveSlots(ctx, o, s)
	case steps.MoverStep:
		pod, id := s.Server()
		return k.withMovers(ctx, o, []server{{pod, id}}, func(m []steps.Mover) error { return s.Run(ctx, m[0]) })
	case steps.DropShard:
		return k.dropShard(ctx, o, s)
	case steps.ScaleShards:
		return k.scaleShards(ctx, o, s)
	case steps.DeleteClaim:
		return k.deleteClaim(ctx, o, s)
	case steps.Withdraw:
		return k.withdraw(ctx, o, s)
	case steps.Configure:
		return k.configure(ctx, o, s)
	case steps.Appoint, steps.AssignRoles, steps.HandOver, steps.Failover:
		return k.changeRoles(ctx, o, s)
	case steps.Meet:
		return k.introduce(ctx, o, s)
	case steps.ServerStep:
		return k.Command(ctx, o, s.Calls())
	}
	return k.actRestore(ctx, o, step)
}

// checkSpec returns an error if a step removes a server and the specification has changed since: by
// an old one it could be a server that was just added.
func (k *Reconciler) checkSpec(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch step.(type) {
	case steps.Forget, steps.Part, steps.DropShard:
		return k.ConfirmSpec(ctx, o)
	}
	return nil
}

// changePods ends pods, or has them changed while they run.
func (k *Reconciler) changePods(ctx context.Context, o *v1alpha1.RedisCluster, step cluster.Step) error {
	switch s := step.(type) {
	case steps.Restart:
		return k.deletePods(ctx, o, s.Pods)
	case steps.End:
		return k.deletePods(ctx, o, s.Pods, atOnce)
	case steps.ReplaceDisk:
		return k.replaceDisk(ctx, o, s)
	case steps.ResizePod:
		return k.resize(ctx, o, s)
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// atOnce has a pod ended at once, but by its kubelet: with zero, Kubernetes would forget a pod that runs.
const atOnce = client.GracePeriodSeconds(1)

// replaceDisk ends the pod only when its claim is gone, or about to be: on its old disk it would come back as it was.
func (k *Reconciler) replaceDisk(ctx context.Context, o *v1alpha1.RedisCluster, s steps.ReplaceDisk) error {
	if err := k.tryDeleteClaim(ctx, o, s.Claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete claim %s: %w", s.Claim.Name, err)
	}
	var how []client.DeleteOption
	if s.Gone {
		how = append(how, client.GracePeriodSeconds(0))
	}
	return k.deletePods(ctx, o, []steps.PodRef{s.Pod}, how...)
}

// A server starts anew when its pod is deleted, and its labels say which role it has.
// +kubebuilder:rbac:groups="",resources=pods,verbs=delete;patch

// deletePods deletes just these pods, not others that took their names meanwhile.
func (k *Reconciler) deletePods(ctx context.Context, o *v1alpha1.RedisCluster, pods []steps.PodRef, how ...client.DeleteOption) error {
	var errs []error
	for _, p := range pods {
		uid := types.UID(p.UID)
		pod := &corev1.Pod{ObjectMeta: owned.ObjectMeta(o, p.Name)}
		err := k.Delete(ctx, pod, append(how, client.Preconditions{UID: &uid})...)
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete pod %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// configure takes down on each pod what its server is about to be told, and tells it.
func (k *Reconciler) configure(ctx context.Context, o *v1alpha1.RedisCluster, s steps.Configure) error {
	for _, p := range s.Pods {
		told := func(was string) string { return config.JoinNames(was, s.Names) }
		if err := k.annotatePod(ctx, o, p.Pod, config.AnnotationLive, told); err != nil {
			return err
		}
	}
	return k.Command(ctx, o, s.Calls())
}

// guard changes the budgets of shards.
func (k *Reconciler) guard(ctx context.Context, o *v1alpha1.RedisCluster, s steps.Guard) error {
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	var errs []error
	change := func(shards []int, guarded bool) {
		for _, shard := range shards {
			if err := k.ensureBudget(ctx, o, b, shard, guarded); err != nil {
				errs = append(errs, err)
			}
		}
	}
	change(s.Protect, true)
	change(s.Release, false)
	return errors.Join(errs...)
}

// Command sends commands to servers: those to one server in order over one connection, different servers at once.
func (k *Reconciler) Command(ctx context.Context, o *v1alpha1.RedisCluster, calls []steps.Call) error {
	connect, err := k.credentials(ctx, o)
	if err != nil {
		return err
	}
	byPod := map[string][]steps.Call{}
	for _, c := range calls {
		byPod[c.Pod] = append(byPod[c.Pod], c)
	}
	// In the order of the pods: the errors go into the status, which should not change with every attempt.
	pods := slices.Sorted(maps.Keys(byPod))
	return errors.Join(goroutine.Each(len(pods), func(i int) error {
		return k.commandPod(ctx, o, connect, pods[i], byPod[pods[i]])
	})...)
}

func (k *Reconciler) commandPod(
	ctx context.Context, o *v1alpha1.RedisCluster, connect connectFunc, name string, calls []steps.Call,
) error {
	c, _, err := k.open(ctx, o, connect, server{pod: name})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // The commands have been answered by then.
	for _, call := range calls {
		if err := call.Do(ctx, c); err != nil {
			return fmt.Errorf("pod %s: %w", name, briefError{err})
		}
	}
	return nil
}

// introduce sends CLUSTER MEET where the expected server still answers at the address. An address
// that was reused since the observation would join another cluster to this one.
func (k *Reconciler) introduce(ctx context.Context, o *v1alpha1.RedisCluster, s steps.Meet) error {
	connect, err := k.credentials(ctx, o)
	if err != nil {
		return err
	}
	byPod := map[string]steps.Introduction{}
	for _, i := range s.Pairs {
		byPod[i.Other] = i
	}
	pods := slices.Sorted(maps.Keys(byPod))
	errs := goroutine.Each(len(pods), func(i int) error { return k.verify(ctx, o, connect, byPod[pods[i]]) })
	refused := map[string]bool{}
	for n, pod := range pods {
		refused[pod] = errs[n] != nil
	}
	s.Pairs = slices.DeleteFunc(slices.Clone(s.Pairs), func(i steps.Introduction) bool { return refused[i.Other] })
	return errors.Join(append(errs, k.Command(ctx, o, s.Calls()))...)
}

// verify connects to the server that is to be introduced, and returns an error if another one answers.
func (k *Reconciler) verify(ctx context.Context, o *v1alpha1.RedisCluster, connect connectFunc, i steps.Introduction) error {
	c, node, to, err := k.meet(ctx, o, connect, server{pod: i.Other})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // Nothing was written that closing could lose.
	return i.Verify(node, to.addr)
}

// withServers connects to servers as the operator.
func (k *Reconciler) withServers(ctx context.Context, o *v1alpha1.RedisCluster, servers []server, do func([]steps.Client) error) error {
	connect, err := k.credentials(ctx, o)
	if err != nil {
		return err
	}
	clients := make([]steps.Client, len(servers))
	for i, s := range servers {
		if clients[i], _, err = k.open(ctx, o, connect, s); err != nil {
			return err
		}
		defer func() { _ = clients[i].Close() }() // The commands have been answered by then.
	}
	if err := do(clients); err != nil {
		return briefError{err}
	}
	return nil
}

// credentials says how to connect to the servers of a cluster; an error while that is not known yet.
func (k *Reconciler) credentials(ctx context.Context, o *v1alpha1.RedisCluster) (connectFunc, error) {
	passwords, err := k.Passwords(ctx, o)
	if err != nil {
		return nil, err
	}
	connect, err := k.connector(ctx, o, passwords)
	if err == nil && connect == nil {
		err = errors.New("there are no credentials to connect with yet")
	}
	return connect, err
}

// server is the server of a pod, and its id where only that one will do.
type server struct{ pod, id string }

// open connects to a server. A command to the wrong one could make it give up its data, so its identity is asked for once more.
func (k *Reconciler) open(ctx context.Context, o *v1alpha1.RedisCluster, connect connectFunc, s server) (steps.Client, endpoint, error) {
	c, _, to, err := k.meet(ctx, o, connect, s)
	return c, to, err
}

// meet connects to a server and returns the answer that proves its identity.
func (k *Reconciler) meet(
	ctx context.Context, o *v1alpha1.RedisCluster, connect connectFunc, s server,
) (steps.Client, *model.Node, endpoint, error) {
	var pod corev1.Pod
	if err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: s.pod}, &pod); err != nil {
		return nil, nil, endpoint{}, fmt.Errorf("read pod %s: %w", s.pod, err)
	}
	to := endpoint{
		s.pod, processOf(string(pod.UID), startedAt(&pod, manifests.ContainerServer)), model.Address{IP: pod.Status.PodIP, Port: model.ClientPort},
	}
	c := k.Connect(connect(acl.UserOperator, to))
	node, err := c.Read(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("pod %s: %w", s.pod, briefError{err})
	case !node.RunsIn(s.pod, o.Name, o.Namespace) || (s.id != "" && node.ID != s.id):
		err = fmt.Errorf("pod %s: another server answers at its address", s.pod)
	default:
		return c, node, to, nil
	}
	_ = c.Close() // Nothing was written that closing could lose.
	return nil, nil, to, err
}
