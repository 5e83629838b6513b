package etcd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/test/lockdown"
)

var theBucket = v1alpha1.BackupDestination{
	URL: "s3://bucket/orders", Credentials: &v1alpha1.SecretReference{Name: "s3"}, Encryption: &v1alpha1.SecretReference{Name: "age"},
	ServiceAccountName: ptr.To("backup"),
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
func begins(job *planner.Job, change func(*etcd.State)) etcd.State {
	if job != nil && job.For == "" {
		job.For = "s-1"
	}
	return fresh(func(s *etcd.State) {
		s.Want.Restore = &etcd.RestoreWish{
			Field: "spec.bootstrap.restore",
			Noun:  "Backup first", Source: v1alpha1.RestoreSource{Destination: &theBucket}, Sum: "s-1", Token: "u-1", Job: job,
		}
		if change != nil {
			change(s)
		}
	})
}

func fromBackup(change func(*etcd.Restore)) etcd.WriteBootstrap {
	r := &etcd.Restore{Destination: theBucket, Directory: "orders-1", Timeline: "c1", Revision: 70, Bump: etcd.RestoreBump, Token: "u-1"}
	if change != nil {
		change(r)
	}
	return etcd.WriteBootstrap{Bootstrap: etcd.BootstrapNew, Size: 3, Version: v36, Restore: r}
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
		"it is being looked up": {state: begins(lookup("", func(j *planner.Job) { j.Ended = false }), nil), reason: etcd.ReasonRestoring, says: "is being looked up"},
		"the Job is on its way out": {
			state: begins(lookup("3.6.16", func(j *planner.Job) { j.Leaving = true }), nil), reason: etcd.ReasonRestoring, says: "being deleted",
		},
		"it was found":                    {state: begins(lookup("3.6.16", nil), nil), step: fromBackup(nil), says: "1.0 MiB of etcd 3.6.16 in orders-1"},
		"it is of another patch version":  {state: begins(lookup("3.6.99", nil), nil), step: fromBackup(nil)},
		"it is of the minor before":       {state: begins(lookup("3.5.35", nil), nil), step: fromBackup(nil)},
		"it is of two minors before":      {state: begins(lookup("3.5.35", nil), func(s *etcd.State) { s.Want.Version = v37 }), reason: planner.ReasonRestoreRefused, stalled: true, says: "set spec.version"},
		"it is of a later minor":          {state: begins(lookup("3.7.0", nil), nil), reason: planner.ReasonRestoreRefused, stalled: true, says: "etcd 3.7.0"},
		"it says no version":              {state: begins(lookup("", nil), nil), reason: planner.ReasonRestoreRefused, stalled: true},
		"a revision was asked for":        {state: begins(lookup("3.6.16", nil), func(s *etcd.State) { s.Want.Restore.Source.Revision = ptr.To(int64(70)) }), step: fromBackup(func(r *etcd.Restore) { r.Exact = true })},
		"a time was asked for":            {state: begins(lookup("3.6.16", nil), func(s *etcd.State) { s.Want.Restore.Source.Time = &metav1.Time{Time: simNow} }), step: fromBackup(func(r *etcd.Restore) { r.Exact = true })},
		"another one is asked for by now": {state: begins(lookup("3.6.16", nil), func(s *etcd.State) { s.Want.Restore.Sum = "s-2" }), step: drop, says: "has changed"},
		"it cannot be read":               {state: begins(failed(time.Second), nil), reason: "BackupDamaged", stalled: true, says: "a part is short (it is tried again"},
		"it could not be read a while ago": {
			state: begins(failed(time.Minute), nil), step: drop, says: "which is tried again",
		},
		"the Job left no word":    {state: begins(lookup("", func(j *planner.Job) { j.Report = nil }), nil), step: drop},
		"the Job found nothing":   {state: begins(lookup("", func(j *planner.Job) { j.Report = &job.Report{Target: 7} }), nil), step: drop},
		"there is no such backup": {state: begins(nil, func(s *etcd.State) { s.Want.Restore.Missing = "there is no Backup first" }), reason: planner.ReasonRestoreRefused, stalled: true, says: "spec.bootstrap.restore: there is no Backup first"},
		"data of an earlier cluster is not overwritten": {
			state:  begins(lookup("3.6.16", nil), func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-2", Ordinal: 2}} }),
			reason: planner.ReasonRestoreRefused, stalled: true, says: "data-orders-2",
		},
		"claims that are on their way out are waited for": {
			state:  begins(lookup("3.6.16", nil), func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-0", Leaving: true}} }),
			reason: etcd.ReasonClaimsLeaving,
		},
		"a record deleted under a living cluster restores nothing": {
			state: begins(lookup("3.6.16", nil), func(s *etcd.State) { s.Set = &etcd.Set{Replicas: 3} }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRecovered, Size: 3, Version: v36},
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t) })
	}
}

// A founded cluster is not restored again, whatever its specification still says.
func TestARecordRestoresUntilTheClusterIsFounded(t *testing.T) {
	restore := fromBackup(nil).Restore
	for name, tc := range map[string]struct {
		record etcd.Record
		want   bool
	}{
		"begins with a backup": {etcd.Record{Bootstrap: etcd.BootstrapNew, Restore: restore}, true},
		"begins empty":         {etcd.Record{Bootstrap: etcd.BootstrapNew}, false},
		"is founded":           {etcd.Record{Bootstrap: etcd.BootstrapNew, Restore: restore, ClusterID: 7}, false},
		"has data":             {etcd.Record{Bootstrap: etcd.BootstrapRetained, Restore: restore}, false},
		"lost its record":      {etcd.Record{Bootstrap: etcd.BootstrapRecovered, Restore: restore}, false},
	} {
		if got := tc.record.Restores(); got != tc.want {
			t.Errorf("one that %s restores: %t", name, got)
		}
	}
}

func TestTheRecordOfARestoreSurvivesItsConfigMap(t *testing.T) {
	for _, restore := range []*etcd.Restore{
		fromBackup(nil).Restore, fromBackup(func(r *etcd.Restore) { r.Exact, r.Timeline, r.Revision = true, "", 1<<62 }).Restore,
		{Destination: v1alpha1.BackupDestination{URL: "pvc://backups"}, Directory: "a=b\nc", Token: `"`},
	} {
		r := etcd.Record{Bootstrap: etcd.BootstrapNew, Members: etcd.Peers("orders", "default", "cluster.local", 3, true), Restore: restore}
		got, err := etcd.ParseRecord(r.Data())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		data := r.Data()
		delete(data, etcd.KeyRestore) // Records of old have none.
		if got, err := etcd.ParseRecord(data); err != nil || got.Restore != nil {
			t.Errorf("%+v, %v", got.Restore, err)
		}
		data[etcd.KeyRestore] = "yes"
		if got, err := etcd.ParseRecord(data); err == nil {
			t.Errorf("a damaged one is read as %+v", got.Restore)
		}
	}
}

func TestTheGateRestoresOnlyAMemberThatMayFound(t *testing.T) {
	peers := etcd.Peers("orders", "default", "cluster.local", 3, true)
	record := etcd.Record{Bootstrap: etcd.BootstrapNew, Members: peers, Restore: fromBackup(nil).Restore}
	with := func(change func(*etcd.GateInput)) etcd.GateInput {
		in := etcd.GateInput{Self: peers[0], Record: record}
		change(&in)
		return in
	}
	started := etcd.PeerAnswer{From: peers[1].Name, ClusterID: 7}
	for _, p := range peers {
		started.Members = append(started.Members, etcd.PeerMember{Name: p.Name, PeerURLs: []string{p.URL}, ClientURLs: []string{"https://" + p.Name}})
	}
	for name, tc := range map[string]struct {
		in             etcd.GateInput
		start, restore bool
	}{
		"an empty disk":                   {with(func(*etcd.GateInput) {}), true, true},
		"an interrupted start":            {with(func(in *etcd.GateInput) { in.Disk = etcd.DiskPartial }), true, true},
		"a disk that was restored":        {with(func(in *etcd.GateInput) { in.Disk = etcd.DiskReady }), true, false},
		"a disk lost afterwards":          {with(func(in *etcd.GateInput) { in.Record.ClusterID = 7 }), false, false},
		"a disk lost before it is known":  {with(func(in *etcd.GateInput) { in.Answers = []etcd.PeerAnswer{started} }), false, false},
		"a cluster with data of its own":  {with(func(in *etcd.GateInput) { in.Record.Bootstrap = etcd.BootstrapRetained }), false, false},
		"a cluster that begins with none": {with(func(in *etcd.GateInput) { in.Record.Restore = nil }), true, false},
	} {
		got := etcd.DecideStart(tc.in)
		if got.Start != tc.start || got.Restore != tc.restore {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// gateMounts are the Secrets that the start gate gets at, by where they are.
func gateMounts(set *appsv1.StatefulSet) map[string]string {
	secrets, out := map[string]string{}, map[string]string{}
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			secrets[v.Name] = v.Secret.SecretName
		}
	}
	for _, m := range set.Spec.Template.Spec.InitContainers[0].VolumeMounts {
		if name := secrets[m.Name]; name != "" && strings.HasPrefix(m.MountPath, "/") {
			out[m.MountPath] = name
		}
	}
	return out
}

func TestPodsGetAtTheBackupOnlyWhileTheyAreRestored(t *testing.T) {
	empty := statefulSet(t, blueprint(t, nil))
	restored := func(change func(*etcd.Blueprint)) *appsv1.StatefulSet {
		return statefulSet(t, blueprint(t, func(b *etcd.Blueprint) {
			b.Record.Restore = fromBackup(nil).Restore
			if change != nil {
				change(b)
			}
		}))
	}
	during, after := restored(nil), restored(func(b *etcd.Blueprint) { b.Record.ClusterID = 7 })
	got, want := gateMounts(during), gateMounts(empty)
	want[job.CredentialsDir], want[job.KeysDir], want[job.AccessAuthDir] = "s3", "age", cluster.AuthSecret("orders")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("while it restores (-want +got):\n%s", diff)
	}
	if got := during.Spec.Template.Spec.ServiceAccountName; got != "backup" {
		t.Errorf("it runs as %q", got)
	}
	if got := lockdown.WithToken(during.Spec.Template.Spec); !slices.Equal(got, []string{etcd.ContainerGate}) {
		t.Errorf("the containers %v have a token", got)
	}
	for _, c := range during.Spec.Template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if m.MountPath == job.CredentialsDir || m.MountPath == job.KeysDir {
				t.Errorf("%s gets at %s", c.Name, m.MountPath)
			}
		}
	}
	hash := func(set *appsv1.StatefulSet) string {
		return set.Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash]
	}
	if hash(during) == hash(empty) || hash(after) != hash(empty) || hash(empty) == "" {
		t.Errorf("members keep the account: %s, %s, %s", hash(empty), hash(during), hash(after))
	}
	without := restored(func(b *etcd.Blueprint) { b.Record.Restore.Destination.ServiceAccountName = nil })
	if hash(without) != hash(empty) {
		t.Errorf("members would be restarted for a backup without an account: %s, %s", hash(empty), hash(without))
	}
	alone := func(b *etcd.Blueprint) { b.Storage, b.Record.Members = nil, b.Record.Members[:1] }
	if single := restored(alone); hash(single) != hash(statefulSet(t, blueprint(t, alone))) || single.Spec.Template.Spec.ServiceAccountName != "backup" {
		t.Errorf("the only member, without a volume, would be restarted and lose its data, or runs as %q", single.Spec.Template.Spec.ServiceAccountName)
	}
	later := restored(func(b *etcd.Blueprint) { b.Record.ClusterID = 7 })
	if diff := cmp.Diff(statefulSet(t, blueprint(t, func(b *etcd.Blueprint) { b.Record.ClusterID = 7 })).Spec, later.Spec); diff != "" {
		t.Errorf("once it is founded, something of it stays (-want +got):\n%s", diff)
	}
}

func TestTheGateSwitchesAuthenticationOffWhereTheSpecHasNone(t *testing.T) {
	disabled := func(b *etcd.Blueprint) {
		b.SigningSum, b.Cluster.Spec.Auth = "", &v1alpha1.AuthSpec{Mode: ptr.To(v1alpha1.AuthDisabled)}
	}
	for name, tc := range map[string]struct {
		change func(*etcd.Blueprint)
		want   bool
	}{
		"a restore with Disabled": {func(b *etcd.Blueprint) { b.Record.Restore = fromBackup(nil).Restore; disabled(b) }, true},
		"a restore with Password": {func(b *etcd.Blueprint) { b.Record.Restore = fromBackup(nil).Restore }, false},
		"no restore, Disabled":    {disabled, false},
		"after a restore, Disabled": {func(b *etcd.Blueprint) {
			b.SigningSum, b.Record.Restore, b.Record.ClusterID = "", fromBackup(nil).Restore, 7
		}, false},
	} {
		gate := statefulSet(t, blueprint(t, tc.change)).Spec.Template.Spec.InitContainers[0]
		if got := slices.Contains(gate.Args, "--"+etcd.FlagWithoutAuthentication); got != tc.want {
			t.Errorf("%s: %v", name, gate.Args)
		}
	}
}

func TestTheGateAlwaysHasAMemoryLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		resources *corev1.ResourceRequirements
		want      string
	}{
		"without spec.resources": {nil, "1Gi"},
		"with requests only":     {&corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}, "2Gi"},
		"with a limit":           {&corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}}, "4Gi"},
	} {
		for what, restore := range map[string]*etcd.Restore{"that restores": fromBackup(nil).Restore, "that restores nothing": nil} {
			set := statefulSet(t, blueprint(t, func(b *etcd.Blueprint) {
				b.Record.Restore, b.Cluster.Spec.Resources = restore, tc.resources
			}))
			gate := set.Spec.Template.Spec.InitContainers[0]
			if got := gate.Resources.Limits.Memory(); got.String() != tc.want || gate.Resources.Requests.Memory().Cmp(*got) > 0 {
				t.Errorf("a gate %s, %s: %+v", what, name, gate.Resources)
			}
			if !slices.ContainsFunc(gate.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" }) {
				t.Errorf("the runtime of a gate %s, %s, does not know its limit", what, name)
			}
		}
	}
}

func TestAClaimWithABackupIsMountedForTheGate(t *testing.T) {
	set := statefulSet(t, blueprint(t, func(b *etcd.Blueprint) {
		b.Record.Restore = fromBackup(func(r *etcd.Restore) { r.Destination = v1alpha1.BackupDestination{URL: "pvc://backups/orders"} }).Restore
	}))
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "backups" {
			return
		}
	}
	t.Errorf("%+v", set.Spec.Template.Spec.Volumes)
}
