package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

const history = "history"

// replicated is a settled cluster: c-0-0 is the primary, c-0-1 and c-0-2 are its replicas.
func replicated() *fixture {
	f := &fixture{State{Now: now, Spec: Spec{
		Name: "c", Shards: 1, Replicas: 2, Replicated: true, Version: "8.0.2", NodeTimeout: 5 * time.Second, Persistent: true,
	}, Sets: []Set{{Replicas: 3}}, Appointed: Appointment{"c-0-0", history, 5 * time.Second}}}
	for ordinal := range 3 {
		name := cluster.Pod("c-0", ordinal)
		p := Pod{
			Name: name, UID: "uid-" + name, Ordinal: ordinal, Addr: Address{IP: fmt.Sprintf("10.0.0.%d", ordinal), Port: ClientPort},
			Ready: true, HasRun: true, Started: now.Add(-time.Hour), Role: RoleReplica,
			Node: &Node{
				ID: id(name), Engine: v1alpha1.EngineRedis, Version: "8.0.2", StateOK: true, Admits: AdmitsForGood, OnDisk: true, Keys: 10, Offset: 1000,
				EverLinked: true, LinkUp: true, Asks: Address{"10.0.0.0", ClientPort}, Config: map[string]string{writeGuard: "0"},
				Replication: &Replication{ID: history},
				Peers:       []Peer{{ID: id(name), Host: name + ".c-peers", Myself: true}},
			},
		}
		f.Pods = append(f.Pods, p)
	}
	f.leads("c-0-0")
	f.pod("c-0-0").Role = RolePrimary
	f.pod("c-0-0").Node.Config[writeGuard] = "1"
	return f
}

// leads makes a server a primary by its own word.
func (f *fixture) leads(name string) {
	n := f.pod(name).Node
	n.LinkUp, n.Asks, n.Replication.Primary = false, Address{}, true
}

// starts makes a server one that has just been started, with what is on its disk.
func (f *fixture) starts(name string, keys int64) {
	p := f.pod(name)
	p.Role, p.Ended = "", now
	n := p.Node
	n.LinkUp, n.EverLinked, n.Asks, n.Keys, n.Offset = false, false, Nobody, keys, 0
	n.Replication = &Replication{ID: "own-" + name, Silence: Never}
	n.Config[writeGuard] = "0"
}

// lose makes replicas hear nothing from the primary for some time.
func (f *fixture) lose(silence time.Duration, names ...string) {
	for _, name := range names {
		n := f.pod(name).Node
		n.LinkUp, n.Replication.Silence = false, silence
	}
}

// alone is a primary that has needed no replica for an hour, as none is in sync.
func (f *fixture) alone() {
	f.lose(time.Hour, "c-0-1", "c-0-2")
	f.pod("c-0-1").Role, f.pod("c-0-2").Role, f.Appointed.Guard = "", "", 0
}

// hang makes a server not answer.
func (f *fixture) hang(name string) { f.pod(name).Node = nil }

// die ends a server's container.
func (f *fixture) die(name string) {
	f.hang(name)
	f.pod(name).Started, f.pod(name).Ready, f.pod(name).Ended = time.Time{}, false, now
}

func (f *fixture) follows(name, primary string) {
	n := f.pod(name).Node
	n.LinkUp, n.Asks, n.Replication = true, f.pod(primary).Addr, &Replication{ID: f.pod(primary).Node.Replication.ID}
}

func TestAReplicatedClusterIsKeptInOrder(t *testing.T) {
	both := []string{"c-0-1", "c-0-2"}
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		// want is the step, or the message of a plan without one.
		want string
	}{
		"settled": {func(*fixture) {}, "the cluster is as specified"},
		"new": {func(f *fixture) {
			f.Appointed = Appointment{}
			for _, p := range []string{"c-0-0", "c-0-1", "c-0-2"} {
				f.starts(p, 0)
			}
		}, "promote c-0-0"},
		"new, one does not answer": {func(f *fixture) {
			f.Appointed = Appointment{}
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 0)
			f.hang("c-0-2")
		}, "2 of 3 servers answer; the first that does not is c-0-2"},
		"new, and Kubernetes does not make a pod": {func(f *fixture) {
			f.Appointed, f.Spec.Namespace, f.Sets[0].Overdue = Appointment{}, "shop", true
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 0)
			f.Pods = slices.DeleteFunc(f.Pods, func(p Pod) bool { return p.Name == "c-0-2" })
		}, "2 of 3 pods exist; c-0-2 does not: Kubernetes has not made it: if that lasts, `kubectl -n shop describe statefulset c-0` says why"},
		"new over the disks of an earlier cluster": {func(f *fixture) {
			f.Appointed = Appointment{}
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 7)
			f.starts("c-0-2", 8)
		}, "promote c-0-2"},
		"new over the disks of an earlier cluster, one of which is read": {func(f *fixture) {
			f.Appointed = Appointment{}
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 7)
			f.starts("c-0-2", 0)
			f.pod("c-0-2").Node.Loading = true
		}, "c-0-2 loads its data"},
		"new over more disks than it has pods": {func(f *fixture) {
			f.Appointed = Appointment{}
			for _, p := range []string{"c-0-0", "c-0-1", "c-0-2"} {
				f.starts(p, 1)
			}
			f.Claims = []Claim{{Name: "data-c-0-3", Ordinal: 3}}
		}, "the claims data-c-0-3 of an earlier, larger cluster may hold the newest data"},
		"the first primary is appointed": {func(f *fixture) {
			f.Appointed = Appointment{}
			f.pod("c-0-0").Node.Config[writeGuard] = "0"
			f.starts("c-0-1", 0)
			f.starts("c-0-2", 0)
			f.pod("c-0-0").Role = ""
		}, `name c-0-0 the primary`},
		"the others follow it": {func(f *fixture) {
			f.Appointed.Guard = 0
			f.pod("c-0-0").Node.Config[writeGuard] = "0"
			f.starts("c-0-1", 0)
			f.starts("c-0-2", 0)
		}, "make c-0-1, c-0-2 copy c-0-0"},
		"a replica that got into sync is labelled":  {func(f *fixture) { f.pod("c-0-1").Role = "" }, `label c-0-1 "replica"|`},
		"a replica that lost its link is not found": {func(f *fixture) { f.lose(time.Second, "c-0-1") }, `label c-0-1 ""|`},
		"a replica whose volume is lost gets another": {func(f *fixture) {
			f.die("c-0-2")
			f.pod("c-0-2").Role = ""
			f.Claims = []Claim{{Name: "data-c-0-2", UID: "claim", Ordinal: 2, Lost: "its node is gone"}}
		}, "give pod c-0-2 a new disk"},
		"a primary whose volume is lost gets none before another one leads": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(time.Second, both...)
			f.Claims = []Claim{{Name: "data-c-0-0", UID: "claim", Lost: "its node is gone"}}
		}, "promote c-0-1"},
		"nor before that one is named": {func(f *fixture) {
			f.die("c-0-0")
			f.leads("c-0-1")
			f.pod("c-0-1").Node.Replication = &Replication{Primary: true, ID: "next", FormerID: history}
			f.follows("c-0-2", "c-0-1")
			f.Claims = []Claim{{Name: "data-c-0-0", UID: "claim", Lost: "its node is gone"}}
		}, "name c-0-1 the primary"},
		"then it does": {func(f *fixture) {
			f.die("c-0-0")
			f.leads("c-0-1")
			f.follows("c-0-2", "c-0-1")
			f.Appointed.Pod, f.pod("c-0-0").Role, f.pod("c-0-1").Role = "c-0-1", "", RolePrimary
			f.pod("c-0-1").Node.Config[writeGuard] = "1"
			f.Claims = []Claim{{Name: "data-c-0-0", UID: "claim", Lost: "its node is gone"}}
		}, "give pod c-0-0 a new disk"},
		"a replica that does not answer keeps it": {func(f *fixture) { f.hang("c-0-1") }, "2 of 3 servers answer"},
		"writes are guarded":                      {func(f *fixture) { f.pod("c-0-0").Node.Config[writeGuard] = "0"; f.Appointed.Guard = 0 }, "have 1 replicas acknowledge the writes of c-0-0"},
		"the longer time is written down first":   {func(f *fixture) { f.Spec.NodeTimeout = 20 * time.Second }, "name c-0-0 the primary|"},
		"and stays until the server knows the shorter one": {func(f *fixture) {
			f.pod("c-0-0").Node.Config[writeGuardLag] = "30"
			f.Appointed.Guard = 30 * time.Second
			f.pod("c-0-2").Outdated = true
		}, "restart c-0-2"},
		"and then it is written down":               {func(f *fixture) { f.Appointed.Guard = 0 }, "name c-0-0 the primary|"},
		"without replicas it is written down first": {func(f *fixture) { f.starts("c-0-1", 1); f.starts("c-0-2", 1) }, "name c-0-0 the primary|"},
		"and then writes are let go": {func(f *fixture) {
			f.starts("c-0-1", 1)
			f.starts("c-0-2", 1)
			f.Appointed.Guard, f.pod("c-0-1").Role, f.pod("c-0-2").Role = 0, "", ""
		}, "have 0 replicas acknowledge the writes of c-0-0"},
		"one that was replaced hangs": {func(f *fixture) { f.replacedAfter(time.Hour) }, `label c-0-1 "primary"|`},
		"and is to end at its leisure": {func(f *fixture) {
			f.replacedAfter(time.Hour)
			f.pod("c-0-0").Deleting = true
		}, `label c-0-1 "primary"|`},
		"one that was replaced and started anew": {func(f *fixture) { f.replacedAfter(8 * time.Second) }, `label c-0-0 "", c-0-1 "primary"|`},
		"one that was replaced has died": {func(f *fixture) {
			f.replacedAfter(time.Hour)
			f.die("c-0-0")
		}, `label c-0-0 "", c-0-1 "primary"|`},
		"one was named, not promoted, and the former one is back": {func(f *fixture) { f.Appointed = Appointment{"c-0-1", history, 0} }, "name c-0-0 the primary"},
		"a replica at a new address of the primary": {func(f *fixture) {
			f.pod("c-0-1").Node.Asks.IP = "10.9.9.9"
			f.lose(time.Second, "c-0-1")
			f.pod("c-0-1").Role = ""
		}, "make c-0-1 copy c-0-0"},
		"a former primary is back":                  {func(f *fixture) { f.leads("c-0-2"); f.pod("c-0-2").Role = "" }, "make c-0-2 copy c-0-0"},
		"a server restarted in place admits nobody": {func(f *fixture) { f.pod("c-0-1").Node.Admits = AdmitsNobody }, "admit replicas to c-0-1"},
		"several primaries, and none was appointed": {func(f *fixture) {
			f.starts("c-0-0", 9)
			f.leads("c-0-1")
			f.leads("c-0-2")
			f.Appointed = Appointment{}
		}, "the pods [c-0-1 c-0-2] are all primaries"},
		"one primary, and none was appointed": {func(f *fixture) { f.Appointed = Appointment{} }, "name c-0-0 the primary"},
		"a former primary is back, and its successor does not answer": {func(f *fixture) {
			f.swap("c-0-1")
			f.hang("c-0-1")
			f.leads("c-0-0")
			f.pod("c-0-0").Node.Replication.ID = "older"
		}, "c-0-1 does not answer, and may take writes until"},
		"a former primary is back, and its successor has died": {func(f *fixture) {
			f.swap("c-0-1")
			f.die("c-0-1")
			f.lose(0, "c-0-2")
			f.leads("c-0-0")
			f.pod("c-0-0").Node.Replication.ID = "older"
		}, "promote c-0-2"},
		"it was named, and not yet promoted": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, both...)
			f.Appointed = Appointment{"c-0-1", history, 0}
		}, "promote c-0-1"},
		"it was promoted, and not yet written down": {func(f *fixture) {
			f.die("c-0-0")
			f.leads("c-0-1")
			f.Appointed = Appointment{"c-0-1", history, 0}
			f.pod("c-0-1").Node.Replication.ID = "new"
		}, `name c-0-1 the primary|`},
		"the primary has died":                {func(f *fixture) { f.die("c-0-0"); f.lose(0, both...); f.pod("c-0-2").Node.Offset = 1001 }, "promote c-0-2"},
		"its pod is gone":                     {func(f *fixture) { f.Pods = f.Pods[1:]; f.lose(0, both...) }, "promote c-0-1"},
		"its container has been started anew": {func(f *fixture) { f.starts("c-0-0", 10); f.lose(0, both...) }, "promote c-0-1"},
		"it came back empty":                  {func(f *fixture) { f.starts("c-0-0", 0); f.lose(0, both...) }, "promote c-0-1"},
		"a replica that is ahead has another history": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, both...)
			f.pod("c-0-2").Node.Offset = 9999
			f.pod("c-0-2").Node.Replication.ID = "older"
		}, "promote c-0-1"},
		"a replica went on from that history": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, both...)
			f.pod("c-0-2").Node.Offset = 9999
			f.pod("c-0-2").Node.Replication = &Replication{ID: "n", FormerID: history}
		}, "promote c-0-2"},
		"a replica reads its data":   {func(f *fixture) { f.die("c-0-0"); f.lose(0, both...); f.pod("c-0-1").Node.Loading = true }, "promote c-0-2"},
		"a replica does not answer":  {func(f *fixture) { f.die("c-0-0"); f.lose(0, both...); f.hang("c-0-2") }, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
		"a replica has died, too":    {func(f *fixture) { f.die("c-0-0"); f.lose(0, both...); f.die("c-0-2") }, "promote c-0-1"},
		"a replica is being deleted": {func(f *fixture) { f.die("c-0-0"); f.lose(0, both...); f.hang("c-0-2"); f.pod("c-0-2").Deleting = true }, "promote c-0-1"},
		"all were started anew":      {func(f *fixture) { f.starts("c-0-0", 9); f.starts("c-0-1", 10); f.starts("c-0-2", 10) }, "promote c-0-0"},
		"all were started anew, it reads its data": {func(f *fixture) {
			f.starts("c-0-0", 0)
			f.pod("c-0-0").Node.Loading = true
			f.starts("c-0-1", 10)
			f.starts("c-0-2", 10)
		}, "c-0-0 loads its data"},
		"all were started anew, it is not there":    {func(f *fixture) { f.die("c-0-0"); f.starts("c-0-1", 10); f.starts("c-0-2", 10) }, "c-0-0 was the primary and does not run, and nobody else"},
		"all were started anew, it is empty":        {func(f *fixture) { f.starts("c-0-0", 0); f.starts("c-0-1", 9); f.starts("c-0-2", 10) }, "promote c-0-2"},
		"it is empty, and another one does not run": {func(f *fixture) { f.starts("c-0-0", 0); f.starts("c-0-1", 9); f.die("c-0-2") }, "2 of 3 servers answer"},
		"it needed no replica, and has died":        {func(f *fixture) { f.die("c-0-0"); f.alone() }, "c-0-0 was the primary and does not run"},
		"it needed no replica, and its pod is gone": {func(f *fixture) { f.alone(); f.Pods = f.Pods[1:] }, "c-0-0 was the primary and does not run"},
		"it needed no replica, and its pod is gone with its data": {func(f *fixture) {
			f.alone()
			f.Pods, f.Spec.Persistent = f.Pods[1:], false
		}, "promote c-0-1"},
		"it needed no replica, and is back": {func(f *fixture) { f.starts("c-0-0", 7); f.alone() }, "promote c-0-0"},
		"it needed no replica, and is back empty": {func(f *fixture) {
			f.starts("c-0-0", 0)
			f.alone()
			f.pod("c-0-2").Node.Offset, f.pod("c-0-2").Node.Keys = 1001, 9
		}, "promote c-0-2"},
		"it needed no replica, and reads its data":      {func(f *fixture) { f.starts("c-0-0", 0); f.alone(); f.pod("c-0-0").Node.Loading = true }, "c-0-0 loads its data"},
		"it needed no replica, and one does not answer": {func(f *fixture) { f.starts("c-0-0", 7); f.alone(); f.hang("c-0-2") }, "promote c-0-0"},
		"it needed no replica, and its volume is lost": {func(f *fixture) {
			f.die("c-0-0")
			f.alone()
			f.Claims = []Claim{{Name: "data-c-0-0", Lost: "its node is gone"}}
		}, "promote c-0-1"},
		"it needed no replica, and cannot start": {func(f *fixture) {
			f.die("c-0-0")
			f.alone()
			f.pod("c-0-0").Stuck = "CrashLoopBackOff"
		}, "c-0-0 was the primary and cannot start (CrashLoopBackOff)"},
		"it needed no replica, and cannot read its data": {func(f *fixture) {
			f.die("c-0-0")
			f.alone()
			f.pod("c-0-0").Stuck, f.pod("c-0-0").Fatal = "CrashLoopBackOff", "Wrong RDB checksum"
		}, "c-0-0 was the primary and cannot start from its data (Wrong RDB checksum), and nobody else is known to have all that it has: repair what is on its volume"},
		"who is left was cut off for long, and has just come back": {func(f *fixture) {
			f.die("c-0-0")
			f.pod("c-0-0").Ended = now.Add(-2 * time.Second)
			f.lose(12*time.Second, both...)
			f.die("c-0-2")
		}, "c-0-0 was the primary and does not run"},
		"who is left was cut off for long, and the primary is back": {func(f *fixture) {
			f.starts("c-0-0", 10)
			f.pod("c-0-0").Ended = now.Add(-2 * time.Second)
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
		}, "promote c-0-0"},
		"who is left was cut off for long, and the primary reads its data": {func(f *fixture) {
			f.starts("c-0-0", 10)
			f.pod("c-0-0").Ended, f.pod("c-0-0").Node.Loading = now.Add(-2*time.Second), true
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
		}, "c-0-0 loads its data"},
		"who is left was cut off for long, and the primary's pod is gone": {func(f *fixture) {
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
			f.Pods = f.Pods[1:]
		}, "c-0-0 was the primary and does not run"},
		"who is left heard it to the end, and it is back": {func(f *fixture) {
			f.starts("c-0-0", 10)
			f.pod("c-0-0").Ended = now.Add(-5 * time.Minute)
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
		}, "promote c-0-1"},
		"one of two that are equal has it on its disk": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, both...)
			f.pod("c-0-1").Node.OnDisk = false
		}, "promote c-0-2"},
		"its replicas hear nothing, and their connections have not noticed": {func(f *fixture) {
			for _, p := range both {
				f.pod(p).Node.Replication.Silence = 10 * time.Second
			}
			f.pod("c-0-0").Node.Acknowledging = new(int)
		}, `name c-0-0 the primary|`},
		"one of its replicas hears nothing": {func(f *fixture) {
			f.pod("c-0-1").Node.Replication.Silence = 10 * time.Second
			f.pod("c-0-0").Node.Acknowledging = ptr.To(1)
		}, `label c-0-1 ""|`},
		"it hung for a moment": {func(f *fixture) {
			for _, p := range both {
				f.pod(p).Node.Replication.Silence = 10 * time.Second
			}
			f.pod("c-0-0").Node.Acknowledging = ptr.To(2)
		}, "the cluster is as specified"},
		"it has died again since, and all others are there": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(5*time.Minute, both...)
		}, "promote c-0-1"},
		"it has died again since, and nobody else is wanted": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(5*time.Minute, both...)
			f.Pods, f.Spec.Replicas = f.Pods[:2], 1
		}, "promote c-0-1"},
		"who is left heard it to the end": {func(f *fixture) {
			f.die("c-0-0")
			f.pod("c-0-0").Ended = now.Add(-2 * time.Second)
			f.lose(11*time.Second, both...)
			f.die("c-0-2")
		}, "promote c-0-1"},
		"who is left was not in sync, and who was does not answer": {func(f *fixture) {
			f.starts("c-0-0", 7)
			f.lose(time.Hour, "c-0-1")
			f.pod("c-0-1").Role = ""
			f.hang("c-0-2")
		}, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
		"who is left was not in sync": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(time.Hour, both...)
			f.die("c-0-2")
			f.pod("c-0-1").Role = ""
		}, "c-0-0 was the primary and does not run"},
		"it handed over and was not told": {func(f *fixture) {
			f.follows("c-0-0", "c-0-1")
			f.leads("c-0-1")
			f.pod("c-0-1").Node.Replication = &Replication{Primary: true, ID: "n", FormerID: history}
		}, `name c-0-1 the primary`},
		"it was handed over twice by hand": {func(f *fixture) { f.twice() }, `name c-0-2 the primary`},
		"and has lost touch for a moment": {func(f *fixture) {
			f.twice()
			f.lose(0, "c-0-0")
		}, `name c-0-2 the primary`},
		"and is to copy the newest one itself": {func(f *fixture) {
			f.twice()
			f.pod("c-0-0").Node.Asks = f.pod("c-0-2").Addr
		}, `name c-0-2 the primary`},
		"it looks for one that leads with something else": {func(f *fixture) {
			f.twice()
			f.lose(0, "c-0-0")
			f.pod("c-0-0").Node.Replication.ID = history
		}, `promote c-0-0`},
		"two copy each other": {func(f *fixture) {
			f.twice()
			f.pod("c-0-2").Node.Replication = &Replication{ID: "n2", FormerID: "n1"}
			f.pod("c-0-2").Node.Asks = f.pod("c-0-1").Addr
			f.starts("c-0-0", 9)
		}, `promote c-0-0`},
		"it hands over to one that does not take it": {func(f *fixture) { f.handing(false) }, "promote c-0-1"},
		"it hands over to one that does not answer": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication.HandsOver = true
			f.hang("c-0-2")
			f.pod("c-0-2").Hangs = true
		}, "promote c-0-1"},
		"it hands over to one that is cut off": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication.HandsOver = true
			f.hang("c-0-2")
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"it has handed over before, and hands over again to one that does not answer": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication = &Replication{ID: "n2", FormerID: "n1", HandsOver: true}
			f.hang("c-0-2")
			f.pod("c-0-2").Hangs = true
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"it copies one that does not answer": {func(f *fixture) {
			f.handing(false)
			f.hang("c-0-2")
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"it hands over to one that does not answer, and is to end": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication.HandsOver, f.pod("c-0-1").Deleting = true, true
			f.hang("c-0-2")
			f.pod("c-0-2").Hangs = true
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"it has handed over since the heir was asked": {func(f *fixture) { f.handing(true) }, "c-0-1 copies c-0-2 already, which did not say yet that it leads"},
		"it is to end and hands over to one that does not take it": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Deleting = true
		}, "make c-0-0 copy c-0-2"},
		"and nobody else copies it": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Deleting = true
			f.pod("c-0-0").Node.Asks = f.pod("c-0-2").Addr
		}, "promote c-0-2"},
		"one was named, not promoted, and the former one hangs and is to end": {func(f *fixture) {
			f.Appointed = Appointment{"c-0-1", history, 0}
			f.hang("c-0-0")
			f.pod("c-0-0").Deleting = true
			f.lose(0, both...)
		}, "promote c-0-1"},
		"it handed over, was not told, and the heir does not answer and is to end": {func(f *fixture) {
			f.follows("c-0-0", "c-0-1")
			f.pod("c-0-0").Node.Replication = &Replication{ID: "n", FormerID: history}
			f.hang("c-0-1")
			f.pod("c-0-1").Deleting = true
		}, "c-0-0 is gone, and c-0-1 may have the newest data but does not answer"},
		"it does not answer and replicas hear it": {func(f *fixture) { f.hang("c-0-0") }, "c-0-0 does not answer, and may take writes until its replicas have heard nothing of it for 9s"},
		"it has been silent for a moment":         {func(f *fixture) { f.hang("c-0-0"); f.lose(8*time.Second, both...) }, "c-0-0 does not answer, and may take writes until"},
		"one replica has heard it since":          {func(f *fixture) { f.hang("c-0-0"); f.lose(time.Minute, "c-0-1"); f.lose(time.Second, "c-0-2") }, "c-0-0 does not answer, and may take writes until"},
		"it has been silent for long":             {func(f *fixture) { f.hang("c-0-0"); f.lose(9*time.Second, both...) }, "make c-0-2 copy c-0-1"},
		"and nobody else is in touch with it": {func(f *fixture) {
			f.hang("c-0-0")
			f.lose(9*time.Second, both...)
			f.pod("c-0-2").Node.Asks = f.pod("c-0-1").Addr
		}, "promote c-0-1"},
		"it was told to be content for longer": {func(f *fixture) {
			f.hang("c-0-0")
			f.lose(9*time.Second, both...)
			f.Appointed.Guard = 30 * time.Second
		}, "c-0-0 does not answer, and may take writes until its replicas have heard nothing of it for 34s"},
		"a replica on its way out hears it": {func(f *fixture) {
			f.hang("c-0-0")
			f.lose(9*time.Second, both...)
			f.lose(0, "c-0-2")
			f.pod("c-0-2").Deleting = true
		}, "c-0-0 does not answer, and may take writes until"},
		"so does one that is too many": {func(f *fixture) {
			f.Spec.Replicas, f.Sets[0].Replicas = 1, 2
			f.hang("c-0-0")
			f.lose(9*time.Second, "c-0-1")
		}, "c-0-0 does not answer, and may take writes until"},
		"it is silent, and so is a replica": {func(f *fixture) { f.hang("c-0-0"); f.lose(time.Hour, "c-0-1"); f.hang("c-0-2") }, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
		"it is silent, and a replica is being deleted": {
			func(f *fixture) {
				f.hang("c-0-0")
				f.lose(time.Hour, "c-0-1")
				f.hang("c-0-2")
				f.pod("c-0-2").Deleting = true
			},
			"c-0-0 is gone, and c-0-2 may have the newest data but does not answer",
		},
		"it is silent and was not guarded": {func(f *fixture) { f.hang("c-0-0"); f.lose(time.Hour, both...); f.Appointed.Guard = 0 }, "c-0-0 does not answer and had no replica in sync"},
		"it is being deleted":              {func(f *fixture) { f.pod("c-0-0").Deleting = true }, "hand over from c-0-0 to c-0-1"},
		"all are being deleted": {func(f *fixture) {
			for i := range f.Pods {
				f.Pods[i].Deleting = true
			}
			f.pod("c-0-1").Role, f.pod("c-0-2").Role, f.Appointed.Guard = "", "", 0
		}, "c-0-0, the primary, is being deleted"},
		"the node of a former one is being emptied": {func(f *fixture) {
			f.leads("c-0-1")
			f.pod("c-0-1").Node.Replication.ID = "n"
			f.pod("c-0-1").Role, f.pod("c-0-1").Cordoned = "", "is on node a, which is cordoned"
		}, "make c-0-1 copy c-0-0"},
		"so is its own": {func(f *fixture) {
			f.swap("c-0-2")
			f.leads("c-0-0")
			f.pod("c-0-0").Node.Replication.ID, f.pod("c-0-0").Role = "n", ""
			f.pod("c-0-0").Cordoned, f.pod("c-0-2").Cordoned = "is on node a, which is cordoned", "is on node b, which is cordoned"
		}, "hand over from c-0-2 to c-0-1"},
		"its node is being emptied":  {func(f *fixture) { f.pod("c-0-0").Cordoned = "is on node a, which is cordoned" }, "hand over from c-0-0 to c-0-1"},
		"it was deleted and hung up": {func(f *fixture) { f.hang("c-0-0"); f.pod("c-0-0").Deleting = true; f.lose(0, both...) }, "make c-0-2 copy c-0-1"},
		"it was deleted and did not": {func(f *fixture) { f.hang("c-0-0"); f.pod("c-0-0").Deleting = true }, "c-0-0 does not answer, and may take writes until"},
		"an outdated replica, whose certificate is as well, gets too little memory": {func(f *fixture) {
			f.starve()
			for i := range f.Pods {
				f.Pods[i].Node.Config[writeGuard] = "0"
			}
			f.pod("c-0-0").Node.Config[writeGuard] = "1"
			f.Spec.Certificate = "new"
		}, "reload the certificates of c-0-0, c-0-1, c-0-2"},
		"an outdated replica": {func(f *fixture) { f.pod("c-0-2").Outdated = true }, "restart c-0-2"},
		"an outdated primary": {func(f *fixture) { f.pod("c-0-0").Outdated = true }, "hand over from c-0-0 to c-0-1"},
		"the last replica is outdated": {func(f *fixture) {
			f.Spec.Replicas, f.Sets[0].Replicas, f.Pods = 1, 2, f.Pods[:2]
			f.pod("c-0-1").Outdated = true
		}, "name c-0-0 the primary|"},
		"a replica less":               {func(f *fixture) { f.Spec.Replicas = 1 }, "scale shard 0 from 3 pods to 2"},
		"no replica any more":          {func(f *fixture) { f.Spec.Replicas = 0 }, "name c-0-0 the primary|"},
		"a replica less, and it leads": {func(f *fixture) { f.Spec.Replicas = 1; f.swap("c-0-2") }, "hand over from c-0-2 to c-0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := replicated()
			tc.spoil(f)
			p := f.untilItMatters()
			got := p.Message
			if p.Step != nil {
				got = p.Step.String()
			}
			if !strings.HasPrefix(got+"|", tc.want) { // A bar at the end: there is no more.
				t.Errorf("%s (%s)\nwant %s", got, p.Message, tc.want)
			}
		})
	}
}

// untilItMatters is the plan after what only prepares a promotion or a hand-over has been done.
func (f *fixture) untilItMatters() cluster.Plan {
	for {
		p := Next(f.State)
		switch step := p.Step.(type) {
		case Appoint:
			if step.Candidate.Pod == "" {
				return p
			}
			f.Appointed, f.Candidate = step.Appointment, step.Candidate
		case GuardWrites:
			if step.Pod == f.Appointed.Pod {
				return p
			}
			f.pod(step.Pod).Node.Config[writeGuard] = fmt.Sprint(step.Replicas)
		case nil:
			if !f.Candidate.planned() || p.Reason != ReasonFailover {
				return p
			}
			f.Now = f.Now.Add(p.After)
		default:
			return p
		}
	}
}

// replacedAfter is a cluster in which c-0-1 leads in the place of c-0-0, which does not answer and has run for so long.
func (f *fixture) replacedAfter(running time.Duration) {
	f.swap("c-0-1")
	f.hang("c-0-0")
	f.pod("c-0-0").Started = now.Add(-running)
	f.pod("c-0-0").Role, f.pod("c-0-1").Role = RolePrimary, RoleReplica
}

// twice has c-0-0 hand over to c-0-1, and that one to c-0-2.
func (f *fixture) twice() {
	f.leads("c-0-2")
	f.pod("c-0-2").Node.Replication = &Replication{Primary: true, ID: "n2", FormerID: "n1"}
	f.follows("c-0-1", "c-0-2")
	f.follows("c-0-0", "c-0-1")
	f.pod("c-0-0").Node.Replication = &Replication{ID: "n2", FormerID: "n1"}
}

// handing has c-0-1, the primary, hand over to c-0-2, which it may have done a moment ago.
func (f *fixture) handing(done bool) {
	f.swap("c-0-1")
	for from, to := range map[string]string{"c-0-1": "c-0-2", "c-0-2": "c-0-1"} {
		n := f.pod(from).Node
		n.Replication, n.Asks, n.LinkUp = &Replication{ID: history}, f.pod(to).Addr, false
	}
	f.pod("c-0-1").Node.LinkUp = done
}

// swap makes another server the primary, for a while already.
func (f *fixture) swap(to string) {
	f.leads(to)
	f.pod(to).Node.Config[writeGuard], f.pod(to).Role, f.Appointed.Pod = "1", RolePrimary, to
	f.pod("c-0-0").Node.Config[writeGuard], f.pod("c-0-0").Role = "0", RoleReplica
	for _, p := range []string{"c-0-0", "c-0-1", "c-0-2"} {
		if p != to {
			f.follows(p, to)
		}
	}
}

func TestAServerOfTheModeReplicatedStartsUnlessItsDataIsTooNew(t *testing.T) {
	for _, d := range []Disk{{}, {Data: true}, {Data: true, Writer: Software{v1alpha1.EngineRedis, "8.0.2"}, Server: Software{v1alpha1.EngineRedis, "8.2.0"}}} {
		if got := GateReplicated(d); !got.Start || !got.Admit || got.SetAside {
			t.Errorf("%+v: %+v", d, got)
		}
	}
	if got := GateReplicated(Disk{Data: true, Writer: Software{v1alpha1.EngineRedis, "8.2.0"}, Server: Software{v1alpha1.EngineRedis, "8.0.2"}}); got.Start || !strings.Contains(got.Message, "set spec.version to 8.2.0") {
		t.Errorf("%+v", got)
	}
}

func TestAServerThatHangsIsNoticedInTime(t *testing.T) {
	if p := Next(replicated().State); !p.Settled() || p.After != 5*time.Second {
		t.Errorf("a settled cluster is looked at again after %s: %s", p.After, p.Message)
	}
}

func TestTheShortestFenceIsWhatReplicasNeedToReport(t *testing.T) {
	for timeout, want := range map[time.Duration]string{time.Second: "2", 1500 * time.Millisecond: "2", 5 * time.Second: "5"} {
		if got := fencing(&v1alpha1.RedisConfig{NodeTimeout: &metav1.Duration{Duration: timeout}}); got[0].args[0] != want {
			t.Errorf("%s: %v, want %s", timeout, got, want)
		}
	}
}

func TestAReplicaWhoseCopyBrokeOffSaysHowFarItHasGot(t *testing.T) {
	n, err := ParseReplicated("c-0-1", "run_id:aa\nrole:slave\nmaster_replid:bb\nmaster_repl_offset:500\nslave_repl_offset:1\nmaster_link_status:down\n")
	if err != nil || n.Offset != 500 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestTheGuardOfAPrimaryIsReadBack(t *testing.T) {
	for text, want := range map[string]time.Duration{"5s": 5 * time.Second, "true": time.Minute, "": time.Minute} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationGuarded: text}}}
		if got := AppointmentOf(s).Guard; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := AppointmentOf(&corev1.Service{}).Guard; got != 0 {
		t.Errorf("nothing: %s", got)
	}
}
