package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestLostSlotsAreOwnedAfterTheyAreLoaded(t *testing.T) {
	lost := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner}
	served := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	rows.Run(t, map[string]refillRow{
		"no server owns the lost slots while they are loaded": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, running)
				f.importFromOwner()
				f.pod("c-1-0").Node.Keys = 5
				f.Spec.Shards = 2
			},
			reason: planner.ReasonRestoring, words: "is being loaded",
		},
		"a server that was restarted is loaded again": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, loadedInto(LoadedInto("c-1-0", "another", slots.Share(1, 3))))
				f.importFromOwner()
			},
			step: planner.DropRestoreJob{Name: "c-load", UID: "j-1"}, words: "was restarted",
		},
		"the server that was loaded owns the slots": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, loadedInto(LoadedInto("c-1-0", "first", slots.Share(1, 3))))
				f.importFromOwner()
				f.pod("c-1-0").Node.Keys = 5
			},
			step: steps.OwnLoaded{Pod: "c-1-0", ID: "new-c-1-0", Slots: slots.Share(1, 3)},
		},
		"a restore is over when all slots have owners": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, loadedInto(LoadedInto("c-1-0", "first", slots.Share(1, 3))))
				f.own("c-1-0", slots.Share(1, 3))
				f.follow()
			},
			step: planner.NoteLoaded{Restored: job.Restored{Keys: 7}}, reason: planner.ReasonRestored,
		},
		"slots that are loaded afterwards are served empty": {
			spoil: func(f *fixture) { f.Restore = begun(served, nil) },
			step:  steps.AssignEmpty{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 3)}, words: "is loaded into them afterwards",
		},
		"slots are served with the keys that were loaded before": {
			spoil: func(f *fixture) {
				f.Restore = begun(served, nil)
				f.importFromOwner()
				f.pod("c-1-0").Node.Keys = 5
			},
			step: steps.AssignEmpty{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 3)},
		},
	})
}

func TestLostSlotsAreNotServedWithKeysOfAnotherBackup(t *testing.T) {
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	rows.Run(t, map[string]refillRow{
		"slots are not served with keys that another backup may have left": {
			spoil: func(f *fixture) {
				f.Restore = begun(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil)
				f.importFromOwner()
				f.pod("c-1-0").Node.Keys = 5
			},
			reason: ReasonKeysNoSlots, words: "c-1-0 holds 5 keys that a load before has left there, perhaps of another backup, and both would mix: delete the claims and pods of c-1-0, c-1-1,",
		},
		"slots whose former owner is unknown are not served with keys that another backup may have left": {
			spoil: func(f *fixture) {
				f.Restore = begun(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil)
				f.imports(id("c-0-0"))
				f.follow()
				for i := range f.Pods {
					f.unheard(f.Pods[i].Name, id("c-1-0"))
					f.unheard(f.Pods[i].Name, id("c-1-1"))
					for j := range f.Pods[i].Node.Peers {
						f.Pods[i].Node.Peers[j].Slots = f.Pods[i].Node.Peers[j].Slots.Minus(slots.Share(1, 3))
					}
				}
				f.pod("c-1-0").Node.Keys = 5
			},
			reason: ReasonKeysNoSlots, words: "delete the claims and pods of c-1-0, c-1-1,",
		},
		"an empty server that was to be emptied gets them": {
			spoil: func(f *fixture) {
				f.Restore = begun(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil)
				f.importFromOwner()
			},
			step: steps.AssignEmpty{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-1-0"), Slots: slots.Share(1, 3)},
		},
		"what empties slots ends before they are served": {
			spoil: func(f *fixture) {
				f.Restore, f.Spec.Approved = begun(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Emptied: true}, running), facts.Digest(id("c-1-0"))
			},
			step: planner.DropRestoreJob{Name: "c-load", UID: "j-1"}, words: "must not empty them then",
		},
		"what empties slots is gone before they are served": {
			spoil: func(f *fixture) {
				gone := *running
				gone.Ended = true
				f.Restore, f.Spec.Approved = begun(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Emptied: true}, &gone), facts.Digest(id("c-1-0"))
			},
			step: record(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner, Emptied: true, Served: true}),
		},
	})
}
