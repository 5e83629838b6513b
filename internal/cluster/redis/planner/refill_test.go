package planner

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// loseShard replaces the disks of all pods of a shard. The new ones know everybody.
func (f *fixture) loseShard(shard string) {
	for i, name := range []string{"c-" + shard + "-0", "c-" + shard + "-1"} {
		f.replaceDisk(name)
		addr := model.Address{IP: "10.9." + shard + "." + string(rune('1'+i)), Port: model.ClientPort}
		f.pod(name).Addr, f.pod(name).Node.Peers[0].Addr = addr, addr
		f.pod(name).Node.Process = "first"
	}
	f.join("c-" + shard + "-0")
	f.join("c-" + shard + "-1")
	for _, name := range []string{"c-" + shard + "-0", "c-" + shard + "-1"} {
		n := f.pod(name).Node
		n.Peers = append(n.Peers, model.Peer{ID: id("c-" + shard + "-0"), Failed: true})
	}
}

// unheard has a new server not know of the dead owner.
func (f *fixture) unheard(name, dead string) {
	n := f.pod(name).Node
	n.Peers = slices.DeleteFunc(n.Peers, func(p model.Peer) bool { return p.ID == dead })
}

// imports makes the first server of shard 1 import its slots from a node, and believe that this owns them, if it knows it.
func (f *fixture) imports(from string) {
	n := f.pod("c-1-0").Node
	for i := range n.Peers {
		switch {
		case n.Peers[i].Myself:
			n.Peers[i].Open = []model.Open{{Slots: redisslots.Share(1, 3), Other: from, Importing: true}}
		case n.Peers[i].ID == from:
			n.Peers[i].Slots = redisslots.Union(n.Peers[i].Slots, redisslots.Share(1, 3))
		}
	}
}

const back = "backup-of-monday"

// firstOwner is who had the slots of shard 1 before it was lost.
var firstOwner = []string{id("c-1-0")}

// asked is a Restore that was confirmed.
func asked(lost bool) *model.Confirmed {
	return &model.Confirmed{Noun: "Restore r", Lost: lost, RestoreRecord: model.RestoreRecord{Directory: back, Token: "u-1"}}
}

// begun is one that was written down.
func begun(r model.RestoreRecord, j *planner.Job) *model.Restore {
	r.Directory, r.Token = back, "u-1"
	if j != nil {
		j.For = steps.LoadBackup{RestoreRecord: r}.Sum()
	}
	return &model.Restore{RestoreRecord: r, Loading: &planner.Loading{Noun: "backup " + back, Job: j}}
}

// record is the step that writes such a Restore down.
func record(r model.RestoreRecord) steps.RecordBackup {
	r.Directory, r.Token = back, "u-1"
	return steps.RecordBackup{Record: r}
}

func loadedInto(into string) *planner.Job {
	return &planner.Job{Name: "c-load", UID: "j-1", Ended: true, Since: now, Report: &job.Report{Restored: &job.Restored{Keys: 7, Into: into}}}
}

// unowned takes the slots of nodes away, in the tables of all.
func unowned(names ...string) func(*fixture) {
	return func(f *fixture) {
		for _, name := range names {
			f.disown(name)
		}
	}
}

func lostShards(shards ...string) func(*fixture) {
	return func(f *fixture) {
		for _, shard := range shards {
			f.loseShard(shard)
		}
	}
}

func begins(r model.RestoreRecord, j *planner.Job) func(*fixture) {
	return func(f *fixture) { f.Restore = begun(r, j) }
}

// owns gives slots of the lost shard 1 to its new server, which holds keys and has a copy.
func owns(slots redisslots.Set) func(*fixture) {
	return func(f *fixture) {
		f.own("c-1-0", slots)
		f.follow()
		f.pod("c-1-0").Node.Keys = 5
		f.pod("c-2-0").Node.Process = "a"
	}
}

// refillRow is what is planned for a cluster whose shard 1 is lost.
type refillRow struct {
	spoil         func(*fixture)
	step          cluster.Step
	reason, words string
}

func (r refillRow) Check(t *testing.T) {
	t.Helper()
	f := formed()
	f.loseShard("1")
	r.spoil(f)
	if c := f.Confirmed; c != nil && c.Loss == "" {
		c.Loss, _, _ = Refilling(f.State)
	}
	p := Next(f.State)
	if r.step == nil && p.Step != nil && r.reason != p.Reason || r.step != nil && !reflect.DeepEqual(p.Step, r.step) {
		t.Errorf("got %#v\nwant %#v", p.Step, r.step)
	}
	if !strings.Contains(p.Message, r.words) || (r.reason != "" && p.Reason != r.reason) {
		t.Errorf("%s: %s", p.Reason, p.Message)
	}
}

// approvalRow is what is planned after several changes of a settled cluster.
type approvalRow struct {
	spoil  []func(*fixture)
	step   cluster.Step
	reason string
}

func (r approvalRow) Check(t *testing.T) {
	t.Helper()
	f := formed()
	for _, spoil := range r.spoil {
		spoil(f)
	}
	if p := Next(f.State); !reflect.DeepEqual(p.Step, r.step) || (r.reason != "" && p.Reason != r.reason) {
		t.Errorf("got %#v\nwant %#v\n%s: %s", p.Step, r.step, p.Reason, p.Message)
	}
}

// follow makes the second new node of shard 1 the replica of the first one.
func (f *fixture) follow() {
	f.views(f.pod("c-1-1").Node.ID, func(p *model.Peer) { p.Replica, p.PrimaryID = true, f.pod("c-1-0").Node.ID })
	n := f.pod("c-1-1").Node
	n.LinkUp, n.EverLinked, n.Admits, n.OnDisk = true, true, model.AdmitsForGood, true
	f.pod("c-1-0").Node.Admits, f.pod("c-1-0").Node.OnDisk = model.AdmitsForGood, true
}

// importFromOwner makes the first server of shard 1 import its slots from their dead owner, and the second its replica.
func (f *fixture) importFromOwner() {
	f.imports(id("c-1-0"))
	f.follow()
}

// own gives slots to a node in the eyes of all.
func (f *fixture) own(name string, slots redisslots.Set) {
	for i := range f.Pods {
		for j := range f.Pods[i].Node.Peers {
			p := &f.Pods[i].Node.Peers[j]
			p.Slots = p.Slots.Minus(slots)
			if p.ID == f.pod(name).Node.ID {
				p.Slots = redisslots.Union(p.Slots, slots)
			}
		}
	}
}

func TestEverythingIsReplacedOnceAllServersAreWell(t *testing.T) {
	all := model.RestoreRecord{}
	running := &planner.Job{Name: "c-load", UID: "j-1", Since: now}
	outdated := func(f *fixture) { f.pod("c-1-1").Outdated = true }
	for name, tc := range map[string]struct {
		spoil  func(*fixture)
		step   cluster.Step
		reason string
	}{
		"it is written down first": {
			spoil: func(f *fixture) { f.Confirmed = asked(false) },
			step:  steps.RecordBackup{Record: model.RestoreRecord{Directory: back, Token: "u-1"}},
		},
		"it waits for all servers": {
			spoil: func(f *fixture) { f.Confirmed, f.Pods[3].Node = asked(false), nil }, reason: ReasonUnreachable,
		},
		"lost slots that are not lost any more are nothing to do": {
			spoil: func(f *fixture) { f.Confirmed = asked(true) },
		},
		"then the Job is started": {
			spoil: func(f *fixture) { f.Restore = begun(all, nil) },
			step:  steps.LoadBackup{RestoreRecord: model.RestoreRecord{Directory: back, Token: "u-1"}},
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
			step: steps.Restart{Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}, Cause: steps.ReasonRestart},
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
	f.Restore = begun(model.RestoreRecord{}, nil)
	c := meta.FindStatusCondition(Conditions(f.State, Next(f.State), nil), v1alpha1.ConditionAvailable)
	if c.Status != "False" || !strings.Contains(c.Message, back) {
		t.Errorf("%+v", c)
	}
	f.Restore = begun(model.RestoreRecord{Slots: redisslots.Share(1, 3), Owners: firstOwner, Served: true}, nil)
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
	want := redisslots.New(redisslots.Range{From: 0, To: 5}, redisslots.Range{From: 7, To: 7}, redisslots.Range{From: 100, To: 200})
	text, err := want.MarshalText()
	var got redisslots.Set
	if err != nil || got.UnmarshalText(text) != nil || !got.Equal(want) || string(text) != "0-5 7 100-200" {
		t.Errorf("%s, %v, %v", text, got, err)
	}
	if _, err := redisslots.Parse("1 2-x"); err == nil {
		t.Error("what is no set of slots is taken for one")
	}
}
