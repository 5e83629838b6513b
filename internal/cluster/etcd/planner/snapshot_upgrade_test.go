package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestASnapshotIsTakenBeforeAnUpgrade(t *testing.T) {
	next := model.Version{Major: 3, Minor: 6, Patch: 17}
	take := steps.TakeSnapshot{Name: "orders-before-3-7-3", From: v36, For: v37}
	second, third := take, take
	second.Name, third.Name = "orders-before-3-7-3-2", "orders-before-3-7-3-3"
	first := steps.TakeSnapshot{Name: "orders-before-3-6-17", From: v36, For: next}
	patch := func(change func(*model.State)) model.State {
		return saving(nil, func(s *model.State) {
			s.Want.Version = next
			if change != nil {
				change(s)
			}
		})
	}
	rows.Run(t, map[string]planRow{
		"a snapshot comes before another minor version": {
			state: saving(nil, nil), step: take, says: "about 32Ki comes before 3.6.16 -> 3.7.3",
		},
		"a snapshot comes before the log is flushed": {
			state: saving(nil, func(s *model.State) { s.Record.Flushed = false }), step: take,
		},
		"one snapshot is taken for several minor versions": {
			state: running(v35, v37, func(s *model.State) { s.Want.Snapshot, s.Want.SnapshotPlace = true, true }),
			step:  steps.TakeSnapshot{Name: "orders-before-3-7-3", From: v35, For: v37},
		},
		"one snapshot serves all minor versions of the way": {
			state: saving(nil, func(s *model.State) { s.Record.Snapshot = snapshotFor(v37); s.Record.Snapshot.From = v35 }),
			step:  steps.SetVersion{From: v36, To: v37},
		},
		"a snapshot comes before a patch": {state: patch(nil), step: first},
		"a snapshot comes before a patch that may cure a member": {
			state: patch(func(s *model.State) { down(s, 0) }), step: first,
		},
		"a snapshot waits for a quorum": {
			state:  patch(func(s *model.State) { s.Members = nil; down(s, 0); down(s, 2) }),
			reason: planner.ReasonNoQuorum, says: "set spec.upgrade.snapshot to Skip",
		},
		"a snapshot that fails does not hold up repairs": {
			state: saving(failed(time.Minute), func(s *model.State) { s.Pods[2].TemplateHash = "before" }),
			step:  deletion("orders-2"),
		},
		"a snapshot that fails does not hold up growth": {
			state: saving(failed(time.Minute), func(s *model.State) { s.Want.Size = 5 }),
			step:  steps.Resize{From: 3, To: 4},
		},
		"a snapshot is not taken where it is skipped": {
			state: saving(nil, func(s *model.State) { s.Want.Snapshot = false }), step: steps.SetVersion{From: v36, To: v37},
			says: "without a snapshot, as spec.upgrade.snapshot says",
		},
		"a snapshot before a patch is not taken where it is skipped": {
			state: patch(func(s *model.State) { s.Want.Snapshot = false; down(s, 0) }), step: steps.SetVersion{From: v36, To: next},
			says: "without a snapshot, as spec.upgrade.snapshot says",
		},
		"a snapshot is not taken where there is no place for it": {
			state: saving(nil, func(s *model.State) { s.Want.SnapshotPlace = false }), step: steps.SetVersion{From: v36, To: v37},
			says: "without a snapshot, because there is neither spec.upgrade.destination nor spec.storage",
		},
		"a snapshot without storage goes to a destination": {
			state: saving(nil, func(s *model.State) { s.Want.Persistent = false }), step: take,
		},
		"a snapshot is not taken before an older version": {
			state: saving(nil, func(s *model.State) { s.Want.Version = model.Version{Major: 3, Minor: 6, Patch: 15} }),
			step:  steps.SetVersion{From: v36, To: model.Version{Major: 3, Minor: 6, Patch: 15}},
		},
		"a snapshot is of no use for another version": {
			state: saving(nil, func(s *model.State) { s.Record.Snapshot = snapshotFor(next) }), step: take,
		},
		"a snapshot is of no use after an hour": {
			state: saving(nil, func(s *model.State) {
				s.Record.Snapshot = snapshotFor(v37)
				s.Record.Snapshot.Time = ago(61 * time.Minute)
			}),
			step: take,
		},
	})
}
