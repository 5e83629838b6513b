package facts

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// How soon to look again. The servers' gossip reports nothing to Kubernetes, so that it has to be asked; their own
// clock ticks every 100 ms.
const (
	Soon  = 100 * time.Millisecond
	Later = time.Second
	// Slowly is for copies of large data, which take minutes.
	Slowly = 2 * time.Second
)

// lively is how long after the start of a server it is worth asking at the pace of the servers' clock.
const lively = 30 * time.Second

// PollInterval is how soon what the servers do by themselves may be over: any moment after one of them has started, and less and
// less likely so the longer it takes.
func PollInterval(v *model.View, fast, slow time.Duration) time.Duration {
	for i := range v.Pods {
		if p := &v.Pods[i]; !p.Started.IsZero() && v.Now.Sub(p.Started) < lively {
			return fast
		}
	}
	return slow
}

// UntilAnswered is how soon the servers that do not answer may do so.
func UntilAnswered(v *model.View) time.Duration {
	if wakingUp(v) {
		return Soon
	}
	return Later
}

// wakingUp tells whether a server of a cluster that is not formed yet has been started and is about to answer. Until
// then pods report by themselves what happens to them.
func wakingUp(v *model.View) bool {
	return !v.HasOwners && slices.ContainsFunc(v.Pods, func(p model.Pod) bool {
		return !p.Started.IsZero() && v.Now.Sub(p.Started) < lively && p.Node == nil && p.Stuck == "" && !p.Deleting
	})
}

// FirstUnready returns the first pod that is not ready; nil for none.
func FirstUnready(v *model.View) *model.Pod {
	if i := slices.IndexFunc(v.Pods, func(p model.Pod) bool { return !p.Ready }); i >= 0 {
		return &v.Pods[i]
	}
	return nil
}
