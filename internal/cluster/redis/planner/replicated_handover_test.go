package planner

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/rows"
)

func TestReplicatedNextFollowsAHandOver(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"the primary handed over, and that was not written down": {func(f *fixture) {
			f.follows("c-0-0", "c-0-1")
			f.leads("c-0-1")
			f.pod("c-0-1").Node.Replication = &model.Replication{Primary: true, ID: "n", FormerID: history}
		}, `name c-0-1 the primary`},
		"the primary was handed over twice by hand": {func(f *fixture) { f.twice() }, `name c-0-2 the primary`},
		"the primary was handed over twice by hand, and the first lost its link for a moment": {func(f *fixture) {
			f.twice()
			f.lose(0, "c-0-0")
		}, `name c-0-2 the primary`},
		"the primary was handed over twice by hand, and the first is to copy the last itself": {func(f *fixture) {
			f.twice()
			f.pod("c-0-0").Node.Asks = f.pod("c-0-2").Addr
		}, `name c-0-2 the primary`},
		"the former primary looks for one that leads with another history": {func(f *fixture) {
			f.twice()
			f.lose(0, "c-0-0")
			f.pod("c-0-0").Node.Replication.ID = history
		}, `promote c-0-0`},
		"two copy each other": {func(f *fixture) {
			f.twice()
			f.pod("c-0-2").Node.Replication = &model.Replication{ID: "n2", FormerID: "n1"}
			f.pod("c-0-2").Node.Asks = f.pod("c-0-1").Addr
			f.starts("c-0-0", 9)
		}, `promote c-0-0`},
	})
}

func TestReplicatedNextCompletesAHandOver(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"the primary hands over to a replica that does not take over": {func(f *fixture) { f.handing(false) }, "promote c-0-1"},
		"the primary hands over to a replica that does not answer": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication.HandsOver = true
			f.hang("c-0-2")
			f.pod("c-0-2").Hangs = true
		}, "promote c-0-1"},
		"the primary hands over to a replica that is cut off": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication.HandsOver = true
			f.hang("c-0-2")
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"the primary has handed over before, and hands over again to a replica that does not answer": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication = &model.Replication{ID: "n2", FormerID: "n1", HandsOver: true}
			f.hang("c-0-2")
			f.pod("c-0-2").Hangs = true
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"the primary copies a server that does not answer": {func(f *fixture) {
			f.handing(false)
			f.hang("c-0-2")
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"the primary hands over to a replica that does not answer, and is being deleted": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Node.Replication.HandsOver, f.pod("c-0-1").Deleting = true, true
			f.hang("c-0-2")
			f.pod("c-0-2").Hangs = true
		}, "c-0-1 is gone, and c-0-2 may have the newest data but does not answer"},
		"the primary has handed over since its replica was asked": {func(f *fixture) { f.handing(true) }, "c-0-1 copies c-0-2 already, which did not say yet that it leads"},
		"the primary is being deleted and hands over to a replica that does not take over": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Deleting = true
		}, "make c-0-0 copy c-0-2"},
		"the primary is being deleted and hands over, and no other replica copies it": {func(f *fixture) {
			f.handing(false)
			f.pod("c-0-1").Deleting = true
			f.pod("c-0-0").Node.Asks = f.pod("c-0-2").Addr
		}, "promote c-0-2"},
		"a replica was named, not promoted, and the former primary hangs and is being deleted": {func(f *fixture) {
			f.Appointed = model.Appointment{Pod: "c-0-1", History: history, Guard: 0}
			f.hang("c-0-0")
			f.pod("c-0-0").Deleting = true
			f.lose(0, both...)
		}, "promote c-0-1"},
		"the primary handed over, that was not written down, and the new primary does not answer and is being deleted": {func(f *fixture) {
			f.follows("c-0-0", "c-0-1")
			f.pod("c-0-0").Node.Replication = &model.Replication{ID: "n", FormerID: history}
			f.hang("c-0-1")
			f.pod("c-0-1").Deleting = true
		}, "c-0-0 is gone, and c-0-1 may have the newest data but does not answer"},
	})
}

// mute has both replicas stay linked and hear nothing for long, while the primary counts so many.
func (f *fixture) mute(counted int) {
	f.pod("c-0-0").Node.Acknowledging = &counted
	for _, p := range both {
		f.pod(p).Node.Replication.Silence = 10 * time.Second
		if counted == 0 {
			f.pod(p).Role, f.Appointed.Guard = "", 0
		}
	}
}

func TestReplicatedNextHandsOverAPrimaryThatLeaves(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"the primary is being deleted": {func(f *fixture) { f.pod("c-0-0").Deleting = true }, "hand over from c-0-0 to c-0-1"},
		"all are being deleted": {func(f *fixture) {
			for i := range f.Pods {
				f.Pods[i].Deleting = true
			}
			f.pod("c-0-1").Role, f.pod("c-0-2").Role, f.Appointed.Guard = "", "", 0
		}, "c-0-0, the primary, is being deleted"},
		"the node of a former primary is cordoned": {func(f *fixture) {
			f.leads("c-0-1")
			f.pod("c-0-1").Node.Replication.ID = "n"
			f.pod("c-0-1").Role, f.pod("c-0-1").Cordoned = "", "is on node a, which is cordoned"
		}, "make c-0-1 copy c-0-0"},
		"the nodes of the primary and of a former one are cordoned": {func(f *fixture) {
			f.swap("c-0-2")
			f.leads("c-0-0")
			f.pod("c-0-0").Node.Replication.ID, f.pod("c-0-0").Role = "n", ""
			f.pod("c-0-0").Cordoned, f.pod("c-0-2").Cordoned = "is on node a, which is cordoned", "is on node b, which is cordoned"
		}, "hand over from c-0-2 to c-0-1"},
		"the primary is being deleted, and the replicas have not heard from it for long": {func(f *fixture) {
			f.pod("c-0-0").Deleting = true
			f.mute(0)
		}, "c-0-0, the primary, is being deleted"},
		"the node of the primary is cordoned, and the replicas have not heard from it for long": {func(f *fixture) {
			f.pod("c-0-0").Cordoned = "is on node a, which is cordoned"
			f.mute(0)
		}, "have 0 replicas acknowledge the writes of c-0-0"},
		"the primary is being deleted, and the replica with the most data has not heard from it for long": {func(f *fixture) {
			f.pod("c-0-0").Deleting, f.pod("c-0-0").Node.Acknowledging = true, ptr.To(1)
			f.pod("c-0-1").Node.Replication.Silence, f.pod("c-0-1").Role, f.pod("c-0-2").Node.Offset = 10*time.Second, "", 999
		}, "hand over from c-0-0 to c-0-2"},
		"the primary is being deleted, and counts replicas that have not heard from it for long": {func(f *fixture) {
			f.pod("c-0-0").Deleting = true
			f.mute(2)
		}, "hand over from c-0-0 to c-0-1"},
		"the node of the primary is cordoned":                     {func(f *fixture) { f.pod("c-0-0").Cordoned = "is on node a, which is cordoned" }, "hand over from c-0-0 to c-0-1"},
		"the primary was deleted, and its replicas lost the link": {func(f *fixture) { f.hang("c-0-0"); f.pod("c-0-0").Deleting = true; f.lose(0, both...) }, "make c-0-2 copy c-0-1"},
		"the primary was deleted, and its replicas hear it":       {func(f *fixture) { f.hang("c-0-0"); f.pod("c-0-0").Deleting = true }, "c-0-0 does not answer, and may take writes until"},
	})
}

func TestReplicatedNextReplacesASilentPrimary(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"the primary does not answer and replicas hear it":          {func(f *fixture) { f.hang("c-0-0") }, "c-0-0 does not answer, and may take writes until its replicas have heard nothing of it for 9s"},
		"the primary has been silent for a moment":                  {func(f *fixture) { f.hang("c-0-0"); f.lose(8*time.Second, both...) }, "c-0-0 does not answer, and may take writes until"},
		"the primary is silent, and one replica has heard it since": {func(f *fixture) { f.hang("c-0-0"); f.lose(time.Minute, "c-0-1"); f.lose(time.Second, "c-0-2") }, "c-0-0 does not answer, and may take writes until"},
		"the primary has been silent for long":                      {func(f *fixture) { f.primarySilent() }, "make c-0-2 copy c-0-1"},
		"the primary has been silent for long, and no other replica copies it": {func(f *fixture) {
			f.primarySilent()
			f.pod("c-0-2").Node.Asks = f.pod("c-0-1").Addr
		}, "promote c-0-1"},
		"the primary is silent, and was told to need no replica for longer": {func(f *fixture) {
			f.primarySilent()
			f.Appointed.Guard = 30 * time.Second
		}, "c-0-0 does not answer, and may take writes until its replicas have heard nothing of it for 34s"},
		"a replica that is being deleted hears the silent primary": {func(f *fixture) {
			f.primarySilent()
			f.lose(0, "c-0-2")
			f.pod("c-0-2").Deleting = true
		}, "c-0-0 does not answer, and may take writes until"},
		"a replica that is too many hears the silent primary": {func(f *fixture) {
			f.Spec.Replicas, f.Sets[0].Replicas = 1, 2
			f.hang("c-0-0")
			f.lose(9*time.Second, "c-0-1")
		}, "c-0-0 does not answer, and may take writes until"},
		"the primary is silent, and so is a replica": {func(f *fixture) { f.hang("c-0-0"); f.lose(time.Hour, "c-0-1"); f.hang("c-0-2") }, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
		"the primary is silent, and a replica is being deleted": {
			func(f *fixture) {
				f.hang("c-0-0")
				f.lose(time.Hour, "c-0-1")
				f.hang("c-0-2")
				f.pod("c-0-2").Deleting = true
			},
			"c-0-0 is gone, and c-0-2 may have the newest data but does not answer",
		},
		"the primary is silent and was not guarded": {func(f *fixture) { f.hang("c-0-0"); f.lose(time.Hour, both...); f.Appointed.Guard = 0 }, "c-0-0 does not answer and had no replica in sync"},
	})
}
