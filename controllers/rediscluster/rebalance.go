package rediscluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/goroutine"
)

// sampleEvery is how often servers are asked what their slots hold. What they do is asked for at both ends of redis.LoadWindow.
const sampleEvery = time.Minute

// scales remember what slots weighed, which servers tell as sums since they were started, and what was proposed because of it.
type scales struct {
	mu sync.Mutex
	// asked is when the servers were.
	asked time.Time
	// marks are the last sample, and by load the one before.
	marks      []balance.Sample
	proposal   *model.Proposal
	rebalanced time.Time
}

func rebalanceOf(o *v1alpha1.RedisCluster) model.Rebalance {
	r := o.Spec.Rebalance
	if r.ByWeight() == "" {
		return model.Rebalance{}
	}
	return model.Rebalance{
		By: r.ByWeight(), Automatic: r.Automatic(), Approved: o.Annotations[v1alpha1.AnnotationRebalance],
		Threshold: int(ptr.Deref(r.Threshold, 20)), CoolDown: r.Cooled(),
	}
}

// weigh fills in what slots weigh and what is proposed because of it.
func (k *Reconciler) weigh(ctx context.Context, o *v1alpha1.RedisCluster, connect connectFunc, s *model.State) {
	w := &k.memory(o).scales
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.Spec.Rebalance.On() {
		w.marks, w.asked, w.proposal, w.rebalanced = nil, time.Time{}, nil, time.Time{}
		return
	}
	if w.rebalanced.IsZero() {
		w.rebalanced = s.Now
	}
	every := sampleEvery
	if s.Spec.Rebalance.By == v1alpha1.RebalanceByLoad && len(w.marks) > 0 {
		every = balance.LoadWindow
	}
	if s.Now.Sub(w.asked) >= every && tellable(s) {
		w.asked = s.Now
		if sample, whole := k.sample(ctx, connect, s); whole {
			w.take(s.Spec.Rebalance.By, sample)
		}
	}
	if len(w.marks) > 0 {
		former, latest := w.marks[0], w.marks[len(w.marks)-1]
		s.Weights, s.Untold = balance.Weigh(s.Spec.Rebalance.By, former, latest, s.Pods)
		if s.Spec.Rebalance.By == v1alpha1.RebalanceByLoad && latest.At.Sub(former.At) < balance.LoadWindow {
			s.Weights = nil // A load of a minute may be gone in the next one.
		}
	}
	s.Rebalanced = w.rebalanced
	var ended bool
	if w.proposal, ended = balance.Propose(*s, w.proposal); ended {
		w.rebalanced = s.Now
		w.marks, w.asked = nil, time.Time{} // What was measured before is about another layout.
	}
	s.Proposal, s.Rebalanced = w.proposal, w.rebalanced
}

// tellable reports whether there is a server to ask for every slot.
func tellable(s *model.State) bool {
	slots := 0
	for i := range s.Pods {
		if n := s.Pods[i].Node; n != nil {
			slots += n.Self().Slots.Count()
		}
	}
	return slots == redisslots.Count
}

// take adds a sample, and drops those that are not needed any more. What memory slots take the last one tells alone.
func (w *scales) take(by v1alpha1.RebalanceBy, sample balance.Sample) {
	if by == v1alpha1.RebalanceByMemory {
		w.marks = nil
	}
	w.marks = append(w.marks, sample)
	for len(w.marks) > 2 && sample.At.Sub(w.marks[1].At) >= balance.LoadWindow {
		w.marks = w.marks[1:]
	}
}

// sample asks all primaries. It is whole when all slots were told of.
func (k *Reconciler) sample(ctx context.Context, connect connectFunc, s *model.State) (out balance.Sample, whole bool) {
	out = balance.Sample{At: s.Now, Servers: map[string]map[int]model.SlotStat{}}
	told := 0
	var mu sync.Mutex
	_ = goroutine.Each(len(s.Pods), func(i int) error { // Slots without an answer are missing from told.
		p := &s.Pods[i]
		if p.Node == nil || len(p.Node.Self().Slots) == 0 {
			return nil
		}
		c := k.Connect(connect(acl.UserOperator, endpointOf(p)))
		defer func() { _ = c.Close() }() // Nothing was written that closing could lose.
		stats, err := c.SlotStats(ctx, p.Node.Self().Slots)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out.Servers[balance.Teller(p.Node)] = stats
		told += len(stats)
		return nil
	})
	return out, told == redisslots.Count
}
