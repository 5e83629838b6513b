package autoscale

import (
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// Reasons for waiting and refusing, for conditions and events.
const (
	// ReasonNoCluster says that there is no cluster of the wanted name, or that it is being deleted.
	ReasonNoCluster = "ClusterMissing"
	// ReasonRival says that an older resource looks after the same cluster.
	ReasonRival = "ClusterTaken"
	// ReasonUnfit says that what is asked for cannot follow anything in this cluster.
	ReasonUnfit = "NothingToFollow"
	// ReasonBusy says that the cluster is not as specified, so that it is not changed and what is measured counts for nothing.
	ReasonBusy = "ClusterBusy"
	// ReasonUnmeasured says that something could not be measured.
	ReasonUnmeasured = "MeasurementMissing"
	// ReasonFrozen and ReasonDryRun say that spec.mode has nothing changed.
	ReasonFrozen = "Frozen"
	ReasonDryRun = "DryRun"
)

// Reasons of the condition Limited.
const (
	reasonWithin  = "WithinBounds"
	reasonShards  = "ShardsAtMaximum"
	reasonMemory  = "MemoryAtMaximum"
	reasonStorage = "StorageAtMaximum"
	reasonQuota   = "QuotaAtMaximum"
)

// whileWaiting is how soon to look again at what nobody tells of.
const whileWaiting = 5 * time.Second

// Change is a step that changes one field of the specification of a cluster that is still what was decided on.
type Change struct {
	// ResourceVersion of the cluster that was read: no other object ever has the same.
	ResourceVersion string
	// From and To are the values of the field: shards, or bytes; From 0: none.
	From, To int64
}

// SetShards changes the number of shards.
type SetShards struct{ Change }

// SetMemory changes the limit of memory, and the request; Request 0: there is none.
type SetMemory struct {
	Change
	Request int64
}

// SetStorage changes the size of volumes.
type SetStorage struct{ Change }

func (s SetShards) String() string {
	return fmt.Sprintf("change spec.shards from %d to %d", s.From, s.To)
}

// Removed is how many shards a change has taken away, by its own words: there were former, and are to be left; false: it was another change.
func Removed(change string) (former, left int, ok bool) {
	n, err := fmt.Sscanf(change, "change spec.shards from %d to %d", &former, &left)
	return former, left, n == 2 && err == nil && left < former
}

func (s SetMemory) String() string  { return change("spec.resources.limits.memory", s.Change) }
func (s SetStorage) String() string { return change("spec.storage.size", s.Change) }

func change(field string, c Change) string {
	return fmt.Sprintf("change %s from %d MiB to %d MiB", field, c.From>>20, c.To>>20)
}

// Next decides what to do: see phases for the order.
func Next(s State) cluster.Plan {
	p := cluster.Decide(s, phases, nil)
	switch {
	case p.Settled():
		p.Message = outlook(s)
	case p.Step != nil && s.Mode == Frozen:
		return cluster.Plan{Message: fmt.Sprintf("spec.mode is Frozen, so nothing is changed; otherwise it would %s: %s", p.Step, p.Message)}
	case p.Step != nil && s.Mode == DryRun:
		return cluster.Plan{Message: fmt.Sprintf("spec.mode is DryRun: it would %s: %s", p.Step, p.Message)}
	}
	return p
}

func waitForCluster(s State) (cluster.Plan, bool) {
	switch {
	case s.Cluster == nil:
		return cluster.Wait(ReasonNoCluster, 0, "there is no %s in this namespace: create it", s.Target)
	case s.Cluster.Leaving:
		return cluster.Wait(ReasonNoCluster, 0, "%s is being deleted", s.Target)
	}
	return cluster.Pass()
}

func refuseRival(s State) (cluster.Plan, bool) {
	if s.Rival == "" {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonRival, "Autoscaler %s is older and for the same %s: delete one of the two", s.Rival, s.Target)
}

func refuseUnfit(s State) (cluster.Plan, bool) {
	for _, why := range s.unfit() {
		if why != "" {
			return cluster.Refuse(ReasonUnfit, "%s", why)
		}
	}
	return cluster.Pass()
}

// unfit are the reasons why what is asked for cannot follow anything, empty ones included.
func (s State) unfit() []string {
	var out []string
	if s.Shards != nil {
		out = append(out, s.Shards.Unfit)
	}
	if s.Memory != nil {
		out = append(out, s.Memory.Unfit)
	}
	if s.Storage != nil {
		out = append(out, s.Storage.Unfit)
	}
	return out
}

func waitWhileAsleep(s State) (cluster.Plan, bool) {
	switch {
	case s.Cluster.Paused:
		return cluster.Wait(cluster.ReasonPaused, 0, "spec.paused of %s is true, so it is not changed", s.Target)
	case s.Cluster.Hibernated:
		return cluster.Wait(cluster.ReasonHibernated, 0, "spec.hibernated of %s is true, so there is nothing to measure", s.Target)
	}
	return cluster.Pass()
}

// waitForStorage waits for the size of databases, which members tell one by one: the largest that is known counts.
func waitForStorage(s State) (cluster.Plan, bool) {
	if s.Storage == nil || s.Storage.Used > 0 {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonUnmeasured, whileWaiting, "no member of %s tells the size of its database", s.Target)
}

func growStorage(s State) (cluster.Plan, bool) {
	v := s.Storage
	if v == nil || v.grown() <= v.Size {
		return cluster.Pass()
	}
	return cluster.Do(SetStorage{s.change(v.Size, v.grown())}, "the largest database of %s takes more than %d %% of its quota of %d MiB, "+
		"which follows the size of its volume", s.Target, v.FullPercent, v.Quota(v.Size)>>20)
}

// waitForVolumes tells of volumes that have not become what was asked for: until then the database has no more room than before.
func waitForVolumes(s State) (cluster.Plan, bool) {
	v := s.Storage
	if v == nil || v.has() == v.Size || s.Cluster.Busy == "" {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonBusy, whileWaiting, "a volume of %s has %d MiB of the %d MiB that are asked for, and the database takes %d %% of its quota on that: %s",
		s.Target, v.has()>>20, v.Size>>20, v.UsedPercent(), s.Cluster.Busy)
}

// takeBack brings shards back that cannot leave any more: those that stay have got too little room meanwhile, and the cluster does not go on.
func takeBack(s State) (cluster.Plan, bool) {
	n := s.Shards
	if n == nil || !s.Cluster.NoRoom || min(n.Former, n.Max) <= n.Current {
		return cluster.Pass()
	}
	return cluster.Do(SetShards{s.change(int64(n.Current), int64(min(n.Former, n.Max)))},
		"the shards that were to stay have no room for what the others hold, which stay therefore: %s", s.Cluster.Busy)
}

// giveBack gives servers memory that need it and have too little for what is asked for, or are to have less than they need: the cluster does not go
// on by itself.
func giveBack(s State) (cluster.Plan, bool) {
	m := s.Memory
	if m == nil || !m.Apply || (!s.Cluster.NoRoom && !s.Cluster.HoldsMore) || m.Wanted() <= m.Limit {
		return cluster.Pass()
	}
	return m.set(s, m.Wanted(), "a limit of %d MiB is needed by what the fullest server uses, and the cluster does not go on with less: %s", m.Wanted()>>20, s.Cluster.Busy)
}

func (s State) change(from, to int64) Change {
	return Change{s.Cluster.ResourceVersion, from, to}
}

func waitWhileBusy(s State) (cluster.Plan, bool) {
	if s.Cluster.Busy == "" || (s.Shards == nil && s.Memory == nil) {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonBusy, 0, "%s is not as specified, so it is not changed, and what is measured does not count: %s", s.Target, s.Cluster.Busy)
}

func waitForMeasurements(s State) (cluster.Plan, bool) {
	if n := s.Shards; n != nil {
		if _, ok := n.wanted(); !ok {
			return cluster.Wait(ReasonUnmeasured, whileWaiting, "not every primary of %s was measured yet", s.Target)
		}
	}
	if m := s.Memory; m != nil && m.Fit == 0 {
		return cluster.Wait(ReasonUnmeasured, whileWaiting, "not every server of %s tells how much memory it uses", s.Target)
	}
	return cluster.Pass()
}

func setShards(s State) (cluster.Plan, bool) {
	n := s.Shards
	if n == nil || n.Due == 0 || n.Due == n.Current {
		return cluster.Pass()
	}
	return cluster.Do(SetShards{s.change(int64(n.Current), int64(n.Due))}, "%s%s", n.told(), n.since())
}

// since says in words for how long what is due was wanted.
func (n Shards) since() string {
	if n.Due > n.Current {
		return fmt.Sprintf("; for %s at least %d shards were wanted", n.OutAfter, n.Due)
	}
	return fmt.Sprintf("; for %s no more than %d shards were wanted", n.InAfter, n.Due)
}

// told says in words what was measured, so roughly that it changes seldom: a dry run repeats it.
func (n Shards) told() string {
	var parts []string
	if share, ok := n.MemoryShare(); ok {
		parts = append(parts, fmt.Sprintf("primaries use about %.0f %% of their memory on average, and are to use %d %%", math.Round(share*20)*5, n.MemoryPercent))
	}
	if rate, ok := n.Rate(); ok {
		step := math.Pow(10, math.Floor(math.Log10(max(rate, 10)))-1)
		parts = append(parts, fmt.Sprintf("primaries carry out about %.0f commands a second on average, and are to carry out %d", math.Round(rate/step)*step, n.Operations))
	}
	return strings.Join(parts, "; ")
}

func setMemory(s State) (cluster.Plan, bool) {
	m := s.Memory
	if m == nil || !m.Apply || m.Due == 0 || m.Due == m.Limit {
		return cluster.Pass()
	}
	after, word := m.GrowAfter, "at least"
	if m.Due < m.Limit {
		after, word = m.ShrinkAfter, "no more than"
	}
	return m.set(s, m.Due, "for %s a limit of %s %d MiB was wanted, by what the fullest server uses", after, word, m.Due>>20)
}

// set changes the limit, and the request along with it.
func (m Memory) set(s State, to int64, why string, args ...any) (cluster.Plan, bool) {
	request := min(rounded(int64(float64(m.Request)/float64(m.Limit)*float64(to))), to)
	return cluster.Do(SetMemory{s.change(m.Limit, to), request}, why, args...)
}

// outlook says in words how things are when nothing is to be done.
func outlook(s State) string {
	text := s.Target + " has what it needs"
	switch n, m := s.Shards, s.Memory; {
	case n != nil && n.Wanted() > n.Current:
		text = fmt.Sprintf("%d shards are wanted, and are asked for when that has lasted for %s", n.Wanted(), n.OutAfter)
	case n != nil && n.Wanted() < n.Current:
		text = fmt.Sprintf("%d shards would be enough, and are asked for when that has lasted for %s", n.Wanted(), n.InAfter)
	case m != nil && m.Wanted() != m.Limit && !m.Apply:
		text = fmt.Sprintf("a limit of memory of %d MiB is recommended", m.Wanted()>>20)
	case m != nil && m.Wanted() > m.Limit:
		text = fmt.Sprintf("a limit of memory of %d MiB is wanted, and asked for when that has lasted for %s", m.Wanted()>>20, m.GrowAfter)
	case m != nil && m.Wanted() < m.Limit:
		text = fmt.Sprintf("a limit of memory of %d MiB would be enough, and is asked for when that has lasted for %s", m.Wanted()>>20, m.ShrinkAfter)
	}
	if s.Mode != Auto {
		text = fmt.Sprintf("spec.mode is %s; %s", s.Mode, text)
	}
	return text
}

// Conditions returns Ready, Reconciling, Stalled and Limited for the outcome of one pass.
func Conditions(s State, p cluster.Plan, err error) []metav1.Condition {
	ready := cluster.Ready(p, err, p.Message)
	if err == nil && p.Settled() && s.Mode == Frozen {
		ready.Reason = ReasonFrozen
	} else if err == nil && p.Settled() && s.Mode == DryRun {
		ready.Reason = ReasonDryRun
	}
	return append(cluster.Progress(p, err), ready, limited(s))
}

// limited says whether more is needed than may be given.
func limited(s State) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionLimited, Status: metav1.ConditionTrue}
	switch n, m, v := s.Shards, s.Memory, s.Storage; {
	case !s.measured():
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "nothing was measured"
	case n != nil && n.limited():
		c.Reason, c.Message = reasonShards, fmt.Sprintf("more than the %d shards of spec.shards.max are needed: raise it, give servers more memory, or delete keys", n.Max)
	case m != nil && m.Unfit == "" && m.Fit > m.Max:
		c.Reason, c.Message = reasonMemory, fmt.Sprintf("a limit of %d MiB is needed, and spec.memory.max is %d MiB: raise it, or delete keys", m.Fit>>20, m.Max>>20)
	case v != nil && v.limited() && v.Size < v.Max:
		c.Reason, c.Message = reasonQuota, fmt.Sprintf("the quota of %d MiB is nearly reached, and does not follow the size of the volume any more: "+
			"delete keys, or raise spec.config.quotaBackendBytes of %s", v.Quota(v.Size)>>20, s.Target)
	case v != nil && v.limited():
		c.Reason, c.Message = reasonStorage, fmt.Sprintf("the quota of %d MiB is nearly reached, and spec.storage.max allows no larger volumes: raise it, or delete keys",
			v.Quota(v.Size)>>20)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonWithin, "the cluster needs no more than it may be given"
	}
	return c
}

// measured reports whether anything was.
func (s State) measured() bool {
	return (s.Shards != nil && len(s.Shards.Loads) > 0) || (s.Memory != nil && s.Memory.Fit > 0) || (s.Storage != nil && s.Storage.Used > 0)
}

func (n Shards) limited() bool {
	needed, ok := n.needed()
	return ok && n.Unfit == "" && needed > n.Max
}

// limited reports whether a database is too large for its quota, and larger volumes would not change that or are not allowed.
func (v Storage) limited() bool {
	if v.Unfit != "" || v.Used == 0 || !v.full(v.Size) {
		return false
	}
	return v.grown() <= v.Size
}
