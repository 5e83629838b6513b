package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func TestServersGetOtherClaimsBeforeTheirsGo(t *testing.T) {
	deleted := func(pods ...string) func(*fixture) {
		return func(f *fixture) {
			f.Spec.Persistent = true
			for _, name := range pods {
				p := f.pod(name)
				f.Claims = append(f.Claims, model.Claim{Name: "data-" + name, Shard: p.Shard, Ordinal: p.Ordinal, Leaving: true})
			}
		}
	}
	var all []string
	for shard := range 3 {
		for ordinal := range 2 {
			all = append(all, fmt.Sprintf("c-%d-%d", shard, ordinal))
		}
	}
	single := func(f *fixture) {
		f.Pods = slices.DeleteFunc(f.Pods, func(p model.Pod) bool { return p.Ordinal > 0 })
		for i := range f.Pods {
			f.Pods[i].Node.Peers = slices.DeleteFunc(f.Pods[i].Node.Peers, func(p model.Peer) bool { return p.Replica })
		}
		for i := range f.Sets {
			f.Sets[i].Replicas = 1
		}
		f.Spec.Replicas = 0
		deleted("c-1-0")(f)
	}
	for name, r := range map[string]row{
		"restarts one replica first": {
			state: formed(), spoil: deleted(all...), step: steps.Restart{Pods: []steps.PodRef{{Name: "c-0-1", UID: "uid-c-0-1"}}, Cause: steps.ReasonRestart},
			message: "claims data-c-0-1 are being deleted",
		},
		"hands the shard of a primary over before its claim goes": {
			state: formed(), spoil: deleted("c-1-0"), step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"}, message: "claims data-c-1-0 are being deleted",
		},
		"hands no shard to a replica that has not everything": {
			state: formed(), spoil: func(f *fixture) { deleted("c-1-0")(f); f.pod("c-1-1").Node.OnDisk = false }, reason: ReasonDisk,
		},
		"gives a shard of one copy a second one": {
			state: formed(), spoil: single, step: steps.ScaleShards{Sets: []steps.SetSize{{Shard: 1, From: 1, To: 2}}},
		},
		"deletes no pod that cannot start while its shard has no primary": {
			state: formed(), spoil: func(f *fixture) {
				deleted("c-1-0")(f)
				f.drop("c-1-1")
				p := f.pod("c-1-0")
				p.Node, p.Ready, p.Stuck, p.HasRun, p.Started = nil, false, "ImagePullBackOff", true, time.Time{}
			},
			reason: ReasonUnsafeRestart, stalled: true,
		},
		"names the claims while it waits for something else": {
			state: formed(), spoil: func(f *fixture) { deleted("c-1-0")(f); f.pod("c-1-1").Node.OnDisk = false }, reason: ReasonDisk,
			message: "Claims data-c-1-0 are being deleted, and their volumes go when their pods end",
		},
	} {
		t.Run(name, r.Check)
	}
}

func TestNoStepEndsTheLastCopyOnAClaimThatIsBeingDeleted(t *testing.T) {
	f := formed()
	f.Spec.Persistent = true
	f.Claims = append(f.Claims, model.Claim{Name: "data-c-1-0", Shard: 1, Leaving: true})
	primary, replica := ref(f.pod("c-1-0")), ref(f.pod("c-1-1"))
	for name, tc := range map[string]struct {
		step  cluster.Step
		holds bool
	}{
		"a new disk for the primary":    {steps.ReplaceDisk{Pod: primary}, true},
		"a new disk for a replica":      {steps.ReplaceDisk{Pod: replica}, false},
		"a shard that loses all pods":   {steps.ScaleShards{Sets: []steps.SetSize{{Shard: 1, From: 2, To: 0}}}, true},
		"a shard that loses a replica":  {steps.ScaleShards{Sets: []steps.SetSize{{Shard: 1, From: 2, To: 1}}}, false},
		"a shard that gets another pod": {steps.ScaleShards{Sets: []steps.SetSize{{Shard: 1, From: 2, To: 3}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := keepLastCopy(model.NewView(f.State), cluster.Plan{Step: tc.step})
			if ok == tc.holds {
				t.Errorf("the step is taken: %v", ok)
			}
		})
	}
}
