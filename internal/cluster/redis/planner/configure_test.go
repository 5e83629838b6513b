package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// TestOneServerOfAShardWritesItsLogAgainAtATime has a client switch off the append-only files.
func TestOneServerOfAShardWritesItsLogAgainAtATime(t *testing.T) {
	off := func(pods ...string) func(f *fixture) {
		return func(f *fixture) {
			f.Spec.Live = map[string]string{model.AppendOnly: "yes"}
			for i := range f.Pods {
				f.Pods[i].Node.Config = map[string]string{model.AppendOnly: "yes"}
			}
			for _, name := range pods {
				f.pod(name).Node.Config[model.AppendOnly], f.pod(name).Node.OnDisk = "no", false
			}
		}
	}
	on := func(pods ...string) steps.Configure {
		var s steps.Configure
		for _, name := range pods {
			s.Pods = append(s.Pods, steps.PodSettings{Pod: name, Values: map[string]string{model.AppendOnly: "yes"}})
		}
		return s
	}
	for name, tc := range map[string]row{
		"the primaries of two shards come first": {
			state: formed(), spoil: off("c-0-0", "c-0-1", "c-1-0", "c-1-1"), step: on("c-0-0", "c-1-0"),
		},
		"a replica waits for the rewrite of its primary": {
			state: formed(), spoil: func(f *fixture) {
				off("c-0-1")(f)
				f.pod("c-0-0").Node.OnDisk, f.pod("c-0-0").Node.Forked = false, true
			},
			reason: ReasonDisk,
		},
		"a replica does not wait for a rewrite that has failed": {
			state: formed(), spoil: func(f *fixture) { off("c-0-1")(f); f.pod("c-0-0").Node.OnDisk = false }, step: on("c-0-1"),
		},
		"a server that loads its data is told afterwards, and its replica now": {
			state: formed(), spoil: func(f *fixture) { off("c-0-0", "c-0-1")(f); f.pod("c-0-0").Node.Loading = true }, step: on("c-0-1"),
		},
	} {
		t.Run(name, tc.Check)
	}
}

func TestServersAreConfigured(t *testing.T) {
	differ := func(f *fixture) {
		f.Spec.Live, f.Spec.LiveNames = map[string]string{"hz": "20", "maxmemory": "100", "set-max-listpack-entries": "5"}, "hz"
		for i := range f.Pods {
			f.Pods[i].Node.Config = map[string]string{"hz": "20", "maxmemory": "100"}
		}
	}
	for name, tc := range map[string]row{
		"settings that are as wanted, or not known to the server": {state: formed(), spoil: differ},
		"settings that differ": {
			state: formed(), spoil: func(f *fixture) {
				differ(f)
				f.pod("c-0-1").Node.Config["hz"] = "10"
				f.pod("c-2-0").Node.Config["maxmemory"] = "0"
			},
			step: steps.Configure{Pods: []steps.PodSettings{{Pod: "c-0-1", Values: map[string]string{"hz": "20"}}, {Pod: "c-2-0", Values: map[string]string{"maxmemory": "100"}}}, Names: "hz"},
		},
		"while another server is unknown and a replica is not in sync": {
			state: formed(), spoil: func(f *fixture) {
				differ(f)
				f.unlink("c-0-1")
				f.pod("c-0-1").Node.Config["hz"] = "10"
				f.pod("c-2-0").Node = nil
			},
			step: steps.Configure{Pods: []steps.PodSettings{{Pod: "c-0-1", Values: map[string]string{"hz": "20"}}}, Names: "hz"},
		},
		"a server that may not be asked": {
			state: formed(), spoil: func(f *fixture) { differ(f); f.pod("c-0-1").Node.Config = nil },
		},
	} {
		t.Run(name, tc.Check)
	}
}
