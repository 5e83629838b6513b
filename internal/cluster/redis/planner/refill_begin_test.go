package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestARestoreOfLostSlotsIsWrittenDownFirst(t *testing.T) {
	lost := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner}
	served := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	rows.Run(t, map[string]refillRow{
		"nothing is begun that was not confirmed": {
			spoil: func(*fixture) {}, reason: ReasonShardLost, words: "spec.slots: Lost",
		},
		"a confirmed restore is written down first": {
			spoil: func(f *fixture) { f.Confirmed = asked(true) },
			step:  record(lost), words: "are loaded before they are served",
		},
		"a request for empty slots waits for the restore that was confirmed": {
			spoil: func(f *fixture) { f.Confirmed, f.Spec.AssignEmpty = asked(true), true },
			step:  record(lost),
		},
		"without a majority the slots are served first": {
			spoil: func(f *fixture) { f.loseShard("2"); f.Confirmed = asked(true) },
			step:  record(model.RestoreRecord{Slots: slots.Union(slots.Share(1, 3), slots.Share(2, 3)), Owners: []string{id("c-1-0"), id("c-2-0")}, Served: true}), words: "because a majority of the primaries is gone",
		},
		"another restore is not for lost slots": {
			spoil: func(f *fixture) { f.Confirmed = asked(false) }, reason: ReasonShardLost,
		},
		"what was loaded before is to be emptied also when it was to be served": {
			spoil: func(f *fixture) {
				f.Restore = begun(served, &planner.Job{Ended: true, Failed: true, Since: now})
				f.Confirmed = &model.Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: model.RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			step: steps.RecordBackup{Record: model.RestoreRecord{Directory: "other", Token: "u-2", Slots: slots.Share(1, 3), Owners: firstOwner, Emptied: true}},
		},
		"what was confirmed for another loss is not begun": {
			spoil: func(f *fixture) { f.Confirmed = asked(true); f.Confirmed.Loss = "that of last week" }, reason: ReasonShardLost,
		},
		"what was confirmed instead takes the place of a restore that fails": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, &planner.Job{Ended: true, Failed: true, Since: now})
				f.Confirmed = &model.Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: model.RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			step: steps.RecordBackup{Record: model.RestoreRecord{Directory: "other", Token: "u-2", Slots: slots.Share(1, 3), Owners: firstOwner, Emptied: true}},
		},
		"pods that are too many stay: their claims could be taken for that of the owner": {
			spoil: func(f *fixture) { f.Spec.Replicas = 0 }, reason: ReasonShardLost,
		},
		"what was confirmed instead does not take the place of a restore that goes on": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, running)
				f.importFromOwner()
				f.Confirmed = &model.Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: model.RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			reason: planner.ReasonRestoring,
		},
	})
}

func TestLostSlotsAreImportedFromTheirFormerOwner(t *testing.T) {
	lost := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner}
	served := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	into := func(name string) []steps.Refill {
		return []steps.Refill{{Pod: name, ID: "new-" + name, Slots: slots.Share(1, 3), Other: id("c-1-0")}}
	}
	rows.Run(t, map[string]refillRow{
		"an empty server imports the lost slots": {
			spoil: func(f *fixture) { f.Restore = begun(lost, nil) },
			step:  steps.ImportLost{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 3)},
		},
		"an empty server imports the lost slots once it has heard of the dead owner": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				for _, name := range []string{"c-1-0", "c-1-1"} {
					f.unheard(name, id("c-1-0"))
					f.pod(name).Started = now.Add(-time.Second)
				}
			},
			reason: ReasonGossip, words: "has heard of their former owner",
		},
		"an empty server that has heard of the dead owner imports its slots": {
			spoil: func(f *fixture) { f.Restore = begun(lost, nil); f.unheard("c-1-0", id("c-1-0")) },
			step:  steps.ImportLost{Pod: "c-1-1", ID: "new-c-1-1", Other: id("c-1-0"), Slots: slots.Share(1, 3)},
		},
		"a dead owner that no server hears of any more is not waited for": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.unheard("c-1-0", id("c-1-0"))
				f.unheard("c-1-1", id("c-1-0"))
			},
			step: record(served), words: "no empty server of their shard has heard of their former owner",
		},
		"an empty server that knows no owner yet imports the lost slots once more": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.imports("nobody")
				f.follow()
			},
			step: steps.ImportLost{Pod: "c-1-0", ID: "new-c-1-0", Other: "nobody", Slots: slots.Share(1, 3)},
		},
		"the backup is loaded into the server that imports the slots": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.importFromOwner()
			},
			step: steps.LoadBackup{RestoreRecord: record(lost).Record, Into: into("c-1-0")},
		},
		"the replica of a server that imports slots copies what is loaded": {
			spoil: func(f *fixture) { f.Restore = begun(lost, running); f.imports(id("c-1-0")) },
			step:  steps.Replicate{Replicas: []steps.Following{{Pod: "c-1-1", Primary: "c-1-0", PrimaryID: "new-c-1-0"}}},
		},
		"a server that is no copy waits until it knows a primary": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.Pods[2].Node.Peers = f.Pods[2].Node.Peers[:1]
				f.Pods[3].Node.Peers = f.Pods[3].Node.Peers[:1]
			},
			step: nil, reason: steps.ReasonMeet,
		},
		"a majority that is lost during the restore is not waited for": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.loseShard("2")
			},
			step: record(served), words: "a majority of the primaries is gone",
		},
		"a majority is not waited for when empty slots are approved": {
			spoil: func(f *fixture) { f.Restore, f.Spec.Approved = begun(lost, nil), facts.Digest(id("c-1-0")) },
			step:  record(served),
		},
	})
}
