package redis

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/test/rows"
)

func TestARestoreOfLostSlotsIsWrittenDownFirst(t *testing.T) {
	lost := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner}
	served := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true}
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
			step:  record(RestoreRecord{Slots: Union(Share(1, 3), Share(2, 3)), Owners: []string{id("c-1-0"), id("c-2-0")}, Served: true}), words: "because a majority of the primaries is gone",
		},
		"another restore is not for lost slots": {
			spoil: func(f *fixture) { f.Confirmed = asked(false) }, reason: ReasonShardLost,
		},
		"what was loaded before is to be emptied also when it was to be served": {
			spoil: func(f *fixture) {
				f.Restore = begun(served, &planner.Job{Ended: true, Failed: true, Since: now})
				f.Confirmed = &Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			step: RecordBackup{RestoreRecord{Directory: "other", Token: "u-2", Slots: Share(1, 3), Owners: firstOwner, Emptied: true}},
		},
		"what was confirmed for another loss is not begun": {
			spoil: func(f *fixture) { f.Confirmed = asked(true); f.Confirmed.Loss = "that of last week" }, reason: ReasonShardLost,
		},
		"what was confirmed instead takes the place of a restore that fails": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, &planner.Job{Ended: true, Failed: true, Since: now})
				f.Confirmed = &Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			step: RecordBackup{RestoreRecord{Directory: "other", Token: "u-2", Slots: Share(1, 3), Owners: firstOwner, Emptied: true}},
		},
		"pods that are too many stay: their claims could be taken for that of the owner": {
			spoil: func(f *fixture) { f.Spec.Replicas = 0 }, reason: ReasonShardLost,
		},
		"what was confirmed instead does not take the place of a restore that goes on": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, running)
				f.importFromOwner()
				f.Confirmed = &Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			reason: planner.ReasonRestoring,
		},
	})
}

func TestLostSlotsAreImportedFromTheirFormerOwner(t *testing.T) {
	lost := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner}
	served := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	into := func(name string) []Refill {
		return []Refill{{Pod: name, ID: "new-" + name, Slots: Share(1, 3), other: id("c-1-0")}}
	}
	rows.Run(t, map[string]refillRow{
		"an empty server imports the lost slots": {
			spoil: func(f *fixture) { f.Restore = begun(lost, nil) },
			step:  ImportLost{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)},
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
			step:  ImportLost{"c-1-1", "new-c-1-1", id("c-1-0"), Share(1, 3)},
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
			step: ImportLost{"c-1-0", "new-c-1-0", "nobody", Share(1, 3)},
		},
		"the backup is loaded into the server that imports the slots": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.importFromOwner()
			},
			step: LoadBackup{record(lost).Record, into("c-1-0")},
		},
		"the replica of a server that imports slots copies what is loaded": {
			spoil: func(f *fixture) { f.Restore = begun(lost, running); f.imports(id("c-1-0")) },
			step:  Replicate{[]Following{{"c-1-1", "c-1-0", "new-c-1-0"}}},
		},
		"a server that is no copy waits until it knows a primary": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.Pods[2].Node.Peers = f.Pods[2].Node.Peers[:1]
				f.Pods[3].Node.Peers = f.Pods[3].Node.Peers[:1]
			},
			step: nil, reason: ReasonMeet,
		},
		"a majority that is lost during the restore is not waited for": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.loseShard("2")
			},
			step: record(served), words: "a majority of the primaries is gone",
		},
		"a majority is not waited for when empty slots are approved": {
			spoil: func(f *fixture) { f.Restore, f.Spec.Approved = begun(lost, nil), digest(id("c-1-0")) },
			step:  record(served),
		},
	})
}
