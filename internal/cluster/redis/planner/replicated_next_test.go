package planner

import (
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/rows"
)

func TestReplicatedNextFormsACluster(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"settled": {func(*fixture) {}, "the cluster is as specified"},
		"new": {func(f *fixture) {
			f.Appointed = model.Appointment{}
			for _, p := range []string{"c-0-0", "c-0-1", "c-0-2"} {
				f.starts(p, 0)
			}
		}, "promote c-0-0"},
		"new, one does not answer": {func(f *fixture) {
			f.Appointed = model.Appointment{}
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 0)
			f.hang("c-0-2")
		}, "2 of 3 servers answer; the first that does not is c-0-2"},
		"new, and Kubernetes does not make a pod": {func(f *fixture) {
			f.Appointed, f.Spec.Namespace, f.Sets[0].Overdue = model.Appointment{}, "shop", true
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 0)
			f.Pods = slices.DeleteFunc(f.Pods, func(p model.Pod) bool { return p.Name == "c-0-2" })
		}, "2 of 3 pods exist; c-0-2 does not: Kubernetes has not made it: if that lasts, `kubectl -n shop describe statefulset c-0` says why"},
		"new over the disks of an earlier cluster": {func(f *fixture) {
			f.Appointed = model.Appointment{}
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 7)
			f.starts("c-0-2", 8)
		}, "promote c-0-2"},
		"new over the disks of an earlier cluster, one of which is read": {func(f *fixture) {
			f.Appointed = model.Appointment{}
			f.starts("c-0-0", 0)
			f.starts("c-0-1", 7)
			f.starts("c-0-2", 0)
			f.pod("c-0-2").Node.Loading = true
		}, "c-0-2 loads its data"},
		"new over more disks than it has pods": {func(f *fixture) {
			f.Appointed = model.Appointment{}
			for _, p := range []string{"c-0-0", "c-0-1", "c-0-2"} {
				f.starts(p, 1)
			}
			f.Claims = []model.Claim{{Name: "data-c-0-3", Ordinal: 3}}
		}, "the claims data-c-0-3 of an earlier, larger cluster may hold the newest data"},
		"the first primary is appointed": {func(f *fixture) {
			f.Appointed = model.Appointment{}
			f.pod("c-0-0").Node.Config[model.WriteGuard] = "0"
			f.starts("c-0-1", 0)
			f.starts("c-0-2", 0)
			f.pod("c-0-0").Role = ""
		}, `name c-0-0 the primary`},
		"the others follow it": {func(f *fixture) {
			f.Appointed.Guard = 0
			f.pod("c-0-0").Node.Config[model.WriteGuard] = "0"
			f.starts("c-0-1", 0)
			f.starts("c-0-2", 0)
		}, "make c-0-1, c-0-2 copy c-0-0"},
		"several primaries, and none was appointed": {func(f *fixture) {
			f.starts("c-0-0", 9)
			f.leads("c-0-1")
			f.leads("c-0-2")
			f.Appointed = model.Appointment{}
		}, "the pods [c-0-1 c-0-2] are all primaries"},
		"one primary, and none was appointed": {func(f *fixture) { f.Appointed = model.Appointment{} }, "name c-0-0 the primary"},
	})
}

func TestReplicatedNextLabelsAndAttachesReplicas(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"a replica that got into sync is labelled":       {func(f *fixture) { f.pod("c-0-1").Role = "" }, `label c-0-1 "replica"|`},
		"a replica that lost its link is not found":      {func(f *fixture) { f.lose(time.Second, "c-0-1") }, `label c-0-1 ""|`},
		"a replica that does not answer keeps its label": {func(f *fixture) { f.hang("c-0-1") }, "2 of 3 servers answer"},
		"a replica at a new address of the primary": {func(f *fixture) {
			f.pod("c-0-1").Node.Asks.IP = "10.9.9.9"
			f.lose(time.Second, "c-0-1")
			f.pod("c-0-1").Role = ""
		}, "make c-0-1 copy c-0-0"},
		"a former primary is back":                       {func(f *fixture) { f.leads("c-0-2"); f.pod("c-0-2").Role = "" }, "make c-0-2 copy c-0-0"},
		"a server restarted in place admits no replicas": {func(f *fixture) { f.pod("c-0-1").Node.Admits = model.AdmitsNobody }, "admit replicas to c-0-1"},
		"a replica was named, and not yet promoted": {func(f *fixture) {
			f.primaryDies()
			f.Appointed = model.Appointment{Pod: "c-0-1", History: history, Guard: 0}
		}, "promote c-0-1"},
		"a replica was promoted, and not yet written down": {func(f *fixture) {
			f.die("c-0-0")
			f.leads("c-0-1")
			f.Appointed = model.Appointment{Pod: "c-0-1", History: history, Guard: 0}
			f.pod("c-0-1").Node.Replication.ID = "new"
		}, `name c-0-1 the primary|`},
	})
}

func TestReplicatedNextReplacesLostVolumes(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"a replica whose volume is lost gets another": {func(f *fixture) {
			f.die("c-0-2")
			f.pod("c-0-2").Role = ""
			f.Claims = []model.Claim{{Name: "data-c-0-2", UID: "claim", Ordinal: 2, Lost: "its node is gone"}}
		}, "give pod c-0-2 a new disk"},
		"a primary whose volume is lost gets none before another one leads": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(time.Second, both...)
			f.Claims = []model.Claim{{Name: "data-c-0-0", UID: "claim", Lost: "its node is gone"}}
		}, "promote c-0-1"},
		"a primary whose volume is lost gets none before the new primary is named": {func(f *fixture) {
			f.die("c-0-0")
			f.leads("c-0-1")
			f.pod("c-0-1").Node.Replication = &model.Replication{Primary: true, ID: "next", FormerID: history}
			f.follows("c-0-2", "c-0-1")
			f.Claims = []model.Claim{{Name: "data-c-0-0", UID: "claim", Lost: "its node is gone"}}
		}, "name c-0-1 the primary"},
		"a former primary whose volume is lost gets another": {func(f *fixture) {
			f.die("c-0-0")
			f.leads("c-0-1")
			f.follows("c-0-2", "c-0-1")
			f.Appointed.Pod, f.pod("c-0-0").Role, f.pod("c-0-1").Role = "c-0-1", "", model.RolePrimary
			f.pod("c-0-1").Node.Config[model.WriteGuard] = "1"
			f.Claims = []model.Claim{{Name: "data-c-0-0", UID: "claim", Lost: "its node is gone"}}
		}, "give pod c-0-0 a new disk"},
	})
}

func TestReplicatedNextGuardsWrites(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"writes are guarded":                    {func(f *fixture) { f.pod("c-0-0").Node.Config[model.WriteGuard] = "0"; f.Appointed.Guard = 0 }, "have 1 replicas acknowledge the writes of c-0-0"},
		"the longer time is written down first": {func(f *fixture) { f.Spec.NodeTimeout = 20 * time.Second }, "name c-0-0 the primary|"},
		"a shorter guard is not written down until the server has it": {func(f *fixture) {
			f.pod("c-0-0").Node.Config[model.WriteGuardLag] = "30"
			f.Appointed.Guard = 30 * time.Second
			f.pod("c-0-2").Outdated = true
		}, "restart c-0-2"},
		"a guard that the server has is written down":                 {func(f *fixture) { f.Appointed.Guard = 0 }, "name c-0-0 the primary|"},
		"without replicas the end of the guard is written down first": {func(f *fixture) { f.starts("c-0-1", 1); f.starts("c-0-2", 1) }, "name c-0-0 the primary|"},
		"without replicas writes are let go once that is written down": {func(f *fixture) {
			f.starts("c-0-1", 1)
			f.starts("c-0-2", 1)
			f.Appointed.Guard, f.pod("c-0-1").Role, f.pod("c-0-2").Role = 0, "", ""
		}, "have 0 replicas acknowledge the writes of c-0-0"},
		"the replicas hear nothing, and their connections have not noticed": {func(f *fixture) {
			for _, p := range both {
				f.pod(p).Node.Replication.Silence = 10 * time.Second
			}
			f.pod("c-0-0").Node.Acknowledging = new(int)
		}, `name c-0-0 the primary|`},
		"one of the replicas hears nothing": {func(f *fixture) {
			f.pod("c-0-1").Node.Replication.Silence = 10 * time.Second
			f.pod("c-0-0").Node.Acknowledging = ptr.To(1)
		}, `label c-0-1 ""|`},
		"the primary hung for a moment": {func(f *fixture) {
			for _, p := range both {
				f.pod(p).Node.Replication.Silence = 10 * time.Second
			}
			f.pod("c-0-0").Node.Acknowledging = ptr.To(2)
		}, "the cluster is as specified"},
	})
}

func TestReplicatedNextEndsAReplacedPrimary(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"a primary that was replaced hangs": {func(f *fixture) { f.replacedAfter(time.Hour) }, "end c-0-0|"},
		"a primary that was replaced hangs and is being deleted": {func(f *fixture) {
			f.replacedAfter(time.Hour)
			f.pod("c-0-0").Deleting = true
		}, "end c-0-0|"},
		"a primary that was replaced has been restarted": {func(f *fixture) { f.replacedAfter(8 * time.Second) }, `label c-0-0 "", c-0-1 "primary"|`},
		"a primary that was replaced has died": {func(f *fixture) {
			f.replacedAfter(time.Hour)
			f.die("c-0-0")
		}, `label c-0-0 "", c-0-1 "primary"|`},
		"a replica was named, not promoted, and the former primary is back": {func(f *fixture) { f.Appointed = model.Appointment{Pod: "c-0-1", History: history, Guard: 0} }, "name c-0-0 the primary"},
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
	})
}

func TestReplicatedNextRestartsAndScales(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"outdated servers get too little memory, and have an old certificate": {func(f *fixture) {
			f.starve()
			for i := range f.Pods {
				f.Pods[i].Node.Config[model.WriteGuard] = "0"
			}
			f.pod("c-0-0").Node.Config[model.WriteGuard] = "1"
			f.Spec.Certificate = "new"
		}, "reload the certificates of c-0-0, c-0-1, c-0-2"},
		"an outdated replica": {func(f *fixture) { f.pod("c-0-2").Outdated = true }, "restart c-0-2"},
		"an outdated primary": {func(f *fixture) { f.pod("c-0-0").Outdated = true }, "hand over from c-0-0 to c-0-1"},
		"the last replica is outdated": {func(f *fixture) {
			f.Spec.Replicas, f.Sets[0].Replicas, f.Pods = 1, 2, f.Pods[:2]
			f.pod("c-0-1").Outdated = true
		}, "name c-0-0 the primary|"},
		"a replica less":      {func(f *fixture) { f.Spec.Replicas = 1 }, "scale shard 0 from 3 pods to 2"},
		"no replica any more": {func(f *fixture) { f.Spec.Replicas = 0 }, "name c-0-0 the primary|"},
		"a replica less, and the pod that goes is the primary": {func(f *fixture) { f.Spec.Replicas = 1; f.swap("c-0-2") }, "hand over from c-0-2 to c-0-0"},
	})
}
