package redis

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// loseShard replaces the disks of all pods of a shard. The new ones know everybody.
func (f *fixture) loseShard(shard string) {
	for i, name := range []string{"c-" + shard + "-0", "c-" + shard + "-1"} {
		f.replaceDisk(name)
		addr := Address{IP: "10.9." + shard + "." + string(rune('1'+i)), Port: ClientPort}
		f.pod(name).Addr, f.pod(name).Node.Peers[0].Addr = addr, addr
		f.pod(name).Node.Process = "first"
	}
	f.join("c-" + shard + "-0")
	f.join("c-" + shard + "-1")
	for _, name := range []string{"c-" + shard + "-0", "c-" + shard + "-1"} {
		n := f.pod(name).Node
		n.Peers = append(n.Peers, Peer{ID: id("c-" + shard + "-0"), Failed: true})
	}
}

// unheard has a new server not know of the dead owner.
func (f *fixture) unheard(name, dead string) {
	n := f.pod(name).Node
	n.Peers = slices.DeleteFunc(n.Peers, func(p Peer) bool { return p.ID == dead })
}

// imports makes the first server of shard 1 import its slots from a node, and believe that this owns them, if it knows it.
func (f *fixture) imports(from string) {
	n := f.pod("c-1-0").Node
	for i := range n.Peers {
		switch {
		case n.Peers[i].Myself:
			n.Peers[i].Open = []Open{{Slots: Share(1, 3), Other: from, Importing: true}}
		case n.Peers[i].ID == from:
			n.Peers[i].Slots = Union(n.Peers[i].Slots, Share(1, 3))
		}
	}
}

const back = "backup-of-monday"

// firstOwner is who had the slots of shard 1 before it was lost.
var firstOwner = []string{id("c-1-0")}

// asked is a Restore that was confirmed.
func asked(lost bool) *Confirmed {
	return &Confirmed{Noun: "Restore r", Lost: lost, RestoreRecord: RestoreRecord{Directory: back, Token: "u-1"}}
}

// begun is one that was written down.
func begun(r RestoreRecord, j *planner.Job) *Restore {
	r.Directory, r.Token = back, "u-1"
	if j != nil {
		j.For = LoadBackup{RestoreRecord: r}.Sum()
	}
	return &Restore{RestoreRecord: r, Loading: &planner.Loading{Noun: "backup " + back, Job: j}}
}

func loadedInto(into string) *planner.Job {
	return &planner.Job{Name: "c-load", UID: "j-1", Ended: true, Since: now, Report: &job.Report{Restored: &job.Restored{Keys: 7, Into: into}}}
}

func TestLostSlotsAreFilledBeforeTheyAreServed(t *testing.T) {
	lost := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner}
	served := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true}
	record := func(r RestoreRecord) RecordBackup {
		r.Directory, r.Token = back, "u-1"
		return RecordBackup{r}
	}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	into := func(name string) []Refill {
		return []Refill{{Pod: name, ID: "new-" + name, Slots: Share(1, 3), other: id("c-1-0")}}
	}
	for name, tc := range map[string]struct {
		spoil         func(*fixture)
		step          cluster.Step
		reason, words string
	}{
		"nothing is begun that nobody has confirmed": {
			spoil: func(*fixture) {}, reason: ReasonShardLost, words: "spec.slots: Lost",
		},
		"what is done is written down first": {
			spoil: func(f *fixture) { f.Confirmed = asked(true) },
			step:  record(lost), words: "are loaded before they are served",
		},
		"who asks for empty slots has to wait for what was confirmed": {
			spoil: func(f *fixture) { f.Confirmed, f.Spec.AssignEmpty = asked(true), true },
			step:  record(lost),
		},
		"without a majority they are served first": {
			spoil: func(f *fixture) { f.loseShard("2"); f.Confirmed = asked(true) },
			step:  record(RestoreRecord{Slots: Union(Share(1, 3), Share(2, 3)), Owners: []string{id("c-1-0"), id("c-2-0")}, Served: true}), words: "because a majority of the primaries is gone",
		},
		"another restore is not for lost slots": {
			spoil: func(f *fixture) { f.Confirmed = asked(false) }, reason: ReasonShardLost,
		},
		"an empty server imports them": {
			spoil: func(f *fixture) { f.Restore = begun(lost, nil) },
			step:  ImportLost{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)},
		},
		"once it has heard of the dead owner": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				for _, name := range []string{"c-1-0", "c-1-1"} {
					f.unheard(name, id("c-1-0"))
					f.pod(name).Started = now.Add(-time.Second)
				}
			},
			reason: ReasonGossip, words: "has heard of their former owner",
		},
		"whoever has heard of it does": {
			spoil: func(f *fixture) { f.Restore = begun(lost, nil); f.unheard("c-1-0", id("c-1-0")) },
			step:  ImportLost{"c-1-1", "new-c-1-1", id("c-1-0"), Share(1, 3)},
		},
		"what nobody hears of any more is not waited for": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.unheard("c-1-0", id("c-1-0"))
				f.unheard("c-1-1", id("c-1-0"))
			},
			step: record(served), words: "no empty server of their shard has heard of their former owner",
		},
		"and once more, if it knows no owner yet": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.imports("nobody")
				f.follow()
			},
			step: ImportLost{"c-1-0", "new-c-1-0", "nobody", Share(1, 3)},
		},
		"then it is loaded": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.imports(id("c-1-0"))
				f.follow()
			},
			step: LoadBackup{record(lost).Record, into("c-1-0")},
		},
		"its copy copies what is loaded": {
			spoil: func(f *fixture) { f.Restore = begun(lost, running); f.imports(id("c-1-0")) },
			step:  Replicate{[]Following{{"c-1-1", "c-1-0", "new-c-1-0"}}},
		},
		"nobody owns them while it is loaded": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, running)
				f.imports(id("c-1-0"))
				f.follow()
				f.pod("c-1-0").Node.Keys = 5
				f.Spec.Shards = 2
			},
			reason: planner.ReasonRestoring, words: "is being loaded",
		},
		"a server that was restarted is loaded again": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, loadedInto(LoadedInto("c-1-0", "another", Share(1, 3))))
				f.imports(id("c-1-0"))
				f.follow()
			},
			step: planner.DropRestoreJob{Name: "c-load", UID: "j-1"}, words: "was restarted",
		},
		"the same one owns them": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, loadedInto(LoadedInto("c-1-0", "first", Share(1, 3))))
				f.imports(id("c-1-0"))
				f.follow()
				f.pod("c-1-0").Node.Keys = 5
			},
			step: OwnLoaded{"c-1-0", "new-c-1-0", Share(1, 3)},
		},
		"when they have owners, it is over": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, loadedInto(LoadedInto("c-1-0", "first", Share(1, 3))))
				f.own("c-1-0", Share(1, 3))
				f.follow()
			},
			step: planner.NoteLoaded{Restored: job.Restored{Keys: 7}}, reason: planner.ReasonRestored,
		},
		"a server that is no copy waits until it knows a primary": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.Pods[2].Node.Peers = f.Pods[2].Node.Peers[:1]
				f.Pods[3].Node.Peers = f.Pods[3].Node.Peers[:1]
			},
			step: nil, reason: ReasonMeet,
		},
		"a majority that goes meanwhile is not waited for": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, nil)
				f.loseShard("2")
			},
			step: record(served), words: "a majority of the primaries is gone",
		},
		"nor is it when that is approved": {
			spoil: func(f *fixture) { f.Restore, f.Spec.Approved = begun(lost, nil), digest(id("c-1-0")) },
			step:  record(served),
		},
		"slots that are loaded afterwards are served empty": {
			spoil: func(f *fixture) { f.Restore = begun(served, nil) },
			step:  AssignEmpty{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)}, words: "is loaded into them afterwards",
		},
		"with the keys that were loaded before": {
			spoil: func(f *fixture) {
				f.Restore = begun(served, nil)
				f.imports(id("c-1-0"))
				f.follow()
				f.pod("c-1-0").Node.Keys = 5
			},
			step: AssignEmpty{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)},
		},
		"but not with those that another backup may have left": {
			spoil: func(f *fixture) {
				f.Restore = begun(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil)
				f.imports(id("c-1-0"))
				f.follow()
				f.pod("c-1-0").Node.Keys = 5
			},
			reason: ReasonKeysNoSlots, words: "c-1-0 holds 5 keys that a load before has left there, perhaps of another backup, and both would mix: delete the claims and pods of c-1-0, c-1-1,",
		},
		"nor where nobody knows who owned them": {
			spoil: func(f *fixture) {
				f.Restore = begun(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil)
				f.imports(id("c-0-0"))
				f.follow()
				for i := range f.Pods {
					f.unheard(f.Pods[i].Name, id("c-1-0"))
					f.unheard(f.Pods[i].Name, id("c-1-1"))
					for j := range f.Pods[i].Node.Peers {
						f.Pods[i].Node.Peers[j].Slots = f.Pods[i].Node.Peers[j].Slots.Minus(Share(1, 3))
					}
				}
				f.pod("c-1-0").Node.Keys = 5
			},
			reason: ReasonKeysNoSlots, words: "delete the claims and pods of c-1-0, c-1-1,",
		},
		"an empty server that was to be emptied gets them": {
			spoil: func(f *fixture) {
				f.Restore = begun(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil)
				f.imports(id("c-1-0"))
				f.follow()
			},
			step: AssignEmpty{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)},
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
		"what was confirmed instead takes the place of one that fails": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, &planner.Job{Ended: true, Failed: true, Since: now})
				f.Confirmed = &Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			step: RecordBackup{RestoreRecord{Directory: "other", Token: "u-2", Slots: Share(1, 3), Owners: firstOwner, Emptied: true}},
		},
		"what empties slots ends before they are served": {
			spoil: func(f *fixture) {
				f.Restore, f.Spec.Approved = begun(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Emptied: true}, running), digest(id("c-1-0"))
			},
			step: planner.DropRestoreJob{Name: "c-load", UID: "j-1"}, words: "must not empty them then",
		},
		"and is gone by then": {
			spoil: func(f *fixture) {
				gone := *running
				gone.Ended = true
				f.Restore, f.Spec.Approved = begun(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Emptied: true}, &gone), digest(id("c-1-0"))
			},
			step: record(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Emptied: true, Served: true}),
		},
		"pods that are too many stay: their claims could be taken for that of the owner": {
			spoil: func(f *fixture) { f.Spec.Replicas = 0 }, reason: ReasonShardLost,
		},
		"not of one that goes on": {
			spoil: func(f *fixture) {
				f.Restore = begun(lost, running)
				f.imports(id("c-1-0"))
				f.follow()
				f.Confirmed = &Confirmed{Noun: "Restore s", Lost: true, RestoreRecord: RestoreRecord{Directory: "other", Token: "u-2"}}
			},
			reason: planner.ReasonRestoring,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := formed()
			f.loseShard("1")
			tc.spoil(f)
			if c := f.Confirmed; c != nil && c.Loss == "" {
				c.Loss, _, _ = Refilling(f.State)
			}
			p := Next(f.State)
			if tc.step == nil && p.Step != nil && tc.reason != p.Reason || tc.step != nil && !reflect.DeepEqual(p.Step, tc.step) {
				t.Errorf("got %#v\nwant %#v", p.Step, tc.step)
			}
			if !strings.Contains(p.Message, tc.words) || (tc.reason != "" && p.Reason != tc.reason) {
				t.Errorf("%s: %s", p.Reason, p.Message)
			}
		})
	}
}

// follow makes the second new node of shard 1 the replica of the first one.
func (f *fixture) follow() {
	f.views(f.pod("c-1-1").Node.ID, func(p *Peer) { p.Replica, p.PrimaryID = true, f.pod("c-1-0").Node.ID })
	n := f.pod("c-1-1").Node
	n.LinkUp, n.EverLinked, n.Admits, n.OnDisk = true, true, AdmitsForGood, true
	f.pod("c-1-0").Node.Admits, f.pod("c-1-0").Node.OnDisk = AdmitsForGood, true
}

// own gives slots to a node in the eyes of all.
func (f *fixture) own(name string, slots Slots) {
	for i := range f.Pods {
		for j := range f.Pods[i].Node.Peers {
			p := &f.Pods[i].Node.Peers[j]
			p.Slots = p.Slots.Minus(slots)
			if p.ID == f.pod(name).Node.ID {
				p.Slots = Union(p.Slots, slots)
			}
		}
	}
}

// What somebody has said of lost slots counts for these, and for the loss that it was said of.
func TestConsentCountsForNothingElse(t *testing.T) {
	unowned := func(names ...string) func(*fixture) {
		return func(f *fixture) {
			for _, name := range names {
				f.views(id(name), func(p *Peer) { p.Slots = nil })
			}
		}
	}
	lost := func(shards ...string) func(*fixture) {
		return func(f *fixture) {
			for _, shard := range shards {
				f.loseShard(shard)
			}
		}
	}
	// served and filled are records of Restores of the slots of shard 1; moved are some of them that were on their way to shard 2.
	served := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true}
	filled := RestoreRecord{Slots: Share(1, 3), Owners: firstOwner}
	moved := NewSlots(Range{5462, 5470})
	rest := Share(1, 3).Minus(moved)
	begins := func(r RestoreRecord, j *planner.Job) func(*fixture) {
		return func(f *fixture) { f.Restore = begun(r, j) }
	}
	imports := func(f *fixture) { f.open("c-2-0", moved, "c-1-0", true) }
	owns := func(slots Slots) func(*fixture) {
		return func(f *fixture) {
			f.own("c-1-0", slots)
			f.follow()
			f.pod("c-1-0").Node.Keys = 5
			f.pod("c-2-0").Node.Process = "a"
		}
	}
	loaded := loadedInto(LoadedInto("c-1-0", "first", rest) + " " + LoadedInto("c-2-0", "a", moved))
	five := RestoreRecord{Slots: Union(Share(1, 5), Share(2, 5)), Owners: []string{id("c-1-0"), id("c-2-0")}}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	approve := func(f *fixture) { f.Spec.Approved = digest(id("c-2-0")) }
	record := func(r RestoreRecord) RecordBackup {
		r.Directory, r.Token = back, "u-1"
		return RecordBackup{r}
	}
	for name, tc := range map[string]struct {
		spoil  []func(*fixture)
		step   cluster.Step
		reason string
	}{
		"slots that nobody knows an owner of are served, and no others with them": {
			spoil: []func(*fixture){unowned("c-1-0", "c-2-0"), begins(RestoreRecord{Slots: Share(1, 3), Served: true}, nil)},
			step:  AddSlots{[]Ownership{{"c-1-0", Share(1, 3)}}},
		},
		"others that nobody knows an owner of are not": {
			spoil: []func(*fixture){unowned("c-2-0"), begins(RestoreRecord{Slots: Share(1, 3), Served: true}, nil)}, reason: ReasonSlotsUnassigned,
		},
		"a lost shard is served, and no other one with it": {
			spoil: []func(*fixture){lost("0", "1"), begins(served, nil)}, step: AssignEmpty{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)},
		},
		"another lost shard is not": {spoil: []func(*fixture){lost("0"), begins(RestoreRecord{Slots: Share(1, 3), Served: true}, nil)}, reason: ReasonShardLost},
		"what the next owner had is not given up": {
			spoil: []func(*fixture){lost("1"), begins(RestoreRecord{Slots: Share(1, 3), Owners: []string{"former"}, Served: true}, nil)}, reason: ReasonShardLost,
		},
		"an owner that is back is not loaded": {spoil: []func(*fixture){begins(served, nil)}, step: planner.NoteLoaded{}},
		"an owner that is back is not loaded with others": {
			spoil: []func(*fixture){begins(RestoreRecord{Slots: Union(Share(1, 3), Share(2, 3)), Owners: firstOwner, Served: true}, nil)},
			step:  record(RestoreRecord{Slots: Share(2, 3), Owners: firstOwner, Served: true}),
		},
		"what another server imports is not adopted by the one that has the rest": {
			spoil: []func(*fixture){lost("1"), owns(rest), imports, begins(filled, loaded)}, step: OwnLoaded{"c-2-0", id("c-2-0"), moved},
		},
		"what another server imports is not adopted when it is to be served empty": {
			spoil: []func(*fixture){lost("1"), owns(rest), imports, begins(served, nil)}, step: AssignEmpty{"c-2-0", id("c-2-0"), id("c-1-0"), moved},
		},
		"what nobody imports any more is not adopted": {
			spoil: []func(*fixture){lost("1"), owns(rest), begins(filled, loaded)}, step: ImportLost{"c-1-0", "new-c-1-0", id("c-1-0"), moved},
		},
		"what nobody imports any more is not adopted when it is to be served": {
			spoil: []func(*fixture){lost("1"), owns(rest), begins(served, nil)}, step: AssignEmpty{"c-1-0", "new-c-1-0", id("c-1-0"), moved},
		},
		"an empty server does not become a second owner": {
			spoil: []func(*fixture){lost("1"), func(f *fixture) { f.own("c-1-1", rest) }, begins(filled, nil)},
			step:  Replicate{[]Following{{"c-1-0", "c-1-1", "new-c-1-1"}}},
		},
		"what was loaded elsewhere is loaded again": {
			spoil: []func(*fixture){lost("1"), (*fixture).follow, func(f *fixture) { f.imports(id("c-1-0")) }, begins(filled, loaded)},
			step:  planner.DropRestoreJob{Name: "c-load", UID: "j-1"},
		},
		"who approves of one loss of two waits for both": {
			spoil: []func(*fixture){(*fixture).five, lost("1", "2"), approve, begins(five, nil)},
			step:  ImportLost{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 5)},
		},
		"who approves of another one has no say in this one": {
			spoil: []func(*fixture){(*fixture).five, lost("1", "2"), approve, begins(RestoreRecord{Slots: Share(1, 5), Owners: firstOwner}, nil)},
			step:  ImportLost{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 5)},
		},
		"what has not been heard of another one has no say either": {
			spoil: []func(*fixture){(*fixture).five, lost("1", "2"), begins(RestoreRecord{Slots: Share(1, 5), Owners: firstOwner}, nil), func(f *fixture) {
				f.unheard("c-2-0", id("c-2-0"))
				f.unheard("c-2-1", id("c-2-0"))
			}},
			step: ImportLost{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 5)},
		},
		"what nobody knows of other slots has no say either": {
			spoil: []func(*fixture){lost("1"), begins(filled, nil), func(f *fixture) {
				f.views(id("c-2-0"), func(p *Peer) { p.Slots = p.Slots.Minus(NewSlots(Range{16383, 16383})) })
			}},
			step: ImportLost{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)},
		},
		"what has been loaded and is in use is not loaded again": {
			spoil: []func(*fixture){(*fixture).five, lost("1", "2"), owns(Share(1, 5)), approve, begins(five, running)},
			step:  record(RestoreRecord{Slots: Share(2, 5), Owners: five.Owners, Served: true}),
		},
		"a Restore of other slots has left nothing in these": {
			spoil: []func(*fixture){
				lost("1"), begins(RestoreRecord{Slots: Share(2, 3), Served: true}, &planner.Job{Name: "c-load", UID: "j-1", Ended: true, Failed: true, Since: now}),
				func(f *fixture) {
					f.Confirmed = asked(true)
					f.Confirmed.Loss, _, _ = Refilling(f.State)
					f.Confirmed.Token = "u-2"
				},
			},
			step: RecordBackup{RestoreRecord{Directory: back, Token: "u-2", Slots: Share(1, 3), Owners: firstOwner}},
		},
		"who imports other slots, too, has keys of these": {
			spoil: []func(*fixture){
				lost("1"), (*fixture).follow, func(f *fixture) { f.imports(id("c-1-0")) },
				func(f *fixture) {
					f.pod("c-1-0").Node.Keys = 40
					f.open("c-1-0", NewSlots(Range{0, 5}), "c-0-0", true)
					f.views(id("c-0-0"), func(p *Peer) { p.Open = []Open{{NewSlots(Range{0, 5}), "new-c-1-0", false}} })
				},
				begins(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true, Emptied: true}, nil),
			},
			step: AssignEmpty{"c-1-0", "new-c-1-0", id("c-1-0"), Share(1, 3)},
		},
		"another Restore, of another loss, does not keep this one": {
			spoil: []func(*fixture){
				lost("1"), (*fixture).follow, func(f *fixture) { f.imports(id("c-1-0")) }, begins(filled, &planner.Job{Name: "c-load", UID: "j-1", Ended: true, Failed: true, Since: now}),
				func(f *fixture) {
					f.Spec.AssignEmpty = true
					f.Confirmed = &Confirmed{Noun: "Restore s", Lost: true, Loss: "another", RestoreRecord: RestoreRecord{Directory: "other", Token: "u-2"}}
				},
			},
			reason: "BackupFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := formed()
			for _, spoil := range tc.spoil {
				spoil(f)
			}
			if p := Next(f.State); !reflect.DeepEqual(p.Step, tc.step) || (tc.reason != "" && p.Reason != tc.reason) {
				t.Errorf("got %#v\nwant %#v\n%s: %s", p.Step, tc.step, p.Reason, p.Message)
			}
		})
	}
}

func TestEverythingIsReplacedOnceAllServersAreWell(t *testing.T) {
	all := RestoreRecord{}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	outdated := func(f *fixture) { f.pod("c-1-1").Outdated = true }
	for name, tc := range map[string]struct {
		spoil  func(*fixture)
		step   cluster.Step
		reason string
	}{
		"it is written down first": {
			spoil: func(f *fixture) { f.Confirmed = asked(false) },
			step:  RecordBackup{RestoreRecord{Directory: back, Token: "u-1"}},
		},
		"it waits for all servers": {
			spoil: func(f *fixture) { f.Confirmed, f.Pods[3].Node = asked(false), nil }, reason: ReasonUnreachable,
		},
		"lost slots that are not lost any more are nothing to do": {
			spoil: func(f *fixture) { f.Confirmed = asked(true) },
		},
		"then the Job is started": {
			spoil: func(f *fixture) { f.Restore = begun(all, nil) },
			step:  LoadBackup{RestoreRecord: RestoreRecord{Directory: back, Token: "u-1"}},
		},
		"a Job of another restore is dropped": {
			spoil: func(f *fixture) { f.Restore = begun(all, loadedInto("")); f.Restore.Loading.Job.For = "" },
			step:  planner.DropRestoreJob{Name: "c-load", UID: "j-1"},
		},
		"one that fails is not begun again by who asked for it": {
			spoil: func(f *fixture) {
				f.Restore, f.Confirmed = begun(all, &planner.Job{Ended: true, Failed: true, Since: now, Trouble: "no"}), asked(false)
			},
			reason: "BackupFailed",
		},
		"nothing is rolled out meanwhile": {
			spoil: func(f *fixture) { f.Restore = begun(all, running); outdated(f) }, reason: planner.ReasonRestoring,
		},
		"what was changed because it fails is": {
			spoil: func(f *fixture) {
				f.Restore = begun(all, &planner.Job{Ended: true, Failed: true, Since: now})
				outdated(f)
			},
			step: Restart{Pods: []PodRef{{"c-1-1", "uid-c-1-1"}}, Cause: ReasonRestart},
		},
		"a primary that dies is replaced meanwhile": {
			spoil: func(f *fixture) {
				f.Restore = begun(all, running)
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
			},
			reason: ReasonElection,
		},
		"that it is loaded is remembered": {
			spoil: func(f *fixture) { f.Restore = begun(all, loadedInto("")); outdated(f) },
			step:  planner.NoteLoaded{Restored: job.Restored{Keys: 7}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := formed()
			tc.spoil(f)
			p := Next(f.State)
			if !reflect.DeepEqual(p.Step, tc.step) || (tc.reason != "" && p.Reason != tc.reason) {
				t.Errorf("got %#v\nwant %#v\n%s: %s", p.Step, tc.step, p.Reason, p.Message)
			}
		})
	}
}

func TestOnlyAClusterThatIsReplacedAsAWholeIsNotAvailable(t *testing.T) {
	f := formed()
	f.Restore = begun(RestoreRecord{}, nil)
	c := meta.FindStatusCondition(Conditions(f.State, Next(f.State), nil), v1alpha1.ConditionAvailable)
	if c.Status != "False" || !strings.Contains(c.Message, back) {
		t.Errorf("%+v", c)
	}
	f.Restore = begun(RestoreRecord{Slots: Share(1, 3), Owners: firstOwner, Served: true}, nil)
	if c := meta.FindStatusCondition(Conditions(f.State, Next(f.State), nil), v1alpha1.ConditionAvailable); c.Status != "True" {
		t.Errorf("%+v", c)
	}
}

func TestARestoreOfLostSlotsSaysWhatItWillDo(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil             func(*fixture)
		replaces, missing string
	}{
		"nothing is lost":      {func(*fixture) {}, "", "no slots of it are lost"},
		"a shard":              {func(f *fixture) { f.loseShard("1") }, "Slots 5462-10922 are lost, and are loaded before they are served", ""},
		"a majority":           {func(f *fixture) { f.loseShard("1"); f.loseShard("2") }, "served empty, because a majority", ""},
		"nobody can tell":      {func(f *fixture) { f.loseShard("1"); f.pod("c-0-1").Node = nil }, "", "before all servers answer"},
		"there are no slots":   {func(f *fixture) { f.Spec.Replicated = true; f.Pods = nil }, "", "has no slots"},
		"an election is going": {func(f *fixture) { f.replaceDisk("c-1-0"); f.join("c-1-0") }, "", "no slots of it are lost"},
	} {
		f := formed()
		tc.spoil(f)
		loss, replaces, missing := Refilling(f.State)
		if !strings.Contains(replaces, tc.replaces) || !strings.Contains(missing, tc.missing) || (tc.missing == "") != (missing == "") || (loss == "") != (missing != "") {
			t.Errorf("%s: %q, %q, %q", name, loss, replaces, missing)
		}
	}
}

func TestSlotsAreWrittenAsText(t *testing.T) {
	want := NewSlots(Range{0, 5}, Range{7, 7}, Range{100, 200})
	text, err := want.MarshalText()
	var got Slots
	if err != nil || got.UnmarshalText(text) != nil || !got.Equal(want) || string(text) != "0-5 7 100-200" {
		t.Errorf("%s, %v, %v", text, got, err)
	}
	if _, err := ParseSlots("1 2-x"); err == nil {
		t.Error("what is no set of slots is taken for one")
	}
}
