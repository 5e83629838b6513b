package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestReplicatedNextPromotesTheBestReplica(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"the primary has died":                            {func(f *fixture) { f.primaryDies(); f.pod("c-0-2").Node.Offset = 1001 }, "promote c-0-2"},
		"the pod of the primary is gone":                  {func(f *fixture) { f.Pods = f.Pods[1:]; f.lose(0, both...) }, "promote c-0-1"},
		"the container of the primary has been restarted": {func(f *fixture) { f.starts("c-0-0", 10); f.lose(0, both...) }, "promote c-0-1"},
		"the primary came back empty":                     {func(f *fixture) { f.starts("c-0-0", 0); f.lose(0, both...) }, "promote c-0-1"},
		"a replica that is ahead has another history": {func(f *fixture) {
			f.primaryDies()
			f.pod("c-0-2").Node.Offset = 9999
			f.pod("c-0-2").Node.Replication.ID = "older"
		}, "promote c-0-1"},
		"a replica went on from that history": {func(f *fixture) {
			f.primaryDies()
			f.pod("c-0-2").Node.Offset = 9999
			f.pod("c-0-2").Node.Replication = &model.Replication{ID: "n", FormerID: history}
		}, "promote c-0-2"},
		"a replica reads its data":   {func(f *fixture) { f.primaryDies(); f.pod("c-0-1").Node.Loading = true }, "promote c-0-2"},
		"a replica does not answer":  {func(f *fixture) { f.primaryDies(); f.hang("c-0-2") }, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
		"a replica has died, too":    {func(f *fixture) { f.primaryDies(); f.die("c-0-2") }, "promote c-0-1"},
		"a replica is being deleted": {func(f *fixture) { f.primaryDies(); f.hang("c-0-2"); f.pod("c-0-2").Deleting = true }, "promote c-0-1"},
		"one of two equal replicas has its data on its disk": {func(f *fixture) {
			f.primaryDies()
			f.pod("c-0-1").Node.OnDisk = false
		}, "promote c-0-2"},
	})
}

func TestReplicatedNextAfterARestartOfAllServers(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"all were restarted": {func(f *fixture) { f.starts("c-0-0", 9); f.starts("c-0-1", 10); f.starts("c-0-2", 10) }, "promote c-0-0"},
		"all were restarted, and the primary reads its data": {func(f *fixture) {
			f.starts("c-0-0", 0)
			f.pod("c-0-0").Node.Loading = true
			f.starts("c-0-1", 10)
			f.starts("c-0-2", 10)
		}, "c-0-0 loads its data"},
		"all were restarted, and the primary is not there":      {func(f *fixture) { f.die("c-0-0"); f.starts("c-0-1", 10); f.starts("c-0-2", 10) }, "c-0-0 was the primary and does not run, and nobody else"},
		"all were restarted, and the primary is empty":          {func(f *fixture) { f.starts("c-0-0", 0); f.starts("c-0-1", 9); f.starts("c-0-2", 10) }, "promote c-0-2"},
		"the primary is empty, and another server does not run": {func(f *fixture) { f.starts("c-0-0", 0); f.starts("c-0-1", 9); f.die("c-0-2") }, "2 of 3 servers answer"},
	})
}

func TestReplicatedNextReplacesAPrimaryThatNeededNoReplica(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"the primary needed no replica, and has died":        {func(f *fixture) { f.die("c-0-0"); f.alone() }, "c-0-0 was the primary and does not run"},
		"the primary needed no replica, and its pod is gone": {func(f *fixture) { f.alone(); f.Pods = f.Pods[1:] }, "c-0-0 was the primary and does not run"},
		"the primary needed no replica, and its pod is gone with its data": {func(f *fixture) {
			f.alone()
			f.Pods, f.Spec.Persistent = f.Pods[1:], false
		}, "promote c-0-1"},
		"the primary needed no replica, and is back": {func(f *fixture) { f.starts("c-0-0", 7); f.alone() }, "promote c-0-0"},
		"the primary needed no replica, and is back empty": {func(f *fixture) {
			f.starts("c-0-0", 0)
			f.alone()
			f.pod("c-0-2").Node.Offset, f.pod("c-0-2").Node.Keys = 1001, 9
		}, "promote c-0-2"},
		"the primary needed no replica, and reads its data":              {func(f *fixture) { f.starts("c-0-0", 0); f.alone(); f.pod("c-0-0").Node.Loading = true }, "c-0-0 loads its data"},
		"the primary needed no replica, and one replica does not answer": {func(f *fixture) { f.starts("c-0-0", 7); f.alone(); f.hang("c-0-2") }, "promote c-0-0"},
		"the primary needed no replica, and its volume is lost": {func(f *fixture) {
			f.die("c-0-0")
			f.alone()
			f.Claims = []model.Claim{{Name: "data-c-0-0", Lost: "its node is gone"}}
		}, "promote c-0-1"},
		"the primary needed no replica, and cannot start": {func(f *fixture) {
			f.die("c-0-0")
			f.alone()
			f.pod("c-0-0").Stuck = "CrashLoopBackOff"
		}, "c-0-0 was the primary and cannot start (CrashLoopBackOff)"},
		"the primary needed no replica, and cannot read its data": {func(f *fixture) {
			f.die("c-0-0")
			f.alone()
			f.pod("c-0-0").Stuck, f.pod("c-0-0").Fatal = "CrashLoopBackOff", "Wrong RDB checksum"
		}, "c-0-0 was the primary and cannot start from its data (Wrong RDB checksum), and nobody else is known to have all that it has: repair what is on its volume"},
	})
}

func TestReplicatedNextPromotesOnlyWhoHeardThePrimaryToTheEnd(t *testing.T) {
	rows.Run(t, map[string]replicatedRow{
		"the replica that is left was cut off for long, and has just come back": {func(f *fixture) {
			f.die("c-0-0")
			f.pod("c-0-0").Ended = now.Add(-2 * time.Second)
			f.lose(12*time.Second, both...)
			f.die("c-0-2")
		}, "c-0-0 was the primary and does not run"},
		"the replica that is left was cut off for long, and the primary is back": {func(f *fixture) {
			f.starts("c-0-0", 10)
			f.pod("c-0-0").Ended = now.Add(-2 * time.Second)
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
		}, "promote c-0-0"},
		"the replica that is left was cut off for long, and the primary reads its data": {func(f *fixture) {
			f.starts("c-0-0", 10)
			f.pod("c-0-0").Ended, f.pod("c-0-0").Node.Loading = now.Add(-2*time.Second), true
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
		}, "c-0-0 loads its data"},
		"the replica that is left was cut off for long, and the primary's pod is gone": {func(f *fixture) {
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
			f.Pods = f.Pods[1:]
		}, "c-0-0 was the primary and does not run"},
		"the replica that is left heard the primary to the end, and that is back": {func(f *fixture) {
			f.starts("c-0-0", 10)
			f.pod("c-0-0").Ended = now.Add(-5 * time.Minute)
			f.lose(5*time.Minute, both...)
			f.die("c-0-2")
		}, "promote c-0-1"},
		"the primary has died again since, and all replicas are there": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(5*time.Minute, both...)
		}, "promote c-0-1"},
		"the primary has died again since, and no other replica is wanted": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(5*time.Minute, both...)
			f.Pods, f.Spec.Replicas = f.Pods[:2], 1
		}, "promote c-0-1"},
		"the replica that is left heard the primary to the end": {func(f *fixture) {
			f.die("c-0-0")
			f.pod("c-0-0").Ended = now.Add(-2 * time.Second)
			f.lose(11*time.Second, both...)
			f.die("c-0-2")
		}, "promote c-0-1"},
		"the replica that is left was not in sync, and the other, which was, does not answer": {func(f *fixture) {
			f.starts("c-0-0", 7)
			f.lose(time.Hour, "c-0-1")
			f.pod("c-0-1").Role = ""
			f.hang("c-0-2")
		}, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
		"the replica that is left was not in sync": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(time.Hour, both...)
			f.die("c-0-2")
			f.pod("c-0-1").Role = ""
		}, "c-0-0 was the primary and does not run"},
	})
}

// named applies the step that names the failover candidate.
func (f *fixture) named() {
	if step, ok := Next(f.State).Step.(steps.Appoint); ok {
		f.Appointed, f.Candidate = step.Appointment, step.Candidate
	}
}

func TestReplicatedNextWaitsForAPrimaryThatMayHaveBeenReinstated(t *testing.T) {
	const waits = "c-0-1 does not answer and had no replica in sync, so that it may still take writes"
	rows.Run(t, map[string]replicatedRow{
		"the primary takes its part back, and cannot be reached": {func(f *fixture) {
			f.handing(false)
			f.named()
			f.hang("c-0-1")
			f.lose(9*time.Second, "c-0-0", "c-0-2")
		}, waits},
		"the primary is back with its data, and cannot be reached": {func(f *fixture) {
			f.swap("c-0-1")
			f.starts("c-0-0", 9)
			f.starts("c-0-1", 9)
			f.starts("c-0-2", 9)
			f.named()
			f.hang("c-0-1")
			f.follows("c-0-2", "c-0-0")
			f.pod("c-0-2").Node.Replication.ID = history
			f.pod("c-0-2").Node.Asks = f.pod("c-0-1").Addr
			f.lose(9*time.Second, "c-0-0", "c-0-2")
		}, waits},
		"an earlier version named the primary and recorded a guard": {func(f *fixture) {
			f.handing(false)
			f.Candidate = model.FailoverCandidate{Pod: "c-0-1", History: history}
			f.named()
			f.hang("c-0-1")
			f.lose(9*time.Second, "c-0-0", "c-0-2")
		}, waits},
		"the primary takes its part back": {func(f *fixture) { f.handing(false); f.named() }, "promote c-0-1"},
		"another server is named, and the primary has missed its replicas for long": {func(f *fixture) {
			f.primarySilent()
			f.pod("c-0-2").Node.Asks = f.pod("c-0-1").Addr
			f.named()
		}, "promote c-0-1"},
	})
}
