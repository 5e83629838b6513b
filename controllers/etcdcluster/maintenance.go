package etcdcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // The operator's image has no time zone database.

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/anomalies"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/internal/goroutine"
	"github.com/quorate/quorate/internal/ttlmap"
)

// A member that is defragmented leaves the client Service by a label, and pods whose StatefulSet is made anew are owned by their cluster.
// +kubebuilder:rbac:groups="",resources=pods,verbs=patch

const (
	// drainTime is how long the nodes are given to notice that a pod has left the client Service.
	drainTime = 3 * time.Second
	// largestTimeout bounds the look at the keys of a full database, largestEvery how often it is taken.
	largestTimeout = 5 * time.Second
	largestEvery   = 10 * time.Minute
	// hashTimeout bounds the hash of a whole database, hashEvery how often one is made of the same data.
	hashTimeout = time.Minute
	hashEvery   = 10 * time.Minute
)

// maintenance is what the operator remembers about the databases of clusters. With a restart it is lost, which costs nothing but
// time: what has been done is seen in the databases.
type maintenance struct {
	mu       sync.Mutex
	clusters ttlmap.Map[types.UID, clusterMaintenance]
	// drain is how long a defragmentation waits for clients to stay away, spawn runs it in the background.
	drain time.Duration
	spawn func(f func() error, end func(error))
}

type clusterMaintenance struct {
	since time.Time
	trend anomaly.Trend
	vigil anomalies.Detector
	// metrics is when those of a member were last asked for, by the UID of its pod.
	metrics   map[string]time.Time
	newest    model.ObservedRevision
	compacted time.Time
	// defragmentations by the UID of the pod.
	defragmentations map[string]model.Defragmentation
	largest          memo[[]model.KeyGroup]
	hashes           memo[map[string]model.Hash]
}

// memo is an answer that cost much: for which question, and when.
type memo[T any] struct {
	of     string
	at     time.Time
	answer T
}

func newMaintenance(drain time.Duration, spawn func(f func() error, end func(error))) *maintenance {
	return &maintenance{clusters: ttlmap.Map[types.UID, clusterMaintenance]{New: newClusterMaintenance}, drain: drain, spawn: spawn}
}

// SetMaintenance replaces how defragmentations run: how long each waits for clients to leave, and what runs
// it in the background.
func (k *Reconciler) SetMaintenance(drain time.Duration, spawn func(f func() error, end func(error))) {
	k.maintenance = newMaintenance(drain, spawn)
}

func newClusterMaintenance() *clusterMaintenance {
	return &clusterMaintenance{defragmentations: map[string]model.Defragmentation{}, metrics: map[string]time.Time{}}
}

// with calls a function on the memory of a cluster.
func (u *maintenance) with(uid types.UID, now time.Time, call func(*clusterMaintenance)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	call(u.clusters.Get(uid, now))
}

// elsewhere counts the other clusters that are being defragmented.
func (u *maintenance) elsewhere(uid types.UID) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for id, c := range u.clusters.All() { // Under u.mu, as in with.
		if id != uid && c.busy() {
			n++
		}
	}
	return n
}

func (c *clusterMaintenance) busy() bool {
	for _, d := range c.defragmentations {
		if d.End.IsZero() {
			return true
		}
	}
	return false
}

// maintain carries out a step of maintenance.
func (k *Reconciler) maintain(ctx context.Context, o *v1alpha1.EtcdCluster, step cluster.Step) error {
	switch step := step.(type) {
	case steps.DrainMember:
		return k.setServing(ctx, o, step.Pod, step.UID, false)
	case steps.ServeAgain:
		return k.setServing(ctx, o, step.Pod, step.UID, true)
	case steps.Defragment:
		return k.defragment(ctx, o, step)
	case steps.Compact:
		return k.compact(ctx, o, step)
	case steps.Disarm:
		return k.through(ctx, o, step.Pod, func(ctx context.Context, c model.Client) error { return c.Disarm(ctx, step.Alarm) })
	}
	return fmt.Errorf("there is no such step as %T", step)
}

// Renewal has a member serve again that was left out of the client Service when the cluster was paused.
func (k *Reconciler) Renewal(s model.State) cluster.Plan { return planner.Renewal(s) }

func (k *Reconciler) compact(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.Compact) error {
	err := k.through(ctx, o, step.Pod, func(ctx context.Context, c model.Client) error { return c.Compact(ctx, step.Revision) })
	if err == nil {
		k.maintenance.with(o.UID, k.Now(), func(u *clusterMaintenance) { u.compacted = k.Now() })
	}
	return err
}

// setServing puts the label on a pod that the client Service goes by, unless it is another pod by now.
func (k *Reconciler) setServing(ctx context.Context, o *v1alpha1.EtcdCluster, name, uid string, serving bool) error {
	pod := &corev1.Pod{ObjectMeta: owned.ObjectMeta(o, name)}
	body := fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:"%t"}}}`, uid, v1alpha1.LabelServing, serving)
	err := k.Patch(ctx, pod, client.RawPatch(types.MergePatchType, body), client.FieldOwner(cluster.ManagedBy))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // A new pod serves from its start.
	}
	if err != nil {
		return fmt.Errorf("label pod %s: %w", name, err)
	}
	return nil
}

// defragment begins a defragmentation and does not wait for its end, which may take minutes: other clusters must not wait for
// it. If the operator ends meanwhile, the member goes on, and another operator finds it defragmented.
func (k *Reconciler) defragment(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.Defragment) error {
	// The client stays open until the defragmentation ends, not only until the pass does.
	longest := k.maintenance.drain + steps.DefragmentationLimit(step.Size) + 2*ActTimeout
	background, release := context.WithTimeout(context.WithoutCancel(ctx), longest)
	pod, c, err := k.member(background, o, step.Pod)
	if err != nil {
		release()
		return err
	}
	uid, begun := string(pod.UID), false
	k.maintenance.with(o.UID, k.Now(), func(u *clusterMaintenance) {
		if begun = !u.busy(); begun {
			u.defragmentations[uid] = model.Defragmentation{Begin: k.Now(), Before: step.Size}
		}
	})
	if !begun {
		release()
		return nil
	}
	drain := k.maintenance.drain
	if pod.Labels[v1alpha1.LabelServing] == "true" {
		drain = 0 // It is the only member, and its clients have nowhere to go.
	}
	d := model.Defragmentation{Before: step.Size}
	k.maintenance.spawn(func() error { return k.waitFor(background, c, step, drain, &d) }, func(err error) {
		defer release()
		if d.Err = err; d.End.IsZero() { // It has panicked.
			d.End = k.Now()
		}
		k.maintenance.with(o.UID, d.End, func(u *clusterMaintenance) { u.defragmentations[uid] = d })
		log.FromContext(background).Info("defragmented", "pod", step.Pod, "seconds", d.End.Sub(d.Begin).Seconds(),
			"beforeBytes", d.Before, "afterBytes", d.After, "failure", fmt.Sprint(d.Err))
	})
	return nil
}

// waitFor defragments a member and measures how long it takes, from when clients stay away.
func (k *Reconciler) waitFor(ctx context.Context, c model.Client, step steps.Defragment, drain time.Duration, d *model.Defragmentation) error {
	limit := steps.DefragmentationLimit(step.Size)
	ctx, cancel := context.WithTimeoutCause(ctx, drain+limit, fmt.Errorf("it did not end within %s", limit))
	defer cancel()
	select {
	case <-time.After(drain):
	case <-ctx.Done():
	}
	d.Begin = k.Now()
	err := c.Defragment(ctx)
	d.End = k.Now()
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	ctx, cancel = context.WithTimeoutCause(ctx, ActTimeout, errors.New("it did not tell its size in time"))
	defer cancel()
	v, err := c.Status(ctx)
	d.After = v.DBSize
	return err
}

// recall adds to a state what is remembered of its databases.
func (k *Reconciler) recall(o *v1alpha1.EtcdCluster, s *model.State) {
	s.Maintenance.Elsewhere = k.maintenance.elsewhere(o.UID)
	k.maintenance.with(o.UID, s.Now, func(u *clusterMaintenance) {
		if u.since.IsZero() {
			u.since = s.Now
		}
		s.Maintenance.Since, s.Maintenance.LastCompaction = u.since, u.compacted
		known := map[string]model.Defragmentation{}
		inUse := int64(0)
		for i := range s.Pods {
			p := &s.Pods[i]
			if d, ok := u.defragmentations[p.UID]; ok {
				known[p.UID], p.Defragmentation = d, &d
			}
			if p.Status != nil {
				inUse = max(inUse, p.Status.DBInUse)
			}
			if p.Status != nil && p.Status.Leader != 0 {
				u.newest = model.ObservedRevision{Revision: p.Status.Revision, At: s.Now}
			}
		}
		u.defragmentations, s.Maintenance.Newest = known, u.newest
		if inUse > 0 {
			s.Maintenance.Forecast = u.trend.Next(s.Now, inUse, s.Want.Maintenance.Quota)
		}
	})
}

// examine asks what is of use with an alarm only.
func (k *Reconciler) examine(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State, speaker model.Client, clients map[string]model.Client) {
	for _, p := range s.Pods {
		if p.Status == nil {
			continue
		}
		for _, a := range p.Status.Alarms {
			if a.Type != model.AlarmNoSpace {
				k.compareHashes(ctx, o, s, clients)
				return
			}
		}
		if len(p.Status.Alarms) > 0 {
			k.examineSpace(ctx, o, s, speaker)
			return
		}
	}
}

// examineSpace asks for what decides how a full database is cured, and for what a human would want to know. What cannot be
// read stays unknown.
func (k *Reconciler) examineSpace(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State, c model.Client) {
	short, cancel := context.WithTimeoutCause(ctx, quorumTimeout, errors.New("the quorum did not answer in time"))
	defer cancel()
	if compacted, err := c.Compacted(short); err == nil {
		s.Maintenance.Compacted = &compacted
	}
	var known memo[[]model.KeyGroup]
	k.maintenance.with(o.UID, s.Now, func(u *clusterMaintenance) { known = u.largest })
	if known.at.IsZero() || s.Now.Sub(known.at) >= largestEvery {
		long, cancel := context.WithTimeoutCause(ctx, largestTimeout, errors.New("too many keys to look at"))
		defer cancel()
		known.answer, _ = c.Largest(long) // What was found until then is better than nothing.
		known.at = s.Now
		k.maintenance.with(o.UID, s.Now, func(u *clusterMaintenance) { u.largest = known })
	}
	s.Maintenance.Largest = known.answer
}

// compareHashes finds out which members have the same data. With the alarm raised no member takes writes, so that one answer
// for the same members at the same revision is as good as another.
func (k *Reconciler) compareHashes(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State, clients map[string]model.Client) {
	revision, question := int64(0), ""
	for _, p := range s.Pods {
		if tellsHash(p) && (revision == 0 || p.Status.Revision < revision) {
			revision = p.Status.Revision
		}
		question += fmt.Sprint(p.UID, p.Started, tellsHash(p), " ")
	}
	question += fmt.Sprint(revision)
	var known memo[map[string]model.Hash]
	k.maintenance.with(o.UID, s.Now, func(u *clusterMaintenance) { known = u.hashes })
	if known.of != question || s.Now.Sub(known.at) >= hashEvery {
		known = memo[map[string]model.Hash]{of: question, at: s.Now, answer: hashAll(ctx, s.Pods, clients, revision)}
		k.maintenance.with(o.UID, s.Now, func(u *clusterMaintenance) { u.hashes = known })
	}
	for i := range s.Pods {
		if h, ok := known.answer[s.Pods[i].UID]; ok {
			s.Pods[i].Hash = &h
		}
	}
	planner.Compare(s)
}

// tellsHash reports whether a member answers and has a vote: a learner tells no hash.
func tellsHash(p model.Pod) bool { return p.Status != nil && !p.Status.Learner }

// hashAll asks all of them at once.
func hashAll(ctx context.Context, pods []model.Pod, clients map[string]model.Client, revision int64) map[string]model.Hash {
	ctx, cancel := context.WithTimeoutCause(ctx, hashTimeout, errors.New("the database could not be read in time"))
	defer cancel()
	var (
		mu  sync.Mutex
		out = map[string]model.Hash{}
	)
	_ = goroutine.Each(len(pods), func(i int) error { // A hash that is missing is unknown, and said to be.
		p := pods[i]
		c := clients[p.Name]
		if !tellsHash(p) || c == nil {
			return nil
		}
		h, err := c.HashKV(ctx, revision)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out[p.UID] = h
		return nil
	})
	return out
}
