package planner_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	etcdplanner "github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/etcdtest"
)

// fromBackup begins a cluster with a backup.
func fromBackup(change func(*model.Restore)) steps.WriteBootstrap {
	r := etcdtest.Restore()
	if change != nil {
		change(r)
	}
	return steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: 3, Version: v36, Restore: r}
}

func lookup(version string, change func(*planner.Job)) *planner.Job {
	j := &planner.Job{Name: "orders-restore", UID: "j", Ended: true, Since: simNow, Report: &job.Report{
		Backup: &job.Stored{Directory: "orders-1", Version: version, Timeline: "c1", Size: 1 << 20}, Target: 70,
	}}
	if change != nil {
		change(j)
	}
	return j
}

// begins is a new cluster that begins with a backup, which the Job has found.
func begins(job *planner.Job, change func(*model.State)) model.State {
	if job != nil && job.For == "" {
		job.For = "s-1"
	}
	return fresh(func(s *model.State) {
		s.Want.Restore = &model.RestoreWish{
			Field: "spec.bootstrap.restore",
			Noun:  "Backup first", Source: v1alpha1.RestoreSource{Destination: &etcdtest.Bucket}, Sum: "s-1", Token: "u-1", Job: job,
		}
		if change != nil {
			change(s)
		}
	})
}

func TestNextBeginsWithABackup(t *testing.T) {
	failed := func(ago time.Duration) *planner.Job {
		return lookup("", func(j *planner.Job) {
			j.Failed, j.Since, j.Report = true, simNow.Add(-ago), &job.Report{Problem: &job.Problem{Reason: "BackupDamaged", Message: "a part is short."}}
		})
	}
	drop := planner.DropRestoreJob{Name: "orders-restore", UID: "j"}
	for name, tc := range map[string]planRow{
		"it is looked up first": {state: begins(nil, nil), step: planner.FindBackup{Sum: "s-1"}, says: "Backup first"},
		"it is being looked up": {state: begins(lookup("", func(j *planner.Job) { j.Ended = false }), nil), reason: steps.ReasonRestoring, says: "is being looked up"},
		"the Job is on its way out": {
			state: begins(lookup("3.6.16", func(j *planner.Job) { j.Leaving = true }), nil), reason: steps.ReasonRestoring, says: "being deleted",
		},
		"it was found":                    {state: begins(lookup("3.6.16", nil), nil), step: fromBackup(nil), says: "1.0 MiB of etcd 3.6.16 in orders-1"},
		"it is of another patch version":  {state: begins(lookup("3.6.99", nil), nil), step: fromBackup(nil)},
		"it is of the minor before":       {state: begins(lookup("3.5.35", nil), nil), step: fromBackup(nil)},
		"it is of two minors before":      {state: begins(lookup("3.5.35", nil), func(s *model.State) { s.Want.Version = v37 }), reason: planner.ReasonRestoreRefused, stalled: true, says: "set spec.version"},
		"it is of a later minor":          {state: begins(lookup("3.7.0", nil), nil), reason: planner.ReasonRestoreRefused, stalled: true, says: "etcd 3.7.0"},
		"it says no version":              {state: begins(lookup("", nil), nil), reason: planner.ReasonRestoreRefused, stalled: true},
		"a revision was asked for":        {state: begins(lookup("3.6.16", nil), func(s *model.State) { s.Want.Restore.Source.Revision = ptr.To(int64(70)) }), step: fromBackup(func(r *model.Restore) { r.Exact = true })},
		"a time was asked for":            {state: begins(lookup("3.6.16", nil), func(s *model.State) { s.Want.Restore.Source.Time = &metav1.Time{Time: simNow} }), step: fromBackup(func(r *model.Restore) { r.Exact = true })},
		"another one is asked for by now": {state: begins(lookup("3.6.16", nil), func(s *model.State) { s.Want.Restore.Sum = "s-2" }), step: drop, says: "has changed"},
		"it cannot be read":               {state: begins(failed(time.Second), nil), reason: "BackupDamaged", stalled: true, says: "a part is short (it is tried again"},
		"it could not be read a while ago": {
			state: begins(failed(time.Minute), nil), step: drop, says: "which is tried again",
		},
		"the Job left no word":    {state: begins(lookup("", func(j *planner.Job) { j.Report = nil }), nil), step: drop},
		"the Job found nothing":   {state: begins(lookup("", func(j *planner.Job) { j.Report = &job.Report{Target: 7} }), nil), step: drop},
		"there is no such backup": {state: begins(nil, func(s *model.State) { s.Want.Restore.Missing = "there is no Backup first" }), reason: planner.ReasonRestoreRefused, stalled: true, says: "spec.bootstrap.restore: there is no Backup first"},
		"data of an earlier cluster is not overwritten": {
			state:  begins(lookup("3.6.16", nil), func(s *model.State) { s.Claims = []model.Claim{{Name: "data-orders-2", Ordinal: 2}} }),
			reason: planner.ReasonRestoreRefused, stalled: true, says: "data-orders-2",
		},
		"claims that are on their way out are waited for": {
			state:  begins(lookup("3.6.16", nil), func(s *model.State) { s.Claims = []model.Claim{{Name: "data-orders-0", Leaving: true}} }),
			reason: etcdplanner.ReasonClaimsLeaving,
		},
		"a record deleted under a living cluster restores nothing": {
			state: begins(lookup("3.6.16", nil), func(s *model.State) { s.Set = &model.Set{Replicas: 3} }),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapRecovered, Size: 3, Version: v36},
		},
	} {
		t.Run(name, func(t *testing.T) { tc.Check(t) })
	}
}

// A founded cluster is not restored again, whatever its specification still says.
func TestARecordRestoresUntilTheClusterIsFounded(t *testing.T) {
	restore := fromBackup(nil).Restore
	for name, tc := range map[string]struct {
		record model.Record
		want   bool
	}{
		"begins with a backup": {model.Record{Bootstrap: model.BootstrapNew, Restore: restore}, true},
		"begins empty":         {model.Record{Bootstrap: model.BootstrapNew}, false},
		"is founded":           {model.Record{Bootstrap: model.BootstrapNew, Restore: restore, ClusterID: 7}, false},
		"has data":             {model.Record{Bootstrap: model.BootstrapRetained, Restore: restore}, false},
		"lost its record":      {model.Record{Bootstrap: model.BootstrapRecovered, Restore: restore}, false},
	} {
		if got := tc.record.Restores(); got != tc.want {
			t.Errorf("one that %s restores: %t", name, got)
		}
	}
}

func TestTheRecordOfARestoreSurvivesItsConfigMap(t *testing.T) {
	for _, restore := range []*model.Restore{
		fromBackup(nil).Restore, fromBackup(func(r *model.Restore) { r.Exact, r.Timeline, r.Revision = true, "", 1<<62 }).Restore,
		{Destination: v1alpha1.BackupDestination{URL: "pvc://backups"}, Directory: "a=b\nc", Token: `"`},
	} {
		r := model.Record{Bootstrap: model.BootstrapNew, Members: model.Peers("orders", "default", "cluster.local", 3, true), Restore: restore}
		got, err := model.ParseRecord(r.Data())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		data := r.Data()
		delete(data, model.KeyRestore) // Records of old have none.
		if got, err := model.ParseRecord(data); err != nil || got.Restore != nil {
			t.Errorf("%+v, %v", got.Restore, err)
		}
		data[model.KeyRestore] = "yes"
		if got, err := model.ParseRecord(data); err == nil {
			t.Errorf("a damaged one is read as %+v", got.Restore)
		}
	}
}

func TestTheGateRestoresOnlyAMemberThatMayFound(t *testing.T) {
	peers := model.Peers("orders", "default", "cluster.local", 3, true)
	record := model.Record{Bootstrap: model.BootstrapNew, Members: peers, Restore: fromBackup(nil).Restore}
	with := func(change func(*gate.Input)) gate.Input {
		in := gate.Input{Self: peers[0], Record: record}
		change(&in)
		return in
	}
	started := gate.PeerAnswer{From: peers[1].Name, ClusterID: 7}
	for _, p := range peers {
		started.Members = append(started.Members, gate.PeerMember{Name: p.Name, PeerURLs: []string{p.URL}, ClientURLs: []string{"https://" + p.Name}})
	}
	for name, tc := range map[string]struct {
		in             gate.Input
		start, restore bool
	}{
		"an empty disk":                   {with(func(*gate.Input) {}), true, true},
		"an interrupted start":            {with(func(in *gate.Input) { in.Disk = gate.DiskPartial }), true, true},
		"a disk that was restored":        {with(func(in *gate.Input) { in.Disk = gate.DiskReady }), true, false},
		"a disk lost afterwards":          {with(func(in *gate.Input) { in.Record.ClusterID = 7 }), false, false},
		"a disk lost before it is known":  {with(func(in *gate.Input) { in.Answers = []gate.PeerAnswer{started} }), false, false},
		"a cluster with data of its own":  {with(func(in *gate.Input) { in.Record.Bootstrap = model.BootstrapRetained }), false, false},
		"a cluster that begins with none": {with(func(in *gate.Input) { in.Record.Restore = nil }), true, false},
	} {
		got := gate.Decide(tc.in)
		if got.Start != tc.start || got.Restore != tc.restore {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
