package redis

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
)

// upgraded gives pods a newer version, and the template of it; all others become outdated.
func (f *fixture) upgraded(pods ...string) {
	f.Spec.Version = "9.0.1"
	outdate(f)
	for _, name := range pods {
		f.pod(name).Outdated, f.pod(name).Node.Version = false, "9.0.1"
	}
}

// setBack asks for the former version again.
func (f *fixture) setBack() {
	f.Spec.Version = "8.0.2"
	for i := range f.Pods {
		f.Pods[i].Outdated = f.Pods[i].Node == nil || f.Pods[i].Node.Version != "8.0.2"
	}
}

// neverAnswers makes c-0-1 unreadable, which has not been ready for some time.
func (f *fixture) neverAnswers(since time.Duration) {
	p := f.pod("c-0-1")
	p.Node, p.Ready, p.Unready, p.Error = nil, false, now.Add(-since), "the server does not answer"
}

func restartOf(pods ...string) cluster.Step {
	step := Restart{Cause: ReasonRestart}
	for _, name := range pods {
		step.Pods = append(step.Pods, PodRef{name, "uid-" + name})
	}
	return step
}

func TestVersionsChange(t *testing.T) {
	for name, tc := range map[string]row{
		"one replica goes first": {state: formed(), spoil: func(f *fixture) { f.upgraded() }, step: restartOf("c-0-1")},
		"no other follows before it is in sync": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.unlink("c-0-1") }, reason: ReasonSync,
		},
		"nor before it is ready": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.pod("c-0-1").Ready = false }, reason: ReasonStarting,
		},
		"nor when it turns out to be of another version": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.pod("c-0-1").Node.Version = "8.0.2" }, reason: ReasonVersion, stalled: true,
			message: "pod c-0-1 runs version 8.0.2 and spec.version is 9.0.1",
		},
		"a replica that does not start is waited for": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(time.Minute) }, reason: ReasonUnreachable,
		},
		"but not for ever": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(5 * time.Minute) }, reason: ReasonCanary, stalled: true,
			message: "c-0-1 has new settings and does not get well (the server does not answer); no other pod gets them: set spec.version back to 8.0.2",
		},
		"nor is one that does not get into sync": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-1")
				f.unlink("c-0-1")
				f.pod("c-0-1").Node.LinkDown = time.Hour
			},
			reason: ReasonCanary, stalled: true, message: "(it is not in sync with its primary)",
		},
		"a bad template without another version is set back as a whole": {
			state: formed(), spoil: func(f *fixture) {
				outdate(f)
				f.pod("c-0-1").Outdated = false
				f.neverAnswers(5 * time.Minute)
			},
			reason: ReasonCanary, stalled: true, message: "set the last change of the specification back",
		},
		"a pod that dies later is no canary": {
			state: formed(), spoil: func(f *fixture) { f.neverAnswers(5 * time.Minute) }, reason: ReasonUnreachable,
		},
		"nor is one whose node is lost": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(5 * time.Minute); f.pod("c-0-1").NodeLost = true },
			reason: ReasonUnreachable,
		},
		"nor one of a template that works elsewhere": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1", "c-1-1"); f.neverAnswers(5 * time.Minute) }, reason: ReasonUnreachable,
		},
		"also where it does not get into sync": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-1", "c-1-1")
				f.unlink("c-0-1")
				f.pod("c-0-1").Node.LinkDown = time.Hour
			},
			reason: ReasonSync,
		},
		"then all replicas go, one of each shard": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1") }, step: restartOf("c-1-1", "c-2-1"),
		},
		"then a primary hands over": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1", "c-1-1", "c-2-1") }, step: Failover{0, "c-0-0", "c-0-1"},
		},
		"no replica is promoted while another one is older": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Replicas = 2
				f.withThird()
				f.Sets[0].Replicas, f.Sets[2].Replicas = 3, 3
				f.upgraded("c-0-1", "c-1-1", "c-2-1")
			},
			reason: ReasonStarting,
		},
		"also in a shard that is about to shrink": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Replicas = 1
				f.withThird()
				f.lead("c-1-2")
				f.upgraded("c-1-1")
			},
			step: restartOf("c-0-1", "c-1-0", "c-2-1"),
		},
		"what was the primary is restarted at once when it cannot copy the newer one": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				f.Sets[1].Replicas, f.Pods = 2, f.Pods[:6]
				f.lead("c-1-1")
				f.upgraded("c-0-1", "c-1-1", "c-2-1")
				n := f.pod("c-1-0").Node
				n.LinkUp, n.LinkDown, n.EverLinked = false, 0, true
				f.Sets[1].Guarded = true
			},
			step: restartOf("c-1-0"),
		},
		"a replica that is newer goes back": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-1"); f.setBack() }, step: restartOf("c-0-1"),
		},
		"a replica that is newer and did not start goes back": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-1")
				f.neverAnswers(5 * time.Minute)
				f.pod("c-0-1").Started, f.pod("c-0-1").Stuck = time.Time{}, "ImagePullBackOff: no such image"
				f.setBack()
			},
			step: Restart{Cause: ReasonReplaceStuck, Pods: []PodRef{{"c-0-1", "uid-c-0-1"}}},
		},
		"a primary that is newer does not": {
			state: formed(), spoil: func(f *fixture) { f.upgraded("c-0-0", "c-0-1"); f.setBack() }, reason: ReasonVersion, stalled: true,
			message: "spec.version is 8.0.2, and c-0-0, the primary of shard 0, runs 9.0.1 already: an older server cannot read its data; set spec.version to 9.0.1 or later",
		},
		"nor do its replicas": {
			state: formed(), spoil: func(f *fixture) {
				f.upgraded("c-0-0", "c-0-1")
				f.setBack()
				f.unlink("c-0-1")
			},
			reason: ReasonVersion, stalled: true,
		},
		"a version that nobody ever left is not gone back to": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Version = "7.4.6"; outdate(f) }, reason: ReasonVersion, stalled: true,
		},
		"a patch goes back": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Version = "8.0.1"; outdate(f) }, step: restartOf("c-0-1"),
		},
	} {
		t.Run(name, tc.check)
	}
}

// TestShardsWithoutReplicasKeepTheirSlotsInService: each gets a replica for the time of its restart.
func TestShardsWithoutReplicasKeepTheirSlotsInService(t *testing.T) {
	f := formed()
	f.Spec.Replicas, f.Spec.Persistent = 0, false
	all := f.Pods
	for i := range f.Sets {
		f.Sets[i].Replicas = 1
	}
	f.Pods = []Pod{*f.pod("c-0-0"), *f.pod("c-1-0"), *f.pod("c-2-0")}
	for i := range f.Pods {
		n := f.Pods[i].Node
		n.Peers = []Peer{n.Peers[0], n.Peers[2], n.Peers[4]}
	}
	f.upgraded()
	expect := func(what string, want cluster.Step) {
		t.Helper()
		if diff := cmp.Diff(want, Next(f.State).Step); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("the first shard", ScaleShards{[]SetSize{{Shard: 0, From: 1, To: 2}}})

	f.Sets[0].Replicas = 2
	f.Pods = append(f.Pods, all[1]) // c-0-1
	second := f.pod("c-0-1")
	second.Node.Version = "9.0.1"
	second.Node.Peers = []Peer{second.Node.Peers[0], second.Node.Peers[1], second.Node.Peers[2], second.Node.Peers[4]}
	for _, name := range []string{"c-0-0", "c-1-0", "c-2-0"} {
		n := f.pod(name).Node
		n.Peers = append(n.Peers, Peer{ID: id("c-0-1"), Addr: second.Addr, Replica: true, PrimaryID: id("c-0-0")})
	}
	expect("its replica is in sync", Failover{0, "c-0-0", "c-0-1"})

	f.views(id("c-0-0"), func(p *Peer) { p.Slots, p.Replica, p.PrimaryID = nil, true, id("c-0-1") })
	f.views(id("c-0-1"), func(p *Peer) { p.Slots, p.Replica, p.PrimaryID = Share(0, 3), false, "" })
	f.pod("c-0-0").Node.LinkUp, second.Node.LinkUp = true, false
	expect("the old one is a replica", restartOf("c-0-0"))

	f.pod("c-0-0").Outdated, f.pod("c-0-0").Node.Version = false, "9.0.1"
	expect("it is new", Failover{0, "c-0-1", "c-0-0"})

	f.views(id("c-0-1"), func(p *Peer) { p.Slots, p.Replica, p.PrimaryID = nil, true, id("c-0-0") })
	f.views(id("c-0-0"), func(p *Peer) { p.Slots, p.Replica, p.PrimaryID = Share(0, 3), false, "" })
	f.pod("c-0-0").Node.LinkUp, second.Node.LinkUp = false, true
	expect("it owns the slots again", ScaleShards{[]SetSize{{Shard: 0, From: 2, To: 1}}})
}
