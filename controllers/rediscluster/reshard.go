package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/internal/goroutine"
)

// meter counts what has been moved in a cluster since slots were last at rest. It is for the status only.
type meter struct {
	mu    sync.Mutex
	moved model.Progress
	last  time.Time
	// seen are the migrations that servers tell of, by name, with what is yet to be counted of them; nil: none was asked yet.
	seen map[string]model.Moved
}

// standstill is how long nothing has been moved when a new count begins.
const standstill = time.Minute

// add counts what a move has achieved.
func (m *meter) add(done model.Moved, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(done, now)
}

func (m *meter) count(done model.Moved, now time.Time) {
	m.begin(now)
	m.moved.Slots += done.Slots
	m.moved.Keys += int64(done.Keys)
	m.moved.Bytes += done.Bytes
}

// begin begins a new count, unless one goes on.
func (m *meter) begin(now time.Time) {
	if now.Sub(m.last) > standstill {
		m.moved = model.Progress{Since: now}
	}
	m.last = now
}

// watch counts what servers have moved by themselves since they were first asked, when it is over. They tell of slots alone: keys and
// bytes are what their source held in so many slots on average.
func (m *meter) watch(pods []model.Pod, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.seen == nil
	if first {
		m.seen = map[string]model.Moved{}
	}
	for _, p := range pods {
		if p.Node == nil {
			continue
		}
		for _, g := range p.Node.Migrations {
			left, known := m.seen[g.Name]
			switch {
			case g.Importing:
				continue // Its source tells of it, too.
			case !known && (g.Running() || !first):
				left = steps.Share(p.Node, g)
			}
			switch {
			case g.Running():
				m.begin(now)
			case g.Done() && left.Slots > 0:
				m.count(left, now)
				left = model.Moved{}
			}
			m.seen[g.Name] = left
		}
	}
}

func (m *meter) read() model.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moved
}

// shards are the wanted ones, and those that exist and are to leave: they are looked after until they go.
func (k *Reconciler) shards(ctx context.Context, o *v1alpha1.RedisCluster) ([]int, error) {
	sizes, err := k.shardSizes(ctx, o)
	return slices.Sorted(maps.Keys(sizes)), err
}

// shardSizes are how many servers each of the shards has, those included that are to come and those that are to leave.
func (k *Reconciler) shardSizes(ctx context.Context, o *v1alpha1.RedisCluster) (map[int]int, error) {
	var s model.State
	if err := k.observeSets(ctx, o, &s); err != nil {
		return nil, err
	}
	out := map[int]int{}
	for shard := range o.Spec.ShardCount() {
		out[shard] = 1 + o.Spec.Replicas()
	}
	for _, set := range s.Sets {
		out[set.Shard] = max(out[set.Shard], set.Replicas)
	}
	return out, nil
}

// A shard whose keys are elsewhere leaves with its servers.
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=delete
// Its budget goes with it.
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=delete
// So do its disks, which could only be mistaken for those of a shard that has slots.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=delete

// dropShard deletes the StatefulSet of a shard, just the one that was decided on, after its claims and its budget: all keys are
// elsewhere, and what is left on the disks could only be mistaken for them. Kubernetes keeps the claims until the pods have ended.
func (k *Reconciler) dropShard(ctx context.Context, o *v1alpha1.RedisCluster, s steps.DropShard) error {
	claims, err := k.claims(ctx, o)
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.Shard != s.Shard || c.Leaving {
			continue
		}
		if err := k.deleteClaim(ctx, o, steps.DeleteClaim{Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion}); err != nil {
			return err
		}
	}
	uid, name := types.UID(s.UID), cluster.ShardSet(o.Name, s.Shard)
	if err := k.DeleteOwned(ctx, o, &policyv1.PodDisruptionBudget{ObjectMeta: owned.ObjectMeta(o, name)}); err != nil {
		return err
	}
	set := &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(o, name)}
	if err := k.Delete(ctx, set, client.Preconditions{UID: &uid}, client.PropagationPolicy("Background")); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete StatefulSet of shard %d: %w", s.Shard, err)
	}
	return nil
}

// moveSlots moves slots between pairs of servers, all pairs at once.
func (k *Reconciler) moveSlots(ctx context.Context, o *v1alpha1.RedisCluster, s steps.MoveSlots) error {
	end := k.Now().Add(s.For)
	return errors.Join(goroutine.Each(len(s.Moves), func(i int) error {
		m := s.Moves[i]
		return k.withMovers(ctx, o, []server{{m.From, m.FromID}, {m.To, m.ToID}}, func(movers []steps.Mover) error {
			done, err := m.Run(ctx, movers[0], movers[1], func() bool { return k.Now().Before(end) })
			k.memory(o).meter.add(done, k.Now())
			return err
		})
	})...)
}

// withMovers connects to servers as the user that moves keys.
func (k *Reconciler) withMovers(ctx context.Context, o *v1alpha1.RedisCluster, servers []server, do func([]steps.Mover) error) error {
	connect, err := k.credentials(ctx, o)
	if err != nil {
		return err
	}
	movers := make([]steps.Mover, len(servers))
	for i, s := range servers {
		c, to, err := k.open(ctx, o, connect, s)
		if err != nil {
			return err
		}
		_ = c.Close() // Only who answers was in question.
		movers[i] = k.ConnectMover(connect(acl.UserMigration, to))
		defer func() { _ = movers[i].Close() }() // The commands have been answered by then.
	}
	err = do(movers)
	var refusal cluster.Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return briefError{err}
}
