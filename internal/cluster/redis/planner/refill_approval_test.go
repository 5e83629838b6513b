package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

// What was approved or confirmed of lost slots counts for these, and for the loss that it was given for.
func TestAnApprovalCountsForItsSlotsOnly(t *testing.T) {
	// served and filled are records of Restores of the slots of shard 1.
	served := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true}
	filled := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner}
	five := model.RestoreRecord{Slots: slots.Union(slots.Share(1, 5), slots.Share(2, 5)), Owners: []string{id("c-1-0"), id("c-2-0")}}
	approve := func(f *fixture) { f.Spec.Approved = facts.Digest(id("c-2-0")) }
	rows.Run(t, map[string]approvalRow{
		"slots that no server knows an owner of are served, and no others with them": {
			spoil: []func(*fixture){unowned("c-1-0", "c-2-0"), begins(model.RestoreRecord{Slots: slots.Share(1, 3), Served: true}, nil)},
			step:  steps.AddSlots{Owners: []steps.Ownership{{Pod: "c-1-0", Slots: slots.Share(1, 3)}}},
		},
		"slots that no server knows an owner of are not served with others that were approved": {
			spoil: []func(*fixture){unowned("c-2-0"), begins(model.RestoreRecord{Slots: slots.Share(1, 3), Served: true}, nil)}, reason: ReasonSlotsUnassigned,
		},
		"a lost shard is served, and no other one with it": {
			spoil: []func(*fixture){lostShards("0", "1"), begins(served, nil)}, step: steps.AssignEmpty{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 3)},
		},
		"another lost shard is not served": {spoil: []func(*fixture){lostShards("0"), begins(model.RestoreRecord{Slots: slots.Share(1, 3), Served: true}, nil)}, reason: ReasonShardLost},
		"what the next owner had is not given up": {
			spoil: []func(*fixture){lostShards("1"), begins(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: []string{"former"}, Served: true}, nil)}, reason: ReasonShardLost,
		},
		"an owner that is back is not loaded": {spoil: []func(*fixture){begins(served, nil)}, step: planner.NoteLoaded{}},
		"an owner that is back is not loaded with others": {
			spoil: []func(*fixture){begins(model.RestoreRecord{Slots: slots.Union(slots.Share(1, 3), slots.Share(2, 3)), Owners: firstOwner, Served: true}, nil)},
			step:  record(model.RestoreRecord{Slots: slots.Share(2, 3), Owners: firstOwner, Served: true}),
		},
		"an approval of one loss of two waits for both": {
			spoil: []func(*fixture){(*fixture).five, lostShards("1", "2"), approve, begins(five, nil)},
			step:  steps.ImportLost{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 5)},
		},
		"an approval of another loss does not count for this one": {
			spoil: []func(*fixture){(*fixture).five, lostShards("1", "2"), approve, begins(model.RestoreRecord{Slots: slots.Share(1, 5), Owners: firstOwner}, nil)},
			step:  steps.ImportLost{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 5)},
		},
		"another loss that no server has heard of does not count for this one": {
			spoil: []func(*fixture){(*fixture).five, lostShards("1", "2"), begins(model.RestoreRecord{Slots: slots.Share(1, 5), Owners: firstOwner}, nil), func(f *fixture) {
				f.unheard("c-2-0", id("c-2-0"))
				f.unheard("c-2-1", id("c-2-0"))
			}},
			step: steps.ImportLost{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 5)},
		},
		"other slots that no server knows of do not count for these": {
			spoil: []func(*fixture){lostShards("1"), begins(filled, nil), func(f *fixture) {
				f.views(id("c-2-0"), func(p *model.Peer) { p.Slots = p.Slots.Minus(slots.New(slots.Range{From: 16383, To: 16383})) })
			}},
			step: steps.ImportLost{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 3)},
		},
		"a Restore of other slots has left nothing in these": {
			spoil: []func(*fixture){
				lostShards("1"), begins(model.RestoreRecord{Slots: slots.Share(2, 3), Served: true}, &planner.Job{Name: "c-load", UID: "j-1", Ended: true, Failed: true, Since: now}),
				func(f *fixture) {
					f.Confirmed = asked(true)
					f.Confirmed.Loss, _, _ = Refilling(f.State)
					f.Confirmed.Token = "u-2"
				},
			},
			step: steps.RecordBackup{Record: model.RestoreRecord{Directory: back, Token: "u-2", Slots: slots.Share(1, 3), Owners: firstOwner}},
		},
	})
}

func TestSlotsThatAreLoadedGetOneOwner(t *testing.T) {
	// served and filled are records of Restores of the slots of shard 1; moved are some of them that were on their way to shard 2.
	served := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true}
	filled := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner}
	moved := slots.New(slots.Range{From: 5462, To: 5470})
	rest := slots.Share(1, 3).Minus(moved)
	imports := func(f *fixture) { f.open("c-2-0", moved, "c-1-0", true) }
	loaded := loadedInto(LoadedInto("c-1-0", "first", rest) + " " + LoadedInto("c-2-0", "a", moved))
	five := model.RestoreRecord{Slots: slots.Union(slots.Share(1, 5), slots.Share(2, 5)), Owners: []string{id("c-1-0"), id("c-2-0")}}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	approve := func(f *fixture) { f.Spec.Approved = facts.Digest(id("c-2-0")) }
	rows.Run(t, map[string]approvalRow{
		"what another server imports is not adopted by the one that has the rest": {
			spoil: []func(*fixture){lostShards("1"), owns(rest), imports, begins(filled, loaded)}, step: steps.OwnLoaded{Pod: "c-2-0", ID: id("c-2-0"), Slots: moved},
		},
		"what another server imports is not adopted when it is to be served empty": {
			spoil: []func(*fixture){lostShards("1"), owns(rest), imports, begins(served, nil)}, step: steps.AssignEmpty{Pod: "c-2-0", ID: id("c-2-0"), Other: id("c-1-0"), Slots: moved},
		},
		"what no server imports any more is not adopted": {
			spoil: []func(*fixture){lostShards("1"), owns(rest), begins(filled, loaded)}, step: steps.ImportLost{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: moved},
		},
		"what no server imports any more is not adopted when it is to be served": {
			spoil: []func(*fixture){lostShards("1"), owns(rest), begins(served, nil)}, step: steps.AssignEmpty{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: moved},
		},
		"an empty server does not become a second owner": {
			spoil: []func(*fixture){lostShards("1"), func(f *fixture) { f.own("c-1-1", rest) }, begins(filled, nil)},
			step:  steps.Replicate{Replicas: []steps.Following{{Pod: "c-1-0", Primary: "c-1-1", PrimaryID: "new-c-1-1"}}},
		},
		"what was loaded elsewhere is loaded again": {
			spoil: []func(*fixture){lostShards("1"), (*fixture).follow, func(f *fixture) { f.imports(id("c-1-0")) }, begins(filled, loaded)},
			step:  planner.DropRestoreJob{Name: "c-load", UID: "j-1"},
		},
		"what has been loaded and is in use is not loaded again": {
			spoil: []func(*fixture){(*fixture).five, lostShards("1", "2"), owns(slots.Share(1, 5)), approve, begins(five, running)},
			step:  record(model.RestoreRecord{Slots: slots.Share(2, 5), Owners: five.Owners, Served: true}),
		},
		"a server that imports other slots too has keys of these": {
			spoil: []func(*fixture){
				lostShards("1"), (*fixture).follow, func(f *fixture) { f.imports(id("c-1-0")) },
				func(f *fixture) {
					f.pod("c-1-0").Node.Keys = 40
					f.open("c-1-0", slots.New(slots.Range{From: 0, To: 5}), "c-0-0", true)
					f.views(id("c-0-0"), func(p *model.Peer) {
						p.Open = []model.Open{{Slots: slots.New(slots.Range{From: 0, To: 5}), Other: "new-c-1-0", Importing: false}}
					})
				},
				begins(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil),
			},
			step: steps.AssignEmpty{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 3)},
		},
		"another Restore, of another loss, does not keep this one": {
			spoil: []func(*fixture){
				lostShards("1"), (*fixture).follow, func(f *fixture) { f.imports(id("c-1-0")) }, begins(filled, &planner.Job{Name: "c-load", UID: "j-1", Ended: true, Failed: true, Since: now}),
				func(f *fixture) {
					f.Spec.AssignEmpty = true
					f.Confirmed = &model.Confirmed{Noun: "Restore s", Lost: true, Loss: "another", RestoreRecord: model.RestoreRecord{Directory: "other", Token: "u-2"}}
				},
			},
			reason: "BackupFailed",
		},
	})
}
